"""A set of storage directories with their locks and states.

Each directory is in use or dropped. The set drops a faulty directory, at startup or later, if another directory works.
Startup fails if another process holds a lock, if a directory belongs to another node, or if a newer release wrote a
file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from checkpointer.storage.directory_history import DirectoryHistory
from checkpointer.storage.file_formats import NewerFormatError, refuse_newer_formats
from checkpointer.storage.formatting import make_directory
from checkpointer.storage.inspector import StorageDirectory, all_unusable, has_version, inspect
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.recurring_fault import Alarm, RecurringFault
from hadoop_common.storage_info import ForeignDirectoryError, VersionFileError
from hadoop_common.storage_lock import StorageInUseError, StorageLock

_LOG = logging.getLogger(__name__)
_HINT = "Check the disk and the permissions of that directory."
_RETRIED = "The daemon retries it at each poll."
_NOT_RETRIED = "Then restart the daemon, or set dfs.namenode.name.dir.restore to true and reload the daemon."


class DirectorySet:
    """The directories of one node, each in use or dropped. The set drops a faulty directory, and can restore it later.

    Only one thread at a time may use the set.

    Args:
        directories: roots of the directories; each contains `current`.
        permission: mode of new directories.
        accept: raises ForeignDirectoryError for a directory that belongs to another node.
        edits_only: directories without images.
        images_only: directories without edits.

    Attributes:
        retries: whether the caller regularly calls `directory_restoration.restore`.
        history: records of the directories that were in use.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        *,
        permission: int = 0o700,
        accept: Callable[[StorageDirectory], None] = lambda found: None,
        edits_only: Collection[Path] = (),
        images_only: Collection[Path] = (),
        retries: bool = False,
    ) -> None:
        if not directories:
            raise ValueError("no storage directory")
        self.permission = permission
        self._accept = accept
        self.edits_only, self.images_only = frozenset(edits_only), frozenset(images_only)
        self.retries = retries
        self._locks = {directory: StorageLock(directory) for directory in directories}
        self._dropped: dict[Path, Alarm] = {}
        self._faults = {
            directory: RecurringFault(_LOG, f"storage directory {directory} is used again", unit="attempts")
            for directory in directories
        }
        self.history = DirectoryHistory(directories, edits_only)

    def lock(self) -> None:
        """Create missing directories, lock all directories, and drop unusable directories.

        Also drop directories that were not in use at the end of the last run, until `restore` has compared them.

        Raises:
            StorageError: no directory can be used, or a directory is in use, is foreign, or has a file of a newer
                release. Nothing remains locked.
        """
        faults: dict[Path, HdfsError] = {}
        try:
            for directory in self._locks:
                try:
                    self.acquire(directory)
                except (StorageInUseError, ForeignDirectoryError, NewerFormatError):
                    raise
                except (StorageError, VersionFileError) as fault:
                    faults[directory] = fault
            if len(faults) == len(self._locks):
                raise all_unusable(faults.values())
        except BaseException:
            self.release()
            raise
        for directory, each in faults.items():
            self.mark_dropped(directory, each.message, each.hint)
        for root in self.history.load(self.roots):
            self._dropped[root] = Alarm("it was not in use at the end of the last run", self._hint())

    def acquire(self, root: Path) -> StorageDirectory:
        """Lock a directory, and create it if it is missing; refuse a directory that has lost its contents.

        Raises:
            StorageError: the directory cannot be used.
        """
        found = inspect(root)
        self._accept(found)
        self.history.refuse_lost(found)
        make_directory(root, self.permission)
        # a different disk may have been mounted since the lock was acquired
        self._locks[root].release()
        self._locks[root].acquire()
        refuse_newer_formats(root)
        return inspect(root)

    def release(self) -> None:
        for lock in self._locks.values():
            lock.release()

    @property
    def all_roots(self) -> list[Path]:
        """All directories, in use or dropped."""
        return list(self._locks)

    @property
    def roots(self) -> list[Path]:
        """The directories in use."""
        return [directory for directory in self._locks if directory not in self._dropped]

    @property
    def dropped(self) -> dict[Path, Alarm]:
        """The dropped directories, with the reason and the next step for each."""
        return dict(self._dropped)

    @property
    def held(self) -> frozenset[Path]:
        """The directories that were ever formatted, even if they cannot be used now."""
        return frozenset(self.history.held)

    def keep_locks(self) -> None:
        """Drop each directory whose `in_use.lock` was removed and is now held by another process.

        Raises:
            StorageError: no directory is left.
        """
        self.write_everywhere(lambda root: None)

    def drop(self, directory: Path, reason: str, hint: str = "") -> None:
        """Drop a directory until it is restored; `directory` is its root or its `current` folder.

        Raises:
            StorageError: the directory was the last directory in use.
        """
        root = directory if directory in self._locks else directory.parent
        if root not in self._locks:
            raise ValueError(f"{directory} is not one of these storage directories")
        self.mark_dropped(root, reason, hint)
        self.record_use()
        self.require_one()

    def mark_dropped(self, root: Path, reason: str, hint: str = "") -> None:
        """Drop a directory, even the last directory in use, but do not write a record."""
        hint = self._hint(hint)
        self._dropped[root] = Alarm(reason, hint)
        self._faults[root].occurred(f"storage directory {root} is not used: {reason}", hint=hint)

    def use_again(self, root: Path) -> None:
        """Use a dropped directory again; this process already holds its lock."""
        self._dropped.pop(root, None)
        self._faults[root].ended()

    def write_everywhere(self, step: Callable[[Path], object], *, formatted: bool = False) -> None:
        """Call `step` for each directory in use; a failure drops the directory."""
        for root in self.roots:
            if formatted and not has_version(root, if_unreadable=True):
                continue
            try:
                self._locks[root].keep()
                step(root)
            except (OSError, HdfsError) as fault:
                self.drop(root, error_text(fault), fault.hint if isinstance(fault, HdfsError) else "")

    def readable(self) -> list[StorageDirectory]:
        """Return the readable directories in use."""
        found: list[StorageDirectory] = []
        for root in self.roots:
            with suppress(HdfsError):
                found.append(inspect(root))
        return found

    def record_use(self) -> None:
        """Record the directories in use for the next run."""
        self.history.record(self.roots, self._dropped)

    def require_one(self) -> None:
        """Raise StorageError if no directory is left."""
        if not self.roots:
            reasons = "; ".join(f"{each}: {why}" for each, why in self._dropped.items())
            hint = next(iter(self._dropped.values())).hint
            raise StorageError(f"no storage directory is left: {reasons}", hint=hint)

    def inspect_all(self) -> list[StorageDirectory]:
        """Return the directories in use; raise StorageError if a directory cannot be read or none is left."""
        self.require_one()
        return [inspect(root) for root in self.roots]

    def _hint(self, repair: str = "") -> str:
        """Return the hint to repair a directory, together with the daemon's next action."""
        return f"{repair or _HINT} {_RETRIED if self.retries else _NOT_RETRIED}"
