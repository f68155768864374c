"""The part of an image that replay needs, as it is asked for and answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Walk(NamedTuple):
    """A path to resolve, names separated by slashes, from a directory on.

    Attributes:
        below: whether all below what it leads to is wanted too.
    """

    directory_id: int
    path: bytes
    below: bool = False


@dataclass(slots=True)
class Wanted:
    """What is asked of an image.

    Attributes:
        walks: names to look up, level by level; the inodes on the way come with them.
        inode_ids, slots: inodes whose records are wanted.
        below: directories with all that lies below them, by ids alone.
    """

    walks: list[Walk] = field(default_factory=list)
    inode_ids: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


class Entry(NamedTuple):
    """What INODE_DIR says of a directory, without its children.

    Attributes:
        children: how many plain ones there are.
        references: numbers of its children by reference.
        unknown_fields: whether it has some that this version does not know.
    """

    directory_id: int
    children: int
    references: list[int]
    unknown_fields: bool


class Subtree(NamedTuple):
    """The plain children of one directory, in name order."""

    directory_id: int
    inode_ids: Ids
    slots: Ids


@dataclass(slots=True)
class Fetched:
    """What an image has of what was wanted.

    Attributes:
        inode_ids, slots, offsets: of each record; `offsets` are those in the INODE section.
        in_tree: whether the root leads to each.
        bounds, records: where each delimited record starts in `records`, one more; the bytes.
        absent: ids that were asked for and that the image does not have.
        entries: of those of `inode_ids` that have one.
        names: (directory id, name, inode id or 0) of each look-up.
        subtrees: for each directory of `Wanted.below`, and each with children below it.
    """

    inode_ids: Ids
    slots: Ids
    offsets: Ids
    in_tree: npt.NDArray[np.bool_]
    bounds: Ids
    records: bytes
    absent: list[int]
    entries: list[Entry]
    names: list[tuple[int, bytes, int]]
    subtrees: list[Subtree]
