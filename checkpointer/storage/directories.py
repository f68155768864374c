"""All storage directories of one node: agreement on VERSION, newest image, and writes to all directories."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from checkpointer.storage.directory_set import DirectorySet
from checkpointer.storage.disk_space import require_space, space_shortage
from checkpointer.storage.formatting import (
    check_formattable,
    clean_leftovers,
    format_directory,
    require_empty,
    unformat_directory,
    write_seen_txid,
    write_version,
)
from checkpointer.storage.inspector import StoredImage, agree_on_version, has_version, holds_image, newest_copies
from checkpointer.storage.lost_pasts import (
    UnfinishedStartOver,
    begin_start_over,
    finish_start_over,
    link_aside,
    start_over_of,
    unfinished_start_over,
)
from checkpointer.storage.usable_images import (
    ImageCopy,
    content_fault,
    exclude_image,
    first_intact,
    newest_usable_copies,
)
from checkpointer.storage.usage_record import remove_record
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.storage_info import StorageInfo

_LOG = logging.getLogger(__name__)


class StorageDirectories(DirectorySet):
    """The storage directories of one node, with queries about their images and writes to all of them."""

    # ---- queries -------------------------------------------------------------------------------------------

    def current_folders(self) -> list[Path]:
        """Return the `current` folders of the formatted directories in use; raise StorageError if no directory is in
        use.
        """
        self.require_one()
        return [root / "current" for root in self.roots if has_version(root, if_unreadable=True)]

    def is_formatted(self) -> bool:
        """Return whether any directory contains an image, or contained one before an unfinished start-over; ignore
        directories with an interrupted format.

        Raises:
            StorageError: VERSION is missing next to images or edits, or the VERSIONs differ.
        """
        return holds_image(self.inspect_all())

    def storage_info(self) -> StorageInfo:
        """Return the common VERSION.

        Raises:
            StorageError: no directory is formatted, or the VERSIONs differ.
        """
        return agree_on_version(self.inspect_all())

    def latest_image(self) -> ImageCopy:
        """Return the newest usable image; do not read its records.

        Raises:
            StorageError: no usable image exists.
        """
        newest = self._newest_copies()[0]
        return ImageCopy(newest.path, newest.txid)

    def has_image(self) -> bool:
        """Return whether a usable image exists; do not read its records."""
        try:
            self.latest_image()
        except StorageError:
            return False
        return True

    def verified_image(self) -> ImageCopy:
        """Return the first copy of the newest usable image whose frame and digest are correct.

        If there is only one copy, return it without reading it, because its later reader detects and reports faults.

        Raises:
            StorageError: no image exists, or every copy is damaged.
        """
        return first_intact(self._newest_copies())

    def exclude_damaged(self) -> bool:
        """Exclude the newest images until an undamaged image remains; return whether it replaces a damaged image.

        If no undamaged image exists, return False. This may read whole images.
        """
        excluded = False
        with suppress(StorageError):
            while content_fault(newest := self.latest_image().path):
                # a failed read does not count as damage
                if self.latest_image().path == newest:
                    break
                excluded = True
            return excluded
        return False

    def exclude(self, image: ImageCopy, error: HdfsError) -> None:
        """Exclude `image` until its file changes, because its reader raised `error`; an older image then replaces it.

        Raises:
            HdfsError: the given `error`, if no other image is usable.
        """
        exclude_image(self.inspect_all(), image, error)

    def require_space(self) -> None:
        """Check that there is space for another image.

        Raises:
            StorageError: there is too little space in each directory.
        """
        newest: Path | None = None
        with suppress(StorageError):
            # if no image is usable, the size of a damaged image is the best estimate
            newest = newest_copies(self.inspect_all())[0].path
            newest = self.latest_image().path
        require_space(self.roots, newest)

    def space_shortage(self) -> str:
        """Describe why there is no space for the next image; return "" if there is space or the directories cannot be
        read.
        """
        with suppress(HdfsError, OSError):
            return space_shortage(self.roots, self.latest_image().path)
        return ""

    # ---- changes -------------------------------------------------------------------------------------------

    def format(self, info: StorageInfo) -> None:
        """Write VERSION and a seen_txid of 0 to every directory; the caller must then store an image.

        Raises:
            StorageError: a directory contains or may have contained images or edits, belongs to another namespace, or
                cannot be written.
        """
        self.require_formattable()
        check_formattable(self.inspect_all(), info)
        self.write_everywhere(lambda root: format_directory(root, info, 0, self.permission))
        self.record_use()

    def require_formattable(self) -> None:
        """Check that dropped directories cannot contain images that the usable directories lack.

        Raises:
            StorageError: a dropped directory may contain images.
        """
        for root, reason in self._dropped.items():
            if self.history.may_hold_images(root):
                raise StorageError(
                    f"the usable directories contain no image, but {root}, which is not in use, may contain an "
                    f"image: {reason}",
                    hint="Repair the directory, or omit it from the configuration to begin without it.",
                )

    def unformat(self) -> None:
        """Undo a `format` after which no image was stored.

        Raises:
            StorageError: a directory contains images or edits, or cannot be written.
        """
        require_empty(self.inspect_all(), hint="They were not changed.")
        self.write_everywhere(unformat_directory)
        self.write_everywhere(remove_record)
        self.history.forget(self.roots)

    def clean_leftovers(self) -> list[Path]:
        """Remove the leftovers of a killed run before the first write; a failure drops the directory."""
        removed: list[Path] = []
        self.write_everywhere(lambda root: removed.extend(_clean(root)))
        for path in removed:
            _LOG.info("removed a leftover of an earlier run: %s", path)
        return removed

    def write_version(self, info: StorageInfo) -> None:
        """Write VERSION to every formatted directory."""
        self.write_everywhere(lambda root: write_version(root, info), formatted=True)

    def write_seen_txid(self, txid: int) -> None:
        """Write seen_txid, the first txid of the open segment, to every formatted directory."""
        self.write_everywhere(lambda root: write_seen_txid(root, txid), formatted=True)

    def unfinished_start_over(self) -> UnfinishedStartOver | None:
        """Return the start-over that a kill or a fault has interrupted; None if there is none.

        Raises:
            StorageError: a record cannot be read; `revise` drops the directory.
        """
        try:
            return next(filter(None, map(unfinished_start_over, self.roots)), None)
        except OSError as fault:
            raise StorageError(
                f"the images and edits here are not used: {error_text(fault)}",
                hint="Check the disk and the permissions of this file.",
            ) from fault

    def refuse_unfinished(self) -> None:
        """Check that the images and edits may be served.

        Raises:
            StorageError: a start-over from the NameNode's image is unfinished, or this is unknown.
        """
        if (begun := self.unfinished_start_over()) is not None:
            raise StorageError(
                f"the images and edits here are not used: {begun.cause}",
                hint="Wait until this node has fetched the NameNode's image; its alarms report what prevents this.",
            )

    def begin_start_over(self, parent: str, cause: str) -> None:
        """Record in each directory that its images are not used (`storage.lost_pasts`).

        One record is sufficient for all directories. A directory without a record is dropped later, because the files
        in it cannot be set aside either.

        Raises:
            StorageError: no record could be written.
        """
        folders = self.current_folders()
        begun = start_over_of(self.roots, parent, cause)
        faults: list[OSError] = []
        for folder in folders:
            try:
                begin_start_over(folder.parent, begun)
            except OSError as fault:
                faults.append(fault)
        if faults and len(faults) == len(folders):
            raise StorageError(
                f"it cannot be recorded that the images are not used: {error_text(faults[0])}",
                hint="Check the disks and permissions of the storage directories.",
            ) from faults[0]

    def link_aside(self, parent: str, cause: str, *, only: Collection[str] | None = None) -> None:
        """Link images and edits into folders below `parent`, before the NameNode's image replaces them
        (`storage.lost_pasts`).

        Raises:
            StorageError: no directory is left.
        """
        self.require_one()
        begun = start_over_of(self.roots, parent, cause)
        self.write_everywhere(lambda root: link_aside(root, begun, only=only), formatted=True)

    def finish_start_over(self, *, keep: Collection[str], only: Collection[str] | None = None) -> list[Path]:
        """Remove images and edits that were linked into folders; return the folders.

        Raises:
            StorageError: no directory is left.
        """
        found: list[Path | None] = []
        self.write_everywhere(lambda root: found.append(finish_start_over(root, keep=keep, only=only)), formatted=True)
        return [folder for folder in found if folder is not None]

    def _newest_copies(self) -> list[StoredImage]:
        return newest_usable_copies(self.inspect_all())


def _clean(root: Path) -> list[Path]:
    current = root / "current"
    return clean_leftovers(current) if current.is_dir() else []
