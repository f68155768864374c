"""PySpark worker daemon that imports the modules of most tasks once, before it forks its workers.

The module is the value of `spark.python.daemon.module` on this host. On the hosts of a cluster, the module may be
missing when the daemon starts, because Spark passes `--py-files` only to workers.

Spark starts its daemon with the first task, seconds after Java has started. A command can start the process earlier,
while Java starts (`start_early`). The process that Spark starts then only passes its standard streams, environment and
arguments to the early process. The early process becomes the daemon, and Spark's process ends together with it.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hadoop_common.child_module import child_module

_IMPORTED = ("numpy", "numba", "pyarrow", "pyspark.worker", "pipeline.sources.readers")
"""Modules that start no threads, because threads do not survive a fork."""
_IMPORTED_EARLY = ("pipeline.reports.tasks",)
"""Further modules that an early daemon imports, because no task waits during its start."""
_MODULE = "pipeline.python_daemon"
_EARLY = "--early"
_SOCKET = "HDFS_CHECKPOINTER_DAEMON_SOCKET"
"""Environment variable with the socket of an early daemon; Java passes it on to the daemon that it starts."""
_HASH_SEED = "PYTHONHASHSEED"
"""Environment variable that Spark sets for its daemons, so that equal strings have equal hashes in all workers."""
_STREAMS = (0, 1, 2)
_END_SECONDS = 30.0


@contextmanager
def start_early() -> Iterator[None]:
    """Start a process that becomes the daemon of a JVM started within the block; end the process with the block.

    If no socket can be created, because TMPDIR is too long or its disk is full, Spark's own process becomes the daemon.
    """
    with ExitStack() as inside:
        with suppress(OSError):
            inside.enter_context(_early_process())
        yield


@contextmanager
def _early_process() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="hdfs-checkpointer-", ignore_cleanup_errors=True) as folder:
        path = str(Path(folder) / "daemon")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            early = subprocess.Popen(
                child_module(_MODULE, _EARLY, str(listener.fileno())),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={_HASH_SEED: "0", **os.environ},
                pass_fds=(listener.fileno(),),
                process_group=0,  # an interrupt from the terminal must reach only the command, which ends Spark
            )
        assert early.stdin is not None
        os.environ[_SOCKET] = path
        try:
            yield
        finally:
            del os.environ[_SOCKET]
            early.stdin.close()
            try:
                early.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                early.kill()
                early.wait()


def main() -> None:
    """Serve requests for workers until Spark ends, in this process or in the process that `start_early` started."""
    if sys.argv[1:2] == [_EARLY]:
        _become_daemon(socket.socket(fileno=int(sys.argv[2])))
        return
    code = _hand_over()
    if code is not None:
        sys.exit(code)
    _import(_IMPORTED)
    _serve()


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)


def _serve() -> None:
    from pyspark import daemon

    daemon.manager()


def _hand_over() -> int | None:
    """Make an early process the daemon; return the daemon's exit code, or None if there is no early process."""
    path = os.environ.get(_SOCKET)
    if path is None:
        return None
    with socket.socket(socket.AF_UNIX) as early:
        try:
            early.connect(path)
            socket.send_fds(early, [b"\0"], _STREAMS)
            early.sendall(json.dumps([dict(os.environ), sys.argv]).encode())
            early.shutdown(socket.SHUT_WR)
            accepted = early.recv(1)
        except OSError:
            return None
        if not accepted:
            return None
        ended = early.recv(1)
    return ended[0] if ended else 1


def _become_daemon(listener: socket.socket) -> None:
    """Wait for a request from Spark's process, then serve in its place; return if the command or Spark ends first."""
    _import(_IMPORTED)
    _import(_IMPORTED_EARLY)
    with listener, selectors.DefaultSelector() as waiting:
        for source in (listener, sys.stdin):
            waiting.register(source, selectors.EVENT_READ)
        ready = [key.fileobj for key, _ in waiting.select()]
        # a command that a signal ends removes nothing
        path = Path(listener.getsockname())
        with suppress(OSError):
            path.unlink()
            path.parent.rmdir()
        if listener not in ready:
            return
        asking, _ = listener.accept()
    os.register_at_fork(after_in_child=asking.close)  # workers may outlive the daemon
    try:
        _, streams, _, _ = socket.recv_fds(asking, 1, len(_STREAMS))
        with asking.makefile("rb") as request:
            environment, sys.argv = json.load(request)
        asking.sendall(b"\0")
    except (OSError, ValueError):
        # Spark has killed its process during the request
        return
    for stream, given in zip(_STREAMS, streams, strict=True):
        os.dup2(given, stream)
        os.close(given)
    os.environ.clear()
    os.environ.update(environment)
    try:
        _serve()
    except SystemExit as end:
        # Spark kills its process while this process ends
        with suppress(OSError):
            asking.sendall(bytes([end.code if isinstance(end.code, int) else 1]))


if __name__ == "__main__":
    main()
