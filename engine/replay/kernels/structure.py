"""MKDIR, DELETE, RENAME_OLD and RENAME as kernels; `engine.replay.structure` contains the plain twins.

Arguments and results are the same as in `kernels.files`.
"""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import entry_may_change
from engine.replay.kernels.change import (
    acl_end,
    acl_room,
    call_end,
    created_room,
    keep_name,
    may_hold,
    note_acl,
    note_created,
    owner_end,
    permission_of,
    raise_mtime,
    set_link,
)
from engine.replay.kernels.files import anywhere, new_row
from engine.replay.kernels.layouts import COUNT, DELETE, MKDIR, MKDIR_HEAD, RENAME, RENAME_OLD
from engine.replay.kernels.lookup import (
    any_child,
    child,
    has_room,
    is_ancestor,
    is_new_id,
    last_slash,
    link_of,
    parent_of,
)
from engine.replay.kernels.recording import come, in_latest, leave, may_leave, move_out, room
from engine.replay.kernels.records import i32, i64, path_end
from engine.replay.kernels.removal import may_remove, remove
from engine.replay.kernels.state import (
    ABSENT,
    AGAIN,
    DAMAGED,
    DONE,
    UNUSUAL,
    link_slots_of,
    links_of,
    names_of,
    rows_of,
)
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.kernels.inode import (
    DIRECTORY,
    DIRTY,
    FILE,
    HOLDS,
    LEASED,
    SPECIAL,
    SYMLINK,
    UNDER_CONSTRUCTION,
    UNKNOWN_FIELDS,
)
from image_format.kernels.jit import step
from image_format.kernels.tables import find_link, hash_name
from journal.ops import RENAME_OVERWRITE

_MOST_OPTIONS = 2


@step
def mkdir(state, buf, pos, end):
    """Apply MKDIR to a new directory."""
    body = pos
    path = pos + MKDIR_HEAD.path
    if path > end:
        return UNUSUAL
    inode_id = i64(buf, pos)
    after_path = path_end(buf, path, end)
    if after_path < 0 or after_path + MKDIR.permissions > end:
        return UNUSUAL
    mtime = i64(buf, after_path)
    owner = after_path + MKDIR.permissions
    acl = owner_end(buf, owner, end)
    pos = acl_end(buf, acl, end, True)
    # extended attributes are not supported
    if pos < 0 or pos + 1 != end or buf[pos] != 0:
        return UNUSUAL
    given = pos > acl + 4
    permission, known = permission_of(state, buf, owner, acl)
    slash = last_slash(buf, path + 2, after_path)
    parent = parent_of(state, buf, path + 2, slash)
    if parent == AGAIN:
        return AGAIN
    if not known or parent < 0 or not may_hold(rows_of(state)[parent]):
        return UNUSUAL
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
    state.last_inode_id = max(state.last_inode_id, inode_id)
    link = find_link(link_slots_of(state), links_of(state), names_of(state), hashed, parent, buf, slash + 1, size)
    offset = keep_name(state, buf, slash + 1, size)
    row = new_row(state, inode_id, DIRECTORY, offset, size)
    rows_of(state)[row]["permission"] = permission
    rows_of(state)[row]["mtime"] = mtime
    note_created(state, parent, row)
    set_link(state, link, parent, row, offset, size, hashed)
    note_acl(state, parent, row, body, given, acl)
    raise_mtime(state, parent, mtime, 0)
    return DONE


@step
def _unlink(state, row):
    """Remove an inode from its directory, but keep the inode itself."""
    set_link(state, link_of(state, row), np.int64(rows_of(state)[row]["parent"]), -1, 0, 0, 0)


@step
def delete(state, buf, pos, end):
    """Apply DELETE to an existing path; of the inodes in the newest snapshot, kernels delete only closed files."""
    row, pos = anywhere(state, buf, pos, end)
    if row < 0:
        return row if row == AGAIN else UNUSUAL
    call = pos + DELETE.rpc_client_id
    if call > end or not call_end(buf, call, end):
        return UNUSUAL
    parent = np.int64(rows_of(state)[row]["parent"])
    latest, inside = state.latest, state.inside
    changeable = entry_may_change(state, parent)
    if changeable == DONE and inside:
        changeable = room(state)
    if changeable != DONE:
        return changeable
    is_held = in_latest(state, parent, row, latest, inside)
    if not _may_go(state, row, parent, latest, inside, is_held):
        return UNUSUAL
    timestamp = i64(buf, pos)
    leave(state, row, parent, latest, inside, is_held)
    _unlink(state, row)
    raise_mtime(state, parent, timestamp, latest if inside else 0)
    return DONE if is_held or remove(state, row) else DAMAGED


@step
def _may_go(state, row, parent, latest, inside, is_held):
    """Return whether kernels can delete a child without data that only Python has.

    Args:
        latest, inside: values of the state for the child's directory.
        is_held: whether the newest snapshot contains the child.
    """
    if not may_leave(state, parent, row, latest, inside) or link_of(state, row) < 0:
        return False
    if not is_held:
        return may_remove(state, row)
    entry = rows_of(state)[row]
    return (
        state.leases_plain != 0
        and entry["kind"] == FILE
        and entry["flags"] & (UNKNOWN_FIELDS | UNDER_CONSTRUCTION) == 0
        and entry["marks"] & LEASED == 0
    )


@step
def _move(state, row, parent, buf, start, size, timestamp, replaced, latest, inside):
    """Move an inode to `parent`, the last directory found, under the name `buf[start:start + size]`.

    The callers have checked the destination; this function performs all other checks.

    Args:
        replaced: row of the file that the inode replaces, or -1.
        latest, inside: values of the state for the old directory.
    """
    source = rows_of(state)[row]
    old_parent = np.int64(source["parent"])
    new_latest, new_inside = state.latest, state.inside
    if source["flags"] & UNKNOWN_FIELDS or link_of(state, row) < 0:
        return UNUSUAL
    changeable = entry_may_change(state, old_parent)
    if changeable == DONE:
        changeable = entry_may_change(state, parent)
    if changeable == DONE and (inside or new_inside):
        changeable = room(state)
    if changeable != DONE:
        return changeable
    if not state.leases_plain or source["marks"] & HOLDS:
        return UNUSUAL
    if not may_leave(state, old_parent, row, latest, inside) or (new_latest != 0 and not state.snapshots_plain):
        return UNUSUAL
    is_held = in_latest(state, old_parent, row, latest, inside)
    if source["kind"] != FILE and (is_held or source["kind"] != DIRECTORY or source["marks"] & SPECIAL):
        return UNUSUAL
    is_old_held = replaced >= 0 and in_latest(state, parent, replaced, new_latest, new_inside)
    if replaced >= 0:
        old = rows_of(state)[replaced]
        # Without a diff, the snapshot contains the inode as it is. Only Python can decide whether the inode lost its
        # last diff, and handle a lease.
        may_go = old["kind"] != DIRECTORY and old["marks"] & LEASED == 0 and not (is_old_held and old["newest"] < 0)
        if not may_go or not _may_go(state, replaced, parent, new_latest, new_inside, is_old_held):
            return UNUSUAL
    if not has_room(state, 0, 1, size, 0):
        return AGAIN
    move_out(state, row, old_parent, latest, inside, is_held, new_latest)
    _unlink(state, row)
    hashed = hash_name(parent, buf, start, size)
    link = find_link(link_slots_of(state), links_of(state), names_of(state), hashed, parent, buf, start, size)
    if replaced >= 0:
        leave(state, replaced, parent, new_latest, new_inside, is_old_held and rows_of(state)[replaced]["newest"] != 0)
        set_link(state, link, parent, -1, 0, 0, 0)
    same = source["name_length"] == size
    offset = source["name_offset"]
    for i in range(size if same else 0):
        if names_of(state)[offset + i] != buf[start + i]:
            same = False
            break
    if not same:
        offset = keep_name(state, buf, start, size)
        source["name_offset"] = offset
        source["name_length"] = size
        source["flags"] |= DIRTY
    come(state, row, parent, new_latest, new_inside)
    set_link(state, link, parent, row, offset, size, hashed)
    raise_mtime(state, parent, np.int64(source["mtime"]), 0)
    raise_mtime(state, old_parent, timestamp, latest if inside else 0)
    raise_mtime(state, parent, timestamp, new_latest if new_inside else 0)
    if replaced >= 0 and not is_old_held:
        # a file has no children, so the base image cannot be damaged below it
        remove(state, replaced)
    # Paths of leased files may have changed.
    state.leases_changed = 1
    return DONE


@step
def rename_old(state, buf, pos, end):
    """Apply a possible RENAME_OLD to a path that does not exist."""
    row, target = anywhere(state, buf, pos, end)
    if row < 0:
        return row if row == AGAIN else UNUSUAL
    latest, inside = state.latest, state.inside
    pos = path_end(buf, target, end)
    call = pos + RENAME_OLD.rpc_client_id
    if pos < 0 or call > end or not call_end(buf, call, end):
        return UNUSUAL
    timestamp = i64(buf, pos)
    start, following = target + 2, pos
    slash = last_slash(buf, start, following)
    parent = parent_of(state, buf, start, slash)
    if parent < 0 or rows_of(state)[parent]["kind"] != DIRECTORY:
        return parent if parent == AGAIN else UNUSUAL
    name, size = slash + 1, following - slash - 1
    found = any_child(state, parent, buf, name, size, hash_name(parent, buf, name, size))
    if found != ABSENT or is_ancestor(rows_of(state), row, parent):
        return AGAIN if found == AGAIN else UNUSUAL
    if rows_of(state)[row]["kind"] == SYMLINK:
        return UNUSUAL
    return _move(state, row, parent, buf, name, size, timestamp, -1, latest, inside)


@step
def rename(state, buf, pos, end):
    """Apply RENAME to a missing path or in place of a file."""
    row, target = anywhere(state, buf, pos, end)
    if row < 0:
        return row if row == AGAIN else UNUSUAL
    latest, inside = state.latest, state.inside
    pos = path_end(buf, target, end)
    first = pos + RENAME.options + COUNT
    if pos < 0 or first > end:
        return UNUSUAL
    timestamp = i64(buf, pos)
    options = i32(buf, pos + RENAME.options)
    if options < 0 or options > end - first or not call_end(buf, first + options, end):
        return UNUSUAL
    overwrites = False
    for i in range(options):
        option = buf[first + i]
        if option > _MOST_OPTIONS:
            return UNUSUAL
        overwrites = overwrites or option == RENAME_OVERWRITE
    slash = last_slash(buf, target + 2, pos)
    parent = parent_of(state, buf, target + 2, slash)
    if parent < 0 or rows_of(state)[parent]["kind"] != DIRECTORY:
        return parent if parent == AGAIN else UNUSUAL
    name, size = slash + 1, pos - slash - 1
    if is_ancestor(rows_of(state), row, parent):
        return UNUSUAL
    # The destination must not be the link's target.
    if rows_of(state)[row]["kind"] == SYMLINK:
        return UNUSUAL
    found = any_child(state, parent, buf, name, size, hash_name(parent, buf, name, size))
    if found == AGAIN:
        return AGAIN
    # A file may replace only a file, and only if the operation allows it.
    replaces = found >= 0
    if found == UNUSUAL or (replaces and (found == row or not overwrites or rows_of(state)[row]["kind"] == DIRECTORY)):
        return UNUSUAL
    return _move(state, row, parent, buf, name, size, timestamp, found if replaces else -1, latest, inside)
