"""The storage directories of one node taken together: locks, agreement on VERSION, newest image, repair.

Each directory is in use or dropped. A fault drops it, at the start as later, as long as another one works; a lock that
somebody else holds, or a directory of somebody else, ends the start. A dropped directory is retried by `restore`, and
comes back once its lock is taken and a file could be written in it.

What can never happen, and why:

- Contents of a directory that comes back seem to be the newest: they are compared with those of directories that were
  in use all the time (`stale`), which the records name (`record`). Where none of these can be used now, one with older
  images does not take their place.
- A directory whose file system is not mounted is filled: one that is empty although it held images, or may have held
  some, is not formatted. Who wants it formatted makes an empty folder `current` in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
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
    directory_fault,
    inspect,
    newest_copies,
)
from checkpointer.storage.leftovers import clean_leftovers
from checkpointer.storage.lookup import ImageCopy, latest_image, read_storage_info
from checkpointer.storage.record import forget_held, newest_record, remove_record, write_record
from checkpointer.storage.room import FREE_SPACE, lack_of_room, room_problem
from checkpointer.storage.stale import leave_stale_contents
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import told
from hadoop_common.names import VERSION
from hadoop_common.recurring_fault import Alarm, RecurringFault
from hadoop_common.storage_info import StorageInfo, VersionFileError
from hadoop_common.storage_lock import StorageInUseError, StorageLock
from image_format.reader import ImageFile

__all__ = ["ImageCopy", "StorageDirectories", "latest_image", "read_storage_info"]

_LOG = logging.getLogger(__name__)
_HINT = "Check the disk and the permissions of that directory."
_RETRIED = "The daemon retries it at each poll."
_NOT_RETRIED = "Then restart the daemon, or set dfs.namenode.name.dir.restore to true and reload it."
_NO_MOUNT = (
    "Mount its file system. If the disk is a new one, or the contents were moved away, make an empty folder `current` "
    "in it: then it is formatted."
)
_NO_VERSION = "Restore VERSION from another directory of the same NameNode; do not format."


class ForeignDirectoryError(StorageError):
    """A storage directory belongs to another process, whether that one runs or not."""


class StorageDirectories:
    """Storage directories of one node. A directory that fails is dropped and can be restored later.

    A context manager that opens and releases. Not for use by several threads at once.

    Args:
        directories: their roots; each holds `current`.
        permission: mode of directories that are made.
        accept: raises a ForeignDirectoryError for a directory of somebody else.
        edits_only: those that hold no images.
        images_only: those that hold no edits.

    Attributes:
        retries: whether whoever uses them calls `restore` now and then.
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
        self._permission = permission
        self._accept = accept
        self._edits_only, self._images_only = frozenset(edits_only), frozenset(images_only)
        self.retries = retries
        self._locks = {directory: StorageLock(directory) for directory in directories}
        self._dropped: dict[Path, Alarm] = {}
        self._faults = {
            directory: RecurringFault(_LOG, f"storage directory {directory} is used again", unit="attempts")
            for directory in directories
        }
        # directories that were formatted once, and those that this process recorded as in use
        self._held: set[Path] = set()
        self._recorded: list[Path] = []

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
        """Lock every directory, making those that are missing; those that cannot be used are dropped.

        Those that were left out at the last run are dropped too, until `restore` has compared them with the others.

        Raises:
            StorageError: none can be used, one is in use, or it belongs to somebody else; nothing is locked.
        """
        faults: dict[Path, HdfsError] = {}
        try:
            for directory in self._locks:
                try:
                    self._take(directory)
                except (StorageInUseError, ForeignDirectoryError):
                    raise
                except (StorageError, VersionFileError) as fault:
                    faults[directory] = fault
            if len(faults) == len(self._locks):
                raise _no_directory(faults)
        except BaseException:
            self.release()
            raise
        for directory, each in faults.items():
            self._drop(directory, each.message, each.hint)
        record = newest_record(self.roots)
        if record is not None:
            self._held = {root for root in self._locks if root in record.held}
            if not record.in_use.isdisjoint(self.roots):
                for root in [root for root in self.roots if root not in record.in_use]:
                    self._dropped[root] = Alarm("it was left out at the last run", self._hint())

    def release(self) -> None:
        """Release all locks."""
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

    @property
    def held(self) -> frozenset[Path]:
        """The directories that were formatted at one time, whether they can be used now or not."""
        return frozenset(self._held)

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
                    f"{each.current / VERSION} is missing, but there are images or edits beside it", hint=_NO_VERSION
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
            while content_fault(newest := self.latest_image().path):
                # What was found is remembered as long as there is an image that can take its place. A failure to read
                # is not.
                if self.latest_image().path == newest:
                    break
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
        with suppress(HdfsError, OSError):
            return lack_of_room(self.roots, self.latest_image().path)
        return ""

    # ---- changes -------------------------------------------------------------------------------------------

    def format(self, info: StorageInfo) -> None:
        """Write VERSION and seen_txid 0 into every directory; an image has to follow.

        Raises:
            StorageError: a directory holds images or edits, may have held some, or belongs to another namespace, or
                cannot be written.
        """
        self.require_formattable()
        for each in self._inspect():
            if each.images or each.segments:
                raise StorageError(f"{each.current} holds images or edits", hint="Format only empty directories.")
            if each.version is not None and each.version != info:
                raise StorageError(
                    f"{each.current / VERSION} is of another namespace, {each.version.colon_string()}",
                    hint="Check that the directory is the one of this cluster. To use it here, move its "
                    "contents away first, and leave an empty folder `current` there.",
                )
        self._write_everywhere(lambda root: format_directory(root, info, 0, self._permission))
        self._note_use()

    def require_formattable(self) -> None:
        """Check that no dropped directory may hold the images that the others lack.

        Raises:
            StorageError: one may.
        """
        for root, reason in self._dropped.items():
            if self._may_hold_images(root):
                raise StorageError(
                    f"no directory that can be used holds an image, {root} may hold some, but is not used: {reason}",
                    hint="Repair it, or leave it out of the configuration to begin without it.",
                )

    def unformat(self) -> None:
        """Undo a `format` that no image followed.

        Raises:
            StorageError: a directory holds images or edits, or cannot be written.
        """
        for each in self._inspect():
            if each.images or each.segments:
                raise StorageError(f"{each.current} holds images or edits", hint="They were not touched.")
        self._write_everywhere(unformat_directory)
        self._write_everywhere(remove_record)
        forget_held(self.roots)
        self._held, self._recorded = set(), []

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
        self._drop(root, reason)
        self._note_use()
        self._require_one()

    def revise(self, *, restore: bool) -> None:
        """Drop the directories that cannot be used now, as long as another works, and with `restore` retry the others.

        The last one is retried in any case: nothing else can be done about it.

        Raises:
            StorageError: the directories are at odds.
        """
        if self._dropped and (restore or not self.roots):
            self.restore()
        broken = {root: fault for root in self.roots if (fault := directory_fault(root))}
        if len(broken) < len(self.roots):
            for root, fault in broken.items():
                self.drop(root, fault)

    def restore(self) -> list[Path]:
        """Retry dropped directories, and format new ones like the others (name.dir.restore).

        The next image saved makes them complete. Returns the directories that came back.

        Raises:
            StorageError: the directories are at odds.
        """
        found = self._readable()
        back = []
        if all(each.version is None for each in found):
            # None can be used, or nothing is formatted yet.
            back = self._restore_first()
            found = self._readable()
        if any(each.version is not None for each in found):
            back += self._restore_like(found)
        self._note_use()
        return back

    def _readable(self) -> list[StorageDirectory]:
        """The directories in use that can be read."""
        found: list[StorageDirectory] = []
        for root in self.roots:
            with suppress(HdfsError):
                found.append(inspect(root))
        return found

    def _restore_first(self) -> list[Path]:
        """Take back, of the directories that can be used now, those that were in use last."""
        usable: list[Path] = []
        for root in self._dropped:
            try:
                self._refuse_to_stand_in(self._take(root))
                usable.append(root)
            except (StorageError, VersionFileError) as fault:
                self._drop(root, fault.message, fault.hint)
        newest = [root for root in usable if root in self._recorded] or usable
        agree = [each for root in newest if (each := inspect(root)).version is not None]
        if agree:
            agree_on_version(agree)
        for root in newest:
            self._use_again(root)
        return newest

    def _restore_like(self, found: Sequence[StorageDirectory]) -> list[Path]:
        info = agree_on_version(found)
        seen = max((each.seen_txid or 0 for each in found), default=0)
        return [root for root in self._locks if self._restore_one(root, info, seen)]

    def _note_use(self) -> None:
        """Record which directories are in use, where that is another set than before and one of them holds images."""
        used = [root for root in self.roots if _is_formatted(root)]
        if used != self._recorded and not self._edits_only.issuperset(used):
            self._held.update(used, (root for root in self._dropped if self._may_hold_images(root)))
            write_record(self._held, used)
            self._recorded = used

    # ---- steps ---------------------------------------------------------------------------------------------

    def _require_one(self) -> None:
        if not self.roots:
            reasons = "; ".join(f"{each}: {why}" for each, why in self._dropped.items())
            raise StorageError(f"no storage directory is left: {reasons}", hint=self._hint())

    def _inspect(self) -> list[StorageDirectory]:
        self._require_one()
        return [inspect(root) for root in self.roots]

    def _newest_copies(self) -> list[StoredImage]:
        found = self._inspect()
        usable = [with_usable_images(each) for each in found]
        if not any(each.images for each in usable) and any(each.images for each in found):
            raise _all_damaged([frame_fault(image.path) for image in newest_copies(found)])
        return newest_copies(usable)

    def _hint(self, repair: str = "") -> str:
        """How to repair a directory, and what happens then."""
        return f"{repair or _HINT} {_RETRIED if self.retries else _NOT_RETRIED}"

    def _take(self, root: Path) -> StorageDirectory:
        """Lock a directory, which is made where it is missing, unless it has lost its contents.

        Raises:
            StorageError: it cannot be used.
        """
        found = inspect(root)
        self._accept(found)
        if found.state in (StorageState.MISSING, StorageState.NOT_FORMATTED) and (why := self._held_images(found)):
            raise StorageError(f"{root} is empty, but {why}: its file system may not be mounted", hint=_NO_MOUNT)
        make_directory(root, self._permission)
        # The disk may be another one than when the lock was taken.
        self._locks[root].release()
        self._locks[root].acquire()
        return inspect(root)

    def _held_images(self, empty: StorageDirectory) -> str:
        """What says that an empty directory held images, "" where nothing does."""
        if empty.current.is_dir():
            return ""
        others = [root for root in self._locks if root != empty.root]
        record = newest_record(others)
        is_known = empty.root in self._held or (record is not None and empty.root in record.held)
        if record is not None and not is_known:
            return ""
        holder = next((root for root in others if _holds_images(root)), None)
        if holder is not None:
            return f"{holder} holds images"
        return "it held images before" if is_known else ""

    def _may_hold_images(self, root: Path) -> bool:
        """Whether a directory holds images or edits, has lost some, or cannot be read."""
        try:
            found = inspect(root)
        except HdfsError:
            return True
        return bool(found.images or found.segments or self._held_images(found))

    def _restore_one(self, root: Path, info: StorageInfo, seen: int) -> bool:
        was_dropped = root in self._dropped
        try:
            found = self._take(root) if was_dropped else inspect(root)
            if found.version is None and found.state in (StorageState.MISSING, StorageState.NOT_FORMATTED):
                make_directory(root, self._permission)
                format_directory(root, info, seen, self._permission)
            elif found.version is None:
                raise StorageError(f"{found.current / VERSION} is missing", hint=_NO_VERSION)
            elif not _same_namespace(found.version, info):
                raise StorageError(
                    f"{root} does not belong to {info.colon_string()}",
                    hint="It is of another namespace: name another directory.",
                )
            elif not was_dropped:
                return False
            else:
                self._refuse_to_stand_in(found)
                self._bring_up_to_date(found, info, seen)
        except (OSError, HdfsError) as fault:
            self._drop(root, told(fault), fault.hint if isinstance(fault, HdfsError) else "")
            self._require_one()
            return False
        self._use_again(root)
        return True

    def _refuse_to_stand_in(self, found: StorageDirectory) -> None:
        """Refuse the older images of a directory as long as none of those that were in use last can be used.

        Raises:
            StorageError: it was left out earlier, and no directory that holds images is in use.
        """
        last = [root for root in self._recorded if root not in self._edits_only]
        if not found.images or not last or found.root in last:
            return
        if any(each.version is not None and each.images for each in self._readable()):
            return
        raise StorageError(
            f"the contents of {found.root} may be behind those of {', '.join(map(str, last))}",
            hint="Repair one of those. If that is impossible, start the daemon again: it continues with the older "
            "contents.",
        )

    def _bring_up_to_date(self, found: StorageDirectory, info: StorageInfo, seen: int) -> None:
        """Prove that a directory can be written, and leave what the others do not have.

        After an upgrade, or its rollback, it has nothing that the others have.

        Raises:
            StorageError: there is no room for another image.
            OSError: it cannot be read or written.
        """
        current = self._readable()
        newest = None if found.root in self._edits_only else _newest_image(current)
        if problem := room_problem(found.root, newest):
            raise StorageError(problem, hint=FREE_SPACE)
        clean_leftovers(found.current)
        if found.version is not None and found.version.c_time != info.c_time:
            set_aside(found.root)
        else:
            with_edits = [each for each in current if each.root not in self._images_only]
            leave_stale_contents(found, current, keep_segments=not with_edits)
        write_seen_txid(found.root, seen)
        if found.version != info:
            write_version(found.root, info)

    def _drop(self, root: Path, reason: str, hint: str = "") -> None:
        hint = self._hint(hint)
        self._dropped[root] = Alarm(reason, hint)
        self._faults[root].occurred(f"storage directory {root} is not used: {reason}", hint=hint)

    def _use_again(self, root: Path) -> None:
        self._dropped.pop(root, None)
        self._faults[root].ended()

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


def _no_directory(faults: Mapping[Path, HdfsError]) -> HdfsError:
    """What to say where none can be used."""
    first, *others = faults.values()
    if not others:
        return first
    return StorageError(
        f"no storage directory can be used: {'; '.join(fault.message for fault in faults.values())}", hint=first.hint
    )


def _same_namespace(version: StorageInfo, other: StorageInfo) -> bool:
    return replace(version, layout_version=other.layout_version, c_time=other.c_time) == other


def _is_formatted(root: Path) -> bool:
    """Whether it has a VERSION; not where that cannot be told."""
    try:
        return (root / "current" / VERSION).is_file()
    except OSError:
        return False


def _holds_images(root: Path) -> bool:
    with suppress(HdfsError):
        found = inspect(root)
        return bool(found.images or found.segments)
    return False


def _newest_image(directories: Iterable[StorageDirectory]) -> Path | None:
    images = [image for each in directories for image in with_usable_images(each).images]
    return max(images, key=lambda image: image.txid).path if images else None


def _clean(root: Path) -> list[Path]:
    current = root / "current"
    return clean_leftovers(current) if current.is_dir() else []
