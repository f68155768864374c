"""Who keeps the lock: ZooKeeper, or a file in a directory that all daemons see."""

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
from hadoop_common.file_faults import told
from hadoop_common.zookeeper.address import ZooKeeperAddress
from hadoop_common.zookeeper.errors import NodeExistsError, NoNodeError
from site_config.leadership import LeaderSettings

_MAX_ATTEMPTS = 3
_MAX_BYTES = 1 << 16
_HINT = "Check checkpointer.leader.lock: its directory has to be there, on storage that all daemons see."


class LockOutcome(Enum):
    """Whose the lock is."""

    ACQUIRED = "taken just now"
    KEPT = "ours already"
    HELD_BY_OTHER = "another daemon's"


class LockBackend(Protocol):
    """Gives the lock to one daemon at a time.

    Attributes:
        holds: seconds for which an answer holds at most.
    """

    @property
    def holds(self) -> float: ...

    def ask(self, me: Leader) -> tuple[LockOutcome, Leader | None]:
        """Take the lock if it is free; of another daemon's also who that is, as far as it can be read.

        Raises:
            HdfsError: that cannot be told.
        """

    def close(self) -> None:
        """Give the lock up."""


class ZooKeeperLock:
    """An ephemeral znode; ZooKeeper frees it when the session of its owner has ended."""

    def __init__(self, ensemble: ZooKeeperAddress, path: str) -> None:
        from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes

        self._path = path
        self._znodes = KazooZNodes(ensemble)

    @property
    def holds(self) -> float:
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
                # Another's that exists may be our own whose answer was lost: the owner tells.
                with suppress(NodeExistsError):
                    self._znodes.create(self._path, me.to_bytes(), parents=True, ephemeral=True)
        return LockOutcome.HELD_BY_OTHER, None

    def close(self) -> None:
        self._znodes.close()


class FileLock:
    """A lock of the system on a file (fcntl), which goes with the process that has it.

    It is taken anew at each question, for NFS may have lost it: where another one was first, or has been since, that
    shows by what is in the file.
    """

    holds = float("inf")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None

    def ask(self, me: Leader) -> tuple[LockOutcome, Leader | None]:
        if self._held is not None and self._in_place(self._held):
            # NFS answers with EIO on a file whose lock was lost.
            with suppress(OSError):
                return self._take(self._held, me)
        self.close()
        try:
            self._held = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            return self._take(self._held, me)
        except OSError as fault:
            self.close()
            raise StorageError(f"the lock of the leader cannot be had: {told(fault)}", hint=_HINT) from fault

    def _take(self, descriptor: int, me: Leader) -> tuple[LockOutcome, Leader | None]:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            leader = Leader.from_bytes(os.pread(descriptor, _MAX_BYTES, 0))
            self.close()
            return LockOutcome.HELD_BY_OTHER, leader
        if not self._in_place(descriptor):
            self.close()
            return LockOutcome.HELD_BY_OTHER, None
        if os.pread(descriptor, _MAX_BYTES, 0) == me.to_bytes():
            return LockOutcome.KEPT, None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, me.to_bytes(), 0)
        return LockOutcome.ACQUIRED, None

    def _in_place(self, descriptor: int) -> bool:
        """Whether the file that is locked is still the one of that name."""
        try:
            ours, there = os.fstat(descriptor), self._path.stat()
        except OSError:
            return False
        return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)

    def close(self) -> None:
        descriptor, self._held = self._held, None
        if descriptor is not None:
            os.close(descriptor)


def open_lock_backend(settings: LeaderSettings) -> LockBackend | None:
    """What `settings` names, None where every daemon is for itself."""
    if settings.file is not None:
        return FileLock(settings.file)
    if settings.ensemble is not None:
        return ZooKeeperLock(settings.ensemble, settings.znode)
    return None


_MAX_BYTES = 1 << 16
# struct flock of Linux: type, whence, start, length, pid
_FLOCK = "hhqqi"
_READ_HINT = "Check checkpointer.leader.lock, and whether this user may read that file."


@dataclass(frozen=True, slots=True)
class LockHolder:
    """That somebody has the lock.

    Attributes:
        leader: who, None where what is in the lock is no daemon's.
        since: when it got the lock, seconds since the epoch.
    """

    leader: Leader | None
    since: float


def lock_holder(settings: LeaderSettings) -> LockHolder | None:
    """Who has the lock that `settings` name, None where nobody has it.

    Raises:
        HdfsError: that cannot be told.
        ValueError: they name none.
    """
    if settings.file is not None:
        return _of_file(settings.file)
    if settings.ensemble is not None:
        return _of_znode(settings.ensemble, settings.znode)
    raise ValueError("there is no lock to look at")


def _of_znode(ensemble: ZooKeeperAddress, path: str) -> LockHolder | None:
    from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes

    with closing(KazooZNodes(ensemble)) as znodes:
        try:
            return LockHolder(Leader.from_bytes(znodes.get(path)[0]), znodes.created(path))
        except NoNodeError:
            return None


def _of_file(path: Path) -> LockHolder | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise StorageError(f"the lock of the leader cannot be read: {told(fault)}", hint=_READ_HINT) from fault
    try:
        wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted))[0]
        if kind == fcntl.F_UNLCK:
            return None
        return LockHolder(Leader.from_bytes(os.pread(descriptor, _MAX_BYTES, 0)), os.fstat(descriptor).st_mtime)
    except OSError as fault:
        raise StorageError(f"the lock of the leader cannot be read: {told(fault)}", hint=_READ_HINT) from fault
    finally:
        os.close(descriptor)
