"""The storage directories of one node together: locks, agreement on VERSION, newest image, restoration.

Each directory is in use or dropped. A faulty directory is dropped, at startup or later, as long as another one works.
Startup fails if another process holds a lock, or if there is a foreign directory or a file of a newer release.
`restore` retries dropped directories. A directory is used again once its lock is acquired and a file has been written
in it.

Faults that cannot occur, with the reasons:

- The contents of a returning directory seem to be the newest. They are compared with directories that remained in use
  (`stale_contents`), according to the records (`directory_history`). If none of those directories can be used now, a
  directory with older images does not replace them.
- A directory is formatted while its file system is not mounted. An empty directory that may have held images is not
  formatted. To have it formatted, the operator creates an empty folder `current` in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from checkpointer.storage.directory_history import DirectoryHistory
from checkpointer.storage.disk_space import space_shortage
from checkpointer.storage.file_formats import NewerFormatError, refuse_newer_formats
from checkpointer.storage.formatting import (
    check_formattable,
    clean_leftovers,
    format_directory,
    make_directory,
    require_empty,
    same_namespace,
    unformat_directory,
    write_seen_txid,
    write_version,
)
from checkpointer.storage.inspector import (
    MISSING_VERSION_HINT,
    StorageDirectory,
    StorageState,
    StoredImage,
    agree_on_version,
    all_unusable,
    directory_fault,
    has_version,
    holds_image,
    inspect,
)
from checkpointer.storage.lost_pasts import link_aside, set_aside
from checkpointer.storage.stale_contents import bring_up_to_date
from checkpointer.storage.usable_images import (
    ImageCopy,
    content_fault,
    exclude_image,
    first_intact,
    newest_usable_copies,
    newest_usable_path,
)
from checkpointer.storage.usage_record import remove_record
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import VERSION
from hadoop_common.recurring_fault import Alarm, RecurringFault
from hadoop_common.storage_info import ForeignDirectoryError, StorageInfo, VersionFileError
from hadoop_common.storage_lock import StorageInUseError, StorageLock

_LOG = logging.getLogger(__name__)
_HINT = "Check the disk and the permissions of that directory."
_RETRIED = "The daemon retries it at each poll."
_NOT_RETRIED = "Then restart the daemon, or set dfs.namenode.name.dir.restore to true and reload it."
_NO_MOUNT = (
    "Mount its file system. If the disk is new, or the contents were moved away, create an empty folder `current` in "
    "the directory: then it is formatted."
)


class StorageDirectories:
    """The storage directories of one node. A failing directory is dropped and can be restored later.

    Only one thread may use it at a time.

    Args:
        directories: their roots; each contains `current`.
        permission: mode of new directories.
        accept: raises a ForeignDirectoryError for a directory of another node.
        edits_only: directories without images.
        images_only: directories without edits.

    Attributes:
        retries: whether the caller calls `restore` from time to time.
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
        self._history = DirectoryHistory(directories, edits_only)

    # ---- locks ---------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Create missing directories, lock all of them, and drop unusable ones.

        Also drop directories that were not in use at the end of the last run, until `restore` has compared them.

        Raises:
            StorageError: no directory can be used, or a directory is in use, foreign or of a newer release; nothing
                stays locked.
        """
        faults: dict[Path, HdfsError] = {}
        try:
            for directory in self._locks:
                try:
                    self._acquire(directory)
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
            self._drop(directory, each.message, each.hint)
        for root in self._history.load(self.roots):
            self._dropped[root] = Alarm("it was not in use at the end of the last run", self._hint())

    def release(self) -> None:
        for lock in self._locks.values():
            lock.release()

    # ---- queries -------------------------------------------------------------------------------------------

    @property
    def roots(self) -> list[Path]:
        """Return the directories in use."""
        return [directory for directory in self._locks if directory not in self._dropped]

    @property
    def dropped(self) -> dict[Path, str]:
        """Return the dropped directories with the reason for each."""
        return dict(self._dropped)

    @property
    def held(self) -> frozenset[Path]:
        """Return the directories that were ever formatted, even if they cannot be used now."""
        return frozenset(self._history.held)

    def current_folders(self) -> list[Path]:
        """Return the `current` folders of the formatted directories in use; raises StorageError if there are none in
        use.
        """
        self._require_one()
        return [root / "current" for root in self.roots if has_version(root, if_unreadable=True)]

    def is_formatted(self) -> bool:
        """Return whether any directory contains an image; directories whose format was interrupted do not count.

        Raises:
            StorageError: VERSION is missing next to images or edits, or the VERSIONs differ.
        """
        return holds_image(self._inspect())

    def storage_info(self) -> StorageInfo:
        """Return the common VERSION.

        Raises:
            StorageError: no directory is formatted, or the VERSIONs differ.
        """
        return agree_on_version(self._inspect())

    def latest_image(self) -> ImageCopy:
        """Return the newest usable image without reading its records.

        Raises:
            StorageError: no usable image exists.
        """
        newest = self._newest_copies()[0]
        return ImageCopy(newest.path, newest.txid)

    def verified_image(self) -> ImageCopy:
        """Return the first copy of the newest usable image whose frame and digest are correct.

        If there is a single copy, it is not read here, because its reader finds and reports faults.

        Raises:
            StorageError: no image exists, or every copy is damaged.
        """
        return first_intact(self._newest_copies())

    def exclude_damaged(self) -> bool:
        """Exclude the newest images while they are damaged; return whether any was damaged. May read whole images."""
        found = False
        with suppress(StorageError):
            while content_fault(newest := self.latest_image().path):
                # a failed read is not recorded as damage
                if self.latest_image().path == newest:
                    break
                found = True
        return found

    def exclude(self, image: ImageCopy, error: HdfsError) -> None:
        """Exclude `image`, whose reader raised `error`, until the file changes, so that an older image replaces it.

        Raises:
            HdfsError: `error`, if there is no other usable image.
        """
        exclude_image(self._inspect(), image, error)

    def space_shortage(self) -> str:
        """Describe why the next image does not fit; "" if it fits, or if the directories cannot be read."""
        with suppress(HdfsError, OSError):
            return space_shortage(self.roots, self.latest_image().path)
        return ""

    # ---- changes -------------------------------------------------------------------------------------------

    def format(self, info: StorageInfo) -> None:
        """Write VERSION and seen_txid 0 into every directory; the caller must store an image afterwards.

        Raises:
            StorageError: a directory contains or may have contained images or edits, belongs to another namespace, or
                cannot be written.
        """
        self.require_formattable()
        check_formattable(self._inspect(), info)
        self._write_everywhere(lambda root: format_directory(root, info, 0, self._permission))
        self._record_use()

    def require_formattable(self) -> None:
        """Check that dropped directories cannot contain images that are missing in the others.

        Raises:
            StorageError: a dropped directory may contain images.
        """
        for root, reason in self._dropped.items():
            if self._history.may_hold_images(root):
                raise StorageError(
                    f"the usable directories contain no image, but {root}, which is not used, may: {reason}",
                    hint="Repair it, or leave it out of the configuration to begin without it.",
                )

    def unformat(self) -> None:
        """Undo a `format` that was not followed by an image.

        Raises:
            StorageError: a directory contains images or edits, or cannot be written.
        """
        require_empty(self._inspect(), hint="They were not touched.")
        self._write_everywhere(unformat_directory)
        self._write_everywhere(remove_record)
        self._history.forget(self.roots)

    def clean_leftovers(self) -> list[Path]:
        """Remove the leftovers of a killed run, before the first write; a failure drops the directory."""
        removed: list[Path] = []
        self._write_everywhere(lambda root: removed.extend(_clean(root)))
        for path in removed:
            _LOG.info("removed a leftover of an earlier run: %s", path)
        return removed

    def write_version(self, info: StorageInfo) -> None:
        """Write VERSION into every formatted directory."""
        self._write_everywhere(lambda root: write_version(root, info), formatted=True)

    def write_seen_txid(self, txid: int) -> None:
        """Write seen_txid, the first txid of the open segment, into every formatted directory."""
        self._write_everywhere(lambda root: write_seen_txid(root, txid), formatted=True)

    def link_aside(self, name: str, parent: str) -> list[Path]:
        """Link the image `name` into a folder below `parent` (`storage.lost_pasts`); return the folders.

        Raises:
            StorageError: no directory is left.
        """
        return self._aside(lambda root: link_aside(root, name, parent))

    def set_aside(
        self,
        parent: str,
        *,
        keep: Collection[str] = (),
        only: Collection[str] | None = None,
        into: Collection[Path] = (),
    ) -> list[Path]:
        """Move images and edits to a folder below `parent` (`storage.lost_pasts`); return the folders.

        Args:
            into: the folders of a preceding `link_aside`.

        Raises:
            StorageError: no directory is left.
        """
        folders = {folder.parent.parent: folder for folder in into}
        return self._aside(lambda root: set_aside(root, parent, keep=keep, only=only, into=folders.get(root)))

    def _aside(self, step: Callable[[Path], Path | None]) -> list[Path]:
        found: list[Path | None] = []
        self._write_everywhere(lambda root: found.append(step(root)), formatted=True)
        return [folder for folder in found if folder is not None]

    def keep_locks(self) -> None:
        """Drop directories whose `in_use.lock` was removed and is now held by another process.

        Raises:
            StorageError: no directory is left.
        """
        self._write_everywhere(lambda root: None)

    def drop(self, directory: Path, reason: str, hint: str = "") -> None:
        """Drop a directory, given by its root or its `current` folder, until it is restored.

        Raises:
            StorageError: the directory was the last one.
        """
        root = directory if directory in self._locks else directory.parent
        if root not in self._locks:
            raise ValueError(f"{directory} is not one of these storage directories")
        self._drop(root, reason, hint)
        self._record_use()
        self._require_one()

    def revise(self, *, restore: bool) -> None:
        """Drop the unusable directories as long as another one works; with `restore`, retry the dropped ones.

        If there is no usable directory, dropped ones are always retried.

        Raises:
            StorageError: the VERSIONs differ, or other processes use all directories.
        """
        self.keep_locks()
        if self._dropped and (restore or not self.roots):
            self.restore()
        broken = {root: fault for root in self.roots if (fault := directory_fault(root))}
        if len(broken) < len(self.roots):
            for root, fault in broken.items():
                self.drop(root, fault)

    def restore(self) -> list[Path]:
        """Retry dropped directories, and format new ones like the others (dfs.namenode.name.dir.restore).

        The next saved image completes the restored directories, which are returned.

        Raises:
            StorageError: the VERSIONs differ.
        """
        found = self._readable()
        back = []
        if all(each.version is None for each in found):
            # there is no usable directory, or no directory is formatted yet
            back = self._restore_first()
            found = self._readable()
        if any(each.version is not None for each in found):
            back += self._restore_like(found)
        self._record_use()
        return back

    def _readable(self) -> list[StorageDirectory]:
        """Return the readable directories in use."""
        found: list[StorageDirectory] = []
        for root in self.roots:
            with suppress(HdfsError):
                found.append(inspect(root))
        return found

    def _restore_first(self) -> list[Path]:
        """Restore the usable directories that were in use last; if there is no record, restore all usable ones."""
        usable: list[Path] = []
        for root in self._dropped:
            try:
                self._history.refuse_older(self._acquire(root), self._readable())
                usable.append(root)
            except (StorageError, VersionFileError) as fault:
                self._drop(root, fault.message, fault.hint)
        newest = [root for root in usable if root in self._history.last_used] or usable
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

    def _record_use(self) -> None:
        self._history.record(self.roots, self._dropped)

    # ---- steps ---------------------------------------------------------------------------------------------

    def _require_one(self) -> None:
        if not self.roots:
            reasons = "; ".join(f"{each}: {why}" for each, why in self._dropped.items())
            hint = next(iter(self._dropped.values())).hint
            raise StorageError(f"no storage directory is left: {reasons}", hint=hint)

    def _inspect(self) -> list[StorageDirectory]:
        self._require_one()
        return [inspect(root) for root in self.roots]

    def _newest_copies(self) -> list[StoredImage]:
        return newest_usable_copies(self._inspect())

    def _hint(self, repair: str = "") -> str:
        """Return the hint to repair a directory, with the daemon's next action."""
        return f"{repair or _HINT} {_RETRIED if self.retries else _NOT_RETRIED}"

    def _acquire(self, root: Path) -> StorageDirectory:
        """Lock a directory, creating it if it is missing, unless it has lost its contents.

        Raises:
            StorageError: the directory cannot be used.
        """
        found = inspect(root)
        self._accept(found)
        if found.state in (StorageState.MISSING, StorageState.NOT_FORMATTED) and (
            evidence := self._history.lost_contents(found)
        ):
            raise StorageError(f"{root} is empty, but {evidence}: its file system may not be mounted", hint=_NO_MOUNT)
        make_directory(root, self._permission)
        # the mounted disk may have changed since the lock was acquired
        self._locks[root].release()
        self._locks[root].acquire()
        refuse_newer_formats(root)
        return inspect(root)

    def _restore_one(self, root: Path, info: StorageInfo, seen: int) -> bool:
        was_dropped = root in self._dropped
        try:
            found = self._acquire(root) if was_dropped else inspect(root)
            if found.version is None and found.state in (StorageState.MISSING, StorageState.NOT_FORMATTED):
                make_directory(root, self._permission)
                format_directory(root, info, seen, self._permission)
            elif found.version is None:
                raise StorageError(f"{found.current / VERSION} is missing", hint=MISSING_VERSION_HINT)
            elif not same_namespace(found.version, info):
                raise StorageError(
                    f"{root} does not belong to {info.colon_string()}",
                    hint="It belongs to another namespace: name another directory.",
                )
            elif not was_dropped:
                return False
            else:
                self._history.refuse_older(found, self._readable())
                current = self._readable()
                with_edits = [each for each in current if each.root not in self._images_only]
                newest = None if root in self._edits_only else newest_usable_path(current)
                bring_up_to_date(found, current, info, seen, newest, keep_segments=not with_edits)
        except (OSError, HdfsError) as fault:
            self._drop(root, error_text(fault), fault.hint if isinstance(fault, HdfsError) else "")
            self._require_one()
            return False
        self._use_again(root)
        return True

    def _drop(self, root: Path, reason: str, hint: str = "") -> None:
        hint = self._hint(hint)
        self._dropped[root] = Alarm(reason, hint)
        self._faults[root].occurred(f"storage directory {root} is not used: {reason}", hint=hint)

    def _use_again(self, root: Path) -> None:
        self._dropped.pop(root, None)
        self._faults[root].ended()

    def _write_everywhere(self, step: Callable[[Path], object], *, formatted: bool = False) -> None:
        for root in self.roots:
            if formatted and not has_version(root, if_unreadable=True):
                continue
            try:
                self._locks[root].keep()
                step(root)
            except (OSError, HdfsError) as fault:
                self.drop(root, error_text(fault), fault.hint if isinstance(fault, HdfsError) else "")


def _clean(root: Path) -> list[Path]:
    current = root / "current"
    return clean_leftovers(current) if current.is_dir() else []
