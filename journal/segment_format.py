"""The bytes of an edit log segment: header, operations, and the end, which may be incomplete after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from hadoop_common.file_kind import HEAD_BYTES, file_kind
from hadoop_common.names import parse_segment
from hadoop_common.quantities import counted
from journal.binary_codec import MAX_OP_SIZE, TERMINATOR, check_layout, decode_op
from journal.errors import (
    CorruptHeaderError,
    CorruptOpError,
    SegmentError,
    TransactionGapError,
    UnreadableOpError,
    UnsupportedEditsLayoutError,
)
from journal.operation import EditOp
from journal.primitives import Buffer
from journal.resync import op_follows

HEADER_SIZE = 8
_HEADER = Struct(">ii")
_MIN_LAYOUT = -999  # a smaller number is not a layout version, so the file is not a segment
_NEVER_WRITTEN = -1  # layout version in a preallocated file that contains only 0xFF
_PADDING = b"\x00\xff"
_PADDING_STEP = 1 << 20


class SegmentScan(NamedTuple):
    """Result of a scan; the txids are None if no operation is complete.

    `end` is the position after the last intact operation before the first fault. `corrupt` is set if a complete
    operation with a later txid follows a damaged operation; a truncation at `end` would lose the complete operation.
    """

    layout_version: int
    first_txid: int | None
    last_txid: int | None
    end: int
    corrupt: bool


def encode_header(layout_version: int) -> bytes:
    """Return the header of a segment: the layout version and no layout flags.

    Raises:
        UnsupportedEditsLayoutError: the catalogue does not describe this layout.
    """
    check_layout(layout_version)
    return _HEADER.pack(layout_version, 0)


def decode_header(buffer: Buffer, *, file: str = "") -> int:
    """Return the layout version of the segment in `buffer`; its operations start at HEADER_SIZE.

    Raises:
        CorruptHeaderError: the file is too short, or was allocated, but never written.
        UnsupportedEditsLayoutError: the layout or a layout flag is unknown.
    """
    if len(buffer) < 4:
        # a layout version is a small negative number, which begins with three bytes of 0xff
        if not buffer or bytes(buffer).strip(b"\xff"):
            _check_kind(buffer, 0, file)
        raise _truncated(buffer, file)
    layout_version = int.from_bytes(buffer[0:4], "big", signed=True)
    if layout_version == _NEVER_WRITTEN:
        raise CorruptHeaderError("the file was allocated, but no header was written", file=file, offset=0)
    _check_kind(buffer, layout_version, file)
    check_layout(layout_version, file=file)
    if len(buffer) < HEADER_SIZE:
        raise _truncated(buffer, file)
    flags = int.from_bytes(buffer[4:8], "big", signed=True)
    if flags < 0:
        raise CorruptHeaderError(f"the number of layout flags is {flags}", file=file, offset=4)
    if flags > 0:
        raise UnsupportedEditsLayoutError(f"{flags} unknown layout flags", file=file, offset=4)
    return layout_version


def _truncated(buffer: Buffer, file: str) -> CorruptHeaderError:
    return CorruptHeaderError(f"the header is truncated after {counted(len(buffer), 'byte')}", file=file, offset=0)


def _check_kind(buffer: Buffer, layout_version: int, file: str) -> None:
    """Raise an error for an unknown layout, perhaps of a future release, or for a file that is not a segment."""
    if _MIN_LAYOUT <= layout_version < 0:
        return
    head = bytes(buffer[:HEAD_BYTES])
    kind = file_kind(head)
    if kind is None:
        problem = f"the file begins with {head[:8].hex(' ')}, not with the header of an edit log segment"
        raise CorruptHeaderError(problem, file=file, offset=0)
    if not head.strip(b"\x00"):
        raise CorruptHeaderError(f"the segment is {kind.name}", file=file, offset=0, hint=kind.hint)
    # If the file has the name of a segment, the operator needs another copy of it; the kind's hint describes another
    # use of the file.
    hint = "" if parse_segment(Path(file).name) else kind.hint
    raise CorruptHeaderError(f"the file is {kind.name}, not an edit log segment", file=file, offset=0, hint=hint)


class SegmentCursor:
    """Iterator over the operations of a segment in order of txid.

    Args:
        buffer: the whole file.
        file: name of the file, for errors.
        first_txid: required txid of the first operation.
        last_txid: last txid of a finalized segment; reading stops after this transaction without checking the rest.
        from_txid: earlier operations are checked, but not returned.
        in_progress: whether damage without a complete operation after it counts as the end instead of as an error.
        max_op_size: maximum size of an operation in bytes.

    Attributes:
        layout_version: layout version of its operations.
        position: position of the operation that `next` will decode.
        expected: required txid of this operation; None accepts any txid.

    Raises:
        CorruptHeaderError, UnsupportedEditsLayoutError: see `decode_header`.
        CorruptOpError: an operation cannot be decoded, or bytes follow the terminator; raised by `next`.
        TransactionGapError: a txid does not follow its predecessor; raised by `next`.
        SegmentError: the segment ends before `last_txid`; raised by `next`.
    """

    def __init__(
        self,
        buffer: Buffer,
        *,
        file: str = "",
        first_txid: int | None = None,
        last_txid: int | None = None,
        from_txid: int | None = None,
        in_progress: bool = False,
        max_op_size: int = MAX_OP_SIZE,
    ) -> None:
        self.buffer = buffer
        self.file = file
        self.layout_version = decode_header(buffer, file=file)
        self.last_txid = last_txid
        self.position = HEADER_SIZE
        self.expected = first_txid
        self._from_txid = from_txid
        self._in_progress = in_progress
        self._max_op_size = max_op_size

    def __iter__(self) -> Iterator[EditOp]:
        return self

    def __next__(self) -> EditOp:
        while (op := self._read()) is not None:
            if self._from_txid is None or op.txid >= self._from_txid:
                return op
        raise StopIteration

    def skip(self) -> None:
        """Skip the operations before the first requested transaction, so that `position` is its start."""
        while self._from_txid is not None and self.expected is not None and self.expected < self._from_txid:
            if self._read() is None:
                return

    def advance(self, position: int, expected: int) -> None:
        """Continue at `position`, after operations that another reader has read."""
        self.position, self.expected = position, expected

    def _read(self) -> EditOp | None:
        """Return the next operation; None at the end."""
        expected, buffer = self.expected, self.buffer
        if self.last_txid is not None and expected is not None and expected > self.last_txid:
            return None
        if self.position >= len(buffer):
            self._check_end()
            return None
        try:
            if buffer[self.position] == TERMINATOR:
                check_padding(buffer, self.position, self.file)
                self._check_end()
                return None
            op, following = decode_op(
                buffer, self.position, self.layout_version, file=self.file, max_op_size=self._max_op_size
            )
        except UnreadableOpError as error:
            self._check_txid(error.txid)
            raise
        except CorruptOpError as error:
            if self._in_progress and not op_follows(buffer, self.position, expected):
                self._check_end()
                return None
            if expected is not None:
                error.locate(txid=expected)
            raise
        self._check_txid(op.txid)
        self.expected = op.txid + 1
        self.position = following
        return op

    def _check_txid(self, txid: int | None) -> None:
        if self.expected is not None and txid != self.expected:
            raise TransactionGapError(self.expected, txid, file=self.file, offset=self.position)

    def _check_end(self) -> None:
        if self.last_txid is not None:
            expected = self.expected
            reached = "has no operation" if expected is None else f"ends before txid {expected}"
            problem = f"the segment {reached}; according to its name, it ends with txid {self.last_txid}"
            raise SegmentError(problem, file=self.file, offset=self.position)


def scan_segment(buffer: Buffer, *, file: str = "", first_txid: int | None = None) -> SegmentScan:
    """Determine the intact part of a segment in progress, as the recovery after a crash does.

    Raises:
        CorruptHeaderError, UnsupportedEditsLayoutError: see `decode_header`.
        UnreadableOpError: other software wrote an operation.
    """
    layout_version = decode_header(buffer, file=file)
    position = HEADER_SIZE
    first = last = None
    expected = first_txid
    corrupt = False
    while position < len(buffer):
        try:
            if buffer[position] == TERMINATOR:
                check_padding(buffer, position, file)
                break
            op, following = decode_op(buffer, position, layout_version, file=file)
        except UnreadableOpError as error:
            if expected is None or error.txid == expected:
                raise
            corrupt = True
            break
        except CorruptOpError:
            corrupt = op_follows(buffer, position, expected)
            break
        if expected is not None and op.txid != expected:
            corrupt = True
            break
        first = op.txid if first is None else first
        last = op.txid
        expected = op.txid + 1
        position = following
    return SegmentScan(layout_version, first, last, position, corrupt)


def check_padding(buffer: Buffer, position: int, file: str) -> None:
    """Check that only bytes 0x00 and 0xFF follow the terminator at `position`.

    Raises:
        CorruptOpError: another byte follows.
    """
    for start in range(position, len(buffer), _PADDING_STEP):
        chunk = bytes(buffer[start : start + _PADDING_STEP])
        rest = chunk.lstrip(_PADDING)
        if rest:
            offset = start + len(chunk) - len(rest)
            raise CorruptOpError(
                f"byte 0x{rest[0]:02x} follows the terminator at byte {position}", file=file, offset=offset
            )


def unchecked_ops(content: Buffer, file: str) -> Iterator[EditOp]:
    """Yield the operations of a segment without checking their txids.

    Raises:
        CorruptHeaderError, UnsupportedEditsLayoutError: see `decode_header`.
        CorruptOpError: an operation cannot be decoded, or bytes follow the terminator.
    """
    layout_version = decode_header(content, file=file)
    position = HEADER_SIZE
    while position < len(content):
        if content[position] == TERMINATOR:
            check_padding(content, position, file)
            return
        op, position = decode_op(content, position, layout_version, file=file)
        yield op
