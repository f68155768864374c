"""Client names and machines of files under construction; each string is in a pool once, and rows contain its number."""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.records import is_plain_text, u16
from engine.replay.kernels.state import AGAIN, DONE, UNUSUAL, inodes_of, pool_arena_of, pool_of, pool_slots_of
from image_format.kernels.jit import step
from image_format.kernels.tables import find_link, hash_name, put_link
from image_format.kernels.tags import FileUnderConstructionFeature as Client
from image_format.kernels.tags import INode, INodeFile
from image_format.kernels.wire import copy_bytes, next_field, record_span

_MAX_LENGTH = 0xFFFF


@step
def intern(state, buf, pos):
    """Return the number in the pool of the string at `pos` (16-bit length and bytes), or `UNUSUAL` or `AGAIN`."""
    return _intern(state, buf, pos + 2, u16(buf, pos))


@step
def _intern(state, buf, start, size):
    hashed = hash_name(0, buf, start, size)
    number = find_link(pool_slots_of(state), pool_of(state), pool_arena_of(state), hashed, 0, buf, start, size)
    if number >= 0:
        return number
    if size > _MAX_LENGTH or not is_plain_text(buf, start, start + size):
        return np.int64(UNUSUAL)
    number = state.pool_used
    used = state.pool_bytes_used
    if (
        number == pool_of(state).size
        or (number + 1) * 4 > pool_slots_of(state).size * 3
        or used + size > pool_arena_of(state).size
    ):
        return np.int64(AGAIN)
    item = pool_of(state)[number]
    item["name_offset"] = used
    item["directory"] = 0
    item["row"] = 0
    item["next"] = 0
    item["name_length"] = size
    item["changed"] = 0
    copy_bytes(pool_arena_of(state), used, buf, start, size)
    put_link(pool_slots_of(state), hashed, number)
    state.pool_used = number + 1
    state.pool_bytes_used = used + size
    return number


@step
def read_client(state, offset, row):
    """Set the client name and machine of a row from the file under construction at `offset`.

    Returns:
        `DONE`, `AGAIN`, or `UNUSUAL` for a record with fields that `FileUnderConstructionFeature` does not declare.
    """
    buf = inodes_of(state)
    start, end = record_span(buf, offset)
    start, end = _only(buf, start, end, INode.file)
    pos, end = _only(buf, start, end, INodeFile.fileUC)
    if pos < 0:
        return UNUSUAL
    row["client_name"] = 0
    row["client_machine"] = 0
    while pos < end:
        tag, size, start, pos = next_field(buf, pos, end)
        if pos < 0 or (tag != Client.clientName and tag != Client.clientMachine):
            return UNUSUAL
        number = _intern(state, buf, start, size)
        if number < 0:
            return number
        if tag == Client.clientName:
            row["client_name"] = number
        else:
            row["client_machine"] = number
    return DONE


@step
def _only(buf, pos, end, wanted):
    """Return (start, end) of the message in the only field with a tag; -1 unless exactly one field has the tag."""
    first = np.int64(-1)
    behind = np.int64(-1)
    while 0 <= pos < end:
        tag, _, start, pos = next_field(buf, pos, end)
        if pos < 0 or (tag == wanted and first >= 0):
            return np.int64(-1), np.int64(-1)
        if tag == wanted:
            first = start
            behind = pos
    return first, behind
