"""Who has the lock, for somebody who does not want it: nothing is taken or changed."""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from checkpointer.leadership.leader import Leader
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import told
from hadoop_common.zookeeper.address import ZooKeeperAddress
from hadoop_common.zookeeper.errors import NoNodeError
from site_config.leadership import LeaderSettings

_MOST_BYTES = 1 << 16
# struct flock of Linux: type, whence, start, length, pid
_FLOCK = "hhqqi"
_HINT = "Check checkpointer.leader.lock, and whether this user may read that file."


@dataclass(frozen=True, slots=True)
class Holding:
    """That somebody has the lock.

    Attributes:
        leader: who, None where what is in the lock is no daemon's.
        since: when it got the lock, seconds since the epoch.
    """

    leader: Leader | None
    since: float


def look(settings: LeaderSettings) -> Holding | None:
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


def _of_znode(ensemble: ZooKeeperAddress, path: str) -> Holding | None:
    from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes

    with closing(KazooZNodes(ensemble)) as znodes:
        try:
            return Holding(Leader.from_bytes(znodes.get(path)[0]), znodes.created(path))
        except NoNodeError:
            return None


def _of_file(path: Path) -> Holding | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise StorageError(f"the lock of the leader cannot be read: {told(fault)}", hint=_HINT) from fault
    try:
        wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted))[0]
        if kind == fcntl.F_UNLCK:
            return None
        return Holding(Leader.from_bytes(os.pread(descriptor, _MOST_BYTES, 0)), os.fstat(descriptor).st_mtime)
    except OSError as fault:
        raise StorageError(f"the lock of the leader cannot be read: {told(fault)}", hint=_HINT) from fault
    finally:
        os.close(descriptor)
