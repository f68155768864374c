"""Removal of inodes with all below them, for kernels, where there are no snapshots."""

from __future__ import annotations

import numpy as np

from engine.replay.kernels.base_children import slot_near
from engine.replay.kernels.change import close_file
from engine.replay.kernels.lookup import link_of
from engine.replay.kernels.state import (
    INODES,
    LEASES_PLAIN,
    WANTS_MARKS,
    directories_of,
    directory_ids_of,
    directory_offsets_of,
    dropped_of,
    ids_of,
    links_of,
    rows_of,
    waiting_of,
    way_marks_of,
)
from image_format.kernels.inode import DIRECTORY, DROPPED, HOLDS, SPECIAL
from image_format.kernels.jit import step
from image_format.kernels.prefetch import prefetch
from image_format.kernels.scan import find_id
from image_format.kernels.tables import UNKNOWN, find_number, place_of_number
from image_format.kernels.tags import DirEntry
from image_format.kernels.wire import DELIMITED, read_varint, skip_field

_AHEAD = 32
"""Bytes of children between the one whose row is asked for, and the one that is looked up."""


@step
def may_remove(a, row):
    """Whether an inode can go, with all below it, without a look at what only Python knows.

    What snapshots know, snapshottable directories and leases that no path led to must not be below it.
    """
    if not a[LEASES_PLAIN]:
        return False
    at = row
    while True:
        entry = rows_of(a)[at]
        if entry["marks"] & (SPECIAL | HOLDS):
            return False
        number = np.int64(0)
        if entry["kind"] == DIRECTORY:
            if entry["slot"] >= 0 and way_marks_of(a).size == 0:
                a[WANTS_MARKS] = 1
                return False
            if entry["slot"] >= 0 and way_marks_of(a)[entry["slot"]]:
                return False
            number = np.int64(entry["first_link"])
        # Down to the first child that is there, else on to the next one here or further up.
        while True:
            while number != 0 and links_of(a)[number - 1]["row"] < 0:
                number = np.int64(links_of(a)[number - 1]["next"])
            if number != 0 or at == row:
                break
            number = np.int64(links_of(a)[link_of(a, at)]["next"])
            at = np.int64(rows_of(a)[at]["parent"])
        if number == 0:
            return True
        at = np.int64(links_of(a)[number - 1]["row"])


@step
def _drop(a, row):
    """An inode with a row is gone."""
    entry = rows_of(a)[row]
    close_file(a, row)
    entry["flags"] |= DROPPED
    a[INODES] -= 1
    if entry["slot"] >= 0:
        dropped_of(a)[entry["slot"]] = True


@step
def _place_among(ids, inode_id, near):
    """Place of the first of ascending ids that is not below one, which most likely is `near`."""
    if (near == 0 or ids[near - 1] < inode_id) and (near == ids.size or ids[near] >= inode_id):
        return np.int64(near)
    return np.int64(np.searchsorted(ids, inode_id))


@step
def _drop_unread(a, directory_id):
    """Drop the children in the base image that have no row, and all below them; False where an entry is damaged.

    Children were mostly made together: from one to the next, slots differ as ids do, and the same directories are near.
    """
    buf, directory_ids = directories_of(a), directory_ids_of(a)
    waiting_of(a)[0] = directory_id
    count = 1
    slot = np.int64(0)
    last = np.int64(0)
    place = np.int64(0)
    while count:
        count -= 1
        number = find_id(directory_ids, waiting_of(a)[count])
        if number < 0:
            continue
        length, pos = read_varint(buf, directory_offsets_of(a)[number], buf.size)
        if pos < 0 or length < 0 or length > buf.size - pos:
            return False
        end = pos + length
        while pos < end:
            tag, pos = read_varint(buf, pos, end)
            stop = skip_field(buf, pos, end, tag) if pos >= 0 else pos
            if stop < 0:
                return False
            if tag == DirEntry.children:
                _, pos = read_varint(buf, pos, end)
            ahead = pos
            while tag | DELIMITED == DirEntry.children and pos < stop:
                while ahead < min(pos + _AHEAD, stop):
                    child_id, ahead = read_varint(buf, ahead, stop)
                    if ahead < 0:
                        return False
                    prefetch(ids_of(a), np.int64(place_of_number(ids_of(a), child_id)))
                child_id, pos = read_varint(buf, pos, stop)
                if pos < 0:
                    return False
                slot = slot_near(a, child_id, slot + child_id - last)
                if slot < 0:
                    return False
                last = child_id
                if dropped_of(a)[slot] or find_number(ids_of(a), child_id) != UNKNOWN:
                    continue
                dropped_of(a)[slot] = True
                a[INODES] -= 1
                # No directory waits twice, so there is room for all.
                place = _place_among(directory_ids, child_id, place)
                if place < directory_ids.size and directory_ids[place] == child_id:
                    waiting_of(a)[count] = child_id
                    count += 1
            pos = stop
    return True


@step
def remove(a, row):
    """Drop an unlinked inode and all below it; False where the base image is damaged, which ends the replay.

    The links of a directory that goes are used up on the way: nobody looks at them again.
    """
    at = row
    while True:
        entry = rows_of(a)[at]
        following = entry["first_link"]
        if entry["kind"] == DIRECTORY and following != 0:
            link = links_of(a)[following - 1]
            entry["first_link"] = link["next"]
            below = np.int64(link["row"])
            if below >= 0 and rows_of(a)[below]["flags"] & DROPPED == 0:
                at = below
            continue
        if entry["kind"] == DIRECTORY and entry["slot"] >= 0 and not _drop_unread(a, entry["id"]):
            return False
        _drop(a, at)
        if at == row:
            return True
        at = np.int64(entry["parent"])
