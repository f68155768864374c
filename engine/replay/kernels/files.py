"""ADD, ADD_BLOCK, UPDATE_BLOCKS, CLOSE and REASSIGN_LEASE as kernels; `engine.replay.files` contains the plain twins.

Each kernel receives the state, the segment, and the start and the end of the operation's body. It returns `DONE`, or
`UNUSUAL` or `AGAIN` without having changed anything. Therefore, each kernel has two parts. The first part reads fields,
finds rows and reserves space; it may return at any point. The second part writes and cannot fail. Reserving space may
add a string to the pool, or move a block list to a place where the list can grow. Neither counts as a change.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import entry_may_change
from engine.replay.kernels.change import (
    acl_end,
    acl_room,
    call_end,
    close_file,
    created_room,
    keep_name,
    lease,
    may_hold,
    note_acl,
    note_created,
    open_file,
    owner_end,
    permission_of,
    raise_mtime,
    see_stamp,
    set_link,
)
from engine.replay.kernels.layouts import (
    ADD,
    ADD_HEAD,
    ADD_TAIL,
    ADD_TAIL_WITHOUT_EC,
    BLOCK,
    BLOCK_SIZE,
    CLOSE,
    CLOSE_HEAD,
    COUNT,
    ERASURE_CODING,
)
from engine.replay.kernels.lookup import any_child, child, has_room, is_new_id, last_slash, parent_of
from engine.replay.kernels.recording import note_change
from engine.replay.kernels.records import i16, i32, i64, path_end, skip_string, vlong
from engine.replay.kernels.state import (
    ABSENT,
    AGAIN,
    DONE,
    UNUSUAL,
    blocks_of,
    ids_of,
    link_slots_of,
    links_of,
    names_of,
    rows_of,
)
from engine.replay.kernels.strings import intern
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.kernels.inode import (
    DIRECTORY,
    DIRTY,
    DROPPED,
    FILE,
    LAST_COMPLETE,
    SPECIAL,
    UNDER_CONSTRUCTION,
    UNKNOWN_FIELDS,
)
from image_format.kernels.jit import step
from image_format.kernels.tables import find_link, hash_name, put_number

_MAX_POLICY = 15
_MAX_BLOCK_SIZE = (1 << 48) - 1
_SMALLEST_COMPACT_BLOCK = 10


@step
def anywhere(state, buf, pos, end):
    """Return (row of the path at `pos`, or `ABSENT`, `UNUSUAL` or `AGAIN`; position after the path).

    `latest` and `inside` of the state identify the snapshot that contains the path's directory.
    """
    following = path_end(buf, pos, end)
    if following < 0:
        return np.int64(UNUSUAL), following
    start = pos + 2
    slash = last_slash(buf, start, following)
    parent = parent_of(state, buf, start, slash)
    if parent < 0:
        return parent, following
    if rows_of(state)[parent]["kind"] != DIRECTORY:
        return np.int64(UNUSUAL), following
    size = following - slash - 1
    return any_child(state, parent, buf, slash + 1, size, hash_name(parent, buf, slash + 1, size)), following


@step
def _file(state, buf, pos, end):
    """Return the row of a file whose blocks and lease may change without a note for snapshots, otherwise `UNUSUAL`."""
    row, following = anywhere(state, buf, pos, end)
    if row == ABSENT:
        row = np.int64(UNUSUAL)
    if row >= 0:
        entry = rows_of(state)[row]
        if entry["kind"] != FILE or entry["flags"] & UNKNOWN_FIELDS or entry["marks"] & SPECIAL:
            row = np.int64(UNUSUAL)
    return row, following


@step
def new_row(state, inode_id, kind, offset, size):
    """Return a row for a new inode; its name is at `offset` of the arena."""
    number = state.rows_used
    state.rows_used = number + 1
    state.inodes += 1
    row = rows_of(state)[number]
    row["id"] = inode_id
    row["parent"] = -1
    row["slot"] = -1
    row["name_offset"] = offset
    row["name_length"] = size
    row["kind"] = kind
    row["replication"] = -1
    row["ec_policy"] = -1
    row["ns_quota"] = -1
    row["ds_quota"] = -1
    row["flags"] = DIRTY
    put_number(ids_of(state), inode_id, number)
    return number


@step
def add(state, buf, pos, end):
    """Apply ADD to a new file without blocks or extended attributes."""
    body = pos
    path = pos + ADD_HEAD.path
    if path > end:
        return UNUSUAL
    inode_id = i64(buf, pos)
    after_path = path_end(buf, path, end)
    if after_path < 0 or after_path + ADD.blocks + COUNT > end:
        return UNUSUAL
    pos = after_path
    replication = i16(buf, pos + ADD.replication)
    mtime, atime = i64(buf, pos + ADD.mtime), i64(buf, pos + ADD.atime)
    block_size = i64(buf, pos + ADD.block_size)
    if i32(buf, pos + ADD.blocks) != 0 or block_size < 1 or block_size > _MAX_BLOCK_SIZE:
        return UNUSUAL
    owner = pos + ADD.blocks + COUNT
    acl = owner_end(buf, owner, end)
    pos = acl_end(buf, acl, end, False)
    # extended attributes are not supported
    if pos < 0 or pos >= end or buf[pos] != 0:
        return UNUSUAL
    given = pos > acl + 4
    permission, known = permission_of(state, buf, owner, acl)
    client_name = pos + 1
    client_machine = skip_string(buf, client_name, end)
    pos = skip_string(buf, client_machine, end)
    with_ec = state.layout <= ERASURE_CODING
    codes = ADD_TAIL.rpc_client_id if with_ec else ADD_TAIL_WITHOUT_EC.rpc_client_id
    if not known or pos < 0 or pos + codes > end or not call_end(buf, pos + codes, end):
        return UNUSUAL
    policy = np.int64(np.int8(buf[pos + ADD_TAIL.storage_policy_id]))
    # The plain function checks which of the other policies Hadoop 2.7 supports.
    if policy < 0 or policy > _MAX_POLICY or (policy != 0 and not state.hadoop3):
        return UNUSUAL
    if with_ec and buf[pos + ADD_TAIL.erasure_coding_policy_id] != 0:
        return UNUSUAL
    slash = last_slash(buf, path + 2, after_path)
    parent = parent_of(state, buf, path + 2, slash)
    if parent < 0 or not may_hold(rows_of(state)[parent]):
        return UNUSUAL if parent != AGAIN else AGAIN
    size = after_path - slash - 1
    hashed = hash_name(parent, buf, slash + 1, size)
    present = child(state, parent, buf, slash + 1, size, hashed)
    if present == AGAIN or not has_room(state, 1, 1, size, 0):
        return AGAIN
    if present != ABSENT or inode_id <= ROOT_INODE_ID or not is_new_id(state, inode_id):
        return UNUSUAL
    changeable = entry_may_change(state, parent)
    if changeable != DONE:
        return changeable
    recorded = created_room(state)
    if recorded == DONE:
        recorded = acl_room(state, parent, given)
    if recorded != DONE:
        return recorded
    holder = intern(state, buf, client_name)
    machine = intern(state, buf, client_machine) if holder >= 0 else holder
    if machine < 0:
        return machine
    link = find_link(link_slots_of(state), links_of(state), names_of(state), hashed, parent, buf, slash + 1, size)
    offset = keep_name(state, buf, slash + 1, size)
    row = new_row(state, inode_id, FILE, offset, size)
    entry = rows_of(state)[row]
    entry["permission"] = permission
    entry["mtime"] = mtime
    entry["atime"] = atime
    entry["block_size"] = block_size
    entry["policy"] = policy
    entry["replication"] = min(max(replication, state.min_replication), state.max_replication)
    state.last_inode_id = max(state.last_inode_id, inode_id)
    note_created(state, parent, row)
    set_link(state, link, parent, row, offset, size, hashed)
    note_acl(state, parent, row, body, given, acl)
    raise_mtime(state, parent, mtime, 0)
    open_file(state, row, holder, machine)
    return DONE


# ---- blocks --------------------------------------------------------------------------------------------------


@step
def _reserve_blocks(state, row, more):
    """Reserve space for a file's growing block list at the end of the arena; return False if the arena is full."""
    entry = rows_of(state)[row]
    count = np.int64(entry["block_count"])
    needed = count + more
    if needed <= entry["block_capacity"]:
        return True
    capacity = max(needed, 2 * count)
    start = state.blocks_used
    if start + capacity > blocks_of(state).size:
        return False
    old = entry["blocks_offset"]
    for i in range(count):
        blocks_of(state)[start + i] = blocks_of(state)[old + i]
    entry["blocks_offset"] = start
    entry["block_capacity"] = capacity
    state.blocks_used = start + capacity
    return True


@step
def _append_block(state, row, block_id, num_bytes, stamp):
    entry = rows_of(state)[row]
    block = blocks_of(state)[entry["blocks_offset"] + entry["block_count"]]
    block["id"] = block_id
    block["num_bytes"] = num_bytes
    block["genstamp"] = stamp
    entry["block_count"] += 1
    see_stamp(state, stamp)


@step
def _compact_block(buf, pos, end, num_bytes, stamp):
    """Return (id, bytes, stamp, next position) of a compact block after a block with these values; -1 if truncated."""
    if pos < 0 or pos + 8 > end:
        return np.int64(0), np.int64(0), np.int64(0), np.int64(-1)
    more_bytes, following = vlong(buf, pos + 8, end)
    more_stamp, following = vlong(buf, following, end) if following >= 0 else (np.int64(0), following)
    return i64(buf, pos), num_bytes + more_bytes, stamp + more_stamp, following


@step
def add_block(state, buf, pos, end):
    """Apply ADD_BLOCK."""
    row, pos = _file(state, buf, pos, end)
    if row < 0:
        return row
    count, pos = vlong(buf, pos, end)
    if pos < 0 or count < 1 or count > 2:
        return UNUSUAL
    entry = rows_of(state)[row]
    first_id, first_bytes, first_stamp, pos = _compact_block(buf, pos, end, 0, 0)
    block_id, num_bytes, stamp = first_id, first_bytes, first_stamp
    held = entry["block_count"]
    last = entry["blocks_offset"] + held - 1
    if count == 2:
        block_id, num_bytes, stamp, pos = _compact_block(buf, pos, end, first_bytes, first_stamp)
        if held == 0 or blocks_of(state)[last]["id"] != first_id or blocks_of(state)[last]["genstamp"] != first_stamp:
            return UNUSUAL
    elif held != 0:
        return UNUSUAL
    if pos < 0 or not call_end(buf, pos, end):
        return UNUSUAL
    if not _reserve_blocks(state, row, 1):
        return AGAIN
    if count == 2:
        blocks_of(state)[entry["blocks_offset"] + held - 1]["num_bytes"] = first_bytes
        see_stamp(state, first_stamp)
    entry["flags"] |= DIRTY
    note_change(state, row)
    entry["marks"] &= 0xFF ^ LAST_COMPLETE
    _append_block(state, row, block_id, num_bytes, stamp)
    return DONE


@step
def _fits(state, entry, index, new_count, block_id, stamp):
    """Return whether block `index` matches the operation's block; only the last block of both may change its stamp."""
    held = entry["block_count"]
    last_of_both = held == new_count and index == held - 1
    block = blocks_of(state)[entry["blocks_offset"] + index]
    return block["id"] == block_id and (block["genstamp"] == stamp or last_of_both)


@step
def _set_block(state, entry, index, num_bytes, stamp):
    block = blocks_of(state)[entry["blocks_offset"] + index]
    block["num_bytes"] = num_bytes
    block["genstamp"] = stamp
    see_stamp(state, stamp)


@step
def _settle(state, row, complete):
    """Set whether the last block of a file is complete."""
    if complete:
        rows_of(state)[row]["marks"] |= LAST_COMPLETE
    else:
        rows_of(state)[row]["marks"] &= 0xFF ^ LAST_COMPLETE


@step
def update_blocks(state, buf, pos, end):
    """Apply an UPDATE_BLOCKS that removes no block."""
    row, pos = _file(state, buf, pos, end)
    if row < 0:
        return row
    count, pos = vlong(buf, pos, end)
    entry = rows_of(state)[row]
    held = np.int64(entry["block_count"])
    if pos < 0 or count < held or count * _SMALLEST_COMPACT_BLOCK > end - pos:
        return UNUSUAL
    start = pos
    num_bytes = stamp = np.int64(0)
    for index in range(count):
        block_id, num_bytes, stamp, pos = _compact_block(buf, pos, end, num_bytes, stamp)
        if pos < 0 or (index < held and not _fits(state, entry, index, count, block_id, stamp)):
            return UNUSUAL
    if not call_end(buf, pos, end):
        return UNUSUAL
    if not _reserve_blocks(state, row, count - held):
        return AGAIN
    entry["flags"] |= DIRTY
    note_change(state, row)
    pos = start
    num_bytes = stamp = np.int64(0)
    for index in range(count):
        block_id, num_bytes, stamp, pos = _compact_block(buf, pos, end, num_bytes, stamp)
        if index < held:
            _set_block(state, entry, index, num_bytes, stamp)
        else:
            _append_block(state, row, block_id, num_bytes, stamp)
    if count > held:
        _settle(state, row, False)
    return DONE


@step
def close(state, buf, pos, end):
    """Apply CLOSE to an open file if it removes no block."""
    row, pos = _file(state, buf, pos + CLOSE_HEAD.path, end)
    if row < 0:
        return row
    entry = rows_of(state)[row]
    if entry["flags"] & UNDER_CONSTRUCTION == 0:
        return UNUSUAL
    if not state.leases_plain and (entry["slot"] >= 0 or not state.hadoop3):
        return UNUSUAL
    blocks = pos + CLOSE.blocks + COUNT
    if blocks > end:
        return UNUSUAL
    mtime, atime = i64(buf, pos + CLOSE.mtime), i64(buf, pos + CLOSE.atime)
    count = i32(buf, pos + CLOSE.blocks)
    held = np.int64(entry["block_count"])
    if count < held or count * BLOCK_SIZE > end - blocks:
        return UNUSUAL
    pos = blocks + count * BLOCK_SIZE
    if owner_end(buf, pos, end) != end:
        return UNUSUAL
    for index in range(held):
        at = blocks + index * BLOCK_SIZE
        if not _fits(state, entry, index, count, i64(buf, at), i64(buf, at + BLOCK.genstamp)):
            return UNUSUAL
    for index in range(count):
        if i64(buf, blocks + index * BLOCK_SIZE + BLOCK.num_bytes) < 0:
            return UNUSUAL
    if not _reserve_blocks(state, row, count - held):
        return AGAIN
    for index in range(count):
        at = blocks + index * BLOCK_SIZE
        if index < held:
            _set_block(state, entry, index, i64(buf, at + BLOCK.num_bytes), i64(buf, at + BLOCK.genstamp))
        else:
            _append_block(state, row, i64(buf, at), i64(buf, at + BLOCK.num_bytes), i64(buf, at + BLOCK.genstamp))
    if count > held:
        _settle(state, row, True)
    entry["atime"] = atime
    entry["mtime"] = mtime
    entry["flags"] = (entry["flags"] | DIRTY) & (0xFF ^ UNDER_CONSTRUCTION)
    note_change(state, row)
    close_file(state, row)
    return DONE


@step
def reassign_lease(state, buf, pos, end):
    """Apply REASSIGN_LEASE to an open file."""
    pos = skip_string(buf, pos, end)
    if pos < 0:
        return UNUSUAL
    row, holder = _file(state, buf, pos, end)
    if row < 0:
        return row
    entry = rows_of(state)[row]
    if skip_string(buf, holder, end) != end or entry["flags"] & (UNDER_CONSTRUCTION | DROPPED) != UNDER_CONSTRUCTION:
        return UNUSUAL
    if not state.leases_plain:
        return UNUSUAL
    number = intern(state, buf, holder)
    if number < 0:
        return number
    entry["client_name"] = number
    entry["flags"] |= DIRTY
    lease(state, entry)
    return DONE
