"""What snapshots have to know of a change, for kernels; `engine.namespace.history` is the plain twin.

A kernel notes it before it changes anything, see `engine.namespace.noted`; Python makes diffs of the notes when kernels
return. It asks for room first: `room` is enough for one operation.
"""

from __future__ import annotations

import numpy as np

from engine.namespace.noted import CREATE, DELETE, KEEP, LEAVE, MOVE
from engine.replay.kernels.lookup import born, look_into
from engine.replay.kernels.state import (
    AGAIN,
    COPIES_USED,
    DONE,
    INSIDE,
    LATEST,
    NOTES_USED,
    SNAPSHOTS_PLAIN,
    UNUSUAL,
    blocks_of,
    copies_of,
    notes_of,
    rows_of,
)
from image_format.kernels.inode import COPIED, DIRECTORY, FILE, SPECIAL
from image_format.kernels.jit import step

# RENAME in place of a file: two inodes with their names, what comes, and both directories once more.
_MOST_NOTES = 9
_MOST_COPIES = 4


@step
def room(a):
    """Whether an operation can note what snapshots have to know of it: `DONE` or `AGAIN`."""
    fits = a[NOTES_USED] + _MOST_NOTES <= notes_of(a).size and a[COPIES_USED] + _MOST_COPIES <= copies_of(a).size
    return DONE if fits else AGAIN


@step
def is_known(a, row):
    """Whether kernels can tell what snapshots know of an inode."""
    entry = rows_of(a)[row]
    return entry["marks"] & SPECIAL == 0 or (a[SNAPSHOTS_PLAIN] != 0 and entry["newest"] != 0)


@step
def in_latest(a, directory, row, latest, inside):
    """Whether the newest snapshot of its path has a child of a directory; `LATEST` and `INSIDE` are the directory's."""
    if not inside:
        return False
    return rows_of(a)[directory]["newest"] != latest or born(a, directory, row) < latest


@step
def to_record(a, row):
    """Before the inode that was found last changes by itself: `DONE`, `UNUSUAL` or `AGAIN`.

    `LATEST` and `INSIDE`, its directory's, become its own; where it is `INSIDE`, `record` it.
    """
    if a[LATEST] == 0 and rows_of(a)[row]["marks"] & SPECIAL == 0:
        return DONE
    kind = rows_of(a)[row]["kind"]
    if not a[SNAPSHOTS_PLAIN] or not is_known(a, row) or (kind != FILE and kind != DIRECTORY):
        return UNUSUAL
    directory = np.int64(rows_of(a)[row]["parent"])
    a[INSIDE] = in_latest(a, directory, row, a[LATEST], a[INSIDE])
    if kind == DIRECTORY and not look_into(a, row):
        return UNUSUAL
    return room(a)


@step
def record(a, row):
    """The inode that was found last is about to change, see `to_record`."""
    if a[INSIDE]:
        keep(a, row, a[LATEST], True)


@step
def keep(a, row, latest, copied):
    """An inode that the newest snapshot has is about to change, or the children of a directory are.

    Args:
        copied: whether its attributes change.
    """
    entry = rows_of(a)[row]
    if entry["newest"] < latest:
        entry["newest"] = latest
        entry["marks"] = (entry["marks"] | SPECIAL) & (0xFF ^ COPIED)
    elif not copied or entry["marks"] & COPIED:
        return
    note = _note(a, KEEP, latest)
    note["row"] = row
    if entry["kind"] == DIRECTORY:
        note["amount"] = entry["growth"]
    else:
        size = np.int64(0)
        for index in range(entry["block_count"]):
            size += blocks_of(a)[entry["blocks_offset"] + index]["num_bytes"]
        note["amount"] = size
    note["kept"] = -1
    if copied:
        note["kept"] = copy_row(a, row)
        entry["marks"] |= COPIED


@step
def copy_row(a, row):
    """Number of a copy of a row as it is; there is room."""
    used = a[COPIES_USED]
    copies_of(a)[used] = rows_of(a)[row]
    a[COPIES_USED] = used + 1
    return used


@step
def _note(a, kind, latest):
    used = a[NOTES_USED]
    a[NOTES_USED] = used + 1
    note = notes_of(a)[used]
    note["kind"] = kind
    note["latest"] = latest
    return note


@step
def note_child(a, kind, latest, directory, row):
    """A child of a directory that the newest snapshot has comes or goes, under the name it has; returns the note."""
    keep(a, directory, latest, False)
    entry = rows_of(a)[row]
    note = _note(a, kind, latest)
    note["row"] = row
    note["directory"] = directory
    note["name_offset"] = entry["name_offset"]
    note["name_length"] = entry["name_length"]
    return note


@step
def come(a, row, directory, latest, inside):
    """An inode is about to come into a directory whose `LATEST` and `INSIDE` these are; there is room."""
    rows_of(a)[row]["born"] = latest if inside else -1
    if inside:
        note_child(a, CREATE, latest, directory, row)


@step
def leave(a, row, directory, latest, inside, is_held):
    """An inode is about to leave a directory for good; there is room.

    Args:
        is_held: whether the newest snapshot has the inode, a file.
    """
    if is_held:
        keep(a, row, latest, True)
    if inside:
        note_child(a, DELETE if is_held else LEAVE, latest, directory, row)


@step
def move_out(a, row, directory, latest, inside, is_held, target):
    """`leave` for a place of which `target` is the `LATEST`."""
    if not is_held:
        leave(a, row, directory, latest, inside, False)
        return
    keep(a, row, latest, True)
    note_child(a, MOVE, latest, directory, row)["amount"] = target
    # From here on it stands in its directory by a reference.
    rows_of(a)[row]["newest"] = 0


@step
def may_leave(a, directory, row, latest, inside):
    """Whether kernels can tell what snapshots know of a child that leaves a directory."""
    if latest == 0 and rows_of(a)[row]["marks"] & SPECIAL == 0:
        return True
    if not a[SNAPSHOTS_PLAIN] or not is_known(a, row):
        return False
    # Created lists of a directory that no snapshot has may know the child.
    return inside or rows_of(a)[directory]["marks"] & SPECIAL == 0
