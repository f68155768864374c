"""Finds the end of a segment in progress; a JournalNode reads only the frames of operations (scanEditLog)."""

from __future__ import annotations

import re
from itertools import takewhile
from struct import Struct
from typing import NamedTuple

from hadoop_common.file_kind import HEAD_BYTES
from journal.errors import CorruptOpError, UnsupportedEditsLayoutError
from journal.primitives import Buffer
from journal.segment_format import HEADER_SIZE, scan_segment
from journal.segment_frames import check_frame, has_frames, iter_frames

_HEADER = Struct(">ii")
_TXID = Struct(">q")
_NEVER_WRITTEN = -1  # layout version in a preallocated file that contains only 0xFF
_TXID_AT = 5
_MIN_FRAME = 17


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
    if layout_version >= 0 or flags != 0:
        return SegmentEnd(None, f"the header has layout version {layout_version} and {flags} flags")
    return _scan_frames(buffer, first_txid) if has_frames(layout_version) else _scan_operations(buffer, first_txid)


def _scan_frames(buffer: Buffer, first_txid: int) -> SegmentEnd:
    expected, position = first_txid, HEADER_SIZE
    try:
        for frame in iter_frames(buffer, HEADER_SIZE, len(buffer)):
            if frame.txid != expected:
                raise CorruptOpError(f"txid {frame.txid} instead of {expected}", offset=frame.start)
            check_frame(buffer, frame)
            expected, position = expected + 1, frame.end
    except CorruptOpError as fault:
        if _frame_follows(buffer, position, expected):
            return SegmentEnd(_before(expected, first_txid), fault.message)
    return SegmentEnd(_before(expected, first_txid))


def _before(expected: int, first_txid: int) -> int | None:
    return None if expected == first_txid else expected - 1


def _frame_follows(buffer: Buffer, position: int, min_txid: int) -> bool:
    """Return whether a complete frame with txid `min_txid` or later starts at `position` or later."""
    highest = min_txid + (len(buffer) - position) // _MIN_FRAME + 1
    low, high = _TXID.pack(min_txid), _TXID.pack(highest)
    shared = bytes(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=True)))
    for match in re.finditer(b"(?=" + re.escape(shared) + b")", buffer[position + _TXID_AT :]):
        start = position + match.start()
        if start + _MIN_FRAME > len(buffer):
            return False
        if min_txid <= _TXID.unpack_from(buffer, start + _TXID_AT)[0] <= highest and _is_frame(buffer, start):
            return True
    return False


def _is_frame(buffer: Buffer, start: int) -> bool:
    try:
        for frame in iter_frames(buffer, start, start + 1):
            check_frame(buffer, frame)
            return True
    except CorruptOpError:
        return False
    return False


def _scan_operations(buffer: Buffer, first_txid: int) -> SegmentEnd:
    try:
        scan = scan_segment(buffer, first_txid=first_txid)
    except UnsupportedEditsLayoutError as error:
        return SegmentEnd(None, error.message)
    return SegmentEnd(scan.last_txid, f"damaged at byte {scan.end}" if scan.corrupt else "")
