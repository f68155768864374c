"""Processes that a daemon starts, each in a separate session."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hadoop_common.cli.output import NEXT
from hadoop_common.file_faults import as_hdfs_error, error_text
from hadoop_common.process_group import end_process_group, signal_group
from hadoop_common.process_tuning import lower_session_priority

_LOG = logging.getLogger(__name__)
_GRACE_SECONDS = 10.0
_CONF_DIR = "HADOOP_CONF_DIR"


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """A command that a daemon runs.

    Attributes:
        conf_dir: the daemon's configuration directory, with which the process resolves nameservices with high
            availability; None if unknown. HADOOP_CONF_DIR in the daemon's environment takes precedence.
        niceness: number added to the daemon's niceness.
        memory: limit in bytes on the data of the process and of each of its children; 0 if unlimited.
        environment: variables that override the daemon's environment.
    """

    words: Sequence[str]
    conf_dir: Path | None = None
    niceness: int = 0
    memory: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> subprocess.Popen[str]:
        """Start the process with its standard error as a pipe; raise OSError on failure."""
        conf = {} if self.conf_dir is None else {_CONF_DIR: str(self.conf_dir.absolute())}
        child = subprocess.Popen(
            [*(["nice", "-n", str(self.niceness)] if self.niceness else []), *self.words],
            env={**conf, **os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        if self.niceness:
            lower_session_priority(child.pid, self.niceness)
        try:
            self._limit(child.pid)
        except BaseException:
            signal_group(child, signal.SIGKILL)
            child.communicate()
            raise
        return child

    def _limit(self, pid: int) -> None:
        if not self.memory:
            return
        # the process may have ended
        with suppress(ProcessLookupError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
            limit = self.memory if hard == resource.RLIM_INFINITY else min(hard, self.memory)
            resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))


def start_low_priority(words: Sequence[str], niceness: int) -> subprocess.Popen[str]:
    """Start a command in a separate session; lower the priority of the process and of its session. Output and errors
    are pipes.

    Raises:
        OSError: the process cannot be started.
    """
    command = ["nice", "-n", str(niceness), *words]
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    lower_session_priority(child.pid, niceness)
    return child


ChildTask = Callable[[], AbstractContextManager[ChildCommand | None]]
"""Context that prepares a command, and cleans up after its process has ended. The command is None if there is nothing
to run.
"""


@dataclass(slots=True)
class ChildQueue:
    """Queue that runs one task at a time in a thread. A new task replaces the pending task. After `stop`, the queue
    starts no process.

    Any thread may call any method. Only `stop` waits, and no method raises.

    Attributes:
        what: name of a process in the log.
        ended: called with the error of a task that has ended, or "" if its process succeeded; not called for processes
            that `stop` ended. It must not raise.
    """

    what: str
    ended: Callable[[str], None]
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _pending: ChildTask | None = None
    _child: subprocess.Popen[str] | None = None
    _worker: threading.Thread | None = None
    _stopped: bool = False

    @property
    def running(self) -> bool:
        return self._child is not None

    def offer(self, task: ChildTask) -> None:
        """Make the task the pending task, which runs next."""
        with self._changed:
            if self._stopped:
                return
            self._pending = task
            self._changed.notify_all()
            if self._worker is not None:
                return
            worker = threading.Thread(target=self._work, name=self.what, daemon=True)
            try:
                worker.start()
            except (RuntimeError, MemoryError) as fault:
                self._pending = None
                error = error_text(fault)
            else:
                self._worker = worker
                return
        self.ended(error)

    def stop(self) -> None:
        """End the running process and its children, and prevent further processes."""
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
        while (task := self._next()) is not None:
            try:
                error = self._run(task)
            except Exception as fault:
                if as_hdfs_error(fault) is None:
                    _LOG.exception("%s failed because of a bug", self.what)
                error = error_text(fault)
            if error is not None:
                self.ended(error)

    def _next(self) -> ChildTask | None:
        """Wait for a task; return None after `stop`."""
        with self._changed:
            while self._pending is None and not self._stopped:
                self._changed.wait()
            task, self._pending = self._pending, None
            return task

    def _run(self, task: ChildTask) -> str | None:
        """Run a task until it ends; return the error, "" after a success, or None if the task was stopped or had
        nothing to run.
        """
        with task() as command:
            child = None if command is None else self._start(command)
            if child is None:
                return None
            try:
                _, errors = child.communicate()
            finally:
                with self._changed:
                    self._child = None
        if child.returncode == 0:
            return ""
        return None if self._stopped else _last_error(errors) or f"the process exited with code {child.returncode}"

    def _start(self, command: ChildCommand) -> subprocess.Popen[str] | None:
        with self._changed:
            if not self._stopped:
                self._child = command.start()
            return self._child


def _last_error(text: str) -> str:
    """Return the last error that a command printed, together with its next step on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[-1].startswith(NEXT):
        return f"{lines[-2].removeprefix('checkpointer: ')} ({lines[-1].removeprefix(NEXT)})"
    return lines[-1] if lines else ""
