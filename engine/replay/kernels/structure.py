"""MKDIR, DELETE, RENAME_OLD and RENAME as kernels; `engine.replay.structure` is the plain twin.

Arguments and results are those of `kernels.files`.
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
    INSIDE,
    LAST_INODE_ID,
    LATEST,
    LEASES_CHANGED,
    LEASES_PLAIN,
    SNAPSHOTS_PLAIN,
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
def mkdir(a, buf, pos, end):
    """MKDIR of a directory that does not exist."""
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
    # no extended attributes
    if pos < 0 or pos + 1 != end or buf[pos] != 0:
        return UNUSUAL
    given = pos > acl + 4
    permission, known = permission_of(a, buf, owner, acl)
    slash = last_slash(buf, path + 2, after_path)
    parent = parent_of(a, buf, path + 2, slash)
    if parent == AGAIN:
        return AGAIN
    if not known or parent < 0 or not may_hold(rows_of(a)[parent]):
        return UNUSUAL
    size = after_path - slash - 1
    hashed = hash_name(parent, buf, slash + 1, size)
    present = child(a, parent, buf, slash + 1, size, hashed)
    if present == AGAIN or not has_room(a, 1, 1, size, 0):
        return AGAIN
    if present != ABSENT or inode_id <= ROOT_INODE_ID or not is_new_id(a, inode_id):
        return UNUSUAL
    changeable = entry_may_change(a, parent)
    if changeable != DONE:
        return changeable
    recorded = created_room(a)
    if recorded == DONE:
        recorded = acl_room(a, parent, given)
    if recorded != DONE:
        return recorded
    a[LAST_INODE_ID] = max(a[LAST_INODE_ID], inode_id)
    link = find_link(link_slots_of(a), links_of(a), names_of(a), hashed, parent, buf, slash + 1, size)
    offset = keep_name(a, buf, slash + 1, size)
    row = new_row(a, inode_id, DIRECTORY, offset, size)
    rows_of(a)[row]["permission"] = permission
    rows_of(a)[row]["mtime"] = mtime
    note_created(a, parent, row)
    set_link(a, link, parent, row, offset, size, hashed)
    note_acl(a, parent, row, body, given, acl)
    raise_mtime(a, parent, mtime, 0)
    return DONE


@step
def _unlink(a, row):
    """Take an inode out of its directory; the inode itself stays."""
    set_link(a, link_of(a, row), np.int64(rows_of(a)[row]["parent"]), -1, 0, 0, 0)


@step
def delete(a, buf, pos, end):
    """DELETE of what exists. Of what the newest snapshot has, only closed files go this way."""
    row, pos = anywhere(a, buf, pos, end)
    if row < 0:
        return row if row == AGAIN else UNUSUAL
    call = pos + DELETE.rpc_client_id
    if call > end or not call_end(buf, call, end):
        return UNUSUAL
    parent = np.int64(rows_of(a)[row]["parent"])
    latest, inside = a[LATEST], a[INSIDE]
    changeable = entry_may_change(a, parent)
    if changeable == DONE and inside:
        changeable = room(a)
    if changeable != DONE:
        return changeable
    is_held = in_latest(a, parent, row, latest, inside)
    if not _may_go(a, row, parent, latest, inside, is_held):
        return UNUSUAL
    timestamp = i64(buf, pos)
    leave(a, row, parent, latest, inside, is_held)
    _unlink(a, row)
    raise_mtime(a, parent, timestamp, latest if inside else 0)
    return DONE if is_held or remove(a, row) else DAMAGED


@step
def _may_go(a, row, parent, latest, inside, is_held):
    """Whether a child can be deleted without a look at what only Python knows.

    Args:
        latest, inside: `LATEST` and `INSIDE` of the directory that it is in.
        is_held: whether the newest snapshot has it.
    """
    if not may_leave(a, parent, row, latest, inside) or link_of(a, row) < 0:
        return False
    if not is_held:
        return may_remove(a, row)
    entry = rows_of(a)[row]
    return (
        a[LEASES_PLAIN] != 0
        and entry["kind"] == FILE
        and entry["flags"] & (UNKNOWN_FIELDS | UNDER_CONSTRUCTION) == 0
        and entry["marks"] & LEASED == 0
    )


@step
def _move(a, row, parent, buf, start, size, timestamp, replaced, latest, inside):
    """Move an inode to `parent`, the directory found last, as `buf[start:start + size]`, in place of `replaced` if any.

    All is checked but what the plain function has to look at.

    Args:
        replaced: row of a file, -1 for none.
        latest, inside: `LATEST` and `INSIDE` of the directory that it is in.
    """
    source = rows_of(a)[row]
    old_parent = np.int64(source["parent"])
    new_latest, new_inside = a[LATEST], a[INSIDE]
    if source["flags"] & UNKNOWN_FIELDS or link_of(a, row) < 0:
        return UNUSUAL
    changeable = entry_may_change(a, old_parent)
    if changeable == DONE:
        changeable = entry_may_change(a, parent)
    if changeable == DONE and (inside or new_inside):
        changeable = room(a)
    if changeable != DONE:
        return changeable
    if not a[LEASES_PLAIN] or source["marks"] & HOLDS:
        return UNUSUAL
    if not may_leave(a, old_parent, row, latest, inside) or (new_latest != 0 and not a[SNAPSHOTS_PLAIN]):
        return UNUSUAL
    is_held = in_latest(a, old_parent, row, latest, inside)
    if source["kind"] != FILE and (is_held or source["kind"] != DIRECTORY or source["marks"] & SPECIAL):
        return UNUSUAL
    is_old_held = replaced >= 0 and in_latest(a, parent, replaced, new_latest, new_inside)
    if replaced >= 0:
        old = rows_of(a)[replaced]
        # Without a diff, the snapshot keeps it as it is; whether one that lost its last diff is such a one, only Python
        # knows.
        may_go = old["kind"] != DIRECTORY and not (is_old_held and old["newest"] < 0)
        if not may_go or not _may_go(a, replaced, parent, new_latest, new_inside, is_old_held):
            return UNUSUAL
    if not has_room(a, 0, 1, size, 0):
        return AGAIN
    move_out(a, row, old_parent, latest, inside, is_held, new_latest)
    _unlink(a, row)
    hashed = hash_name(parent, buf, start, size)
    link = find_link(link_slots_of(a), links_of(a), names_of(a), hashed, parent, buf, start, size)
    if replaced >= 0:
        leave(a, replaced, parent, new_latest, new_inside, is_old_held and rows_of(a)[replaced]["newest"] != 0)
        set_link(a, link, parent, -1, 0, 0, 0)
    same = source["name_length"] == size
    offset = source["name_offset"]
    for i in range(size if same else 0):
        if names_of(a)[offset + i] != buf[start + i]:
            same = False
            break
    if not same:
        offset = keep_name(a, buf, start, size)
        source["name_offset"] = offset
        source["name_length"] = size
        source["flags"] |= DIRTY
    come(a, row, parent, new_latest, new_inside)
    set_link(a, link, parent, row, offset, size, hashed)
    raise_mtime(a, parent, np.int64(source["mtime"]), 0)
    raise_mtime(a, old_parent, timestamp, latest if inside else 0)
    raise_mtime(a, parent, timestamp, new_latest if new_inside else 0)
    if replaced >= 0 and not is_old_held:
        # a file, below which nothing can be damaged
        remove(a, replaced)
    # Paths of leased files may differ now.
    a[LEASES_CHANGED] = 1
    return DONE


@step
def rename_old(a, buf, pos, end):
    """RENAME_OLD that can be done, to a path that leads nowhere."""
    row, target = anywhere(a, buf, pos, end)
    if row < 0:
        return row if row == AGAIN else UNUSUAL
    latest, inside = a[LATEST], a[INSIDE]
    pos = path_end(buf, target, end)
    call = pos + RENAME_OLD.rpc_client_id
    if pos < 0 or call > end or not call_end(buf, call, end):
        return UNUSUAL
    timestamp = i64(buf, pos)
    start, following = target + 2, pos
    slash = last_slash(buf, start, following)
    parent = parent_of(a, buf, start, slash)
    if parent < 0 or rows_of(a)[parent]["kind"] != DIRECTORY:
        return parent if parent == AGAIN else UNUSUAL
    name, size = slash + 1, following - slash - 1
    found = any_child(a, parent, buf, name, size, hash_name(parent, buf, name, size))
    if found != ABSENT or is_ancestor(rows_of(a), row, parent):
        return AGAIN if found == AGAIN else UNUSUAL
    if rows_of(a)[row]["kind"] == SYMLINK:
        return UNUSUAL
    return _move(a, row, parent, buf, name, size, timestamp, -1, latest, inside)


@step
def rename(a, buf, pos, end):
    """RENAME, in place of nothing or of a file."""
    row, target = anywhere(a, buf, pos, end)
    if row < 0:
        return row if row == AGAIN else UNUSUAL
    latest, inside = a[LATEST], a[INSIDE]
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
    parent = parent_of(a, buf, target + 2, slash)
    if parent < 0 or rows_of(a)[parent]["kind"] != DIRECTORY:
        return parent if parent == AGAIN else UNUSUAL
    name, size = slash + 1, pos - slash - 1
    if is_ancestor(rows_of(a), row, parent):
        return UNUSUAL
    # Its target must not be the destination.
    if rows_of(a)[row]["kind"] == SYMLINK:
        return UNUSUAL
    found = any_child(a, parent, buf, name, size, hash_name(parent, buf, name, size))
    if found == AGAIN:
        return AGAIN
    # A file takes the place of a file, and only where the operation says so.
    replaces = found >= 0
    if found == UNUSUAL or (replaces and (found == row or not overwrites or rows_of(a)[row]["kind"] == DIRECTORY)):
        return UNUSUAL
    return _move(a, row, parent, buf, name, size, timestamp, found if replaces else -1, latest, inside)
