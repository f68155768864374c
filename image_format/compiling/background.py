"""Background compiler: one process with the lowest priority for all users of a cache folder.

A process that runs a kernel's Python form requests the compiled form. The first request starts the compiler. The
compiler compiles requested kernels, stores them in the cache folder, and ends after a few seconds without a request. A
lock file in the cache folder prevents a second compiler: the requesting process locks the file, and the compiler
inherits the lock. A process that finds the file locked repeats its request at a later kernel call. A request may be
lost if a socket is full or a process ends. A lost request costs only time, because requests are repeated.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from hadoop_common.available_memory import available_memory
from hadoop_common.child_module import child_module

_LOCK: Final = "kernel-compiler.lock"
_MAX_ASKED: Final = 3
"""Maximum number of requests for one kernel in a process, because some kernels cannot be compiled or stored."""
_MIN_MEMORY: Final = 1 << 30
"""Free memory in bytes without which no compiler is started; the compiler uses about half of this memory."""


class Request(NamedTuple):
    module: str
    name: str
    signature: Any
    """Numba's types of the arguments."""


class BackgroundCompiler:
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._asked: dict[Request, int] = {}
        self._open: set[Request] = set()

    def ask(self, request: Request) -> None:
        """Request a kernel if a compiler can be started; never wait and never fail."""
        with self._guard:
            asked = self._asked.get(request, 0)
            self._reap()
            if asked >= _MAX_ASKED or request in self._open:
                return
            with suppress(OSError):
                if self._socket is None:
                    self._start()
                if self._socket is not None:
                    # Count the request even if the compiler ends immediately.
                    self._asked[request] = asked + 1
                    self._socket.send(pickle.dumps(request))
                    self._open.add(request)

    def _reap(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            self._child = None
            self._open.clear()
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _start(self) -> None:
        """Start the compiler unless another process has started a compiler or memory is short.

        Raises:
            OSError: the system cannot start a process.
        """
        folder = _cache_folder()
        if folder is None or not sys.executable or 0 < available_memory() < _MIN_MEMORY:
            return
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._child = subprocess.Popen(
                    child_module(f"{__package__}"),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[lock],
                    cwd="/",
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                    start_new_session=True,
                )
            threading.Thread(target=self._child.wait, name="kernel-compiler", daemon=True).start()
            ours.setblocking(False)
            self._socket = ours
        finally:
            os.close(lock)

    def forget(self) -> None:
        """Reset the client in a forked process."""
        self.__init__()  # type: ignore[misc]


BACKGROUND = BackgroundCompiler()
os.register_at_fork(after_in_child=BACKGROUND.forget)


def _cache_folder() -> Path | None:
    """Return the folder for this package's compiled kernels, or None if the folder cannot be written."""
    from numba.core.caching import FunctionCache

    try:
        return Path(FunctionCache(_cache_folder).cache_path)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return None
