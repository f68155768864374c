"""Single questions to storage directories: whose they are, and which image is the newest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from checkpointer.storage.fitness import usable_images
from checkpointer.storage.inspector import list_images
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import file_faults, told
from hadoop_common.names import VERSION
from hadoop_common.storage_info import StorageInfo, read_version


class ImageCopy(NamedTuple):
    """The file of an image, and the last transaction in it."""

    path: Path
    txid: int

    @property
    def written_at(self) -> float:
        """When the file was complete, in seconds since the epoch.

        Raises:
            StorageError: it cannot be asked for.
        """
        with file_faults(self.path, "cannot be used"):
            return self.path.stat().st_mtime


def read_storage_info(directory: Path) -> StorageInfo:
    """VERSION of the storage directory `directory`.

    Raises:
        StorageError: it does not exist or cannot be read.
        VersionFileError: it is damaged.
    """
    path = directory / "current" / VERSION
    try:
        return read_version(path)
    except OSError as fault:
        raise StorageError(
            f"{path} cannot be read: {fault.strerror or fault}",
            hint="Check that the directory is right and that a NameNode has formatted it.",
        ) from fault


def latest_image(folders: Sequence[Path]) -> ImageCopy:
    """The newest usable image in `current` folders, a copy with a digest file first.

    Raises:
        StorageError: there is none, or a folder cannot be read.
    """
    try:
        found = [image for folder in folders for image in list_images(folder) if not image.rollback]
    except OSError as fault:
        raise StorageError(
            f"a storage directory cannot be read: {told(fault)}", hint="Check its disk and permissions."
        ) from fault
    images = usable_images(found)
    if not images:
        raise StorageError(
            f"there is no {'usable ' if found else ''}image in {', '.join(map(str, folders)) or 'no folder at all'}",
            hint="Copy the newest fsimage and its .md5 file from a NameNode there.",
        )
    best = max(images, key=lambda image: (image.txid, image.has_md5))
    return ImageCopy(best.path, best.txid)
