"""Appends new images and edits to a lake of tables, in a process of its own that no checkpoint waits for.

At most one append runs and one is pending. A new image replaces the pending append, since its append covers everything
the other would have added. A failure stays until an append succeeds; the next image retries. After `stop` no append
begins, and the running one is ended with all its processes.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

from checkpointer.daemon.child_process import end_process_group
from checkpointer.roles.role import CheckpointRole
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.recurring_fault import Alarm, with_next
from node_state.state import LakeState
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
_GROUP = "checkpointer.after_checkpoint"
_NAME = "lake"
_GRACE_SECONDS = 10.0
_CONF_DIR = "HADOOP_CONF_DIR"


class LakeAppender:
    """Runs one append at a time; of several pending appends only the newest is made.

    Any thread may call any method. Only `stop` waits for an append, and none raises.

    Args:
        config: where the lake is and how it is written.
        module: returns the module for `python -m`, "" if none is installed.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        *,
        module: Callable[[], str] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._module = module or find_module
        self._wall = wall
        self._state = LakeState()
        self._changed = threading.Condition()
        self._pending: list[str] | None = None
        self._child: subprocess.Popen[str] | None = None
        self._worker: threading.Thread | None = None
        self._stopped = False

    @property
    def enabled(self) -> bool:
        """Whether a lake is configured."""
        return bool(self._config.lake_directory)

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Apply new settings from the next append on."""
        self._config = config

    def offer(self, role: CheckpointRole) -> None:
        """Append the newest image and the present edits after a checkpoint."""
        if not self.enabled:
            return
        try:
            arguments = self._arguments(role.latest_image(), self._folders(role))
        except (HdfsError, OSError) as error:
            self._failed(error_text(error))
            return
        with self._changed:
            if self._stopped:
                return
            self._pending = arguments
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="lake", daemon=True)
                self._worker.start()
            self._changed.notify_all()

    def stop(self) -> None:
        """End the running append and begin no other; the next daemon completes it."""
        with self._changed:
            self._stopped = True
            self._pending = None
            child, worker = self._child, self._worker
            self._changed.notify_all()
        if child is not None:
            end_process_group(child, "the append to the lake")
        if worker is not None:
            worker.join(_GRACE_SECONDS)

    def alarms(self) -> list[str]:
        """Return an alarm if the last append failed."""
        error = self._state.error
        text = f"appending to the lake {self._config.lake_directory} failed: {error}"
        hint = "Check Spark and the lake's directory; the next checkpoint retries."
        return [Alarm(text, hint, "lake")] if error else []

    @property
    def state(self) -> LakeState | None:
        """State of the lake, None if none is configured."""
        return replace(self._state, directory=self._config.lake_directory) if self.enabled else None

    # ---- the worker ----------------------------------------------------------------------------------------

    def _folders(self, role: CheckpointRole) -> list[Path]:
        """Return the directories with the role's segments."""
        shared = self._config.shared_edits
        if shared and self._config.shared_edits_directory is None:
            _LOG.info("the edits in %s are not in a directory, so the lake gets only the image", shared)
        return list(dict.fromkeys(segment.path.parent for segment in role.segments() if not segment.in_progress))

    def _arguments(self, image: Path, folders: Sequence[Path]) -> list[str]:
        config = self._config
        arguments = ["append", "--image", str(image), "--retain", str(config.lake_images_retained)]
        arguments += ["--master", config.lake_master, "--driver-memory", config.lake_driver_memory]
        for folder in folders:
            arguments += ["--edits", str(folder)]
        return [*arguments, "--", config.lake_directory]

    def _work(self) -> None:
        while (arguments := self._next()) is not None:
            try:
                self._append(arguments)
            except OSError as error:
                self._failed(error_text(error))

    def _next(self) -> list[str] | None:
        with self._changed:
            while self._pending is None and not self._stopped:
                self._changed.wait()
            arguments, self._pending = self._pending, None
            return None if self._stopped else arguments

    def _append(self, arguments: Sequence[str]) -> None:
        module = self._module()
        if not module:
            self._failed("no program that writes lakes is installed")
            return
        with self._changed:
            if self._stopped:
                return
            child = self._child = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._state = replace(self._state, running=True)
        _, errors = child.communicate()
        with self._changed:
            self._child = None
            self._state = replace(self._state, running=False)
        if child.returncode == 0:
            self._succeeded()
        elif not self._stopped:
            self._failed(_last_line(errors) or f"the process exited with {child.returncode}")

    def _environment(self) -> dict[str, str]:
        """Return the child's environment, by which it resolves the nameservices of an HDFS with high availability."""
        conf_dir = self._config.conf_dir
        return {**({} if conf_dir is None else {_CONF_DIR: str(conf_dir.absolute())}), **os.environ}

    def _succeeded(self) -> None:
        with self._changed:
            state = self._state
            self._state = replace(state, appended_at=self._wall(), appends=state.appends + 1, error="")
        _LOG.info("appended to the lake %s", self._config.lake_directory)

    def _failed(self, error: str) -> None:
        with self._changed:
            self._state = replace(self._state, failures=self._state.failures + 1, error=error)
        text = f"appending to the lake {self._config.lake_directory} failed: {error}"
        _LOG.error("%s", with_next(text, "Checkpoints continue; the next append adds what is missing."))


def find_module() -> str:
    """Return the module that writes lakes, as an installed distribution registers it; "" if none does."""
    return next((each.value for each in entry_points(group=_GROUP) if each.name == _NAME), "")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
