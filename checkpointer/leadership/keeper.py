"""Who keeps the lock: ZooKeeper, or a file in a directory that all daemons see."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Protocol

from checkpointer.leadership.leader import Leader
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import told
from hadoop_common.zookeeper.address import ZooKeeperAddress
from hadoop_common.zookeeper.errors import NodeExistsError, NoNodeError
from site_config.leadership import LeaderSettings

_ROUNDS = 3
_MOST_BYTES = 1 << 16
_HINT = "Check checkpointer.leader.lock: its directory has to be there, on storage that all daemons see."


class Held(Enum):
    """Whose the lock is."""

    TAKEN = "taken just now"
    KEPT = "ours already"
    THEIRS = "another daemon's"


class Keeper(Protocol):
    """Gives the lock to one daemon at a time.

    Attributes:
        holds: seconds for which an answer holds at most.
    """

    @property
    def holds(self) -> float: ...

    def ask(self, me: Leader) -> tuple[Held, Leader | None]:
        """Take the lock if it is free; of another daemon's also who that is, as far as it can be read.

        Raises:
            HdfsError: that cannot be told.
        """

    def close(self) -> None:
        """Give the lock up."""


class ZooKeeperKeeper:
    """An ephemeral znode; ZooKeeper frees it when the session of its owner has ended."""

    def __init__(self, ensemble: ZooKeeperAddress, path: str) -> None:
        from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes

        self._path = path
        self._znodes = KazooZNodes(ensemble)

    @property
    def holds(self) -> float:
        return self._znodes.session_timeout

    def ask(self, me: Leader) -> tuple[Held, Leader | None]:
        ours = Held.KEPT
        for _ in range(_ROUNDS):
            if self._znodes.owned(self._path):
                return ours, None
            try:
                return Held.THEIRS, Leader.from_bytes(self._znodes.get(self._path)[0])
            except NoNodeError:
                ours = Held.TAKEN
                # Another's that exists may be our own whose answer was lost: the owner tells.
                with suppress(NodeExistsError):
                    self._znodes.create(self._path, me.to_bytes(), parents=True, ephemeral=True)
        return Held.THEIRS, None

    def close(self) -> None:
        self._znodes.close()


class FileKeeper:
    """A lock of the system on a file (fcntl), which goes with the process that has it.

    It is taken anew at each question, for NFS may have lost it: where another one was first, or has been since, that
    shows by what is in the file.
    """

    holds = float("inf")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None

    def ask(self, me: Leader) -> tuple[Held, Leader | None]:
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

    def _take(self, descriptor: int, me: Leader) -> tuple[Held, Leader | None]:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            leader = Leader.from_bytes(os.pread(descriptor, _MOST_BYTES, 0))
            self.close()
            return Held.THEIRS, leader
        if not self._in_place(descriptor):
            self.close()
            return Held.THEIRS, None
        if os.pread(descriptor, _MOST_BYTES, 0) == me.to_bytes():
            return Held.KEPT, None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, me.to_bytes(), 0)
        return Held.TAKEN, None

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


def open_keeper(settings: LeaderSettings) -> Keeper | None:
    """What `settings` names, None where every daemon is for itself."""
    if settings.file is not None:
        return FileKeeper(settings.file)
    if settings.ensemble is not None:
        return ZooKeeperKeeper(settings.ensemble, settings.znode)
    return None
