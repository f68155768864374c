"""Operations of a segment as frames: located by their lengths, and checked by their checksums, without decoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from journal.binary_codec import TERMINATOR
from journal.errors import CorruptOpError, JournalError, SegmentError, TransactionGapError
from journal.primitives import Buffer
from journal.segment_file import EditLogSegment, map_file
from journal.segment_format import HEADER_SIZE, decode_header

_FRAME = Struct(">Biq")
_CHECKSUM = Struct(">I")
MIN_LENGTH = 12  # the length field and the txid
HEAD_SIZE = _FRAME.size
"""Number of bytes of an operation before its fields."""
CHECKSUM_SIZE = _CHECKSUM.size
"""Number of bytes of an operation after its fields."""


class OpFrame(NamedTuple):
    """Opcode and txid of an operation, and the bytes `start` .. `end` of the whole operation with its checksum."""

    start: int
    end: int
    opcode: int
    txid: int


def iter_frames(buffer: Buffer, start: int, stop: int, *, file: str = "") -> Iterator[OpFrame]:
    """Yield the operations that begin in `buffer[start:stop]`, up to the terminator.

    The first operation begins at `start`. Opcodes, checksums and txids are not checked.

    Raises:
        CorruptOpError: a length is impossible, or the buffer ends within an operation.
    """
    size = len(buffer)
    unpack = _FRAME.unpack_from
    while start < stop:
        if buffer[start] == TERMINATOR:
            return
        if size - start < _FRAME.size:
            raise CorruptOpError(f"the operation is truncated after {size - start} bytes", file=file, offset=start)
        opcode, length, txid = unpack(buffer, start)
        end = start + 1 + length + _CHECKSUM.size
        if length < MIN_LENGTH:
            raise CorruptOpError(f"impossible operation length {length}", file=file, offset=start)
        if end > size:
            problem = f"the operation is truncated: it has {end - start} bytes, but only {size - start} are left"
            raise CorruptOpError(problem, file=file, offset=start, txid=txid)
        yield OpFrame(start, end, opcode, txid)
        start = end


def check_frame(buffer: Buffer, frame: OpFrame, *, file: str = "") -> None:
    """Check the bytes of an operation against its checksum, without decoding them.

    Raises:
        CorruptOpError: the checksums differ.
    """
    body = frame.end - _CHECKSUM.size
    actual, expected = crc32(bytes(buffer[frame.start : body])), _CHECKSUM.unpack_from(buffer, body)[0]
    if actual != expected:
        problem = f"checksum 0x{actual:08x} differs from the recorded 0x{expected:08x}"
        raise CorruptOpError(problem, file=file, offset=frame.start, txid=frame.txid)


def check_extent(buffer: Buffer, first_txid: int, last_txid: int, *, file: str = "") -> None:
    """Check that `buffer`, a whole segment, contains undamaged operations with txids `first_txid` .. `last_txid`.

    Operations are not decoded.

    Raises:
        CorruptHeaderError, UnsupportedEditsLayoutError: see `decode_header`.
        CorruptOpError: an operation is truncated or its checksum differs.
        TransactionGapError: a txid does not follow its predecessor.
        SegmentError: the segment ends before `last_txid`.
    """
    decode_header(buffer, file=file)
    expected, position = first_txid, HEADER_SIZE
    with memoryview(buffer) as view:
        frames = iter_frames(view, HEADER_SIZE, len(view), file=file)
        while expected <= last_txid:
            frame = next(frames, None)
            if frame is None:
                problem = (
                    f"the segment ends before txid {expected}; according to its name, it ends with txid {last_txid}"
                )
                raise SegmentError(problem, file=file, offset=position)
            check_frame(view, frame, file=file)
            if frame.txid != expected:
                raise TransactionGapError(expected, frame.txid, file=file, offset=frame.start)
            expected, position = expected + 1, frame.end


def check_segment_file(path: Path, first_txid: int, last_txid: int, *, name: str = "") -> None:
    """Run `check_extent` on the file `path`; errors contain `name`, by default the file's name.

    Raises:
        JournalError: see `check_extent`.
        OSError: the file cannot be read.
    """
    with map_file(path) as content:
        check_extent(content, first_txid, last_txid, file=name or path.name)


def whole_segments(segments: Iterable[EditLogSegment]) -> list[EditLogSegment]:
    """Read all finalized segments, and return the segments with complete and undamaged files."""
    return [each for each in segments if each.last is not None and _is_whole(each, each.last)]


def _is_whole(segment: EditLogSegment, last_txid: int) -> bool:
    try:
        check_segment_file(segment.path, segment.first, last_txid)
    except (JournalError, OSError):
        return False
    return True
