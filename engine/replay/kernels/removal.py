"""Removal of inodes outside snapshots and of their descendants, for kernels."""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import slot_near
from engine.replay.kernels.change import close_file
from engine.replay.kernels.lookup import link_of
from engine.replay.kernels.recording import note_change
from engine.replay.kernels.state import (
    directories_of,
    directory_ids_of,
    directory_offsets_of,
    dropped_of,
    ids_of,
    links_of,
    required_marks_of,
    rows_of,
    waiting_of,
)
from image_format.kernels.inode import DIRECTORY, DROPPED, HOLDS, SPECIAL
from image_format.kernels.jit import step
from image_format.kernels.prefetch import prefetch
from image_format.kernels.scan import find_id
from image_format.kernels.tables import UNKNOWN, find_number, place_of_number
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import DELIMITED, next_field, read_varint, record_span

_AHEAD = 32
"""Number of bytes of children between the prefetch of a row's place and its look-up."""


@step
def may_remove(state, row):
    """Return whether kernels can remove an inode and its descendants without data that only Python has.

    None of these inodes may be in a snapshot, be snapshottable, or have a lease without a path.
    """
    if not state.leases_plain:
        return False
    at = row
    while True:
        entry = rows_of(state)[at]
        if entry["marks"] & (SPECIAL | HOLDS):
            return False
        number = np.int64(0)
        if entry["kind"] == DIRECTORY:
            if entry["slot"] >= 0 and required_marks_of(state).size == 0:
                state.wants_marks = 1
                return False
            if entry["slot"] >= 0 and required_marks_of(state)[entry["slot"]]:
                return False
            number = np.int64(entry["first_link"])
        # Continue with the first existing child, or else with the next child of this directory or of a directory above.
        while True:
            while number != 0 and links_of(state)[number - 1]["row"] < 0:
                number = np.int64(links_of(state)[number - 1]["next"])
            if number != 0 or at == row:
                break
            number = np.int64(links_of(state)[link_of(state, at)]["next"])
            at = np.int64(rows_of(state)[at]["parent"])
        if number == 0:
            return True
        at = np.int64(links_of(state)[number - 1]["row"])


@step
def _drop(state, row):
    """Drop an inode with a row."""
    entry = rows_of(state)[row]
    close_file(state, row)
    entry["flags"] |= DROPPED
    note_change(state, row)
    state.inodes -= 1
    if entry["slot"] >= 0:
        dropped_of(state)[entry["slot"]] = True


@step
def _place_among(ids, inode_id, near):
    """Return the index of the first of the ascending ids that is not less than `inode_id`; `near` is most likely."""
    if (near == 0 or ids[near - 1] < inode_id) and (near == ids.size or ids[near] >= inode_id):
        return np.int64(near)
    return np.int64(np.searchsorted(ids, inode_id))


@step
def _drop_unread(state, directory_id):
    """Drop base children without a row and their descendants; return whether all directory entries are intact.

    Children were usually created together. Therefore, the slots of consecutive children usually differ by as much as
    their ids. For the same reason, each search for a directory starts where the last search ended.
    """
    buf, directory_ids = directories_of(state), directory_ids_of(state)
    waiting_of(state)[0] = directory_id
    count = 1
    slot = np.int64(0)
    last = np.int64(0)
    place = np.int64(0)
    while count:
        count -= 1
        number = find_id(directory_ids, waiting_of(state)[count])
        if number < 0:
            continue
        pos, end = record_span(buf, directory_offsets_of(state)[number])
        if pos < 0:
            return False
        while pos < end:
            tag, _, at, pos = next_field(buf, pos, end)
            if pos < 0:
                return False
            ahead = at
            while tag | DELIMITED == DirEntry.children and at < pos:
                while ahead < min(at + _AHEAD, pos):
                    child_id, ahead = read_varint(buf, ahead, pos)
                    if ahead < 0:
                        return False
                    prefetch(ids_of(state), np.int64(place_of_number(ids_of(state), child_id)))
                child_id, at = read_varint(buf, at, pos)
                if at < 0:
                    return False
                slot = slot_near(state, child_id, slot + child_id - last)
                if slot < 0:
                    return False
                last = child_id
                if dropped_of(state)[slot] or find_number(ids_of(state), child_id) != UNKNOWN:
                    continue
                dropped_of(state)[slot] = True
                state.inodes -= 1
                # Each directory is added at most once, so there is space for all.
                place = _place_among(directory_ids, child_id, place)
                if place < directory_ids.size and directory_ids[place] == child_id:
                    waiting_of(state)[count] = child_id
                    count += 1
    return True


@step
def remove(state, row):
    """Drop an unlinked inode and its descendants; return False for a damaged base image, which ends the replay.

    The links of a removed directory are unchained during the walk, because they are not read again.
    """
    at = row
    while True:
        entry = rows_of(state)[at]
        following = entry["first_link"]
        if entry["kind"] == DIRECTORY and following != 0:
            link = links_of(state)[following - 1]
            entry["first_link"] = link["next"]
            below = np.int64(link["row"])
            if below >= 0 and rows_of(state)[below]["flags"] & DROPPED == 0:
                at = below
            continue
        if entry["kind"] == DIRECTORY and entry["slot"] >= 0 and not _drop_unread(state, entry["id"]):
            return False
        _drop(state, at)
        if at == row:
            return True
        at = np.int64(entry["parent"])
