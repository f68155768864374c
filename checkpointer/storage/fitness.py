"""Which files named like images can be used: regular, readable and complete ones.

`frame_fault` reads magic, FileSummary, NS_INFO and the digest file. Every listing can afford it. `content_fault` takes
the MD5 of the whole file. What it finds, or what a reader of the records reports by `note_fault`, is remembered until
the image or its digest file changes.

Nothing may be concluded about the NameNode's past from a file that was never a valid image.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from checkpointer.storage.inspector import StorageDirectory, StoredImage
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import told
from image_format.errors import ImageFormatError, UnsupportedCodecError, UnsupportedLayoutError
from image_format.known_digests import FileIdentity, identity_of
from image_format.md5_file import read_md5_file
from image_format.reader import ImageFile

_LOG = logging.getLogger(__name__)
_MAX_REMEMBERED = 256
_Key = tuple[FileIdentity, bytes]

# what was found of files as they are: "" where the frame is whole
_found: OrderedDict[_Key, str] = OrderedDict()
_reported: OrderedDict[tuple[Path, str], None] = OrderedDict()


def frame_fault(image: Path) -> str:
    """Why `image` cannot be used, as far as its frame and its digest file show it; "" where they are in order.

    A layout or a codec that is not known is no fault of the file.
    """
    try:
        key = _key(image)
        known = _found.get(key)
        return _remember(key, _frame(image)) if known is None else known
    except (HdfsError, OSError) as error:
        return told(error, image)


def content_fault(image: Path) -> str:
    """Why `image` cannot be used; takes the MD5 of the whole file, unless this process has taken it already."""
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
        return told(fault, image)
    return ""


def note_fault(image: Path, reason: str) -> None:
    """The records of `image` cannot be read: it is left out as long as the file is the same."""
    try:
        _remember(_key(image), reason)
    except (HdfsError, OSError):
        # what cannot be asked for is left out anyway
        return


def usable_images(images: Iterable[StoredImage]) -> list[StoredImage]:
    """The images that can be used as far as `frame_fault` tells; the log reports each of the others once."""
    usable = []
    for image in images:
        if fault := frame_fault(image.path):
            _report(image.path, fault)
        else:
            usable.append(image)
    return usable


def with_usable_images(storage: StorageDirectory) -> StorageDirectory:
    """`storage` without the images that cannot be used."""
    for path in storage.oddities:
        _report(path, "it is not a regular file")
    return replace(storage, images=tuple(usable_images(storage.images)))


def unusable(storage: StorageDirectory) -> list[str]:
    """A line for each file of `storage` that is named like an image and cannot be used."""
    lines = [f"{path} is not a regular file" for path in storage.oddities]
    faults = ((image.path, frame_fault(image.path)) for image in storage.images)
    return lines + [_line(path, fault) for path, fault in faults if fault]


def _frame(image: Path) -> str:
    try:
        ImageFile.open(image, verify_md5=False, allow_unknown_layout=True).close()
    except (UnsupportedLayoutError, UnsupportedCodecError):
        return ""
    except ImageFormatError as error:
        return error.message
    return ""


def _key(image: Path) -> _Key:
    """The image and its digest as they are now.

    Raises:
        HdfsError, OSError: one of the files is missing or cannot be read, or the digest file is damaged.
    """
    return identity_of(image.stat()), read_md5_file(image)


def _remember(key: _Key, fault: str) -> str:
    _found[key] = fault
    while len(_found) > _MAX_REMEMBERED:
        _found.popitem(last=False)
    return fault


def _report(path: Path, fault: str) -> None:
    if (path, fault) in _reported:
        return
    _reported[path, fault] = None
    while len(_reported) > _MAX_REMEMBERED:
        _reported.popitem(last=False)
    _LOG.warning("%s; it is left out, and nothing is concluded from it", _line(path, fault))


def _line(path: Path, fault: str) -> str:
    return fault if str(path) in fault else f"{path}: {fault}"
