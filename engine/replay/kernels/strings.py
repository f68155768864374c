"""Client names and machines of files under construction, for kernels: each once, in a pool that rows point into."""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.records import is_plain_text, u16
from engine.replay.kernels.state import (
    AGAIN,
    DONE,
    POOL_BYTES_USED,
    POOL_USED,
    UNUSUAL,
    inodes_of,
    pool_arena_of,
    pool_of,
    pool_slots_of,
)
from image_format.kernels.jit import step
from image_format.kernels.tables import find_link, hash_name, put_link
from image_format.kernels.tags import FileUnderConstructionFeature as Client
from image_format.kernels.tags import INode, INodeFile
from image_format.kernels.wire import copy_bytes, read_varint, skip_field

_LONGEST = 0xFFFF


@step
def intern(a, buf, pos):
    """Number of the string at `pos`, behind its 16-bit length, put into the pool if need be; `UNUSUAL` or `AGAIN`."""
    return _intern(a, buf, pos + 2, u16(buf, pos))


@step
def _intern(a, buf, start, size):
    hashed = hash_name(0, buf, start, size)
    number = find_link(pool_slots_of(a), pool_of(a), pool_arena_of(a), hashed, 0, buf, start, size)
    if number >= 0:
        return number
    if size > _LONGEST or not is_plain_text(buf, start, start + size):
        return np.int64(UNUSUAL)
    n = a
    number = n[POOL_USED]
    used = n[POOL_BYTES_USED]
    if number == pool_of(a).size or (number + 1) * 4 > pool_slots_of(a).size * 3 or used + size > pool_arena_of(a).size:
        return np.int64(AGAIN)
    item = pool_of(a)[number]
    item["name_offset"] = used
    item["directory"] = 0
    item["row"] = 0
    item["next"] = 0
    item["name_length"] = size
    item["changed"] = 0
    copy_bytes(pool_arena_of(a), used, buf, start, size)
    put_link(pool_slots_of(a), hashed, number)
    n[POOL_USED] = number + 1
    n[POOL_BYTES_USED] = used + size
    return number


@step
def read_client(a, offset, row):
    """Give a row client name and machine of the file under construction at `offset`: `DONE`, `UNUSUAL` or `AGAIN`.

    A record with anything in it that `FileUnderConstructionFeature` does not have is `UNUSUAL`.
    """
    buf = inodes_of(a)
    length, start = read_varint(buf, offset, buf.size)
    start, end = _only(buf, start, start + length, INode.file)
    pos, end = _only(buf, start, end, INodeFile.fileUC)
    if pos < 0:
        return UNUSUAL
    row["client_name"] = 0
    row["client_machine"] = 0
    while pos < end:
        tag, pos = read_varint(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else np.int64(-1)
        if stop < 0 or (tag != Client.clientName and tag != Client.clientMachine):
            return UNUSUAL
        size, pos = read_varint(buf, pos, end)
        number = _intern(a, buf, pos, size)
        if number < 0:
            return number
        if tag == Client.clientName:
            row["client_name"] = number
        else:
            row["client_machine"] = number
        pos = stop
    return DONE


@step
def _only(buf, pos, end, wanted):
    """(start, end) of the message in the only field with a tag, -1 where there is none or more than one."""
    start = np.int64(-1)
    behind = np.int64(-1)
    while 0 <= pos < end:
        tag, pos = read_varint(buf, pos, end)
        stop = skip_field(buf, pos, end, tag) if pos >= 0 else np.int64(-1)
        if stop < 0 or (tag == wanted and start >= 0):
            return np.int64(-1), np.int64(-1)
        if tag == wanted:
            _, start = read_varint(buf, pos, end)
            behind = stop
        pos = stop
    return start, behind
