"""`in_use.lock` (Storage.StorageDirectory.tryLock): only one process at a time may use a storage directory."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import stat
import threading
from collections.abc import Collection
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Self

from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.regular_file import open_regular
from hadoop_common.storage_info import NAME_NODE, refuse_foreign

LOCK_FILE = "in_use.lock"
_MAX_HOLDER = 256
_LOCK_HINT = "Check that the directory exists, that its permissions allow writing, and that its disk works."
# errors of a file system without locks, or of NFS while its lock service does not answer
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_NO_LOCKS_HINT = (
    "On NFS, check that the lock service (rpc.statd) runs on this host and on the server, or mount with NFS 4. Do not "
    "mount with `nolock`, because a process on another host could then use the directory at the same time."
)
_LOG = logging.getLogger(__name__)

# struct flock of Linux: type, whence, start, length, process
_FLOCK = Struct("hhqqi4x")

# POSIX record locks do not conflict within a process, and closing any descriptor of the file drops them
_held: set[tuple[int, int]] = set()
_held_guard = threading.Lock()


class StorageInUseError(StorageError):
    """Failure to lock a storage directory that another process or object uses."""


def storage_user(directory: Path) -> str:
    """Return the process that holds the lock of a storage directory, or "" if no process does. The function does not
    lock or change anything.

    Raises:
        StorageError: the lock file cannot be read.
    """
    path = directory / LOCK_FILE
    try:
        found = directory.stat()
        with _held_guard:
            if (found.st_dev, found.st_ino) in _held:
                # opening and closing the file would release this process's lock
                return _own_name()
        with open_regular(path) as file:
            answer = fcntl.fcntl(file, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            kind, _, _, _, process = _FLOCK.unpack(answer)
            if kind == fcntl.F_UNLCK:
                return ""
            return file.read(_MAX_HOLDER).decode("utf-8", "replace").strip() or f"process {process}"
    except FileNotFoundError:
        return ""
    except OSError as fault:
        raise StorageError(
            f"{path} cannot be read: {error_text(fault, path)}",
            hint="Run this command as the user of the NameNode; other users cannot detect that the directory is in "
            "use.",
        ) from fault


def _own_name() -> str:
    return f"{os.getpid()}@{socket.gethostname()}"


def _lock(descriptor: int) -> bool:
    """Lock an open file without waiting, even if this process has already locked it; return False if another process
    has locked it.

    Raises:
        OSError: the file system cannot lock the file.
    """
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        if fault.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _holder(descriptor: int) -> str:
    """Return the process that an open lock file names; "" if the file is unreadable or does not name a process."""
    try:
        return os.pread(descriptor, _MAX_HOLDER, 0).decode("utf-8", "replace").strip()
    except OSError:
        return ""


class StorageLock:
    """The lock of a storage directory; a context manager.

    A POSIX record lock covers the whole of `<directory>/in_use.lock`, as with Java's FileChannel.tryLock, so that a
    NameNode and this program exclude each other. A release removes the lock file, as a NameNode does at its exit. A
    process that opened the file before the removal then detects that it has locked a file without a name, and retries.
    The lock refuses a directory with the VERSION of a node type that is not in `of`, and does not change the directory.
    """

    def __init__(self, directory: Path, *, of: Collection[str] = (NAME_NODE,)) -> None:
        self.directory = directory
        self._of = of
        self._descriptor: int | None = None
        self._key = (0, 0)

    @property
    def path(self) -> Path:
        return self.directory / LOCK_FILE

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def is_elsewhere(self) -> bool:
        """Return whether the lock is held although another directory is now at this path, for example after a mount.

        Raises:
            OSError: the path cannot be examined.
        """
        if self._descriptor is None:
            return False
        try:
            found = self.directory.stat()
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) != self._key

    def acquire(self) -> None:
        """Acquire the lock, or fail without waiting.

        Raises:
            ForeignDirectoryError: the directory belongs to another type of node.
            StorageInUseError: another process, or another object of this process, holds the lock.
            StorageError: the file cannot be created.
        """
        refuse_foreign(self.directory, self._of)
        try:
            info = self.directory.stat()
            self._reserve((info.st_dev, info.st_ino))
        except OSError as fault:
            raise self._failure(fault) from fault
        try:
            while self._descriptor is None:
                self._descriptor = self._open_locked()
        except BaseException:
            self._unreserve()
            raise

    def release(self) -> None:
        """Release the lock if it is held.

        A remaining lock file no longer locks anything, so the method only logs a failed removal.
        """
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        for step in (partial(self._remove, descriptor), partial(os.close, descriptor)):
            try:
                step()
            except OSError as fault:
                _LOG.warning(
                    "%s cannot be removed, but this does not block other processes: %s", self.path, error_text(fault)
                )
        self._unreserve()

    def keep(self) -> None:
        """Lock the file again if the lock is held, and the file was removed, replaced, or opened and closed by this
        process.

        Raises:
            StorageInUseError: another process has locked the file. The lock is no longer held.
            StorageError: the file cannot be created.
        """
        descriptor = self._descriptor
        if descriptor is not None and not (self._names(descriptor) and self._relock(descriptor)):
            self.release()
            self.acquire()

    @staticmethod
    def _relock(descriptor: int) -> bool:
        """Lock the held file again; return False if the lock is lost."""
        try:
            return _lock(descriptor)
        except OSError as fault:
            # NFS returns EIO for a file whose lock was lost; other faults, such as a silent lock server, prove nothing
            return fault.errno != errno.EIO

    def _remove(self, descriptor: int) -> None:
        # another process may hold the lock of a new file, or of this file if this process lost the lock
        if self._names(descriptor) and _lock(descriptor):
            self.path.unlink(missing_ok=True)

    def _names(self, descriptor: int) -> bool:
        """Return whether `path` still names an open file; an operator may have removed the file, or mounted another
        disk.
        """
        try:
            return os.path.samestat(os.fstat(descriptor), self.path.lstat())
        except FileNotFoundError:
            return False

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _open_locked(self) -> int | None:
        """Return the descriptor of the locked file, or None if its last holder has just removed it."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError as fault:
            raise self._failure(fault) from fault
        with ExitStack() as opened:
            opened.callback(os.close, descriptor)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError(errno.EINVAL, "it is not a regular file")
                if not _lock(descriptor):
                    raise self._in_use(_holder(descriptor) or "another process")
                if not os.fstat(descriptor).st_nlink:
                    return None
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, _own_name().encode(), 0)
            except OSError as fault:
                raise self._failure(fault) from fault
            opened.pop_all()
        return descriptor

    def _reserve(self, key: tuple[int, int]) -> None:
        with _held_guard:
            if key in _held:
                raise StorageInUseError(
                    f"{self.path} is held by this process, {_own_name()}",
                    hint="Name each directory only once: two of the configured paths lead to the same directory.",
                )
            _held.add(key)
        self._key = key

    def _unreserve(self) -> None:
        with _held_guard:
            _held.discard(self._key)

    def _in_use(self, holder: str) -> StorageInUseError:
        return StorageInUseError(
            f"{self.path} is held by {holder}",
            hint="Leave that process alone: it may be the NameNode, or the same daemon, which is already running. "
            "Configure other directories for another daemon (dfs.namenode.checkpoint.dir, for a standby "
            "dfs.namenode.name.dir). Two processes in one directory destroy its contents.",
        )

    def _failure(self, fault: OSError) -> StorageError:
        return StorageError(
            f"{self.path} cannot be locked: {fault.strerror or fault}",
            hint=_NO_LOCKS_HINT if fault.errno in _NO_LOCKS else _LOCK_HINT,
        )
