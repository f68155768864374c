"""Transactions on the content of the image: deleted partitions, attributes of files, snapshots and changes below them.

Directories of the first three levels are never deleted, because jobs write there and snapshots are taken there.
"""

from __future__ import annotations

import numpy as np

from bench.kernels.hashing import below, mixed
from bench.kernels.jobs import SLOTS, job_step, put_add, put_close, put_mkdir, put_rename
from bench.kernels.names import put_decimal, put_file_name, put_path, put_pool
from bench.kernels.operations import (
    DIRECTORY,
    LOAD,
    MADE,
    MOVED,
    NAMES,
    NEW,
    OP_ROOM,
    RUN,
    RUN_LEFT,
    RUN_SIZE,
    SEED,
    SNAPSHOT,
    STICKY,
    TXID,
    begin,
    chance,
    end,
    put_bytes,
    put_long,
    put_rpc,
    put_short,
    put_text,
    text_end,
    tick,
)
from image_format.kernels.jit import kernel

MOST_MADE = 4096
MOST_SNAPSHOTS = 6
ROOT, ALLOWED, OPEN_FILE, OPENED_AT, SNAPSHOTS, FIRST_SNAPSHOT = range(6)
ROOT_FIELDS = 6 + MOST_SNAPSHOTS
"""Columns of a snapshottable directory: its number, whether it is already snapshottable, its open file, its snapshots.
"""
_TRIES = 24
_LONGEST_RUN = 8
_DELETABLE, _DELETABLE_EVERY = 41, 3
_CLIENT = 77
_SLASH = 47
_NO_RANK = -1


@kernel
def _is_alive(tree, state, directory):
    while directory:
        if state.dead[directory]:
            return False
        directory = tree.parents[directory]
    return True


@kernel
def _directory_of(tree, rank):
    """Return the directory at a position, or the directory of the file at that position."""
    low, high = 0, tree.parents.size
    while high - low > 1:
        middle = (low + high) >> 1
        if tree.ranks[middle] <= rank:
            low = middle
        else:
            high = middle
    return low


@kernel
def _old_file(tree, state, first, last):
    """Find a file between two positions that was not moved; return (position or _NO_RANK, its directory)."""
    for _ in range(_TRIES):
        if last <= first:
            break
        rank = first + chance(state, last - first)
        directory = _directory_of(tree, rank)
        is_gone = state.gone[rank >> 3] >> (rank & 7) & 1
        if rank != tree.ranks[directory] and not is_gone and _is_alive(tree, state, directory):
            return rank, directory
    return np.int64(_NO_RANK), 0


@kernel
def _take(state, rank):
    """Record that the file was moved or deleted."""
    state.gone[rank >> 3] |= np.uint8(1 << (rank & 7))


@kernel
def _file_path(path, tree, rank, directory):
    size = put_path(path, 0, tree, directory)
    path[size] = _SLASH
    return put_file_name(path, size + 1, tree, directory, rank - tree.ranks[directory] - 1)


@kernel
def _path_below(path, tree, directory, text, number):
    """Write the path of a new name in a directory; the name consists of a string and a number."""
    return put_decimal(path, put_text(path, put_path(path, 0, tree, directory), tree, text), number, 9)


@kernel
def _put_delete(out, pos, state, path, size):
    start = pos
    pos = begin(out, pos, state, 2)
    pos = text_end(out, pos, put_bytes(out, pos + 2, path, size))
    return end(out, start, put_rpc(out, put_long(out, pos, tick(state)), state, _CLIENT))


@kernel
def _make_partition(out, pos, tree, state, path):
    """Append OP_MKDIR of a partition and record the partition, in place of an older partition if there are too many."""
    directory = 1 + chance(state, state.levels[4] - 1)
    state.numbers[NAMES] += 1
    size = _path_below(path, tree, directory, LOAD, state.numbers[NAMES])
    place = state.numbers[MADE]
    if place == MOST_MADE:
        place = chance(state, MOST_MADE)
    else:
        state.numbers[MADE] += 1
    state.made[place, 0], state.made[place, 1] = directory, state.numbers[NAMES]
    return put_mkdir(out, pos, tree, state, np.int64(tree.owners[directory]), path, size)


@kernel
def _old_directory(tree, state):
    """Return a directory that may be deleted with everything below it; 0 if there is none."""
    first, count = state.levels[4], tree.parents.size - state.levels[4]
    for _ in range(_TRIES if count > 0 else 0):
        directory = first + chance(state, count)
        may = below(mixed(state.numbers[SEED], directory, _DELETABLE), _DELETABLE_EVERY) == 0
        if may and _is_alive(tree, state, directory):
            return directory
    return np.int64(0)


@kernel
def _delete_step(out, pos, tree, state, path):
    """Append the creation of a partition, the end of a new or an old partition, or the deletion of a file."""
    choice = chance(state, 100)
    if choice < 20 and state.numbers[MADE]:
        place = chance(state, state.numbers[MADE])
        size = _path_below(path, tree, state.made[place, 0], LOAD, state.made[place, 1])
        state.numbers[MADE] -= 1
        state.made[place] = state.made[state.numbers[MADE]]
        return _put_delete(out, pos, state, path, size)
    if 20 <= choice < 50:
        directory = _old_directory(tree, state)
        if directory:
            state.dead[directory] = 1
            return _put_delete(out, pos, state, path, put_path(path, 0, tree, directory))
    if 50 <= choice < 65:
        rank, directory = _old_file(tree, state, np.int64(0), tree.ranks[-1])
        if rank != _NO_RANK:
            _take(state, rank)
            return _put_delete(out, pos, state, path, _file_path(path, tree, rank, directory))
    return _make_partition(out, pos, tree, state, path)


@kernel
def _put_attribute(out, pos, tree, state, path, size):
    """Append OP_SET_PERMISSIONS, OP_SET_OWNER, OP_TIMES or OP_SET_REPLICATION of a file."""
    choice = chance(state, 4)
    opcode = 7 if choice == 0 else 8 if choice == 1 else 13 if choice == 2 else 4
    start = pos
    pos = begin(out, pos, state, opcode)
    pos = text_end(out, pos, put_bytes(out, pos + 2, path, size))
    if choice == 0:
        modes = (0o644, 0o640, 0o600, 0o664, 0o444)
        pos = put_short(out, pos, modes[chance(state, 5)])
    elif choice == 1:
        owner = chance(state, tree.counts[3])
        pos = text_end(out, pos, put_pool(out, pos + 2, tree, tree.counts[5] + owner))
        # half of the changes keep the group
        with_group = chance(state, 2)
        group = tree.counts[6] + owner % tree.counts[4] if with_group else 0
        pos = text_end(out, pos, put_pool(out, pos + 2, tree, group))
    elif choice == 2:
        now = tick(state)
        pos = put_long(out, pos, np.int64(-1) if chance(state, 4) else now)
        pos = put_long(out, pos, now)
    else:
        pos = put_short(out, pos, 1 + chance(state, 5))
    return end(out, start, pos)


@kernel
def _attribute_step(out, pos, tree, state, path):
    """Append a change of an old file, often in the directory of the previous change, or a new partition."""
    numbers, home = state.numbers, state.outputs[SLOTS]
    rank, directory = np.int64(_NO_RANK), numbers[RUN]
    if numbers[RUN_LEFT] > 0:
        numbers[RUN_LEFT] -= 1
        rank, _ = _old_file(tree, state, tree.ranks[directory] + 1, tree.ranks[directory + 1])
    if rank == _NO_RANK:
        rank, directory = _old_file(tree, state, np.int64(0), tree.ranks[-1])
        if rank == _NO_RANK:
            return _make_partition(out, pos, tree, state, path)
        numbers[RUN], numbers[RUN_LEFT] = directory, chance(state, _LONGEST_RUN)
        numbers[RUN_SIZE] = put_path(home, 0, tree, directory)
        home[numbers[RUN_SIZE]] = _SLASH
        numbers[RUN_SIZE] += 1
    size = put_bytes(path, 0, home, numbers[RUN_SIZE])
    size = put_file_name(path, size, tree, directory, rank - tree.ranks[directory] - 1)
    return _put_attribute(out, pos, tree, state, path, size)


@kernel
def _put_snapshot(out, pos, tree, state, root, opcode, path, number, fresh):
    """Append OP_CREATE_SNAPSHOT, OP_DELETE_SNAPSHOT or OP_RENAME_SNAPSHOT (to the number `fresh`)."""
    start = pos
    size = put_path(path, 0, tree, root)
    pos = begin(out, pos, state, opcode)
    pos = text_end(out, pos, put_bytes(out, pos + 2, path, size))
    pos = text_end(out, pos, put_decimal(out, put_text(out, pos + 2, tree, SNAPSHOT), number, 9))
    if opcode == 28:
        pos = text_end(out, pos, put_decimal(out, put_text(out, pos + 2, tree, SNAPSHOT), fresh, 9))
    return end(out, start, put_rpc(out, pos, state, _CLIENT))


@kernel
def _change_snapshots(out, pos, tree, state, fields, path):
    """Append the creation, the rename or the deletion of a snapshot."""
    count = fields[SNAPSHOTS]
    choice = chance(state, 4)
    if count < 2 or (choice < 2 and count < MOST_SNAPSHOTS):
        state.numbers[NAMES] += 1
        fields[FIRST_SNAPSHOT + count] = state.numbers[NAMES]
        fields[SNAPSHOTS] += 1
        return _put_snapshot(out, pos, tree, state, fields[ROOT], 26, path, state.numbers[NAMES], 0)
    place = FIRST_SNAPSHOT + chance(state, count)
    number = fields[place]
    if choice == 2:
        state.numbers[NAMES] += 1
        fields[place] = state.numbers[NAMES]
        return _put_snapshot(out, pos, tree, state, fields[ROOT], 28, path, number, state.numbers[NAMES])
    fields[SNAPSHOTS] -= 1
    fields[place] = fields[FIRST_SNAPSHOT + fields[SNAPSHOTS]]
    return _put_snapshot(out, pos, tree, state, fields[ROOT], 27, path, number, 0)


@kernel
def _change_below(out, pos, tree, state, fields, path, other):
    """Append a change below a snapshottable directory: a change of a file, or a new file or directory."""
    root = fields[ROOT]
    owner = np.int64(tree.owners[root])
    if fields[OPEN_FILE]:
        size = _path_below(path, tree, root, NEW, fields[OPEN_FILE])
        fields[OPEN_FILE] = 0
        return put_close(out, pos, tree, state, owner, path, size, fields[OPENED_AT], np.empty(0, np.int64), 0)
    choice = chance(state, 100)
    rank, directory = _old_file(tree, state, tree.ranks[root] + 1, tree.ranks[root + 1])
    state.numbers[NAMES] += 1
    if rank == _NO_RANK or choice < 30:
        size = _path_below(path, tree, root, NEW, state.numbers[NAMES])
        fields[OPEN_FILE] = state.numbers[NAMES]
        pos = put_add(out, pos, tree, state, owner, path, size, _CLIENT, state.numbers[NAMES] % 1000)
        fields[OPENED_AT] = tick(state)
        return pos
    if choice < 40:
        size = _path_below(path, tree, root, DIRECTORY, state.numbers[NAMES])
        return put_mkdir(out, pos, tree, state, owner, path, size)
    size = _file_path(path, tree, rank, directory)
    if choice < 70:
        return _put_attribute(out, pos, tree, state, path, size)
    _take(state, rank)
    if choice < 85:
        return _put_delete(out, pos, state, path, size)
    target = _path_below(other, tree, root, MOVED, state.numbers[NAMES])
    return put_rename(out, pos, state, path, size, other, target, _CLIENT)


@kernel
def _snapshot_step(out, pos, tree, state, path, other):
    """Append a change below a snapshottable directory; the first change of a directory makes it snapshottable."""
    fields = state.roots[chance(state, state.roots.shape[0])]
    if not fields[ALLOWED]:
        fields[ALLOWED] = 1
        start = pos
        size = put_path(path, 0, tree, fields[ROOT])
        pos = begin(out, pos, state, 29)
        return end(out, start, text_end(out, pos, put_bytes(out, pos + 2, path, size)))
    if chance(state, 100) < 5:
        return _change_snapshots(out, pos, tree, state, fields, path)
    return _change_below(out, pos, tree, state, fields, path, other)


@kernel
def fill(tree, state, shares, last, path, other, out):
    """Write transactions until `last` is written or `out` has no space for another one; return the bytes written.

    Args:
        shares: cumulative shares of jobs, deletes, attributes and snapshots, up to 100.
        path, other: buffers for one path each.
    """
    pos = 0
    while state.numbers[TXID] < last and out.size - pos >= OP_ROOM:
        choice = chance(state, 100)
        if state.numbers[STICKY] >= 0 or choice < shares[0]:
            pos = job_step(out, pos, tree, state, path, other)
        elif choice < shares[1]:
            pos = _delete_step(out, pos, tree, state, path)
        elif choice < shares[2]:
            pos = _attribute_step(out, pos, tree, state, path)
        else:
            pos = _snapshot_step(out, pos, tree, state, path, other)
    return pos
