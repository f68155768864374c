"""What the replay kernels work on: the arrays of image and delta, and the numbers that go with them.

One int64 array says it all: numbers first, then address and length of each array. `CompiledReplay` fills the numbers
before each run and reads them back after it. While a kernel runs no array moves or grows, and Python touches none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.extending import intrinsic

from engine.namespace.noted import NOTE_DTYPE
from image_format.kernels.inode import BLOCK_DTYPE, INODE_DTYPE
from image_format.kernels.tables import LINK_DTYPE

# What a step says of itself.
DONE = 0
"""The operation was applied."""
PAUSE = 1
"""The operation was applied but for what Python does to it; nothing follows before that."""
UNUSUAL = -2
"""Nothing was changed; the plain function has to look at it."""
AGAIN = -3
"""Nothing was changed; an array lacks room."""

DAMAGED = -4
"""The base image is damaged; what was changed before that was found out is of no use."""

ABSENT = -1
"""A path leads nowhere; the same as NO_ROW."""

# Places in the state.
(
    ROWS_USED,
    NAMES_USED,
    BLOCKS_USED,
    LINKS_USED,
    OPENED_USED,
    POOL_USED,
    POOL_BYTES_USED,
    INODES,
    LAST_TXID,
    LAST_INODE_ID,
    LAST_BLOCK_ID,
    GENERATION_STAMP,
    HADOOP3,
    MIN_REPLICATION,
    MAX_REPLICATION,
    LEASES_PLAIN,  # `Leases.plain`
    LEASES_CHANGED,
    WANTS_MARKS,  # `way_marks_of` is asked for
    ERA,  # number of the time from which on paths lead to the same directories, but for `DIRECTORIES_MOVED`
    LATEST,  # of the directory that was found last: newest snapshot its path is in, plus one; 0 for none
    INSIDE,  # whether that snapshot has the directory
    NOTES_USED,
    COPIES_USED,
    SNAPSHOTS_PLAIN,  # `History.may_be_inconsistent` is not so
    DIRECTORIES_MOVED,  # how many directories have lost their places
    ACLS_USED,
    NAMED_USED,
    NAMED_WANTED,  # places that lacked for a table of names; -1 if there are to be no new tables
    LAYOUT,  # version of the segment's layout
    SKIPS_ACCESS_TIMES,  # `ReplayRules.skip_access_time_changes`
    NEXT_SNAPSHOT,  # id of the next snapshot that is made; -1 if kernels are to make none
    CLOCK,  # what Hadoop 2.7 takes for the time of a snapshot
    SNAPSHOT_CHANGES_USED,
    FEATURES_READ,  # how many rows were decoded that have features
    NUMBERS,
) = range(35)

PATH_DTYPE = np.dtype(
    [
        ("hashed", "u8"),
        ("at", "i8"),  # where in the segment the path stands
        ("era", "i8"),  # `ERA` of that
        ("moved", "i8"),  # how many directories had lost their places
        ("row", "i8"),  # of the directory
        ("size", "i4"),
        ("latest", "i4"),  # `LATEST` and `INSIDE` of it
        ("inside", "i4"),
        ("unused", "i8"),  # a whole cache line, so that a look-up waits for one only
    ],
    align=True,
)
"""A directory's path that was looked up."""


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
    "way_marks",
    "leased_ids",
)
"""Arrays that others may take the place of while no kernel runs."""

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
"""All arrays; behind the numbers stand the address and the length of each, in this order."""


def _view(name: str, dtype: Any, columns: int = 1) -> Any:
    """A function for kernels that makes an array of what the state says of it.

    A state of a few words is handed on from kernel to kernel, where so many arrays would take longer than the work.
    """
    place = NUMBERS + 2 * ARRAYS.index(name)
    array = types.Array(from_dtype(np.dtype(dtype)), min(columns, 2), "C")

    def view(typing_context, a):
        # what only compiles takes a tenth of each start
        from numba.np.arrayobj import populate_array

        def codegen(context, builder, signature, arguments):
            state = context.make_array(signature.args[0])(context, builder, arguments[0])
            address, length = (
                builder.load(builder.gep(state.data, [context.get_constant(types.intp, place + k)])) for k in (0, 1)
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

        return array(a), codegen

    return intrinsic(view)


rows_of = _view("rows", INODE_DTYPE)
"""Rows of the `InodeTable`; `names_of` and `blocks_of` are its arenas, `ids_of` its rows by inode id."""
names_of = _view("names", np.uint8)
blocks_of = _view("blocks", BLOCK_DTYPE)
ids_of = _view("ids", np.int64, 2)

links_of = _view("links", LINK_DTYPE)
"""Links of `Links`, and their slots."""
link_slots_of = _view("link_slots", np.int64)

opened_of = _view("opened", np.int64, 6)
"""By `entry` of a directory's row less one: start and end of its children in INODE_DIR; 1 if they are in order; about
how many names searches read; where the table of names starts in `named_of`; its size, 0 without one, -1 for never."""
named_of = _view("named", np.uint32)
"""Tables of names in the base image: slots plus one at places that the names' hashes tell, 0 where there is none."""

pool_of = _view("pool", LINK_DTYPE)
"""Client names and machines."""
pool_slots_of = _view("pool_slots", np.int64)
pool_arena_of = _view("pool_arena", np.uint8)

KNOWN_USER, KNOWN_GROUP = 0, 1
known_of = _view("known", LINK_DTYPE)
"""Names that are known by their bytes in an operation, which are the same in all: users and groups apart."""
known_slots_of = _view("known_slots", np.int64)
known_arena_of = _view("known_arena", np.uint8)
known_values_of = _view("known_values", np.uint64)
"""By number of what is known: its serial in the image."""

base_ids_low_of = _view("base_ids_low", np.uint16)
"""`IndexArrays` of the base image, each packed column in three parts, and its INODE section."""
base_ids_bases_of = _view("base_ids_bases", np.int64)
base_ids_wide_of = _view("base_ids_wide", np.int64)
base_slots_of = _view("base_slots", np.uint32)
base_offsets_low_of = _view("base_offsets_low", np.uint16)
base_offsets_bases_of = _view("base_offsets_bases", np.int64)
base_offsets_wide_of = _view("base_offsets_wide", np.int64)
inodes_of = _view("inodes", np.uint8)

directory_ids_of = _view("directory_ids", np.int64)
"""The same of INODE_DIR."""
directory_offsets_of = _view("directory_offsets", np.int64)
directories_of = _view("directories", np.uint8)

dropped_of = _view("dropped", np.bool_)
"""`Tree.dropped`."""

waiting_of = _view("waiting", np.int64)
"""Room for a number for each of `directory_ids_of`, and one more."""

special_ids_of = _view("special_ids", np.int64)
"""Ascending ids of the inodes of the base with snapshot diffs or references, but for a root without."""

leased_ids_of = _view("leased_ids", np.int64)
"""`Tree.leased_ids`."""

way_marks_of = _view("way_marks", np.bool_)
"""`Tree.way_marks`; empty until it is asked for."""

notes_of = _view("notes", NOTE_DTYPE)
"""What snapshots have to know of changes, and rows as they were, see `engine.namespace.noted`."""
copies_of = _view("copies", INODE_DTYPE)

early_of = _view("early", LINK_DTYPE)
"""`DiffStore.early`: names of children, by the row of their directory."""
early_slots_of = _view("early_slots", np.int64)
early_arena_of = _view("early_arena", np.uint8)

acls_of = _view("acls", np.int64, 4)
"""New inodes with an ACL: row, row of the directory, and where in the segment the operation's body and its ACL stand.

An inode that inherits its ACL has -1 for the last.
"""

snapshot_changes_of = _view("snapshot_changes", np.int64, 6)
"""Snapshots that were made or renamed: how many notes came before; row of the directory; number of its copy, -1 for a
snapshot that is renamed; where in the segment the operation's body and the field with the snapshot's name stand; the
time."""

paths_of = _view("paths", PATH_DTYPE)
"""Paths of directories, at places that their hashes tell; a power of two."""

coming_of = _view("coming", np.int64, 8)
"""Paths of the next operations, see `kernels.ahead`."""

unread_of = _view("unread", np.int64, 2)
"""Children of a directory whose names are read next: slot, and offset of the record."""
