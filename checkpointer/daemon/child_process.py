"""Processes that a daemon starts after checkpoints, each in a session of its own."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hadoop_common.file_faults import error_text

_LOG = logging.getLogger(__name__)
_GRACE_SECONDS = 10.0
_CONF_DIR = "HADOOP_CONF_DIR"


def end_process_group(child: subprocess.Popen[Any], what: str) -> None:
    """End a process and its children, first by SIGTERM; `what` names it in the log."""
    _signal(child, signal.SIGTERM)
    try:
        child.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _LOG.warning("%s does not end and is killed", what)
    _signal(child, signal.SIGKILL)


def _signal(child: subprocess.Popen[Any], number: signal.Signals) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return  # all of them have ended


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """A command that a daemon runs.

    Attributes:
        conf_dir: the daemon's configuration directory, by which the process resolves the nameservices of an HDFS with
            high availability; None if unknown. HADOOP_CONF_DIR of the daemon's environment precedes it.
        niceness: added to that of the daemon.
        memory: limit in bytes on the data of the process, and on that of each process that it starts; 0 for none.
    """

    words: Sequence[str]
    conf_dir: Path | None = None
    niceness: int = 0
    memory: int = 0

    def start(self) -> subprocess.Popen[str]:
        """Start the process with its standard error as a pipe; raises OSError."""
        child = subprocess.Popen(
            [*(["nice", "-n", str(self.niceness)] if self.niceness else []), *self.words],
            env={**({} if self.conf_dir is None else {_CONF_DIR: str(self.conf_dir.absolute())}), **os.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        if self.memory:
            with suppress(ProcessLookupError):
                resource.prlimit(child.pid, resource.RLIMIT_DATA, (self.memory, self.memory))
        return child


@dataclass(slots=True)
class ChildQueue:
    """Runs one process at a time. A new command replaces the pending one; after `stop` no process begins.

    Any thread may call any method. Only `stop` waits, and none raises.

    Attributes:
        what: names a process in the log.
        ended: called with the error of a process that has ended, "" if it succeeded; not for processes that `stop`
            ended.
    """

    what: str
    ended: Callable[[str], None]
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _pending: ChildCommand | None = None
    _child: subprocess.Popen[str] | None = None
    _worker: threading.Thread | None = None
    _stopped: bool = False

    @property
    def running(self) -> bool:
        """Whether a process runs."""
        return self._child is not None

    @property
    def busy(self) -> bool:
        """Whether a process runs or a command is pending."""
        with self._changed:
            return self._pending is not None or self._child is not None

    def offer(self, command: ChildCommand) -> None:
        """Run the command next."""
        with self._changed:
            if self._stopped:
                return
            self._pending = command
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name=self.what, daemon=True)
                self._worker.start()
            self._changed.notify_all()

    def stop(self) -> None:
        """End the running process with all its processes, and begin no other."""
        with self._changed:
            self._stopped = True
            self._pending = None
            child, worker = self._child, self._worker
            self._changed.notify_all()
        if child is not None:
            end_process_group(child, self.what)
        if worker is not None:
            worker.join(_GRACE_SECONDS)

    def _work(self) -> None:
        while (child := self._next()) is not None:
            if isinstance(child, str):
                self.ended(child)
                continue
            _, errors = child.communicate()
            with self._changed:
                self._child = None
            if child.returncode == 0:
                self.ended("")
            elif not self._stopped:
                self.ended(_last_error(errors) or f"the process exited with {child.returncode}")

    def _next(self) -> subprocess.Popen[str] | str | None:
        """Wait for a command and start it; return why it did not start, None after `stop`."""
        with self._changed:
            while self._pending is None and not self._stopped:
                self._changed.wait()
            command, self._pending = self._pending, None
            if self._stopped or command is None:
                return None
            try:
                self._child = command.start()
            except OSError as error:
                return error_text(error)
            return self._child


def _last_error(text: str) -> str:
    """Return the last error that a command printed, on one line with its next step."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[-1].startswith("next: "):
        return f"{lines[-2].removeprefix('checkpointer: ')} ({lines[-1].removeprefix('next: ')})"
    return lines[-1] if lines else ""
