"""Checkpoint directories of a secondary: images and edits, perhaps in different ones, formatted by the first roll."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from checkpointer.storage.directories import ImageCopy, StorageDirectories
from checkpointer.storage.fitness import content_fault, with_usable_images
from checkpointer.storage.inspector import StorageDirectory, inspect
from checkpointer.storage.lookup import latest_image
from checkpointer.storage.room import ROOM_HINT, lack_of_room
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.names import VERSION, image_name
from hadoop_common.storage_info import StorageInfo

_LOG = logging.getLogger(__name__)


class SecondaryStorage:
    """`dfs.namenode.checkpoint.dir` and `dfs.namenode.checkpoint.edits.dir` of one secondary.

    One thread at a time changes it, any may look.
    """

    def __init__(self, image_roots: Sequence[Path], edits_roots: Sequence[Path], *, permission: int) -> None:
        self._image_roots = tuple(image_roots)
        self._edits_roots = tuple(edits_roots) or self._image_roots
        self._roots = tuple(dict.fromkeys((*self._image_roots, *self._edits_roots)))
        self._directories = StorageDirectories(self._roots, permission=permission)

    # ---- life ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Lock the directories, making those that are missing, and remove what a killed run left.

        Raises:
            StorageError: one is in use or cannot be used; nothing is locked.
        """
        self._directories.lock()
        try:
            self._refuse_unknown_files()
            self._directories.clean_leftovers()
            self.restore()
        except BaseException:
            self._directories.release()
            raise

    def close(self) -> None:
        self._directories.release()

    def _refuse_unknown_files(self) -> None:
        for each in self._inspect():
            if each.version is None and (each.images or each.segments):
                raise StorageError(
                    f"{each.current} holds images or edits, but no VERSION says of which namespace",
                    hint="Empty it if they are from a SecondaryNameNode that was stopped in its first checkpoint, "
                    "else find out whose directory it is.",
                )

    # ---- what there is -------------------------------------------------------------------------------------

    def versions(self) -> set[StorageInfo]:
        """The different VERSIONs of the directories, none before the first roll.

        More than one is what a kill leaves while an upgrade of the NameNode is taken over.

        Raises:
            StorageError: no directory works, or one cannot be read.
        """
        self._check_left()
        return {each.version for each in self._inspect() if each.version is not None}

    def storage_info(self) -> StorageInfo:
        """The VERSION of all directories.

        Raises:
            StorageError: there is none yet, or there are several.
        """
        versions = self.versions()
        if len(versions) != 1:
            problem = "differ in their VERSION" if versions else "are not formatted"
            names = ", ".join(map(str, self._directories.roots))
            raise StorageError(f"{names} {problem}", hint="The next checkpoint takes it from the NameNode.")
        return next(iter(versions))

    def image_folders(self) -> list[Path]:
        """`current` folders of the directories for images that work and are formatted."""
        return self._folders(self._image_roots)

    def edits_folders(self) -> list[Path]:
        """The same for edits."""
        return self._folders(self._edits_roots)

    def latest_image(self) -> ImageCopy | None:
        """The newest usable image; None before the first. Its content is not read.

        Raises:
            StorageError: a directory cannot be read, or none works.
        """
        self._check_left()
        folders = self.image_folders()
        if not any(with_usable_images(inspect(folder.parent)).images for folder in folders):
            return None
        return latest_image(folders)

    def is_whole(self, txid: int) -> bool:
        """Whether a copy of our image at `txid` has the digest that its `.md5` file names; may read all of it."""
        paths = (folder / image_name(txid) for folder in self.image_folders())
        return any(path.is_file() and not content_fault(path) for path in paths)

    def require_room(self) -> None:
        """Check that there is room for another image, and for edits.

        Raises:
            StorageError: there is none.
        """
        if problem := self._lack_of_room():
            raise StorageError(problem, hint=ROOM_HINT)

    def lacks_room(self) -> str:
        """Why the next image, or edits, find no room here, "" where they do, or where that cannot be told."""
        with suppress(HdfsError):
            return self._lack_of_room()
        return ""

    def _lack_of_room(self) -> str:
        newest, working = self.latest_image(), set(self._directories.roots)
        images = [root for root in self._image_roots if root in working]
        edits = [root for root in self._edits_roots if root in working]
        return lack_of_room(images, None if newest is None else newest.path) or lack_of_room(edits, None)

    def states(self) -> dict[str, str]:
        """By directory: "in use", or why it was dropped."""
        dropped = self._directories.dropped
        return {str(root): dropped.get(root, "in use") for root in self._roots}

    # ---- changes -------------------------------------------------------------------------------------------

    def format(self, info: StorageInfo) -> None:
        """Give the directories, which hold nothing, the VERSION of a NameNode.

        Raises:
            StorageError: one holds something, or none can be written.
        """
        self._directories.format(info)
        self._check_left()

    def write_version(self, info: StorageInfo) -> None:
        """Give all directories the VERSION of a NameNode that was upgraded or rolled back.

        Raises:
            StorageError: none can be written.
        """
        self._directories.write_version(info)
        self._check_left()

    def set_aside(self) -> list[Path]:
        """Move images and edits out of the way (`storage.aside`); returns where they are now.

        Raises:
            StorageError: none is left for images or for edits.
        """
        moved = self._directories.set_aside()
        self._check_left()
        return moved

    def drop(self, folder: Path, reason: str) -> None:
        """Use a directory no more, by its `current` folder.

        Raises:
            StorageError: it was the last one for images or for edits.
        """
        if folder.parent in self._directories.roots:
            self._directories.drop(folder, reason)
        self._check_left()

    @property
    def has_dropped(self) -> bool:
        """Whether a directory is left out."""
        return bool(self._directories.dropped)

    def restore(self) -> None:
        """Try dropped directories again, and format empty ones beside formatted ones."""
        versions = self.versions()
        if len(versions) == 1 or not self._directories.roots:
            self._directories.restore()
            self._check_left()
        elif versions:
            _LOG.warning("the checkpoint directories differ in their VERSION; the next checkpoint makes them equal")

    def leave_out_broken(self) -> None:
        """Drop directories that cannot be used now, as long as one of each kind can.

        Raises:
            StorageError: none is left for images or for edits.
        """
        states = {root: _state(root) for root in self._directories.roots}
        formatted = any(isinstance(each, StorageDirectory) and each.version is not None for each in states.values())
        for root, state in states.items():
            if isinstance(state, str):
                self.drop(root / "current", state)
            elif formatted and state.version is None:
                self.drop(root / "current", f"{root} has no current/VERSION any more")

    # ---- steps ---------------------------------------------------------------------------------------------

    def _folders(self, roots: Sequence[Path]) -> list[Path]:
        working = set(self._directories.roots)
        return [root / "current" for root in roots if root in working and (root / "current" / VERSION).is_file()]

    def _inspect(self) -> list[StorageDirectory]:
        return [inspect(root) for root in self._directories.roots]

    def _check_left(self) -> None:
        working = set(self._directories.roots)
        for roots, what in ((self._image_roots, "images"), (self._edits_roots, "edits")):
            if working.isdisjoint(roots):
                dropped = self._directories.dropped
                reasons = "; ".join(f"{root}: {dropped[root]}" for root in roots)
                raise StorageError(
                    f"no checkpoint directory is left for {what}: {reasons}",
                    hint="Check the disks and permissions of the checkpoint directories.",
                )


def _state(root: Path) -> StorageDirectory | str:
    """What a directory holds, or why that cannot be told."""
    try:
        return inspect(root)
    except HdfsError as error:
        return error.message
