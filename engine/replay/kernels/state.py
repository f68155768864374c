"""The state of the replay kernels: counters and the arrays of the image and the delta.

The state is one record of `STATE_DTYPE`, in an array: Numba accepts arrays from Python faster than records.
`CompiledReplay` sets its `Counters` before each run and reads them after the run. While a kernel runs, arrays do not
move or grow, and Python does not use them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import from_dtype, types
from numba.extending import intrinsic

from engine.namespace.noted import NOTE_DTYPE
from image_format.kernels.inode import BLOCK_DTYPE, INODE_DTYPE
from image_format.kernels.tables import LINK_DTYPE

# Results of a step.
DONE = 0
"""The operation was applied."""
PAUSE = 1
"""The operation was applied except for a part that Python must perform before the next operation."""
UNUSUAL = -2
"""The state is unchanged; the plain function must apply the operation."""
AGAIN = -3
"""The state is unchanged; an array is full."""

DAMAGED = -4
"""The base image is damaged; the state was changed in part, and the namespace must be discarded."""

ABSENT = -1
"""The path does not exist; the same value as NO_ROW."""


class Counters(NamedTuple):
    """Numbers of the state, each an int64.

    Attributes:
        rows_used, names_used, blocks_used, links_used, opened_used, pool_used, pool_bytes_used, notes_used,
            copies_used, acls_used, named_used, snapshot_changes_used: used elements of the arrays.
        changes: `changes` of `InodeTable`.
        inodes, last_txid, last_inode_id, last_block_id, generation_stamp: counters of the namespace.
        hadoop3: whether the layout belongs to Hadoop 3; layout: version of the segment's layout.
        min_replication, max_replication, skips_access_times: fields of `ReplayRules`.
        leases_plain, leases_changed: fields of `Leases`.
        wants_marks: result: whether a kernel needs `required_marks_of`.
        era: cached paths of an older era are not valid.
        latest: id of the newest snapshot that contains the path of the last directory found, plus one; 0 if there is no
            such snapshot.
        inside: whether that snapshot contains the directory.
        snapshots_plain: whether `CreatedLists.may_be_inconsistent` is false.
        directories_moved: number of directories that were moved or deleted.
        named_wanted: result: number of missing places for a table of names; -1 forbids new tables.
        next_snapshot: id of the next new snapshot; -1 if kernels may not create any.
        clock: creation time of a snapshot in Hadoop 2.7.
        features_read: result: number of decoded rows with features.
    """

    rows_used: int
    names_used: int
    blocks_used: int
    links_used: int
    opened_used: int
    pool_used: int
    pool_bytes_used: int
    inodes: int
    last_txid: int
    last_inode_id: int
    last_block_id: int
    generation_stamp: int
    hadoop3: int
    min_replication: int
    max_replication: int
    leases_plain: int
    leases_changed: int
    era: int
    snapshots_plain: int
    directories_moved: int
    named_used: int
    named_wanted: int
    layout: int
    skips_access_times: int
    next_snapshot: int
    clock: int
    changes: int
    wants_marks: int = 0
    latest: int = 0
    inside: int = 0
    notes_used: int = 0
    copies_used: int = 0
    acls_used: int = 0
    snapshot_changes_used: int = 0
    features_read: int = 0


PATH_DTYPE = np.dtype(
    [
        ("hashed", "u8"),
        ("at", "i8"),  # position of the path in the segment
        ("era", "i8"),  # `Counters.era` of the look-up
        ("moved", "i8"),  # `Counters.directories_moved` of the look-up
        ("row", "i8"),  # row of the directory
        ("size", "i4"),
        ("latest", "i4"),  # `Counters.latest` and `inside` for the directory
        ("inside", "i4"),
        ("unused", "i8"),  # fills the cache line, so that a look-up waits for only one line
    ],
    align=True,
)
"""A cached look-up of a directory's path."""


MOVING = (
    "rows",
    "names",
    "blocks",
    "ids",
    "links",
    "link_slots",
    "opened",
    "named",
    "pool",
    "pool_slots",
    "pool_arena",
    "known",
    "known_slots",
    "known_arena",
    "known_values",
    "early",
    "early_slots",
    "early_arena",
    "required_marks",
    "leased_ids",
    "changed",
)
"""Arrays that may be replaced between runs."""

ARRAYS = (
    *MOVING,
    "base_ids_low",
    "base_ids_bases",
    "base_ids_wide",
    "base_slots",
    "base_offsets_low",
    "base_offsets_bases",
    "base_offsets_wide",
    "inodes",
    "dropped",
    "directory_ids",
    "directory_offsets",
    "directories",
    "waiting",
    "special_ids",
    "notes",
    "copies",
    "acls",
    "snapshot_changes",
    "paths",
    "coming",
    "unread",
)
"""All arrays of the state."""

STATE_DTYPE = np.dtype([*((name, np.int64) for name in Counters._fields), ("arrays", np.int64, (len(ARRAYS), 2))])
"""State: the counters, and the address and length of each array, in the order of `ARRAYS`."""
_ARRAYS_AT: Final = STATE_DTYPE.fields["arrays"][1] if STATE_DTYPE.fields is not None else 0


def _view(name: str, dtype: Any, columns: int = 1) -> Any:
    """Create a function for kernels that returns an array of the state.

    Kernels pass the state to one another as one pointer, because passing all arrays would take longer than the
    operations.
    """
    place = _ARRAYS_AT + 2 * np.dtype(np.int64).itemsize * ARRAYS.index(name)
    array = types.Array(from_dtype(np.dtype(dtype)), min(columns, 2), "C")

    def view(typing_context, state):
        # importing the compiler alone takes a tenth of the startup time
        from numba.core import cgutils
        from numba.np.arrayobj import populate_array

        def codegen(context, builder, signature, arguments):
            number = context.get_value_type(types.intp)
            address, length = (
                builder.load(cgutils.get_record_member(builder, arguments[0], place + offset, number))
                for offset in (0, np.dtype(np.int64).itemsize)
            )
            made = context.make_array(array)(context, builder)
            item = context.get_abi_sizeof(context.get_data_type(array.dtype))
            shape = [length, context.get_constant(types.intp, columns)][: array.ndim]
            strides = [context.get_constant(types.intp, size) for size in (item * columns, item)][: array.ndim]
            populate_array(
                made,
                data=builder.inttoptr(address, made.data.type),
                shape=shape,
                strides=strides,
                itemsize=context.get_constant(types.intp, item),
                meminfo=None,
            )
            return made._getvalue()

        return array(state), codegen

    return intrinsic(view)


rows_of = _view("rows", INODE_DTYPE)
"""Rows of the `InodeTable`; `names_of` and `blocks_of` are its arenas, and `ids_of` contains its rows by inode id."""
names_of = _view("names", np.uint8)
blocks_of = _view("blocks", BLOCK_DTYPE)
ids_of = _view("ids", np.int64, 2)

links_of = _view("links", LINK_DTYPE)
"""Links of `ChildLinks`, and their slots."""
link_slots_of = _view("link_slots", np.int64)

opened_of = _view("opened", np.int64, 6)
"""Children of directories in the base image, by `entry` of a directory's row minus one.

The columns are: start and end of the children in INODE_DIR; 1 if the children are in order; approximate number of names
that searches have read; start of the table of names in `named_of`; size of this table, 0 if it does not exist, or -1 if
it cannot be created.
"""
named_of = _view("named", np.uint32)
"""Hash tables of names in the base image. A place contains a slot plus one, or 0 if it is free."""

pool_of = _view("pool", LINK_DTYPE)
"""Client names and machines."""
pool_slots_of = _view("pool_slots", np.int64)
pool_arena_of = _view("pool_arena", np.uint8)

KNOWN_USER, KNOWN_GROUP = 0, 1
known_of = _view("known", LINK_DTYPE)
"""Known names, separately for users and groups, by their bytes in operations."""
known_slots_of = _view("known_slots", np.int64)
known_arena_of = _view("known_arena", np.uint8)
known_values_of = _view("known_values", np.uint64)
"""Image serial of each known name, by the name's number."""

base_ids_low_of = _view("base_ids_low", np.uint16)
"""`IndexArrays` of the base image (three parts for each packed column), and its INODE section."""
base_ids_bases_of = _view("base_ids_bases", np.int64)
base_ids_wide_of = _view("base_ids_wide", np.int64)
base_slots_of = _view("base_slots", np.uint32)
base_offsets_low_of = _view("base_offsets_low", np.uint16)
base_offsets_bases_of = _view("base_offsets_bases", np.int64)
base_offsets_wide_of = _view("base_offsets_wide", np.int64)
inodes_of = _view("inodes", np.uint8)

directory_ids_of = _view("directory_ids", np.int64)
"""Index of INODE_DIR, and the section."""
directory_offsets_of = _view("directory_offsets", np.int64)
directories_of = _view("directories", np.uint8)

dropped_of = _view("dropped", np.bool_)
"""`Tree.dropped`."""

waiting_of = _view("waiting", np.int64)
"""Scratch space, with one element more than `directory_ids_of`."""

special_ids_of = _view("special_ids", np.int64)
"""Ascending ids of the base inodes with snapshot diffs or references, excluding a root that has neither."""

leased_ids_of = _view("leased_ids", np.int64)
"""`Tree.leased_ids`."""

changed_of = _view("changed", np.int32)
"""`InodeTable.changed`."""

required_marks_of = _view("required_marks", np.bool_)
"""`Tree.required_marks`; empty until a kernel needs it."""

notes_of = _view("notes", NOTE_DTYPE)
"""Notes of changes for snapshots, and copies of rows before a change; see `engine.namespace.noted`."""
copies_of = _view("copies", INODE_DTYPE)

early_of = _view("early", LINK_DTYPE)
"""`DiffStore.early`: names of children, by the row of their directory."""
early_slots_of = _view("early_slots", np.int64)
early_arena_of = _view("early_arena", np.uint8)

acls_of = _view("acls", np.int64, 4)
"""New inodes with an ACL: row, row of the directory, positions of the operation's body and of its ACL in the segment.

The last position is -1 for an inode that inherits its ACL.
"""

snapshot_changes_of = _view("snapshot_changes", np.int64, 6)
"""Snapshots that were created, renamed or deleted.

The columns are: number of notes before the change; row of the directory; number of the row's copy, `snapshots.RENAMED`
or `snapshots.DELETED`; positions of the operation's body and of the snapshot's name in the segment; the time.
"""

paths_of = _view("paths", PATH_DTYPE)
"""Hash table of cached directory paths; its size is a power of two."""

coming_of = _view("coming", np.int64, 8)
"""Paths of the next operations; see `kernels.ahead`."""

unread_of = _view("unread", np.int64, 2)
"""Children of a directory whose names are read next: slot and offset of the record."""
