"""Folder of fetched images; each `fsimage_TXID` has an `.md5` and a `.VERSION` file next to it."""

from __future__ import annotations

import shutil
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from checkpointer.storage.inspector import StoredImage, list_images
from checkpointer.storage.usable_images import usable_images
from hadoop_common.durable import fsync_directory, write_atomically
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import error_text
from hadoop_common.names import (
    FETCHED_VERSION_SUFFIX,
    MD5_SUFFIX,
    VERSION,
    image_name,
    md5_name,
    parse_image,
    parse_segment,
)
from hadoop_common.storage_info import StorageInfo, format_version, read_version
from hadoop_common.storage_lock import StorageLock
from image_format.errors import ImageFormatError
from image_format.md5_file import md5_of_file, read_md5_file
from image_format.publish import place_image
from image_format.reader import ImageFile

_STAGING = ".fetch"
_PRIVATE = 0o700


def surplus(
    images: Iterable[StoredImage], keep: int, current: int = -1, *, set_back: bool = False
) -> list[StoredImage]:
    """Return the images to remove, oldest first: all except the newest `keep` and the image at txid `current`. If
    `keep` is 0, no image is removed.

    `current` is the image that the NameNode sent. If the NameNode was `set_back`, images with higher txids belong to
    its lost past. In this case, the newest `keep` images of each past remain.
    """
    if not keep:
        return []
    ordered = sorted((image for image in images if not image.rollback), key=lambda image: image.txid)
    end = bisect_right(ordered, current, key=lambda image: image.txid) if set_back else 0
    older = ordered[:end][:-keep] + ordered[end:][:-keep]
    return [image for image in older if image.txid != current]


class ImageFolder:
    """Folder of fetched images; as a context manager, it locks the folder and removes the leftovers of a killed run.

    The folder stores an image after its two side files, so every file with an image's name is complete.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = StorageLock(root)

    def __enter__(self) -> Self:
        """Create, lock and clean the folder.

        Raises:
            StorageError: the folder is a storage directory, is in use, or cannot be written.
        """
        try:
            # an image contains all file names and the keys of delegation tokens
            self.root.mkdir(_PRIVATE, parents=True, exist_ok=True)
            self._refuse_storage()
            self._lock.acquire()
        except OSError as fault:
            raise self._failure(fault) from fault
        try:
            self._clean()
            self.staging.mkdir(_PRIVATE)
        except OSError as fault:
            self._lock.release()
            raise self._failure(fault) from fault
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            # the next start removes leftovers; rmtree may fail despite ignore_errors
            shutil.rmtree(self.staging, ignore_errors=True)
        self._lock.release()

    @property
    def staging(self) -> Path:
        """Folder for incoming images, on the same file system as the stored images."""
        return self.root / _STAGING

    def images(self) -> list[StoredImage]:
        return usable_images(image for image in list_images(self.root) if not image.rollback)

    def path(self, txid: int) -> Path:
        return self.root / image_name(txid)

    def version_path(self, txid: int) -> Path:
        return self.root / (image_name(txid) + FETCHED_VERSION_SUFFIX)

    def free(self) -> int:
        """Return the free bytes."""
        return shutil.disk_usage(self.root).free

    def has(self, txid: int, md5: str) -> bool:
        """Read the stored copy of the image; return whether it exists and is undamaged."""
        path = self.path(txid)
        try:
            return path.is_file() and read_md5_file(path).hex() == md5 == md5_of_file(path).hex()
        except ImageFormatError:
            return False

    def namespace_id(self) -> int | None:
        """Return the namespace id of the newest readable image, or None if there is none."""
        for image in reversed(self.images()):
            try:
                with ImageFile.open(image.path, verify_md5=False, allow_unknown_layout=True) as opened:
                    return opened.ns_info().namespaceId
            except ImageFormatError:
                continue
        return None

    def cluster_id(self) -> str:
        """Return the cluster id of the newest image with a VERSION, or "" if there is none."""
        for image in reversed(self.images()):
            path = self.version_path(image.txid)
            if path.is_file():
                return read_version(path).cluster_id
        return ""

    def put(self, staged: Path, md5: str, version: StorageInfo | None, now: datetime) -> Path:
        """Move a staged image to its final path, and return the path.

        Raises:
            StorageError: a file could not be written.
        """
        target = self.root / staged.name
        try:
            if version is not None:
                write_atomically(target.with_name(target.name + FETCHED_VERSION_SUFFIX), format_version(version, now))
            place_image(staged, target, bytes.fromhex(md5))
        except OSError as fault:
            raise self._failure(fault) from fault
        return target

    def add_version(self, txid: int, version: StorageInfo, now: datetime) -> None:
        """Write the VERSION of an image that lacks it.

        Raises:
            StorageError: the file could not be written.
        """
        try:
            if not self.version_path(txid).exists():
                write_atomically(self.version_path(txid), format_version(version, now))
        except OSError as fault:
            raise self._failure(fault) from fault

    def retain(self, keep: int, current: int, *, set_back: bool = False) -> list[Path]:
        """Remove the `surplus` images and return them.

        Raises:
            StorageError: an image could not be removed.
        """
        removed = []
        try:
            for image in surplus(self.images(), keep, current, set_back=set_back):
                # remove the image first, so that every file with an image's name remains complete
                for name in (image.path.name, md5_name(image.path.name), image.path.name + FETCHED_VERSION_SUFFIX):
                    (self.root / name).unlink(missing_ok=True)
                removed.append(image.path)
            if removed:
                fsync_directory(self.root)
        except OSError as fault:
            raise self._failure(fault) from fault
        return removed

    def _refuse_storage(self) -> None:
        names = [path.name for path in self.root.iterdir()]
        found = [name for name in names if name == VERSION or parse_segment(name) is not None]
        if not found and (self.root / "current" / VERSION).exists():
            found = [f"current/{VERSION}"]
        if found:
            raise StorageError(
                f"{self.root} contains {found[0]}: this is a storage directory, whose images this command must not "
                f"remove",
                hint="Specify a separate directory for the fetched images.",
            )

    def _clean(self) -> None:
        if self.staging.exists():
            shutil.rmtree(self.staging)
        names = {path.name for path in self.root.iterdir()}
        for name in sorted(names):
            stem = _stem(name)
            if stem and stem not in names:
                (self.root / name).unlink()

    def _failure(self, fault: OSError) -> StorageError:
        return StorageError(
            f"{self.root} cannot be used: {error_text(fault, self.root)}",
            hint="Check the space and the permissions of that directory.",
        )


def _stem(name: str) -> str:
    """Return the image name of a side file, or "" for any other file."""
    suffixes: Sequence[str] = (MD5_SUFFIX, FETCHED_VERSION_SUFFIX, f"{MD5_SUFFIX}.tmp", f"{FETCHED_VERSION_SUFFIX}.tmp")
    stems = (name.removesuffix(suffix) for suffix in suffixes if name.endswith(suffix))
    return next((stem for stem in stems if parse_image(stem) is not None), "")
