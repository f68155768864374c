"""Operations of a segment as frames, found by their lengths without decoding: to split, check and count them."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from journal.binary_codec import TERMINATOR
from journal.errors import CorruptOpError
from journal.primitives import Buffer

_LENGTH_SINCE = -56  # LayoutVersion.Feature.EDITLOG_LENGTH
_FRAME = Struct(">Biq")
_CHECKSUM = Struct(">I")
_MIN_LENGTH = 12  # the length field and the txid


class OpFrame(NamedTuple):
    """The first 13 bytes of an operation: opcode, txid and the bytes `start` .. `end` of the whole operation with
    checksum.
    """

    start: int
    end: int
    opcode: int
    txid: int


def has_frames(layout_version: int) -> bool:
    """Whether operations have a length field; they do since layout -56."""
    return layout_version <= _LENGTH_SINCE


def iter_frames(buffer: Buffer, start: int, stop: int, *, file: str = "") -> Iterator[OpFrame]:
    """Yield the operations that begin in `buffer[start:stop]`, up to the terminator; the first one begins at `start`.

    Opcodes, checksums and txids are not checked.

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
        if length < _MIN_LENGTH:
            raise CorruptOpError(f"impossible operation length {length}", file=file, offset=start)
        if end > size:
            problem = f"the operation is truncated: it has {end - start} bytes, but only {size - start} are left"
            raise CorruptOpError(problem, file=file, offset=start, txid=txid)
        yield OpFrame(start, end, opcode, txid)
        start = end


def check_frame(buffer: Buffer, frame: OpFrame, *, file: str = "") -> None:
    """Check the bytes of an operation against its checksum, without decoding them.

    Raises:
        CorruptOpError: they differ.
    """
    body = frame.end - _CHECKSUM.size
    actual, expected = crc32(bytes(buffer[frame.start : body])), _CHECKSUM.unpack_from(buffer, body)[0]
    if actual != expected:
        problem = f"checksum 0x{actual:08x} differs from the recorded 0x{expected:08x}"
        raise CorruptOpError(problem, file=file, offset=frame.start, txid=frame.txid)
