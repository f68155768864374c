"""Transactions in the form of `journal.binary_codec` at layout -63: framing, primitives, a function for each opcode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bench.kernels.hashing import below, mixed
from bench.kernels.names import put_decimal, put_pool
from engine.replay.kernels.records import crc32
from image_format.kernels.jit import kernel, lean_kernel

OP_ROOM = 8192
"""Maximum number of bytes of a transaction."""
(
    OUT, TEMPORARY, ATTEMPT_NUMBER, ATTEMPT, TASK, MAP, FIRST_TRY, PART, SUCCESS, CLIENT, NET, DOT, LOAD, NEW, MOVED,
    DIRECTORY, SNAPSHOT,
) = range(17)  # fmt: skip
TXID, INODE, BLOCK, STAMP, NOW, CALLS, DRAWS, NAMES, STICKY, SEED, MADE, JOBS, RUN, RUN_LEFT, RUN_SIZE = range(15)
"""Positions in `EditState.numbers`."""
_DRAW = 31


class EditState(NamedTuple):
    """State of the generator between two transactions.

    Attributes:
        numbers: counters, by the positions above.
        gone: a bit for each deleted or renamed file, by position of the inode.
        dead: whether the directory itself was deleted, by directory.
        slots, writers, outputs: see `bench.kernels.jobs`; the last output is a directory whose files change.
        made: (directory, number) of created directories that may be deleted.
        roots: roots by snapshottable directory, see `bench.kernels.changes`.
        levels: number of the first directory of each depth.
    """

    numbers: npt.NDArray[np.int64]
    gone: npt.NDArray[np.uint8]
    dead: npt.NDArray[np.uint8]
    slots: npt.NDArray[np.int64]
    writers: npt.NDArray[np.int64]
    outputs: npt.NDArray[np.uint8]
    made: npt.NDArray[np.int64]
    roots: npt.NDArray[np.int64]
    levels: npt.NDArray[np.int64]


@kernel
def chance(state, limit):
    """Return the next random number below `limit`."""
    state.numbers[DRAWS] += 1
    return below(mixed(state.numbers[SEED], state.numbers[DRAWS], _DRAW), limit)


@lean_kernel
def tick(state):
    """Advance to the time of the next transaction, which may equal the present time; return the new time."""
    state.numbers[NOW] += state.numbers[TXID] & 1
    return state.numbers[NOW]


@kernel
def _big(out, pos, value, size):
    for i in range(size):
        out[pos + i] = value >> (8 * (size - 1 - i)) & 0xFF
    return pos + size


@kernel
def put_long(out, pos, value):
    return _big(out, pos, np.int64(value), 8)


@kernel
def put_short(out, pos, value):
    return _big(out, pos, np.int64(value), 2)


@kernel
def put_int(out, pos, value):
    return _big(out, pos, np.int64(value), 4)


@kernel
def put_vlong(out, pos, value):
    """Append a VLONG of WritableUtils."""
    if -112 <= value <= 127:
        out[pos] = value & 0xFF
        return pos + 1
    first = np.int64(-112)
    if value < 0:
        value = ~value
        first = np.int64(-120)
    size = 0
    rest = value
    while rest:
        rest >>= 8
        size += 1
    out[pos] = (first - size) & 0xFF
    return _big(out, pos + 1, value, size)


@kernel
def begin(out, pos, state, opcode):
    """Append the opcode, space for the length, and the txid; return the start of the body."""
    state.numbers[TXID] += 1
    out[pos] = opcode
    return _big(out, pos + 5, state.numbers[TXID], 8)


@kernel
def end(out, start, pos):
    """Fill in the length of the transaction at `start` and append its CRC-32."""
    _big(out, start + 1, np.int64(pos - start - 1), 4)
    return _big(out, pos, np.int64(crc32(out, start, pos)), 4)


@kernel
def put_text(out, pos, tree, text):
    """Append one of EDIT_TEXTS."""
    return put_pool(out, pos, tree, tree.counts[7] + text)


@kernel
def put_bytes(out, pos, source, size):
    """Append the first `size` bytes of `source`."""
    for k in range(np.uint64(size)):
        out[np.uint64(pos) + k] = source[k]
    return pos + size


@lean_kernel
def text_end(out, start, pos):
    """Fill in the length of the STR whose length field is at `start`; return `pos`."""
    _big(out, start, np.int64(pos - start - 2), 2)
    return pos


@kernel
def put_permission(out, pos, tree, owner, mode):
    """Append a PermissionStatus: user and group as TEXT, mode."""
    user = tree.counts[5] + owner
    group = tree.counts[6] + owner % tree.counts[4]
    out[pos] = tree.bounds[user + 1] - tree.bounds[user]
    pos = put_pool(out, pos + 1, tree, user)
    out[pos] = tree.bounds[group + 1] - tree.bounds[group]
    pos = put_pool(out, pos + 1, tree, group)
    return put_short(out, pos, mode)


@kernel
def put_no_features(out, pos):
    """Append an empty ACL and no xattrs."""
    pos = put_int(out, pos, 0)
    out[pos] = 0
    return pos + 1


@kernel
def put_rpc(out, pos, state, client):
    """Append the RPC client id of 16 bytes and the call id."""
    state.numbers[CALLS] += 1
    pos = put_short(out, pos, 16)
    pos = put_long(out, pos, np.int64(mixed(state.numbers[SEED], client, _DRAW + 1)))
    pos = put_long(out, pos, np.int64(mixed(state.numbers[SEED], client, _DRAW + 2)))
    return put_int(out, pos, state.numbers[CALLS] & 0x7FFFFFFF)


@kernel
def put_no_rpc(out, pos):
    return put_int(out, put_short(out, pos, 0), -2)


@kernel
def put_client(out, pos, tree, job, task):
    """Append the name and the machine of a task's client, each as STR."""
    start = pos
    pos = put_text(out, pos + 2, tree, CLIENT)
    pos = put_decimal(out, pos, job, 6)
    pos = put_text(out, pos, tree, MAP)
    pos = put_decimal(out, pos, task, 6)
    pos = put_text(out, pos, tree, FIRST_TRY)
    pos = text_end(out, start, pos)
    start = pos
    pos = put_text(out, pos + 2, tree, NET)
    pos = put_decimal(out, pos, task >> 8 & 255, 1)
    pos = put_text(out, pos, tree, DOT)
    pos = put_decimal(out, pos, (job + task) & 255, 1)
    return text_end(out, start, pos)
