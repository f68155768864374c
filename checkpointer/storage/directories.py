"""The storage directories of one node taken together: locks, agreement on VERSION, newest image, repair."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from checkpointer.storage.aside import set_aside
from checkpointer.storage.fitness import content_fault, frame_fault, note_fault, with_usable_images
from checkpointer.storage.formatting import (
    format_directory,
    make_directory,
    unformat_directory,
    write_seen_txid,
    write_version,
)
from checkpointer.storage.inspector import (
    StorageDirectory,
    StorageState,
    StoredImage,
    agree_on_version,
    inspect,
    newest_copies,
)
from checkpointer.storage.leftovers import clean_leftovers
from checkpointer.storage.lookup import ImageCopy, latest_image, read_storage_info
from checkpointer.storage.room import lack_of_room
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import told
from hadoop_common.names import VERSION
from hadoop_common.recurring_fault import with_next
from hadoop_common.storage_info import StorageInfo
from hadoop_common.storage_lock import StorageLock
from image_format.reader import ImageFile

__all__ = ["ImageCopy", "StorageDirectories", "latest_image", "read_storage_info"]

_LOG = logging.getLogger(__name__)
_HINT = "Check the disks and permissions of the storage directories."


class StorageDirectories:
    """Storage directories of one node. A directory that fails is dropped and can be restored later.

    A context manager that opens and releases. Not for use by several threads at once.

    Args:
        directories: their roots; each holds `current`.
        permission: mode of directories that are made.
    """

    def __init__(self, directories: Sequence[Path], *, permission: int = 0o700) -> None:
        if not directories:
            raise ValueError("no storage directory")
        self._permission = permission
        self._locks = {directory: StorageLock(directory) for directory in directories}
        self._dropped: dict[Path, str] = {}

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    # ---- life ----------------------------------------------------------------------------------------------

    def open(self) -> StorageInfo:
        """Lock all, check that they agree, remove leftovers, give VERSION to those that lack it; their VERSION.

        Raises:
            StorageError: in use, not formatted, or at odds with each other.
        """
        self.lock()
        try:
            if not self.is_formatted():
                raise StorageError(
                    f"not formatted: {', '.join(map(str, self._locks))}",
                    hint="Bootstrap from a NameNode, or copy its newest image, .md5 file and VERSION there.",
                )
            self.clean_leftovers()
            self.restore()
            return self.storage_info()
        except BaseException:
            self.release()
            raise

    def lock(self) -> None:
        """Lock every directory, making those that are missing; all of them or none.

        Raises:
            StorageError: one is in use or cannot be made.
        """
        try:
            for directory, lock in self._locks.items():
                make_directory(directory, self._permission)
                lock.acquire()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let go of all locks."""
        for lock in self._locks.values():
            lock.release()

    # ---- what there is -------------------------------------------------------------------------------------

    @property
    def roots(self) -> list[Path]:
        """The directories that work."""
        return [directory for directory in self._locks if directory not in self._dropped]

    @property
    def dropped(self) -> dict[Path, str]:
        """The directories that do not, and why."""
        return dict(self._dropped)

    def current_folders(self) -> list[Path]:
        """`current` of the directories that work and are formatted.

        Raises:
            StorageError: no directory works.
        """
        self._require_one()
        return [root / "current" for root in self.roots if (root / "current" / VERSION).is_file()]

    def is_formatted(self) -> bool:
        """Whether an image lies in a directory; a format that was cut short before that does not count.

        Raises:
            StorageError: images or edits lie where VERSION is missing, or the directories are at odds.
        """
        found = self._inspect()
        for each in found:
            if each.version is None and each.state is StorageState.HALF_FORMATTED:
                raise StorageError(
                    f"{each.current / VERSION} is missing, but there are images or edits beside it",
                    hint="Restore VERSION from another directory of the same NameNode; do not format.",
                )
        normal = [each for each in found if each.state is StorageState.NORMAL]
        if normal:
            agree_on_version(found)
        elif with_edits := next((each for each in found if each.segments), None):
            raise StorageError(
                f"{with_edits.current} holds edits but no image",
                hint="Copy the newest fsimage and its .md5 file from a NameNode there.",
            )
        return bool(normal)

    def storage_info(self) -> StorageInfo:
        """The VERSION all agree on.

        Raises:
            StorageError: none is formatted, or they are at odds.
        """
        return agree_on_version(self._inspect())

    def latest_image(self) -> ImageCopy:
        """The newest usable image; its records are not read.

        Raises:
            StorageError: there is none.
        """
        newest = self._newest_copies()[0]
        return ImageCopy(newest.path, newest.txid)

    def verified_image(self) -> ImageCopy:
        """The first copy of the newest usable image whose frame and digest are right.

        A single copy is not read here: the caller that opens it finds the fault and reports it best.

        Raises:
            StorageError: there is no image, or every copy is damaged.
        """
        copies = self._newest_copies()
        faults = []
        for copy in copies:
            try:
                if len(copies) > 1:
                    ImageFile.open(copy.path, allow_unknown_layout=True).close()
            except HdfsError as fault:
                _LOG.warning("copy of the newest image is damaged: %s", fault)
                faults.append(str(fault))
            else:
                return ImageCopy(copy.path, copy.txid)
        raise _all_damaged(faults)

    def leave_out_damaged(self) -> bool:
        """Whether the newest image is damaged and an older one takes its place; may read all of it."""
        found = False
        with suppress(StorageError):
            while content_fault(self.latest_image().path):
                # what was found is remembered as long as there is an image that can take its place
                self.latest_image()
                found = True
        return found

    def pass_over(self, image: ImageCopy, error: HdfsError) -> None:
        """Leave out `image`, whose reader met `error`, as long as the file is the same: an older one takes its place.

        Raises:
            HdfsError: `error`, where there is no other usable image.
        """
        usable = [each for found in self._inspect() for each in with_usable_images(found).images if not each.rollback]
        others = [each for each in usable if each.path != image.path]
        if not others:
            raise error
        note_fault(image.path, error.message)
        older = max(each.txid for each in others)
        text = "%s cannot be read: %s; continuing from the image at txid %d and the edits after it"
        _LOG.error(text, image.path, error.message, older, extra={"txid": image.txid})

    def lacks_room(self) -> str:
        """Why the next image finds no room here, "" where it does, or where the directories cannot be read."""
        with suppress(HdfsError):
            return lack_of_room(self.roots, self.latest_image().path)
        return ""

    # ---- changes -------------------------------------------------------------------------------------------

    def format(self, info: StorageInfo) -> None:
        """Write VERSION and seen_txid 0 into every directory; an image has to follow.

        Raises:
            StorageError: a directory holds images or edits, or belongs to another namespace, or cannot be written.
        """
        for each in self._inspect():
            if each.images or each.segments:
                raise StorageError(f"{each.current} holds images or edits", hint="Format only empty directories.")
            if each.version is not None and each.version != info:
                raise StorageError(
                    f"{each.current / VERSION} is of another namespace, {each.version.colon_string()}",
                    hint="Empty the directory if its contents are no longer needed.",
                )
        self._write_everywhere(lambda root: format_directory(root, info, 0, self._permission))

    def unformat(self) -> None:
        """Undo a `format` that no image followed.

        Raises:
            StorageError: a directory holds images or edits, or cannot be written.
        """
        for each in self._inspect():
            if each.images or each.segments:
                raise StorageError(f"{each.current} holds images or edits", hint="They were not touched.")
        self._write_everywhere(unformat_directory)

    def clean_leftovers(self) -> list[Path]:
        """Remove what a killed run left; call it before anything is written. Failures drop the directory."""
        removed: list[Path] = []
        self._write_everywhere(lambda root: removed.extend(_clean(root)))
        for path in removed:
            _LOG.info("removed a leftover of an earlier run: %s", path)
        return removed

    def write_version(self, info: StorageInfo) -> None:
        """Write VERSION in every formatted directory."""
        self._write_everywhere(lambda root: write_version(root, info), formatted=True)

    def write_seen_txid(self, txid: int) -> None:
        """Write seen_txid, the first txid of the segment now open, in every formatted directory."""
        self._write_everywhere(lambda root: write_seen_txid(root, txid), formatted=True)

    def set_aside(self, *, keep: Iterable[str] = (), only: Collection[str] | None = None) -> list[Path]:
        """Move images and edits out of the way (`storage.aside`); returns where they are now.

        Raises:
            StorageError: no directory is left.
        """
        kept = tuple(keep)
        folders: list[Path | None] = []
        self._write_everywhere(lambda root: folders.append(set_aside(root, keep=kept, only=only)), formatted=True)
        return [folder for folder in folders if folder is not None]

    def drop(self, directory: Path, reason: str) -> None:
        """Use a directory (or the one of a `current` folder) no more until it is restored.

        Raises:
            StorageError: it was the last one.
        """
        root = directory if directory in self._locks else directory.parent
        if root not in self._locks:
            raise ValueError(f"{directory} is not one of these storage directories")
        self._dropped[root] = reason
        _LOG.error("%s", with_next(f"storage directory {root} is dropped: {reason}", _HINT))
        self._require_one()

    def restore(self) -> list[Path]:
        """Try dropped directories again, and format those that are empty like the others (name.dir.restore).

        The next image saved makes them complete. Returns the directories that came back.

        Raises:
            StorageError: no directory works.
        """
        # Where all were dropped, the fault may have passed.
        found = [inspect(root) for root in self.roots or self._locks]
        if not self.roots and all(each.version is None for each in found):
            # It came before they were formatted, which can start over.
            self._dropped.clear()
            return self.roots
        info = agree_on_version(found)
        seen = max((each.seen_txid or 0 for each in found), default=0)
        return [root for root in self._locks if self._restore_one(root, info, seen)]

    # ---- steps ---------------------------------------------------------------------------------------------

    def _require_one(self) -> None:
        if not self.roots:
            reasons = "; ".join(f"{each}: {why}" for each, why in self._dropped.items())
            raise StorageError(f"no storage directory is left: {reasons}", hint=_HINT)

    def _inspect(self) -> list[StorageDirectory]:
        self._require_one()
        return [inspect(root) for root in self.roots]

    def _newest_copies(self) -> list[StoredImage]:
        found = self._inspect()
        usable = [with_usable_images(each) for each in found]
        if not any(each.images for each in usable) and any(each.images for each in found):
            raise _all_damaged([frame_fault(image.path) for image in newest_copies(found)])
        return newest_copies(usable)

    def _restore_one(self, root: Path, info: StorageInfo, seen: int) -> bool:
        try:
            make_directory(root, self._permission)
            if root in self._dropped:
                # the disk may be another one than when the lock was taken
                self._locks[root].release()
                self._locks[root].acquire()
            found = inspect(root)
            if found.version is None and found.state is StorageState.NOT_FORMATTED:
                format_directory(root, info, seen, self._permission)
            elif found.version != info:
                raise StorageError(f"{root} does not belong to {info.colon_string()}", hint=_HINT)
            elif root not in self._dropped:
                return False
            else:
                clean_leftovers(found.current)
        except (OSError, HdfsError) as fault:
            if root not in self._dropped:
                self.drop(root, told(fault))
            return False
        self._dropped.pop(root, None)
        _LOG.info("storage directory %s is in use again", root)
        return True

    def _write_everywhere(self, step: Callable[[Path], object], *, formatted: bool = False) -> None:
        for root in self.roots:
            if formatted and not (root / "current" / VERSION).is_file():
                continue
            try:
                step(root)
            except OSError as fault:
                self.drop(root, told(fault))


def _all_damaged(faults: Iterable[str]) -> StorageError:
    return StorageError(
        f"every copy of the newest image is damaged: {'; '.join(faults)}",
        hint="Fetch that image and its .md5 file from a NameNode.",
    )


def _clean(root: Path) -> list[Path]:
    current = root / "current"
    return clean_leftovers(current) if current.is_dir() else []
