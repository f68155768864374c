"""Names of the files in a storage directory (NNStorage, FileJournalManager); transaction ids have 19 digits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ImageKind(StrEnum):
    """Purpose of an image (NNStorage.NameNodeFile); the value is the `imageFile` parameter."""

    IMAGE = "IMAGE"
    ROLLBACK = "IMAGE_ROLLBACK"

    @property
    def rollback(self) -> bool:
        return self is ImageKind.ROLLBACK


VERSION = "VERSION"
SEEN_TXID = "seen_txid"
MD5_SUFFIX = ".md5"
FETCHED_VERSION_SUFFIX = f".{VERSION}"
"""Suffix of the VERSION file that `fetch-image` writes for each image."""

# Hadoop reads any number of digits and writes 19, enough for every 63-bit transaction id
_IMAGE = re.compile(r"fsimage_(rollback_)?([0-9]{1,19})")
_CHECKPOINT = re.compile(r"fsimage\.ckpt_(?:rollback_)?([0-9]{1,19})")
_FINALIZED = re.compile(r"edits_([0-9]{1,19})-([0-9]{1,19})")
_INPROGRESS = re.compile(r"edits_inprogress_([0-9]{1,19})")
_TEMPORARY = re.compile(r"edits_tmp_([0-9]{1,19})-([0-9]{1,19})_[0-9]{1,19}")


@dataclass(frozen=True, slots=True, order=True)
class ImageName:
    """`fsimage_TXID`, or `fsimage_rollback_TXID` (made at the start of a rolling upgrade)."""

    txid: int
    rollback: bool = False


@dataclass(frozen=True, slots=True)
class SegmentName:
    """Txids `first` to `last` of an edit log segment; `last` is None while it is in progress."""

    first: int
    last: int | None

    @property
    def in_progress(self) -> bool:
        return self.last is None


def image_name(txid: int, rollback: bool = False) -> str:
    """Return `fsimage_%019d`, or `fsimage_rollback_%019d`."""
    return f"fsimage_{'rollback_' if rollback else ''}{_digits(txid)}"


def checkpoint_name(txid: int, rollback: bool = False) -> str:
    """Return the name of an image being written: `fsimage.ckpt_%019d`, or `fsimage.ckpt_rollback_%019d`.

    Hadoop uses the first name for both kinds, so it cannot write two images of one transaction id at the same time.
    """
    return f"fsimage.ckpt_{'rollback_' if rollback else ''}{_digits(txid)}"


def md5_name(name: str) -> str:
    """Return the name of the digest file of image `name`."""
    return name + MD5_SUFFIX


def segment_name(first: int, last: int) -> str:
    """Return `edits_%019d-%019d`, the name of a finalized segment."""
    return f"edits_{_digits(first)}-{_digits(last)}"


def inprogress_name(first: int) -> str:
    """Return `edits_inprogress_%019d`."""
    return f"edits_inprogress_{_digits(first)}"


def temporary_segment_name(first: int, last: int, stamp: int) -> str:
    """Return `edits_tmp_%019d-%019d_%019d`, a segment being downloaded; `stamp` is a time in ms."""
    return f"edits_tmp_{_digits(first)}-{_digits(last)}_{_digits(stamp)}"


def parse_image(name: str) -> ImageName | None:
    """Parse the name of an image; return None for any other file."""
    match = _IMAGE.fullmatch(name)
    return None if match is None else ImageName(int(match[2]), match[1] is not None)


def newest_image(names: Iterable[str]) -> str | None:
    """Return the name of the newest image, ignoring rollback images; None if there is none."""
    images = [(image.txid, name) for name in names if (image := parse_image(name)) and not image.rollback]
    return max(images)[1] if images else None


def parse_checkpoint(name: str) -> int | None:
    """Return the transaction id of an unfinished image `fsimage.ckpt_[rollback_]TXID`; None for any other file."""
    match = _CHECKPOINT.fullmatch(name)
    return None if match is None else int(match[1])


def parse_segment(name: str) -> SegmentName | None:
    """Parse the name of a finalized or in-progress segment; return None for any other file."""
    if (match := _FINALIZED.fullmatch(name)) is not None:
        return SegmentName(int(match[1]), int(match[2]))
    if (match := _INPROGRESS.fullmatch(name)) is not None:
        return SegmentName(int(match[1]), None)
    return None


def parse_temporary_segment(name: str) -> SegmentName | None:
    """Parse the name of an unfinished download `edits_tmp_…`; return None for any other file."""
    match = _TEMPORARY.fullmatch(name)
    return None if match is None else SegmentName(int(match[1]), int(match[2]))


def _digits(number: int) -> str:
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{number} is not a transaction id: it must be in 0 .. 2**63 - 1")
    return f"{number:019d}"
