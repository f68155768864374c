"""The usable images of storage directories: regular, readable and complete files.

`frame_fault` reads magic, FileSummary, NS_INFO and the digest file, which is fast enough for every listing.
`content_fault` reads the whole file to compute its MD5. Its result, and the faults that readers report with
`record_fault`, are cached until the image or its digest file changes.

No conclusion about the NameNode's past may depend on a file that was never a valid image.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from checkpointer.storage.inspector import StorageDirectory, StoredImage, list_images, newest_copies
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.file_faults import error_text, file_faults
from hadoop_common.mapped_file import FailedDiskError
from image_format.errors import (
    ImageFormatError,
    UnreadableImageError,
    UnsupportedCodecError,
    UnsupportedLayoutError,
    UnusableDigestError,
)
from image_format.known_digests import FileIdentity, identity_of
from image_format.md5_file import read_md5_file
from image_format.reader import ImageFile

UNUSABLE_HINT = (
    "The named files are skipped. Copy a missing .md5 file from the image's origin, and allow the daemon's user to "
    "read the files. Move a file out of `current` only if its content is damaged."
)
"""Next step for `unusable` files."""

_LOG = logging.getLogger(__name__)
_MAX_CACHED = 256
_Key = tuple[FileIdentity, bytes]

# faults by file; "" for an intact frame
_faults: OrderedDict[_Key, str] = OrderedDict()
_reported: OrderedDict[tuple[Path, str], None] = OrderedDict()


class ImageCopy(NamedTuple):
    """An image's file and last transaction."""

    path: Path
    txid: int

    @property
    def written_at(self) -> float:
        """Time when the file was completed, in seconds since the epoch.

        Raises:
            StorageError: the file cannot be read.
        """
        with file_faults(self.path, "cannot be used"):
            return self.path.stat().st_mtime


def frame_fault(image: Path) -> str:
    """Return the fault of the frame or of the digest file of `image`, or "" if both are valid.

    An unknown layout or codec is not a fault of the file.
    """
    try:
        key = _key(image)
        known = _faults.get(key)
        return _remember(key, _frame(image)) if known is None else known
    except (HdfsError, OSError) as error:
        return error_text(error, image)


def content_fault(image: Path) -> str:
    """Return the fault of `image`, or "" if it is intact; read the whole file unless this process has read it."""
    if known := frame_fault(image):
        return known
    try:
        key = _key(image)
        with ImageFile.open(image, verify_md5=False, allow_unknown_layout=True) as opened:
            opened.verify_md5()
    except (UnsupportedLayoutError, UnsupportedCodecError):
        return ""
    except ImageFormatError as error:
        return _remember(key, error.message)
    except (HdfsError, OSError) as fault:
        return error_text(fault, image)
    return ""


def is_damage(error: HdfsError | OSError) -> bool:
    """Return whether `error` shows damage in the content of an image.

    A failing disk counts as damage. An unknown layout or codec, an unusable digest file, and a file that this process
    cannot open do not count as damage.
    """
    if isinstance(error, FailedDiskError | UnreadableImageError):
        return True
    damaged = isinstance(error, ImageFormatError) and error.exit_code == ExitCode.BAD_IMAGE
    return damaged and not isinstance(error, UnusableDigestError)


def is_damaged(image: Path) -> bool:
    """Read the whole file of `image`; return whether its content is damaged (`is_damage`)."""
    fault = _whole_fault(image)
    return fault is not None and is_damage(fault)


def all_damaged(folders: Iterable[Path]) -> bool:
    """Return whether the `current` folders contain images, and all images are proved to be damaged.

    A folder or a part of an image that cannot be read proves nothing, because its disk may work again later.
    """
    try:
        images = [image.path for folder in folders for image in list_images(folder) if not image.rollback]
    except OSError:
        return False
    faults = map(_whole_fault, images)
    return bool(images) and all(isinstance(fault, ImageFormatError) and is_damage(fault) for fault in faults)


def record_fault(image: Path, reason: str) -> None:
    """Exclude `image` until its file changes, because its records cannot be read."""
    try:
        _remember(_key(image), reason)
    except (HdfsError, OSError):
        # `usable_images` excludes an unreadable file in any case
        return


def usable_images(images: Iterable[StoredImage]) -> list[StoredImage]:
    """Return the images without a `frame_fault`; log each other image once."""
    usable = []
    for image in images:
        if not (fault := frame_fault(image.path)):
            usable.append(image)
        elif not _is_purged(image.path):
            _report(image.path, fault)
    return usable


def with_usable_images(storage: StorageDirectory) -> StorageDirectory:
    for path in storage.irregular:
        _report(path, "it is not a regular file")
    return replace(storage, images=tuple(usable_images(storage.images)))


def unusable(storage: StorageDirectory) -> list[str]:
    """Return a line for each unusable file of `storage` that has the name of an image."""
    lines = [f"{path} is not a regular file" for path in storage.irregular]
    faults = ((image.path, frame_fault(image.path)) for image in storage.images)
    return lines + [_line(path, fault) for path, fault in faults if fault and not _is_purged(path)]


def _is_purged(path: Path) -> bool:
    """Return whether a listed file no longer exists, because it was purged."""
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def latest_image(folders: Sequence[Path]) -> ImageCopy:
    """Return the newest usable image in `current` folders, preferably a copy with a digest file.

    Raises:
        StorageError: there is no usable image, or a folder cannot be read.
    """
    try:
        found = [image for folder in folders for image in list_images(folder) if not image.rollback]
    except OSError as fault:
        raise StorageError(
            f"a storage directory cannot be read: {error_text(fault)}", hint="Check its disk and permissions."
        ) from fault
    images = usable_images(found)
    if not images:
        raise StorageError(
            f"there is no {'usable ' if found else ''}image in {', '.join(map(str, folders)) or 'no folder at all'}",
            hint="Copy the newest fsimage and its .md5 file from a NameNode to this directory.",
        )
    best = max(images, key=lambda image: (image.txid, image.has_md5))
    return ImageCopy(best.path, best.txid)


def newest_usable_copies(found: Sequence[StorageDirectory]) -> list[StoredImage]:
    """Return all copies of the newest usable image, copies with a digest file first.

    Raises:
        StorageError: there is no usable image.
    """
    usable = [with_usable_images(each) for each in found]
    if any(each.images for each in usable) or not any(each.images for each in found):
        return newest_copies(usable)
    faults = [(copy, frame_fault(copy.path)) for copy in newest_copies(found)]
    # a read that failed above may succeed now
    if readable := [copy for copy, fault in faults if not fault]:
        return readable
    raise _all_damaged(fault for _, fault in faults)


def newest_usable_path(directories: Iterable[StorageDirectory]) -> Path | None:
    images = [image for each in directories for image in with_usable_images(each).images]
    return max(images, key=lambda image: image.txid).path if images else None


def first_intact(copies: Sequence[StoredImage]) -> ImageCopy:
    """Return the first copy with a correct frame and digest. If there is only one copy, return it without reading it.

    Raises:
        StorageError: every copy is damaged.
    """
    faults = []
    for copy in copies:
        try:
            if len(copies) > 1:
                ImageFile.open(copy.path, allow_unknown_layout=True).close()
        except HdfsError as fault:
            _LOG.warning("a copy of the newest image is damaged: %s", fault)
            faults.append(str(fault))
        else:
            return ImageCopy(copy.path, copy.txid)
    raise _all_damaged(faults)


def exclude_image(found: Iterable[StorageDirectory], image: ImageCopy, error: HdfsError) -> None:
    """Exclude `image` until its file changes, because its reader raised `error`.

    Raises:
        HdfsError: the given `error`, if `found` contains no other usable image.
    """
    usable = [each for storage in found for each in with_usable_images(storage).images if not each.rollback]
    others = [each.txid for each in usable if each.path != image.path]
    if not others:
        raise error
    record_fault(image.path, error.message)
    text = "%s cannot be read: %s; continuing from the image at txid %d and the edits after it"
    _LOG.error(text, image.path, error.message, max(others), extra={"txid": image.txid})


def _all_damaged(faults: Iterable[str]) -> StorageError:
    return StorageError(
        f"every copy of the newest image is damaged: {'; '.join(faults)}",
        hint="Fetch that image and its .md5 file from a NameNode.",
    )


def _whole_fault(image: Path) -> HdfsError | OSError | None:
    try:
        with ImageFile.open(image, allow_unknown_layout=True):
            return None
    except (HdfsError, OSError) as fault:
        return fault


def _frame(image: Path) -> str:
    try:
        ImageFile.open(image, verify_md5=False, allow_unknown_layout=True).close()
    except (UnsupportedLayoutError, UnsupportedCodecError):
        return ""
    except ImageFormatError as error:
        return error.message
    return ""


def _key(image: Path) -> _Key:
    """Return the image's current identity and digest.

    Raises:
        HdfsError, OSError: a file is missing or cannot be read, or the digest file is damaged.
    """
    return identity_of(image.stat()), read_md5_file(image)


def _remember(key: _Key, fault: str) -> str:
    _faults[key] = fault
    while len(_faults) > _MAX_CACHED:
        _faults.popitem(last=False)
    return fault


def _report(path: Path, fault: str) -> None:
    if (path, fault) in _reported:
        return
    _reported[path, fault] = None
    while len(_reported) > _MAX_CACHED:
        _reported.popitem(last=False)
    _LOG.warning("%s; this file is skipped", _line(path, fault))


def _line(path: Path, fault: str) -> str:
    return fault if str(path) in fault else f"{path}: {fault}"
