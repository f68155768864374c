"""The NameNode's storage directories: locks, VERSION, and seen_txid."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from checkpointer.storage import formatting
from checkpointer.storage.inspector import agree_on_version, inspect
from hadoop_common.errors import StorageError
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageLock

_LOG = logging.getLogger(__name__)
_FORMAT_HINT = "Format it with `namenode-stub format --conf DIR`, or specify a formatted directory."


class StorageLocks:
    """The locks of the NameNode's storage directories."""

    def __init__(self) -> None:
        self._locks: dict[Path, StorageLock] = {}

    @property
    def held(self) -> list[StorageLock]:
        return list(self._locks.values())

    def take(self, directory: Path) -> None:
        """Lock a directory that is not locked yet.

        Raises:
            StorageInUseError: another process uses the directory.
            StorageError: the directory does not exist, or cannot be locked.
        """
        if not directory.is_dir():
            raise StorageError(f"{directory} does not exist", hint=_FORMAT_HINT)
        lock = StorageLock(directory)
        lock.acquire()
        self._locks[directory] = lock

    def release(self, *directories: Path) -> None:
        """Release these locks, or all locks; ignore locks that are not held."""
        for directory in directories or tuple(self._locks):
            lock = self._locks.pop(directory, None)
            if lock is not None:
                lock.release()


def check_storage(directories: Sequence[Path]) -> StorageInfo:
    """Return the VERSION that all directories share; remove leftovers of a killed run. The caller holds the locks.

    Raises:
        StorageError: a directory is not formatted, or the directories belong to different namespaces.
    """
    found = [inspect(directory) for directory in directories]
    for each in found:
        if each.version is None:
            raise StorageError(f"{each.root} is not formatted: it has no current/VERSION", hint=_FORMAT_HINT)
    for each in found:
        for path in formatting.clean_leftovers(each.current):
            _LOG.info("removed a leftover of an earlier run: %s", path)
    return agree_on_version(found)


def write_seen_txid(directories: Sequence[Path], txid: int) -> None:
    """Record that the log reaches `txid`; the transaction must already be durable.

    If the process is killed before this call, the recorded number is lower, which is safe.
    """
    for directory in directories:
        try:
            formatting.write_seen_txid(directory, txid)
        except OSError as error:
            _LOG.error("seen_txid of %s cannot be updated: %s", directory, error)
