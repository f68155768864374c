"""The kernel that replays a segment as far as it can."""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.attributes import set_owner, set_permissions, set_replication, times
from engine.replay.kernels.files import add, add_block, close, reassign_lease, update_blocks
from engine.replay.kernels.frames import BODY, CHECKSUM, checksum_fits, frame_end
from engine.replay.kernels.records import i64
from engine.replay.kernels.state import (
    AGAIN,
    DONE,
    GENERATION_STAMP,
    HADOOP3,
    LAST_BLOCK_ID,
    LAST_TXID,
    NAMED_WANTED,
    UNUSUAL,
)
from engine.replay.kernels.structure import delete, mkdir, rename, rename_old
from image_format.kernels.jit import kernel, step
from image_format.kernels.prefetch import prefetch

__all__ = ["FIRST_LAYOUT", "run"]

FIRST_LAYOUT = -60
"""Older edit logs have operations in other forms; the plain functions read those."""
_AHEAD = 1024
"""Bytes of a segment that are asked for before they are read."""
_LINE = 64


@step
def _allocate_block_id(a, buf, pos, end):
    if pos + 8 != end:
        return UNUSUAL
    block_id = i64(buf, pos)
    # 0 need not be what an image without the field says
    if block_id <= 0 or block_id < a[LAST_BLOCK_ID]:
        return UNUSUAL
    a[LAST_BLOCK_ID] = block_id
    return DONE


@step
def _set_genstamp(a, buf, pos, end):
    if pos + 8 != end:
        return UNUSUAL
    stamp = i64(buf, pos)
    if a[HADOOP3]:
        return DONE
    if stamp <= 0:
        return UNUSUAL
    a[GENERATION_STAMP] = stamp
    return DONE


@step
def _apply(a, buf, opcode, pos, end, layout):
    """Apply one operation, the most frequent ones first."""
    if opcode == 33:
        return add_block(a, buf, pos, end)
    if opcode == 32:
        return _allocate_block_id(a, buf, pos, end)
    if opcode == 31:
        return _set_genstamp(a, buf, pos, end)
    if opcode == 0:
        return add(a, buf, pos, end, layout)
    if opcode == 9:
        return close(a, buf, pos, end)
    if opcode == 15:
        return rename(a, buf, pos, end)
    if opcode == 1:
        return rename_old(a, buf, pos, end)
    if opcode == 2:
        return delete(a, buf, pos, end)
    if opcode == 3:
        return mkdir(a, buf, pos, end)
    if opcode == 13:
        return times(a, buf, pos, end)
    if opcode == 7:
        return set_permissions(a, buf, pos, end)
    if opcode == 8:
        return set_owner(a, buf, pos, end)
    if opcode == 4:
        return set_replication(a, buf, pos, end)
    if opcode == 25:
        return update_blocks(a, buf, pos, end)
    if opcode == 22:
        return reassign_lease(a, buf, pos, end)
    if (opcode == 23 or opcode == 24) and pos == end:
        return DONE
    return UNUSUAL


@kernel
def run(a, buf, pos, limit, layout, last_txid, checked):
    """Replay the operations of a segment that are plain, from the one at `pos` on.

    Args:
        a: the state, see `kernels.state`; buf: the segment.
        limit: how many operations at most; last_txid: behind which it stops.
        checked: operations before it have the right checksum.

    Returns:
        (position of the first operation that was not applied, how many were, `DONE` or why it stopped). An operation
        that is damaged, out of order or of an unknown kind is `UNUSUAL`, as is the end of the segment; it is `AGAIN`
        also where only a table of names lacks room.
    """
    count = 0
    status = np.int64(DONE)
    while count < limit and a[LAST_TXID] < last_txid:
        end = frame_end(buf, pos)
        if end < 0:
            status = np.int64(UNUSUAL)
            break
        txid = i64(buf, pos + 5)
        if txid != a[LAST_TXID] + 1 or not (end < checked or checksum_fits(buf, pos, end)):
            status = np.int64(UNUSUAL)
            break
        for line in range(_AHEAD, _AHEAD + min(end - pos, _AHEAD), _LINE):
            prefetch(buf, pos + line)
        status = np.int64(_apply(a, buf, np.int64(buf[pos]), pos + BODY, end, layout))
        if status != DONE:
            break
        a[LAST_TXID] = txid
        count += 1
        pos = end + CHECKSUM
        if a[NAMED_WANTED] > 0:
            status = np.int64(AGAIN)
            break
    return pos, count, status
