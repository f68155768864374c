"""Completeness of a segment, checked by frames, checksums and txids without decoding its operations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from zlib import crc32

from journal.binary_codec import TERMINATOR
from journal.errors import CorruptOpError, JournalError, SegmentError, TransactionGapError
from journal.primitives import Buffer
from journal.segment import HEADER_SIZE, decode_header, iter_ops
from journal.segment_file import EditLogSegment, map_file

_LENGTH_SINCE = -56  # LayoutVersion.Feature.EDITLOG_LENGTH
_FRAME = Struct(">Biq")
_CHECKSUM = Struct(">I")
_MIN_LENGTH = 12  # the length itself and the txid


def check_extent(buffer: Buffer, first_txid: int, last_txid: int, *, file: str = "") -> None:
    """Check that `buffer`, a whole segment, has undamaged operations with txids `first_txid` .. `last_txid`.

    Operations are not decoded, except in layouts before -56, whose operations have no length.

    Raises:
        CorruptHeaderError, UnsupportedLayoutError: see `decode_header`.
        CorruptOpError: an operation is truncated or its checksum differs.
        TransactionGapError: a txid does not follow its predecessor.
        SegmentError: the segment ends before `last_txid`.
    """
    if decode_header(buffer, file=file) > _LENGTH_SINCE:
        for _ in iter_ops(buffer, file=file, first_txid=first_txid, last_txid=last_txid):
            pass
        return
    position = HEADER_SIZE
    with memoryview(buffer) as view:
        for txid in range(first_txid, last_txid + 1):
            if position >= len(view) or view[position] == TERMINATOR:
                problem = f"the segment ends before txid {txid}; by its name it ends with txid {last_txid}"
                raise SegmentError(problem, file=file, offset=position)
            position = _check_frame(view, position, txid, file)


def check_segment_file(path: Path, first_txid: int, last_txid: int, *, name: str = "") -> None:
    """Run `check_extent` on the file `path`; errors name it `name`, by default its file name.

    Raises:
        JournalError: see `check_extent`.
        OSError: the file cannot be read.
    """
    with map_file(path) as content:
        check_extent(content, first_txid, last_txid, file=name or path.name)


def whole_segments(segments: Iterable[EditLogSegment]) -> list[EditLogSegment]:
    """Return the finalized segments whose files are complete and undamaged; reads all of them."""
    return [each for each in segments if each.last is not None and _is_whole(each, each.last)]


def _is_whole(segment: EditLogSegment, last_txid: int) -> bool:
    try:
        check_segment_file(segment.path, segment.first, last_txid)
    except (JournalError, OSError):
        return False
    return True


def _check_frame(view: memoryview, position: int, txid: int, file: str) -> int:
    """Return the position after the operation at `position`, whose txid must be `txid`."""
    if len(view) - position < _FRAME.size:
        raise CorruptOpError("the operation is cut", file=file, offset=position, txid=txid)
    _, length, found = _FRAME.unpack_from(view, position)
    end = position + 1 + length
    if length < _MIN_LENGTH or end + _CHECKSUM.size > len(view):
        problem = f"the operation's length is {length}, {len(view) - position} bytes are left"
        raise CorruptOpError(problem, file=file, offset=position, txid=txid)
    actual, expected = crc32(view[position:end]), _CHECKSUM.unpack_from(view, end)[0]
    if actual != expected:
        problem = f"checksum 0x{actual:08x} differs from the recorded 0x{expected:08x}"
        raise CorruptOpError(problem, file=file, offset=position, txid=txid)
    if found != txid:
        raise TransactionGapError(txid, found, file=file, offset=position)
    return int(end) + _CHECKSUM.size
