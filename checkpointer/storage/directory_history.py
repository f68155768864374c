"""The history of a node's storage directories: all directories that were ever formatted, and the directories that were
in use last.

The records of `usage_record` preserve the history across restarts. The history shows whether an empty directory has
lost its contents. It also shows whether a returning directory may contain older images than the directories in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from checkpointer.storage.inspector import StorageDirectory, StorageState, has_version, inspect
from checkpointer.storage.usage_record import forget_held, newest_record, write_record
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.path_status import is_directory

_NO_MOUNT = (
    "Mount its file system. If the disk is new, or the contents were moved away, create an empty folder `current` in "
    "the directory, so that it is formatted."
)


class DirectoryHistory:
    """The history of the directories `roots`; the directories in `edits_only` never contain images.

    Attributes:
        held: directories that were ever formatted.
        last_used: directories that this process recorded as in use.
    """

    def __init__(self, roots: Sequence[Path], edits_only: Collection[Path]) -> None:
        self._roots = tuple(roots)
        self._edits_only = frozenset(edits_only)
        self.held: set[Path] = set()
        self.last_used: list[Path] = []

    def load(self, usable: Sequence[Path]) -> list[Path]:
        """Read the newest record; return the `usable` directories that were not in use at the end of the last run."""
        record = newest_record(usable)
        if record is None:
            return []
        self.held = {root for root in self._roots if root in record.held}
        if record.in_use.isdisjoint(usable):
            return []
        return [root for root in usable if root not in record.in_use]

    def record(self, in_use: Iterable[Path], dropped: Iterable[Path]) -> None:
        """Record the formatted directories in use if they have changed and at least one is for images."""
        used = [root for root in in_use if has_version(root, if_unreadable=False)]
        if used != self.last_used and not self._edits_only.issuperset(used):
            self.held.update(used, (root for root in dropped if self.may_hold_images(root)))
            write_record(self.held, used)
            self.last_used = used

    def forget(self, roots: Collection[Path]) -> None:
        """Forget the directories `roots` after their format was undone."""
        forget_held(roots)
        self.held, self.last_used = set(), []

    def lost_contents(self, empty: StorageDirectory) -> str:
        """Describe the evidence that an empty directory contained images; return "" if there is no evidence."""
        if is_directory(empty.current):
            return ""
        others = [root for root in self._roots if root != empty.root]
        record = newest_record(others)
        is_known = empty.root in self.held or (record is not None and empty.root in record.held)
        if record is not None and not is_known:
            return ""
        holder = next((root for root in others if _holds_images(root)), None)
        if holder is not None:
            return f"{holder} contains images"
        return "it contained images before" if is_known else ""

    def refuse_lost(self, found: StorageDirectory) -> None:
        """Refuse a directory that has lost its contents.

        Raises:
            StorageError: the directory is empty or missing, but contained images.
        """
        if found.state not in (StorageState.MISSING, StorageState.NOT_FORMATTED):
            return
        if evidence := self.lost_contents(found):
            message = f"{found.root} is empty, but {evidence}: its file system may not be mounted"
            raise StorageError(message, hint=_NO_MOUNT)

    def may_hold_images(self, root: Path) -> bool:
        """Return whether a directory contains images or edits, has lost them, or cannot be read."""
        try:
            found = inspect(root)
        except HdfsError:
            return True
        return bool(found.images or found.segments or self.lost_contents(found))

    def refuse_older(self, found: StorageDirectory, current: Iterable[StorageDirectory]) -> None:
        """Refuse a directory with images that was not in use last, if the directories in use now (`current`) have no
        images.

        Raises:
            StorageError: the images may be older than the images of the directories that were in use last.
        """
        last = [root for root in self.last_used if root not in self._edits_only]
        if not found.images or not last or found.root in last:
            return
        if any(each.version is not None and each.images for each in current):
            return
        raise StorageError(
            f"the contents of {found.root} may be older than those of {', '.join(map(str, last))}",
            hint="Repair one of the directories that were in use last. If this is impossible, start the daemon "
            "again: it continues with the older contents.",
        )


def _holds_images(root: Path) -> bool:
    with suppress(HdfsError):
        found = inspect(root)
        return bool(found.images or found.segments)
    return False
