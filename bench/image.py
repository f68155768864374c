"""Writes the image of a generated namespace in batches; the same size and seed produce the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.inodes import edited_records, encode_rows
from bench.kernels.names import NAME_ROOM
from bench.kernels.records import ACL, FIRST_BLOCK, MOST_BLOCKS, OPEN, XATTR, directory_entries, fill_rows
from bench.sections import TXID, Sections, write_sections
from bench.snapshots import NO_SNAPSHOTS, SnapshotSections, build_snapshots
from bench.styles import GROUPS, USERS
from bench.tree import Tree
from image_format.kernels.inode import BLOCK_DTYPE, INODE_DTYPE
from image_format.layout import NEWEST_LAYOUT
from image_format.permission import AclScope, AclType, XAttrNamespace, pack_acl_entry, pack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited

_BATCH = 1 << 15
_CLIENTS = 400
_CHILDREN = 1 << 17


@dataclass(frozen=True)
class BaseImage:
    """A generated image, and the state from which later edits continue.

    Attributes:
        last_inode, last_block, last_genstamp: the largest ids and the largest generation stamp in the image.
        snapshottable: numbers of the tree's directories that have snapshots.
    """

    path: Path
    tree: Tree
    txid: int
    last_inode: int
    last_block: int
    last_genstamp: int
    snapshottable: tuple[int, ...]


def write_image(
    current: Path,
    tree: Tree,
    *,
    snapshots: bool = False,
    layout: int = NEWEST_LAYOUT,
    progress: Callable[[int], None] | None = None,
) -> BaseImage:
    """Write VERSION, seen_txid, `fsimage_1000` and its digest into the folder `current`.

    Args:
        snapshots: whether a few directories have snapshots, with files that were changed and deleted after the
            snapshot.
        progress: called with the number of inodes written.
    """
    parts = build_snapshots(tree) if snapshots else NO_SNAPSHOTS
    last_block, last_genstamp = FIRST_BLOCK + 4 * tree.inodes + 3, 1001 + 2 * tree.inodes + 3
    last_inode = tree.id_at(tree.inodes - 1 + len(parts.deleted))
    opened: list[int] = []
    header = pb.INodeSection(lastInodeId=last_inode, numInodes=tree.inodes + len(parts.deleted))
    sections = Sections(
        inodes=_inodes(tree, header, parts, opened, progress or (lambda _: None)),
        directories=_entries(tree),
        open_files=_open_files(tree, opened),
        snapshots=parts,
        strings=_strings(),
        last_block=last_block,
        last_genstamp=last_genstamp,
    )
    path = write_sections(current, sections, layout=layout)
    return BaseImage(path, tree, TXID, last_inode, last_block, last_genstamp, parts.directories)


def _inodes(
    tree: Tree, header: pb.INodeSection, parts: SnapshotSections, opened: list[int], progress: Callable[[int], None]
) -> Iterator[memoryview | bytes]:
    yield encode_delimited(header)
    directory = 0
    for first in range(0, tree.inodes, _BATCH):
        size = min(_BATCH, tree.inodes - first)
        rows, features = np.zeros(size, INODE_DTYPE), np.zeros(size, np.uint8)
        names, blocks = np.empty(size * NAME_ROOM, np.uint8), np.empty(size * MOST_BLOCKS, BLOCK_DTYPE)
        directory = fill_rows(tree.arrays, first, first + size, directory, rows, names, blocks, features)
        opened += (first + np.flatnonzero(features & OPEN)).tolist()
        chosen, edit = np.flatnonzero(features).tolist(), partial(_add_features, features)
        yield from edited_records(*encode_rows(rows, names, blocks), chosen, edit)
        progress(first + size)
    yield from parts.deleted


def _add_features(features: npt.NDArray[np.uint8], number: int, inode: pb.INode) -> None:
    """Add the features that only a few inodes have; the mask of an ACL is in the mode."""
    holder, user, space = inode.file, 1 + inode.id % len(USERS), inode.id % 2
    entries = [(AclScope.ACCESS, AclType.USER, user, 6), (AclScope.ACCESS, AclType.GROUP, 0, 4)]
    if inode.HasField("directory"):
        holder = inode.directory
        defaults = ((AclType.USER, 0, 7), (AclType.USER, user, 6), (AclType.GROUP, 0, 5))
        entries += [(AclScope.DEFAULT, *each) for each in (*defaults, (AclType.MASK, 0, 7), (AclType.OTHER, 0, 0))]
    if features[number] & OPEN:
        client = inode.id % _CLIENTS
        holder.fileUC.clientName = f"DFSClient_{client:09d}"
        holder.fileUC.clientMachine = f"10.0.{client >> 8}.{client & 255}"
    if features[number] & ACL:
        holder.acl.entries.extend(starmap(pack_acl_entry, entries))
    if features[number] & XATTR:
        name = pack_xattr_name(XAttrNamespace(space), len(USERS) + len(GROUPS) + 1 + space)
        holder.xAttrs.xAttrs.add(name=name, value=b"a" * (4 + inode.id % 32))


def _entries(tree: Tree) -> Iterator[memoryview]:
    """Yield the bytes of INODE_DIR, with about _CHILDREN children at a time."""
    counts = np.diff(tree.arrays.ranks) - 1 + np.diff(tree.arrays.first_child)
    edges = np.concatenate([[0], np.cumsum(counts + 1)])
    children = np.empty(int(counts.max()), np.int64)
    first = 0
    while first < tree.directories:
        end = max(first + 1, int(np.searchsorted(edges, edges[first] + _CHILDREN, "right")) - 1)
        out = np.empty(30 * (end - first) + 10 * int(edges[end] - edges[first]), np.uint8)
        yield out.data[: directory_entries(tree.arrays, first, end, children, out)]
        first = end


def _open_files(tree: Tree, opened: list[int]) -> Iterator[bytes]:
    for rank in opened:
        directory = tree.directory_of(rank)
        name = tree.file_name(directory, rank - int(tree.arrays.ranks[directory]) - 1).decode()
        path = f"{tree.path(directory)}/{name}"
        yield encode_delimited(pb.FileUnderConstructionEntry(inodeId=tree.id_at(rank), fullPath=path))


def _strings() -> StringTable:
    """Return users, groups and xattr names, numbered from 1 as in the kernels."""
    strings = StringTable.empty(0)
    for name in USERS:
        strings.serial(name, StringKind.USER)
    for name in (*GROUPS, "origin", "checksum"):
        strings.serial(name, StringKind.GROUP)
    return strings
