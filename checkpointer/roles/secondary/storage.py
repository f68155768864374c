"""A secondary's checkpoint directories for images and edits, which may be separate. The first roll formats all
directories.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from checkpointer.set_back.provenance import held_images
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import restore
from checkpointer.storage.disk_space import SPACE_HINT, space_shortage
from checkpointer.storage.inspector import StorageDirectory, directory_fault, has_version, inspect
from checkpointer.storage.lost_pasts import UnfinishedStartOver
from checkpointer.storage.usable_images import ImageCopy, content_fault, latest_image, with_usable_images
from engine.txn_runs import ImageId
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import image_name
from hadoop_common.storage_info import ForeignDirectoryError, StorageInfo
from journal.segment_file import EditLogSegment, list_segments
from node_state.state import IN_USE
from site_config.keys import CHECKPOINT_DIR

_LOG = logging.getLogger(__name__)


class SecondaryStorage:
    """Directories of `dfs.namenode.checkpoint.dir` and `dfs.namenode.checkpoint.edits.dir` of one secondary.

    Only one thread may change the storage at a time; any thread may read.

    Attributes:
        is_lost: whether the images are not used, because they do not belong to the NameNode's past. They remain in
            place until the NameNode's image replaces them.
    """

    def __init__(
        self, image_roots: Sequence[Path], edits_roots: Sequence[Path], *, permission: int, restore: bool = True
    ) -> None:
        self._image_roots = tuple(image_roots)
        self._edits_roots = tuple(edits_roots) or self._image_roots
        self._roots = tuple(dict.fromkeys((*self._image_roots, *self._edits_roots)))
        self._directories = StorageDirectories(
            self._roots,
            permission=permission,
            accept=refuse_directory_of_namenode,
            edits_only=[root for root in self._edits_roots if root not in self._image_roots],
            images_only=[root for root in self._image_roots if root not in self._edits_roots],
        )
        self.restores = restore
        self.is_lost = False

    @property
    def restores(self) -> bool:
        """Whether each poll retries dropped directories."""
        return self._directories.retries

    @restores.setter
    def restores(self, restores: bool) -> None:
        self._directories.retries = restores

    # ---- lifecycle -----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Lock the directories, create missing directories, and remove the leftovers of a killed run.

        Raises:
            StorageError: a directory is in use or foreign, or no directory for images or for edits is usable. Nothing
                remains locked.
        """
        self._directories.lock()
        try:
            self._refuse_unknown_files()
            self._directories.clean_leftovers()
            self.restore()
            self._check_left()
            if not self.versions():
                self._directories.require_formattable()
        except BaseException:
            self._directories.release()
            raise

    def close(self) -> None:
        self._directories.release()

    def _refuse_unknown_files(self) -> None:
        for each in self._inspect():
            if each.version is None and (each.images or each.segments):
                raise StorageError(
                    f"{each.current} contains images or edits, but no VERSION with their namespace",
                    hint="Find out which node uses the directory, and configure another directory. If the files are "
                    "from a SecondaryNameNode that was stopped during its first checkpoint, you can move them "
                    "elsewhere.",
                )

    # ---- observation ---------------------------------------------------------------------------------------

    def versions(self) -> set[StorageInfo]:
        """Return the distinct VERSIONs of the directories; before the first roll, the set is empty.

        Several VERSIONs remain if the process is killed while it adopts an upgrade.

        Raises:
            StorageError: there is no usable directory, or a directory cannot be read.
        """
        self._check_left()
        return {each.version for each in self._inspect() if each.version is not None}

    def storage_info(self) -> StorageInfo:
        """Return the VERSION of all directories.

        Raises:
            StorageError: no VERSION exists yet, or several different VERSIONs exist.
        """
        versions = self.versions()
        if len(versions) != 1:
            problem = "differ in their VERSION" if versions else "are not formatted"
            names = ", ".join(map(str, self._directories.roots))
            raise StorageError(f"{names} {problem}", hint="The next checkpoint fetches it from the NameNode.")
        return next(iter(versions))

    def image_folders(self) -> list[Path]:
        """Return the `current` folders of the formatted, working directories for images."""
        return self._folders(self._image_roots)

    def edits_folders(self) -> list[Path]:
        """Return the `current` folders of the formatted, working directories for edits."""
        return self._folders(self._edits_roots)

    def segments(self) -> list[EditLogSegment]:
        """Return the segments in the directories for edits.

        Raises:
            StorageError: the directories cannot be listed.
        """
        try:
            return [each for folder in self.edits_folders() for each in list_segments(folder)]
        except OSError as fault:
            raise StorageError(
                f"the fetched edits cannot be listed: {error_text(fault)}",
                hint="Check dfs.namenode.checkpoint.edits.dir.",
            ) from fault

    def latest_image(self) -> ImageCopy | None:
        """Return the newest usable image, or None if there is none or the images are lost. Do not read the image's
        content.

        Raises:
            StorageError: a directory cannot be read, or there is no usable directory.
        """
        newest = self._newest_image()
        return None if self.is_lost else newest

    def refuse_lost(self) -> None:
        """Check that the images and edits may be served.

        Raises:
            StorageError: they do not belong to the NameNode's past.
        """
        if self.is_lost:
            problem = "the images and edits of this node do not belong to the NameNode's past"
            raise StorageError(problem, hint="Wait for the next checkpoint.")

    def held_images(self) -> list[ImageId]:
        """Return the usable images, newest first; empty if they are lost.

        Raises:
            OSError, HdfsError: see `held_images` of `checkpointer.set_back.provenance`.
        """
        return [] if self.is_lost else held_images(self.image_folders())

    def _newest_image(self) -> ImageCopy | None:
        self._check_left()
        folders = self.image_folders()
        if not any(with_usable_images(inspect(folder.parent)).images for folder in folders):
            return None
        return latest_image(folders)

    def is_whole(self, txid: int) -> bool:
        """Return whether a copy of our image at `txid` matches the digest in its `.md5` file; may read whole copies."""
        paths = (folder / image_name(txid) for folder in self.image_folders())
        return any(path.is_file() and not content_fault(path) for path in paths)

    def require_space(self) -> None:
        """Check that there is space for another image and its edits.

        Raises:
            StorageError: the space is too small.
        """
        if problem := self._space_shortage():
            raise StorageError(problem, hint=SPACE_HINT)

    def space_shortage(self) -> str:
        """Return the reason why there is no space for the next image or edits, or "" if there is space or the space is
        unknown.
        """
        with suppress(HdfsError, OSError):
            return self._space_shortage()
        return ""

    def _space_shortage(self) -> str:
        newest, working = self._newest_image(), set(self._directories.roots)
        images = [root for root in self._image_roots if root in working]
        edits = [root for root in self._edits_roots if root in working]
        return space_shortage(images, None if newest is None else newest.path) or space_shortage(edits, None)

    def states(self) -> dict[str, str]:
        """Return the state of each directory: "in use", or the reason why it was dropped."""
        dropped = self._directories.dropped
        return {str(root): dropped.get(root, IN_USE) for root in self._roots}

    # ---- changes -------------------------------------------------------------------------------------------

    def format(self, info: StorageInfo) -> None:
        """Write the VERSION of a NameNode to the empty directories.

        Raises:
            StorageError: a directory is not empty, or no directory is writable.
        """
        self._directories.format(info)
        self._check_left()

    def write_version(self, info: StorageInfo) -> None:
        """Write the VERSION of an upgraded or rolled back NameNode to all directories.

        Raises:
            StorageError: no directory is writable.
        """
        self._directories.write_version(info)
        self._check_left()

    def unfinished_start_over(self) -> UnfinishedStartOver | None:
        """Return the start-over that a kill or a restart has interrupted; None if there is none."""
        return self._directories.unfinished_start_over()

    def begin_start_over(self, parent: str, cause: str) -> None:
        """Stop using the images, also after a restart; `cause` is the reason.

        A record that cannot be written is only logged: until a restart, the images are not used either.
        """
        self.is_lost = True
        try:
            self._directories.begin_start_over(parent, cause)
        except (HdfsError, OSError) as fault:
            _LOG.warning("a restart will have to prove again that the images are not used: %s", error_text(fault))

    def link_aside(self, parent: str, cause: str) -> None:
        """Link images and edits into folders below `parent` (`storage.lost_pasts`), because the NameNode's image will
        replace them.

        Raises:
            StorageError: no directory is left for images or for edits.
        """
        self._directories.link_aside(parent, cause)
        self._check_left()

    def finish_start_over(self, *, keep_txid: int) -> list[Path]:
        """Remove images and edits that were linked into folders, except the NameNode's image at `keep_txid`; return the
        folders.

        Raises:
            StorageError: no directory is left for images or for edits.
        """
        moved = self._directories.finish_start_over(keep=[image_name(keep_txid)])
        self._check_left()
        self.is_lost = False
        return moved

    def drop(self, folder: Path, reason: str) -> None:
        """Stop using the directory that contains the `current` folder `folder`.

        Raises:
            StorageError: the directory was the last directory for images or for edits.
        """
        if folder.parent in self._directories.roots:
            self._directories.drop(folder, reason)
        self._check_left()

    def restore(self) -> None:
        """Retry dropped directories, and format new directories if other directories are formatted."""
        if len({each.version for each in self._inspect() if each.version is not None}) > 1:
            _LOG.warning("the checkpoint directories have different VERSIONs; the next checkpoint makes them equal")
        else:
            restore(self._directories)

    def revise(self) -> None:
        """Drop directories that cannot be used now, and retry dropped directories according to `restores`.

        If no directory is left for images or for edits, always retry dropped directories.

        Raises:
            StorageError: no directory is left for images or for edits.
        """
        # The remaining directories are checked below.
        with suppress(StorageError):
            self._directories.keep_locks()
        roots = self._directories.roots
        formatted = bool(self._directories.held)
        for root in roots:
            if fault := directory_fault(root, formatted=formatted):
                with suppress(StorageError):
                    self._directories.drop(root, fault)
        if self._directories.dropped and (self.restores or self._kinds_without()):
            self.restore()
        self._check_left()

    # ---- steps ---------------------------------------------------------------------------------------------

    def _folders(self, roots: Sequence[Path]) -> list[Path]:
        working = set(self._directories.roots)
        return [root / "current" for root in roots if root in working and has_version(root, if_unreadable=True)]

    def _inspect(self) -> list[StorageDirectory]:
        return [inspect(root) for root in self._directories.roots]

    def _check_left(self) -> None:
        for what, roots in self._kinds_without().items():
            dropped = self._directories.dropped
            reasons = "; ".join(f"{root}: {dropped[root]}" for root in roots)
            raise StorageError(f"no checkpoint directory is left for {what}: {reasons}", hint=dropped[roots[0]].hint)

    def _kinds_without(self) -> dict[str, tuple[Path, ...]]:
        """Return the kinds of files (images, edits) without a usable directory, with their configured directories."""
        working = set(self._directories.roots)
        kinds = {"images": self._image_roots, "edits": self._edits_roots}
        return {what: roots for what, roots in kinds.items() if working.isdisjoint(roots)}


def refuse_directory_of_namenode(found: StorageDirectory) -> None:
    """Refuse a storage directory of a NameNode, a standby or a backup node, whose files our retention would purge.

    A secondary's directory, Hadoop's or ours, contains neither an open segment nor a transaction in seen_txid.

    Raises:
        ForeignDirectoryError: the directory belongs to one of these nodes.
    """
    open_segment = next((each.path.name for each in found.segments if each.last is None), "")
    if not open_segment and not found.seen_txid:
        return
    evidence = f"it contains {open_segment}" if open_segment else f"its seen_txid is {found.seen_txid}"
    raise ForeignDirectoryError(
        f"{found.root} is not a checkpoint directory, but the directory of a NameNode, a standby or a backup node: "
        f"{evidence}",
        hint=f"Set {CHECKPOINT_DIR.name} to a separate directory. This directory was not changed.",
    )
