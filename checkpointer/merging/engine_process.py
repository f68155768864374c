"""Merges in a separate process, for an engine that does not release all its threads, memory or processes.

The process runs `python -m checkpointer.merging.engine_process FD`; the parent runs `merge_in_process`. They exchange
pickled values through a pair of sockets. The parent first sends the settings and the task, and later None to cancel.
The process sends calls to the observer, its log records, and finally a result or an error. It never outlives its
parent, because it kills itself when the parent's socket is closed.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from checkpointer.merging.engines import MergeTask, choose_engine
from checkpointer.storage.formatting import clean_leftovers
from engine.errors import CheckpointCancelledError, CheckpointError
from engine.merge import MergeResult, Observer
from hadoop_common.child_module import child_module
from hadoop_common.file_faults import as_hdfs_error, error_text
from hadoop_common.process_group import end_process_group, signal_group
from image_format.known_digests import remember_digest
from site_config.engine_settings import EngineSettings

_LOG = logging.getLogger(__name__)
_MODULE = "checkpointer.merging.engine_process"
_POLL_SECONDS = 0.2
_PROGRESS_SECONDS = 0.2
_END_SECONDS = 30.0
"""Longest wait for a process that must end."""
_HINT = "Check whether the kernel's OOM killer ended the process. The next checkpoint starts a new process."


def merge_in_process(settings: EngineSettings, task: MergeTask, observer: Observer) -> MergeResult:
    """Make a checkpoint in a process that afterwards ends with all processes that it started.

    Raises:
        HdfsError: the engine raised it, and nothing was written.
        CheckpointError: the process ended without a result.
        CheckpointCancelledError: the merge was cancelled, even if the process had to be killed.
    """
    connection, other = Pipe()
    with connection:
        with other:
            child = subprocess.Popen(
                child_module(_MODULE, str(other.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                start_new_session=True,
            )
        try:
            connection.send((logging.getLogger().getEffectiveLevel(), settings, task))
            result = _follow(connection, observer)
        except (EOFError, ConnectionError) as end:
            code = child.wait()
            _clean(task.folders)
            end_text = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
            raise CheckpointError(f"the merge process {end_text}", hint=_HINT) from end
        except TimeoutError as silence:
            signal_group(child, signal.SIGKILL)
            child.wait()
            _clean(task.folders)
            raise CheckpointCancelledError(f"cancelled; {silence} and was killed") from silence
        finally:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_END_SECONDS)
            end_process_group(child, "the merge process")
            child.wait()
    for path in result.saved.paths:
        remember_digest(path, bytes.fromhex(result.saved.md5))
    return result


def _follow(connection: Connection[Any, Any], observer: Observer) -> MergeResult:
    """Forward the process's messages until its result or error.

    Raises:
        TimeoutError: the merge was cancelled, but the process does not end, because it hangs or is frozen.
    """
    cancelled_at: float | None = None
    while True:
        if cancelled_at is None and observer.cancelled():
            cancelled_at = time.monotonic()
            connection.send(None)
        if not connection.poll(_POLL_SECONDS):
            if cancelled_at is not None and time.monotonic() - cancelled_at >= _END_SECONDS:
                raise TimeoutError(f"the merge process did not end within {_END_SECONDS:.0f} s")
            continue
        match connection.recv():
            case MergeResult() as result:
                return result
            case BaseException() as error:
                raise error
            case logging.LogRecord() as record:
                logging.getLogger(record.name).handle(record)
            case name, *arguments:
                getattr(observer, name)(*arguments)


def _clean(folders: Sequence[Path]) -> None:
    """Remove the leftovers of a killed merge in `current` folders; the caller holds the folders' locks."""
    for folder in folders:
        try:
            clean_leftovers(folder)
        except OSError as fault:
            _LOG.warning("the unfinished image in %s was not removed: %s", folder, error_text(fault, folder))


class _Parent:
    """Proxy of the parent: an `Observer`, and the queue of a `QueueHandler`."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._guard = threading.Lock()
        self._cancelled = threading.Event()
        self._reported_at = 0.0

    def put_nowait(self, message: object) -> None:
        with self._guard:
            self._connection.send(message)

    def listen(self) -> None:
        """Wait for a cancellation; kill this process when the parent has ended."""
        while True:
            try:
                self._connection.recv()
            except (EOFError, OSError):
                os.kill(os.getpid(), signal.SIGKILL)
            self._cancelled.set()

    def phase(self, name: str, total: int | None) -> None:
        self._reported_at = 0.0
        self.put_nowait(("phase", name, total))

    def advance(self, done: int) -> None:
        now = time.monotonic()
        if now - self._reported_at >= _PROGRESS_SECONDS:
            self._reported_at = now
            self.put_nowait(("advance", done))

    def saved(self) -> None:
        self.put_nowait(("saved",))

    def cancelled(self) -> bool:
        return self._cancelled.is_set()


def _merge(settings: EngineSettings, task: MergeTask, parent: _Parent) -> MergeResult | Exception:
    try:
        return choose_engine(settings, task).merge(task, parent)
    except Exception as error:
        if (known := as_hdfs_error(error)) is not None:
            return known
        bug = RuntimeError(f"{type(error).__name__}: {error}")
        bug.add_note("".join(traceback.format_exception(error)))
        return bug


def main() -> None:
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    level, settings, task = connection.recv()
    parent = _Parent(connection)
    root = logging.getLogger()
    root.setLevel(level)
    root.addHandler(QueueHandler(parent))  # type: ignore[arg-type]
    threading.Thread(target=parent.listen, name="parent", daemon=True).start()
    parent.put_nowait(_merge(settings, task, parent))


if __name__ == "__main__":
    main()
