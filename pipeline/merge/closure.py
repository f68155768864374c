"""Requests for the part of an image that replay needs, and their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class PathLookup(NamedTuple):
    """A path to resolve relative to a directory; slashes separate the names.

    Attributes:
        below: whether everything below the target is requested too.
    """

    directory_id: int
    path: bytes
    below: bool = False


@dataclass(slots=True)
class ImageRequest:
    """A request to an image.

    Attributes:
        walks: paths to resolve, level by level; the answer includes the inodes on the way.
        inode_ids, slots: inodes whose records are requested.
        below: directories whose descendants are requested, by id only.
    """

    walks: list[PathLookup] = field(default_factory=list)
    inode_ids: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


class DirectoryEntry(NamedTuple):
    """The INODE_DIR entry of a directory, without its children.

    Attributes:
        children: number of plain children.
        references: reference numbers of its other children.
        unknown_fields: whether the entry has fields that this version does not know.
    """

    directory_id: int
    children: int
    references: list[int]
    unknown_fields: bool


class DirectoryChildren(NamedTuple):
    """The plain children of one directory, in name order."""

    directory_id: int
    inode_ids: Ids
    slots: Ids


@dataclass(slots=True)
class ImageAnswer:
    """The answer to a request.

    Attributes:
        inode_ids, slots, offsets: of each record; `offsets` are positions in the INODE section.
        in_tree: whether each inode is reachable from the root.
        bounds, records: start of each delimited record in `records`, then the end of the last; the bytes.
        absent: requested ids that the image does not contain.
        entries: INODE_DIR entries of the `inode_ids` that have one.
        names: (directory id, name, inode id or 0) of each lookup.
        subtrees: children of each directory in `Wanted.below` and of each directory below.
    """

    inode_ids: Ids
    slots: Ids
    offsets: Ids
    in_tree: npt.NDArray[np.bool_]
    bounds: Ids
    records: bytes
    absent: list[int]
    entries: list[DirectoryEntry]
    names: list[tuple[int, bytes, int]]
    subtrees: list[DirectoryChildren]
