"""Appends of new images and edits to a lake of tables, in a separate process, so that checkpoints do not wait for them.

At most one append runs and one is pending. A new image replaces the pending append, because the new append includes
everything that the pending append would add. A failure remains visible until an append succeeds; the next image causes
a retry. `stop` ends the running append with all its processes, and prevents further appends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

from checkpointer.daemon.child_process import ChildCommand, ChildQueue
from checkpointer.daemon.linked_image import LinkedImage, linked_image
from checkpointer.roles.role import CheckpointRole
from hadoop_common.child_module import child_module
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.recurring_fault import Alarm, with_next
from node_state.state import LakeState
from site_config.checkpoint_config import CheckpointConfig

_LOG = logging.getLogger(__name__)
_GROUP = "checkpointer.after_checkpoint"
_NAME = "lake"


class LakeAppender:
    """Runner of appends, one at a time, with at most one pending append.

    Any thread may call any method. Only `stop` waits for an append, and no method raises.

    Args:
        config: location of the lake, and settings for its appends.
        module: returns the module for `python -m`, or "" if it is not installed.
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
        self._guard = threading.Lock()
        self._state = LakeState()
        # lake and image of the append that began last
        self._lake = ""
        self._image: LinkedImage | None = None
        self._children = ChildQueue("the append to the lake", lambda error: self._ended(self._lake, error))

    @property
    def enabled(self) -> bool:
        return bool(self._config.lake_directory)

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Apply new settings from the next append on; the errors of a previous lake do not concern a new lake."""
        changed = config.lake_directory != self._config.lake_directory
        # an append that ends now must not restore the error
        self._config = config
        if changed:
            self.forget_error()

    def offer(self, role: CheckpointRole) -> None:
        """Append the newest image and the current edits after a checkpoint."""
        lake = self._config.lake_directory
        if not lake:
            return
        module = self._module()
        if not module:
            self._ended(lake, "the program that writes lakes is not installed")
            return
        try:
            folders = self._folders(role)
        except (HdfsError, OSError) as error:
            self._ended(lake, error_text(error))
            return
        # the queue reports an error for this lake if its thread cannot start
        self._lake = self._lake or lake
        self._children.offer(partial(self._task, role, module, folders, lake))

    def stop(self) -> None:
        """Stop the running append and prevent further appends; the next daemon completes the append."""
        self._children.stop()

    def forget_error(self) -> None:
        """Drop the last error, because this daemon does not make the next append to that lake."""
        with self._guard:
            self._state = replace(self._state, error="")

    def alarms(self) -> list[str]:
        error = self._state.error
        text = f"appending to the lake {self._config.lake_directory} failed: {error}"
        hint = "Check Spark and the lake's directory; the next checkpoint retries."
        return [Alarm(text, hint, "lake")] if error and self.enabled else []

    @contextmanager
    def _task(
        self, role: CheckpointRole, module: str, folders: Sequence[Path], lake: str
    ) -> Iterator[ChildCommand | None]:
        config = self._config
        if lake != config.lake_directory:
            # a reload has removed or replaced the lake of this pending append
            yield None
            return
        self._lake = lake
        with linked_image(role.latest_image()) as image:
            self._image = image
            words = child_module(module, *_arguments(config, image.path, folders))
            yield ChildCommand(words, config.conf_dir)

    @property
    def state(self) -> LakeState | None:
        if not self.enabled:
            return None
        return replace(self._state, directory=self._config.lake_directory, running=self._children.running)

    def _folders(self, role: CheckpointRole) -> list[Path]:
        """Return the directories with the role's segments."""
        shared = self._config.shared_edits
        if shared and self._config.shared_edits_directory is None:
            _LOG.info("the edits in %s are not in a directory, so only the image is appended to the lake", shared)
        return list(dict.fromkeys(segment.path.parent for segment in role.segments() if not segment.in_progress))

    def _ended(self, lake: str, error: str) -> None:
        """Record the end of an append to `lake`; `error` is "" if it succeeded."""
        error = self._image.in_storage(error) if self._image else error
        with self._guard:
            if lake != self._config.lake_directory:
                _LOG.info("the append to the previous lake %s ended: %s", lake, error or "it succeeded")
                return
            state = self._state
            if error:
                self._state = replace(state, failures=state.failures + 1, error=error)
            else:
                self._state = replace(state, appended_at=self._wall(), appends=state.appends + 1, error="")
        if error:
            text = f"appending to the lake {lake} failed: {error}"
            _LOG.error(
                "%s", with_next(text, "Checkpoints continue; the next append adds the missing images and edits.")
            )
        else:
            _LOG.info("appended to the lake %s", lake)


def _arguments(config: CheckpointConfig, image: Path, folders: Sequence[Path]) -> list[str]:
    arguments = ["append", "--image", str(image), "--retain", str(config.lake_images_retained)]
    arguments += ["--master", config.lake_master, "--driver-memory", config.lake_driver_memory]
    for folder in folders:
        arguments += ["--edits", str(folder)]
    return [*arguments, "--", config.lake_directory]


def find_module() -> str:
    """Return the module that writes lakes, which an installed distribution registers, or "" if there is none."""
    return next((each.value for each in entry_points(group=_GROUP) if each.name == _NAME), "")
