"""Finds the paths and times of many operations in their bytes, with NumPy.

The lengths of the preceding fields determine the positions of paths and times in frequent operations. All other
operations are decoded.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from journal import kinds
from journal.binary_codec import decode_op
from journal.compound_kinds import BLOCK_ARRAY, TIMESTAMP_TWICE
from journal.op_times import CLOCKS, MAX_MILLIS, PATH_LISTS, PATHS, SPREADING, op_time
from journal.operation import EditOp, OpField
from journal.ops import OPERATIONS, AddOp
from journal.segment_frames import HEAD_SIZE
from journal.whole_frames import Frames, Ints

_SIZES: Final = {kinds.BYTE: 1, kinds.BOOL: 1, kinds.SHORT: 2, kinds.MODE: 2, kinds.INT: 4, kinds.LONG: 8}
_LENGTH: Final = 2
"""Size of the length before a string."""
_PATH, _TIME, _STRING, _BLOCKS, _SKIPPED = "path", "time", "string", "blocks", "skipped"

Octets = npt.NDArray[np.uint8]


class OpColumns(NamedTuple):
    """Paths and times of operations, as columns.

    Attributes:
        times: time at which each operation was logged, in ms since 1970; 0 if unknown.
        begins, sizes: start and size of each path in the buffer, in bytes.
        spreads: whether the operation of each path affects everything below the path.
        decoded: operations whose paths are not in these arrays.
    """

    times: Ints
    begins: Ints
    sizes: Ints
    spreads: npt.NDArray[np.bool_]
    decoded: list[EditOp]


def op_columns(buffer: bytes, frames: Frames, layout_version: int) -> OpColumns:
    """Return the paths and times of the operations in `frames`.

    Raises:
        CorruptOpError: an operation that had to be decoded is damaged.
    """
    data = np.frombuffer(buffer, np.uint8)
    starts, ends = frames.starts, frames.ends
    opcodes = data[starts]
    times = np.zeros(len(starts), np.int64)
    decode = np.zeros(len(starts), np.bool_)
    ranges: list[tuple[Ints, Ints, npt.NDArray[np.bool_]]] = []
    for opcode in np.unique(opcodes).tolist():
        chosen = np.flatnonzero(opcodes == opcode)
        steps = _steps(opcode, layout_version)
        if steps is None:
            decode[chosen] = True
            continue
        fields = _walk(data, starts[chosen] + HEAD_SIZE, ends[chosen], steps)
        decode[chosen[~fields.possible]] = True
        times[chosen] = fields.times
        for begins, sizes in fields.paths:
            kept = begins[fields.possible], sizes[fields.possible]
            ranges.append((*kept, np.full(len(kept[0]), opcode in SPREADING)))
    decoded = []
    for number in np.flatnonzero(decode).tolist():
        op, _ = decode_op(buffer, int(starts[number]), layout_version)
        times[number] = op_time(op) or 0
        decoded.append(op)
    if not ranges:
        return OpColumns(times, starts[:0], starts[:0], decode[:0], decoded)
    begins, sizes, spreads = map(np.concatenate, zip(*ranges, strict=True))
    return OpColumns(times, begins, sizes, spreads, decoded)


class _FieldStep(NamedTuple):
    """A step over one field of `size` bytes; for a string, `size` is the number of bytes of its length."""

    kind: str
    size: int


@cache
def _steps(opcode: int, layout_version: int) -> tuple[_FieldStep, ...] | None:
    """Return the steps over an operation's fields up to its last path or time; None if decoding is necessary."""
    operation = OPERATIONS.get(opcode)
    if operation is None:
        return None
    fields = [each for each in operation.fields if each.present_in(layout_version)]
    clock = CLOCKS.get(operation.name, "")
    if "." in clock:
        return None
    wanted = {clock, *PATHS, *PATH_LISTS}
    if operation is AddOp:
        wanted.add("blocks")
    left = len([each for each in fields if each.name in wanted])
    steps: list[_FieldStep] = []
    for each in fields:
        if not left:
            break
        left -= each.name in wanted
        step = _step(each, wanted=each.name in wanted)
        if step is None:
            return None
        steps.append(step)
    return tuple(steps)


def _step(field: OpField, *, wanted: bool) -> _FieldStep | None:
    if field.part not in (None, TIMESTAMP_TWICE):
        return None
    if field.kind is kinds.STR:
        return _FieldStep(_PATH if wanted else _STRING, _LENGTH)
    if not wanted:
        return _FieldStep(_SKIPPED, _SIZES[field.kind]) if field.kind in _SIZES else None
    if field.kind is BLOCK_ARRAY:
        return _FieldStep(_BLOCKS, _SIZES[kinds.INT])
    return _FieldStep(_TIME, _SIZES[kinds.LONG]) if field.kind is kinds.LONG else None


class _Fields(NamedTuple):
    """Fields of operations of one kind; `possible` is False if a length points outside the operation."""

    times: Ints
    paths: list[tuple[Ints, Ints]]
    possible: npt.NDArray[np.bool_]


def _walk(data: Octets, at: Ints, ends: Ints, steps: tuple[_FieldStep, ...]) -> _Fields:
    times = np.zeros(len(at), np.int64)
    paths = []
    possible = np.ones(len(at), np.bool_)
    for step in steps:
        possible &= at + step.size <= ends
        if step.kind in (_PATH, _STRING):
            length = _number(data, at, step.size)
            if step.kind == _PATH:
                paths.append((at + step.size, length))
            at = at + length
            possible &= at + step.size <= ends
        elif step.kind == _TIME:
            value = _number(data, at, step.size)
            times = np.where((value > 0) & (value <= MAX_MILLIS), value, 0)
        elif step.kind == _BLOCKS:
            # An OP_ADD with blocks is an append of an old release, which contains the file's old times.
            times = np.where(_number(data, at, step.size) == 0, times, 0)
        at = at + step.size
    return _Fields(np.where(possible, times, 0), paths, possible)


def _number(data: Octets, at: Ints, size: int) -> Ints:
    """Return the big-endian signed integers of `size` bytes at `at`; positions outside `data` return arbitrary
    numbers.
    """
    value = np.zeros(len(at), np.int64)
    for number in range(size):
        value = value << 8 | data[np.minimum(at + number, len(data) - 1)]
    return value
