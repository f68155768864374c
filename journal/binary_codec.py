"""Operations as bytes: opcode, length, txid, body and CRC-32 (FSEditLogOp.Reader and Writer)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from hadoop_common.quantities import counted
from image_format.layout import NEWEST_LAYOUT, OLDEST_LAYOUT, LayoutVersion
from journal.errors import (
    FOREIGN_OP_HINT,
    CorruptOpError,
    OpEncodingError,
    OpTooLargeError,
    OtherLayoutOpError,
    UnknownFieldsError,
    UnknownOpcodeError,
    UnreadableOpError,
    UnsupportedEditsLayoutError,
)
from journal.operation import EditOp, OpField
from journal.ops import OPERATIONS
from journal.primitives import Buffer, PrimitiveReader

MAX_OP_SIZE = (1 << 31) - 1  # the length of an operation is an int in Java
TERMINATOR = 0xFF  # OP_INVALID

_HADOOP_3 = int(LayoutVersion.ERASURE_CODING)
_FRAME = Struct(">Biq")
_TXID = Struct(">q")
_CHECKSUM = Struct(">I")
_MIN_LENGTH = 12  # the length field and the txid


class _ReadPlan(NamedTuple):
    operation: type[EditOp]
    names: tuple[str, ...]
    reads: tuple[Callable[[PrimitiveReader], Any], ...]
    parts: tuple[tuple[str, tuple[str, ...]], ...]


_WritePlan = tuple[tuple[tuple[str, ...], Callable[..., None]], ...]


def check_layout(layout_version: int, *, file: str = "") -> None:
    """Refuse a layout if the catalogue in `journal.ops` does not describe its operations.

    Raises:
        UnsupportedEditsLayoutError: the layout is not within OLDEST_LAYOUT .. NEWEST_LAYOUT.
    """
    if not NEWEST_LAYOUT <= layout_version <= OLDEST_LAYOUT:
        raise UnsupportedEditsLayoutError(
            f"edit log layout version {layout_version} is not one of {OLDEST_LAYOUT} .. {NEWEST_LAYOUT}",
            file=file,
            offset=0,
        )


def _groups(cls: type[EditOp], layout_version: int) -> list[tuple[OpField, ...]]:
    present = [item for item in cls.fields if item.present_in(layout_version)]
    grouped = itertools.groupby(enumerate(present), lambda pair: pair[1].part or pair[0])
    return [tuple(item for _, item in group) for _, group in grouped]


@functools.cache
def _read_plan(opcode: int, layout_version: int) -> _ReadPlan | None:
    cls = OPERATIONS.get(opcode)
    if cls is None:
        return None
    names: list[str] = []
    reads: list[Callable[[PrimitiveReader], Any]] = []
    parts: list[tuple[str, tuple[str, ...]]] = []
    for group in _groups(cls, layout_version):
        part = group[0].part
        if part is None:
            names.append(group[0].name)
            reads.append(group[0].kind.read)
        else:
            names.append(part.name)
            reads.append(part.read)
            parts.append((part.name, tuple(item.name for item in group)))
    return _ReadPlan(cls, tuple(names), tuple(reads), tuple(parts))


@functools.cache
def _write_plan(opcode: int, layout_version: int) -> _WritePlan:
    steps: list[tuple[tuple[str, ...], Callable[..., None]]] = []
    for group in _groups(OPERATIONS[opcode], layout_version):
        part = group[0].part
        steps.append((tuple(item.name for item in group), group[0].kind.write if part is None else part.write))
    return tuple(steps)


def encode_op(op: EditOp, layout_version: int) -> bytes:
    """Return `op` encoded in `layout_version`, with its checksum and without the fields that the layout lacks.

    Raises:
        UnsupportedEditsLayoutError: the catalogue does not describe the layout.
        OpEncodingError: a value does not fit in its field, or the operation is larger than MAX_OP_SIZE.
    """
    check_layout(layout_version)
    out = bytearray(5)
    out[0] = op.opcode
    out += _TXID.pack(op.txid)
    step_names: tuple[str, ...] = ()
    try:
        for step_names, write in _write_plan(op.opcode, layout_version):
            write(out, *[getattr(op, name) for name in step_names])
    except OpEncodingError as error:
        raise OpEncodingError(f"{op.name} {'/'.join(step_names)}: {error.problem}", txid=op.txid) from None
    if len(out) + 4 > MAX_OP_SIZE:
        raise OpEncodingError(f"{op.name} of {len(out) + 4} bytes is larger than {MAX_OP_SIZE}", txid=op.txid)
    out[1:5] = (len(out) - 1).to_bytes(4, "big")
    out += _CHECKSUM.pack(crc32(out))
    return bytes(out)


def decode_op(
    buffer: Buffer, position: int, layout_version: int, *, file: str = "", max_op_size: int = MAX_OP_SIZE
) -> tuple[EditOp, int]:
    """Return the operation whose opcode is at `buffer[position]`, and the position after its checksum.

    `layout_version` must have passed `check_layout`.

    Raises:
        CorruptOpError: the operation is truncated, its length is impossible, or its checksum differs.
        UnreadableOpError: the checksum is correct, but the opcode is unknown, a field cannot be decoded, or bytes are
            left over.
        OpTooLargeError: the operation is complete, but larger than `max_op_size`.
    """
    frame, txid, end = checked_frame(buffer, position, file=file)
    if end - position > max_op_size:
        raise OpTooLargeError(end - position, max_op_size, file=file, offset=position, txid=txid)
    try:
        return _decode_frame(frame, layout_version, file, position, txid), end
    except UnknownOpcodeError:
        raise
    except CorruptOpError as error:
        raise _unreadable(frame, layout_version, error) from None


def checked_frame(buffer: Buffer, position: int, *, file: str = "") -> tuple[bytes, int, int]:
    """Return the operation at `position`: its bytes without the checksum, its txid, its end.

    The fields are not decoded.

    Raises:
        CorruptOpError: the operation is truncated, its length is impossible, or its checksum differs.
    """
    available = len(buffer) - position
    if available < 1:
        raise CorruptOpError("no operation here", file=file, offset=position)
    if available < _FRAME.size:
        raise CorruptOpError(f"the operation is truncated after {available} bytes", file=file, offset=position)
    _, length, txid = _FRAME.unpack_from(buffer, position)
    if length < _MIN_LENGTH:
        raise CorruptOpError(f"impossible operation length {length}", file=file, offset=position)
    if available < length + 5:
        raise CorruptOpError(
            f"the operation is truncated: it has {length + 5} bytes, but only {available} are left",
            file=file,
            offset=position,
            txid=txid,
        )
    end = position + 1 + length
    frame = bytes(buffer[position:end])
    expected = _CHECKSUM.unpack_from(buffer, end)[0]
    if crc32(frame) != expected:
        problem = f"checksum 0x{crc32(frame):08x} differs from the recorded 0x{expected:08x}"
        raise CorruptOpError(problem, file=file, offset=position, txid=txid)
    return frame, txid, end + 4


def _decode_frame(frame: bytes, layout_version: int, file: str, position: int, txid: int) -> EditOp:
    plan = _read_plan(frame[0], layout_version)
    if plan is None:
        raise UnknownOpcodeError(frame[0], file=file, offset=position, txid=txid)
    reader = PrimitiveReader(frame, _FRAME.size)
    op = _decode_body(plan, reader, file, position, txid)
    if reader.position != reader.limit:
        left = reader.limit - reader.position
        raise CorruptOpError(
            f"{op.name} contains {counted(left, 'byte')} after its fields", file=file, offset=position, txid=txid
        )
    return op


def _unreadable(frame: bytes, layout_version: int, error: CorruptOpError) -> UnreadableOpError:
    """Return the error of a frame with a correct checksum, which may have the fields of another layout.

    The nearest newer layout is tried first.
    """
    newer = range(layout_version - 1, NEWEST_LAYOUT - 1, -1)
    for other in (*newer, *range(layout_version + 1, OLDEST_LAYOUT + 1)):
        with suppress(CorruptOpError):
            op = _decode_frame(frame, other, "", 0, 0)
            which = f"{other} or newer" if other < layout_version else f"{other} or older"
            release = ", as Hadoop 3 writes it" if layout_version > _HADOOP_3 >= other else ""
            return OtherLayoutOpError(
                f"{error.problem}: the checksum is correct, but this is {op.name} of layout {which}{release}; the "
                f"header of the segment names layout {layout_version}",
                file=error.file,
                offset=error.offset,
                txid=error.txid,
                hint="" if release else FOREIGN_OP_HINT,
            )
    return UnknownFieldsError(
        f"{error.problem}: the checksum is correct, but this program does not support these fields or values",
        file=error.file,
        offset=error.offset,
        txid=error.txid,
    )


def _decode_body(plan: _ReadPlan, reader: PrimitiveReader, file: str, position: int, txid: int) -> EditOp:
    try:
        values = [read(reader) for read in plan.reads]
    except CorruptOpError as error:
        problem = f"{plan.operation.name}: {error.problem}"
        raise CorruptOpError(problem, file=file, offset=position, txid=txid) from None
    members = dict(zip(plan.names, values, strict=True))
    for key, names in plan.parts:
        members.update(zip(names, members.pop(key), strict=True))
    return plan.operation(txid=txid, offset=position, **members)
