"""Finds the end of a segment in progress; a JournalNode reads only the frames of operations (scanEditLog)."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from hadoop_common.file_kind import HEAD_BYTES
from image_format.layout import OLDEST_LAYOUT
from journal.errors import CorruptOpError
from journal.primitives import Buffer
from journal.resync import op_follows
from journal.segment_format import HEADER_SIZE
from journal.segment_frames import check_frame, iter_frames

_HEADER = Struct(">ii")
_NEVER_WRITTEN = -1  # layout version in a preallocated file that contains only 0xFF


class SegmentEnd(NamedTuple):
    """The last complete transaction before the end or the first fault; None if no transaction is complete.

    `damage` describes a fault before complete transactions; a torn end is not damage.
    """

    last: int | None
    damage: str = ""


def scan_end(buffer: Buffer, first_txid: int) -> SegmentEnd:
    """Find the end of a segment that begins with `first_txid`; its layout may be newer than all known layouts."""
    if len(buffer) < HEADER_SIZE:
        return SegmentEnd(None)
    layout_version, flags = _HEADER.unpack_from(buffer)
    if layout_version == _NEVER_WRITTEN:
        return SegmentEnd(None)
    if layout_version >= 0 and not bytes(buffer[:HEAD_BYTES]).strip(b"\x00"):
        return SegmentEnd(None, "it is all zeros at the beginning, as after a crash before the data was written")
    if layout_version > OLDEST_LAYOUT or flags != 0:
        return SegmentEnd(None, f"the header has layout version {layout_version} and {flags} flags")
    expected, position = first_txid, HEADER_SIZE
    try:
        for frame in iter_frames(buffer, HEADER_SIZE, len(buffer)):
            check_frame(buffer, frame)
            if frame.txid != expected:
                problem = f"offset {frame.start}: txid {frame.txid} instead of {expected}"
                return SegmentEnd(_before(expected, first_txid), problem)
            expected, position = expected + 1, frame.end
    except CorruptOpError as fault:
        if op_follows(buffer, position, expected):
            return SegmentEnd(_before(expected, first_txid), fault.message)
    return SegmentEnd(_before(expected, first_txid))


def _before(expected: int, first_txid: int) -> int | None:
    return None if expected == first_txid else expected - 1
