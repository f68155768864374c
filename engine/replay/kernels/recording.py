"""Kernel functions that note changes for snapshots; `engine.namespace.diff_recorder` is the plain twin.

A kernel notes a change before it modifies an inode (see `engine.namespace.noted`); Python applies the notes to the
diffs when kernels return. A kernel first checks `room`, which covers one operation.
"""

from __future__ import annotations

import numpy as np

from engine.namespace.noted import CREATE, DELETE, KEEP, LEAVE, MOVE
from engine.replay.kernels.lookup import born, look_into
from engine.replay.kernels.state import AGAIN, DONE, UNUSUAL, blocks_of, changed_of, copies_of, notes_of, rows_of
from image_format.kernels.inode import COPIED, DIRECTORY, FILE, SPECIAL
from image_format.kernels.jit import step

# A RENAME that replaces a file needs the most notes: two inodes with their names, the new name, and both directories
# twice.
_MAX_NOTES = 9
_MAX_COPIES = 4


@step
def room(state):
    """Return `DONE` if an operation can note its changes for snapshots, otherwise `AGAIN`."""
    fits = (
        state.notes_used + _MAX_NOTES <= notes_of(state).size
        and state.copies_used + _MAX_COPIES <= copies_of(state).size
    )
    return DONE if fits else AGAIN


@step
def is_known(state, row):
    """Return whether kernels can decide which snapshots contain an inode."""
    entry = rows_of(state)[row]
    return entry["marks"] & SPECIAL == 0 or (state.snapshots_plain != 0 and entry["newest"] != 0)


@step
def in_latest(state, directory, row, latest, inside):
    """Return whether a child is in the newest snapshot of its path; `latest` and `inside` belong to its directory."""
    if not inside:
        return False
    return rows_of(state)[directory]["newest"] != latest or born(state, directory, row) < latest


@step
def note_change(state, row):
    """Note a change of an inode's place or size (`InodeTable.note_change`)."""
    number = state.changes
    if number < changed_of(state).size:
        changed_of(state)[number] = row
    state.changes = number + 1


@step
def to_record(state, row):
    """Prepare a change of the last inode found; return `DONE`, `UNUSUAL` or `AGAIN`.

    `latest` and `inside` of the state, which describe the inode's directory before the call, then describe the inode.
    If `inside` is true, the caller must call `record` next.
    """
    if state.latest == 0 and rows_of(state)[row]["marks"] & SPECIAL == 0:
        return DONE
    kind = rows_of(state)[row]["kind"]
    if not state.snapshots_plain or not is_known(state, row) or (kind != FILE and kind != DIRECTORY):
        return UNUSUAL
    directory = np.int64(rows_of(state)[row]["parent"])
    state.inside = in_latest(state, directory, row, state.latest, state.inside)
    if kind == DIRECTORY and not look_into(state, row):
        return UNUSUAL
    return room(state)


@step
def record(state, row):
    """Note a change of the last inode found; see `to_record`."""
    if state.inside:
        keep(state, row, state.latest, True)


@step
def keep(state, row, latest, copied):
    """Note a change of an inode that the newest snapshot contains, or of a directory's children.

    Args:
        copied: whether the inode's attributes change.
    """
    entry = rows_of(state)[row]
    if entry["newest"] < latest:
        entry["newest"] = latest
        entry["marks"] = (entry["marks"] | SPECIAL) & (0xFF ^ COPIED)
        note_change(state, row)
    elif not copied or entry["marks"] & COPIED:
        return
    note = _note(state, KEEP, latest)
    note["row"] = row
    if entry["kind"] == DIRECTORY:
        note["amount"] = entry["growth"]
    else:
        size = np.int64(0)
        for index in range(entry["block_count"]):
            size += blocks_of(state)[entry["blocks_offset"] + index]["num_bytes"]
        note["amount"] = size
    note["kept"] = -1
    if copied:
        note["kept"] = copy_row(state, row)
        entry["marks"] |= COPIED


@step
def copy_row(state, row):
    """Copy a row, for which there must be space; return the number of the copy."""
    used = state.copies_used
    copies_of(state)[used] = rows_of(state)[row]
    state.copies_used = used + 1
    return used


@step
def _note(state, kind, latest):
    used = state.notes_used
    state.notes_used = used + 1
    note = notes_of(state)[used]
    note["kind"] = kind
    note["latest"] = latest
    return note


@step
def note_child(state, kind, latest, directory, row):
    """Note that a child of a directory in the newest snapshot is added or removed under its name; return the note."""
    keep(state, directory, latest, False)
    entry = rows_of(state)[row]
    note = _note(state, kind, latest)
    note["row"] = row
    note["directory"] = directory
    note["name_offset"] = entry["name_offset"]
    note["name_length"] = entry["name_length"]
    return note


@step
def come(state, row, directory, latest, inside):
    """Note that an inode is about to be added to a directory with these `latest` and `inside`; see `room`."""
    rows_of(state)[row]["born"] = latest if inside else -1
    if inside:
        note_child(state, CREATE, latest, directory, row)


@step
def leave(state, row, directory, latest, inside, is_held):
    """Note that an inode is about to be removed permanently from a directory; see `room`.

    Args:
        is_held: whether the newest snapshot contains the inode, which is then a file.
    """
    if is_held:
        keep(state, row, latest, True)
    if inside:
        note_child(state, DELETE if is_held else LEAVE, latest, directory, row)


@step
def move_out(state, row, directory, latest, inside, is_held, target):
    """Note, as `leave` does, a move to a place whose `latest` is `target`."""
    if not is_held:
        leave(state, row, directory, latest, inside, False)
        return
    keep(state, row, latest, True)
    note_child(state, MOVE, latest, directory, row)["amount"] = target
    # From here on, the inode's directory refers to it by a DstReference.
    rows_of(state)[row]["newest"] = 0


@step
def may_leave(state, directory, row, latest, inside):
    """Return whether kernels can decide which snapshots contain a child that leaves a directory."""
    if latest == 0 and rows_of(state)[row]["marks"] & SPECIAL == 0:
        return True
    if not state.snapshots_plain or not is_known(state, row):
        return False
    # Created lists of a directory outside all snapshots may contain the child.
    return inside or rows_of(state)[directory]["marks"] & SPECIAL == 0
