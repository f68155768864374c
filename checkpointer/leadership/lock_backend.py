"""Backends of the leadership lock: a ZooKeeper znode or a file on shared storage.

`LockBackend.ask` acquires or keeps the lock. `lock_holder` only returns the holder.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from checkpointer.leadership.leadership_state import Leader
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.zookeeper.errors import NodeExistsError, NoNodeError
from hadoop_common.zookeeper.session import ZooKeeperAddress
from site_config.leadership import LeaderSettings

_MAX_ATTEMPTS = 3
_MAX_BYTES = 1 << 16
_HINT = "Check checkpointer.leader.lock: its directory must exist on storage that all daemons share."


class LockOutcome(Enum):
    ACQUIRED = "acquired now"
    KEPT = "held already"
    HELD_BY_OTHER = "held by another daemon"


class LockBackend(Protocol):
    """A lock that at most one daemon holds at a time.

    Attributes:
        validity: longest validity of a response, in seconds.
    """

    @property
    def validity(self) -> float: ...

    def ask(self, me: Leader) -> tuple[LockOutcome, Leader | None]:
        """Acquire the lock if it is free. If another daemon holds the lock and its entry is readable, also return that
        daemon.

        Raises:
            HdfsError: the backend cannot be queried.
        """

    def close(self) -> None:
        """Release the lock."""


class ZooKeeperLock:
    """Lock in an ephemeral znode. ZooKeeper deletes the znode when its owner's session ends."""

    def __init__(self, ensemble: ZooKeeperAddress, path: str) -> None:
        from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes

        self._path = path
        self._znodes = KazooZNodes(ensemble)

    @property
    def validity(self) -> float:
        return self._znodes.session_timeout

    def ask(self, me: Leader) -> tuple[LockOutcome, Leader | None]:
        ours = LockOutcome.KEPT
        for _ in range(_MAX_ATTEMPTS):
            if self._znodes.owned(self._path):
                return ours, None
            try:
                return LockOutcome.HELD_BY_OTHER, Leader.from_bytes(self._znodes.get(self._path)[0])
            except NoNodeError:
                ours = LockOutcome.ACQUIRED
                # The existing znode may be ours if the response to its creation was lost. The next round checks the
                # owner.
                with suppress(NodeExistsError):
                    self._znodes.create(self._path, me.to_bytes(), parents=True, ephemeral=True)
        return LockOutcome.HELD_BY_OTHER, None

    def close(self) -> None:
        self._znodes.close()


# content of the lock files that this process holds, by device and inode. Such a file must not be opened again, because
# closing any of its descriptors releases the lock.
_held: dict[tuple[int, int], bytes] = {}


class FileLock:
    """POSIX lock (fcntl) on a file. The lock ends with the process that holds it.

    NFS can lose the lock, so each request locks the file again. The file's content shows whether another daemon has
    held the lock since the last request.
    """

    validity = float("inf")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._key = (0, 0)

    def ask(self, me: Leader) -> tuple[LockOutcome, Leader | None]:
        if self._descriptor is not None and self._in_place(self._descriptor):
            # NFS returns EIO for a file whose lock was lost.
            with suppress(OSError):
                return self._lock(self._descriptor, me)
        self.close()
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            return self._lock(self._descriptor, me)
        except OSError as fault:
            self.close()
            raise StorageError(f"the leadership lock cannot be acquired: {error_text(fault)}", hint=_HINT) from fault

    def _lock(self, descriptor: int, me: Leader) -> tuple[LockOutcome, Leader | None]:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            leader = Leader.from_bytes(os.pread(descriptor, _MAX_BYTES, 0))
            self.close()
            return LockOutcome.HELD_BY_OTHER, leader
        if not self._in_place(descriptor):
            self.close()
            return LockOutcome.HELD_BY_OTHER, None
        found = os.fstat(descriptor)
        self._key = found.st_dev, found.st_ino
        _held[self._key] = me.to_bytes()
        if os.pread(descriptor, _MAX_BYTES, 0) == me.to_bytes():
            return LockOutcome.KEPT, None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, me.to_bytes(), 0)
        return LockOutcome.ACQUIRED, None

    def _in_place(self, descriptor: int) -> bool:
        """Return whether the file's name still refers to the locked file."""
        try:
            locked, named = os.fstat(descriptor), self._path.stat()
        except OSError:
            return False
        return (locked.st_dev, locked.st_ino) == (named.st_dev, named.st_ino)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _held.pop(self._key, None)
            os.close(descriptor)


def open_lock_backend(settings: LeaderSettings) -> LockBackend | None:
    if settings.file is not None:
        return FileLock(settings.file)
    if settings.ensemble is not None:
        return ZooKeeperLock(settings.ensemble, settings.znode)
    return None


# struct flock of Linux: type, whence, start, length, pid
_FLOCK = "hhqqi"
_READ_HINT = "Check checkpointer.leader.lock, and whether this user may read that file."


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The current holder of the lock.

    Attributes:
        leader: the daemon; None if a program other than a daemon wrote the lock's content.
        since: time when the holder acquired the lock, in seconds since the epoch.
    """

    leader: Leader | None
    since: float


def lock_holder(settings: LeaderSettings) -> LockHolder | None:
    """Return the holder of the lock in `settings`; None if the lock is free.

    Raises:
        HdfsError: the lock cannot be read.
        ValueError: `settings` do not name a lock.
    """
    if settings.file is not None:
        return _of_file(settings.file)
    if settings.ensemble is not None:
        return _of_znode(settings.ensemble, settings.znode)
    raise ValueError("no lock is configured")


def _of_znode(ensemble: ZooKeeperAddress, path: str) -> LockHolder | None:
    from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes

    with closing(KazooZNodes(ensemble)) as znodes:
        try:
            return LockHolder(Leader.from_bytes(znodes.get(path)[0]), znodes.created(path))
        except NoNodeError:
            return None


def _of_file(path: Path) -> LockHolder | None:
    try:
        found = path.stat()
        if (ours := _held.get((found.st_dev, found.st_ino))) is not None:
            return LockHolder(Leader.from_bytes(ours), found.st_mtime)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise StorageError(f"the leadership lock cannot be read: {error_text(fault)}", hint=_READ_HINT) from fault
    try:
        wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted))[0]
        if kind == fcntl.F_UNLCK:
            return None
        return LockHolder(Leader.from_bytes(os.pread(descriptor, _MAX_BYTES, 0)), os.fstat(descriptor).st_mtime)
    except OSError as fault:
        raise StorageError(f"the leadership lock cannot be read: {error_text(fault)}", hint=_READ_HINT) from fault
    finally:
        os.close(descriptor)
