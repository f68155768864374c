"""Writes the image of a namespace of any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.inodes import edited_records, encode_rows
from bench.kernels.records import BLOCK_SIZE, CLOCK, FIRST_BLOCK
from bench.sections import TXID, Sections, write_sections
from bench.shape_layout import Ids, Layout
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.kernels.inode import BLOCK_DTYPE, DIRECTORY, FILE, INODE_DTYPE
from image_format.permission import AclScope, AclType, XAttrNamespace, pack_acl_entry, pack_permission, pack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited

_BATCH = 1 << 18


def write_shape(current: Path, layout: Layout, *, seed: int = 1, txid: int = TXID) -> Path:
    """Write an image and the files next to it, see `write_sections`; return the image's path."""
    shape, files = layout.shape, layout.files
    strings = StringTable.empty(0)
    user, group = strings.serial("hdfs", StringKind.USER), strings.serial("supergroup", StringKind.GROUP)
    permission = pack_permission(user, group, 0o644)
    snapshots = layout.snapshots(permission)
    opened: list[int] = []
    edits: list[Callable[[pb.INode], None]] = []
    if shape.opened:
        edits.append(lambda inode: _open(inode, layout, opened))
    if shape.features:
        edits.append(_decorator(strings))
    sections = Sections(
        inodes=_inodes(layout, permission, edits, snapshots.deleted, seed),
        directories=_entries(layout),
        open_files=_open_files(layout, opened),
        snapshots=snapshots,
        strings=strings,
        last_block=FIRST_BLOCK + 3 * files + 1,
        last_genstamp=1001 + 3 * files,
    )
    return write_sections(current, sections, txid=txid)


def _digits(numbers: Ids, width: int) -> npt.NDArray[np.uint8]:
    """Return decimal digits as ASCII, one row per number."""
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return (numbers[:, None] // powers % 10 + 48).astype(np.uint8)


def _inode_rows(
    kind: int, first_id: int, numbers: Ids, prefix: bytes, width: int
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint8]]:
    """Return rows of similar inodes with the ids `first_id` + `numbers`, and their names."""
    rows = np.zeros(numbers.size, INODE_DTYPE)
    head = np.broadcast_to(np.frombuffer(prefix, np.uint8), (numbers.size, len(prefix)))
    names = np.concatenate([head, _digits(numbers, width)], axis=1)
    rows["kind"] = kind
    rows["id"] = first_id + numbers
    rows["name_length"] = names.shape[1]
    rows["name_offset"] = np.arange(numbers.size) * names.shape[1]
    rows["mtime"] = CLOCK + numbers
    rows["ns_quota"] = rows["ds_quota"] = rows["ec_policy"] = -1
    return rows, names.reshape(-1)


def _inodes(
    layout: Layout, permission: int, edits: Sequence[Callable[[pb.INode], None]], deleted: Sequence[bytes], seed: int
) -> Iterator[memoryview | bytes]:
    random = np.random.default_rng(seed)
    yield encode_delimited(pb.INodeSection(lastInodeId=layout.last_id, numInodes=layout.inodes))
    root = pb.INode(type=pb.INode.DIRECTORY, id=ROOT_INODE_ID, name=b"")
    root.directory.modificationTime = CLOCK
    root.directory.nsQuota = (1 << 63) - 1
    root.directory.dsQuota = (1 << 64) - 1
    root.directory.permission = permission
    yield encode_delimited(root)
    no_blocks = np.zeros(1, BLOCK_DTYPE)
    for start in range(0, layout.directories, _BATCH):
        numbers = np.arange(start, min(start + _BATCH, layout.directories))
        rows, names = _inode_rows(DIRECTORY, ROOT_INODE_ID + 1, numbers, b"d", 8)
        rows["permission"] = permission
        yield encode_rows(rows, names, no_blocks)[0]
    order = random.permutation(layout.files) if layout.shape.shuffled else np.arange(layout.files)
    for start in range(0, layout.files, _BATCH):
        numbers = order[start : start + _BATCH]
        rows, names = _inode_rows(FILE, layout.first_file, numbers, layout.prefix(), 9)
        rows["permission"] = permission
        rows["replication"] = 3
        rows["atime"] = rows["mtime"]
        rows["block_size"] = BLOCK_SIZE
        rows["block_count"] = 1
        rows["blocks_offset"] = np.arange(numbers.size)
        blocks = np.zeros(numbers.size, BLOCK_DTYPE)
        blocks["id"] = FIRST_BLOCK + 1 + 3 * numbers
        blocks["genstamp"] = 1001 + numbers
        blocks["num_bytes"] = random.integers(1, BLOCK_SIZE, blocks.size)
        encoded, starts = encode_rows(rows, names, blocks)
        # every second file is open or has features
        chosen = np.flatnonzero(numbers % 2 == 0).tolist() if edits else ()
        yield from edited_records(encoded, starts, chosen, lambda _, inode: [edit(inode) for edit in edits])
    yield from deleted


def _open(inode: pb.INode, layout: Layout, opened: list[int]) -> None:
    number = inode.id - layout.first_file
    inode.file.fileUC.clientName = f"DFSClient_{number % 1000}"
    inode.file.fileUC.clientMachine = "10.0.0.1"
    opened.append(number)


def _decorator(strings: StringTable) -> Callable[[pb.INode], None]:
    users = [strings.serial(f"user{number}", StringKind.USER) for number in range(50)]
    xattr = pack_xattr_name(XAttrNamespace.USER, strings.serial("origin", StringKind.XATTR))

    def decorate(inode: pb.INode) -> None:
        who = users[inode.id % len(users)]
        entries = [(AclType.USER, who, 6), (AclType.GROUP, 0, 4), (AclType.MASK, 0, 6)]
        inode.file.acl.entries.extend(pack_acl_entry(AclScope.ACCESS, kind, name, bits) for kind, name, bits in entries)
        inode.file.xAttrs.xAttrs.add(name=xattr, value=b"import-%d" % (inode.id % 100))

    return decorate


def _entries(layout: Layout) -> Iterator[bytes]:
    depth, bounds = layout.shape.depth, layout.bounds()
    tops = [ROOT_INODE_ID + 1 + leaf * depth for leaf in range(layout.leaves)]
    yield encode_delimited(pb.DirEntry(parent=ROOT_INODE_ID, children=tops))
    for leaf in range(layout.leaves):
        first = tops[leaf]
        for parent in range(first, first + depth - 1):
            yield encode_delimited(pb.DirEntry(parent=parent, children=[parent + 1]))
        children = range(layout.first_file + int(bounds[leaf]), layout.first_file + int(bounds[leaf + 1]))
        yield encode_delimited(pb.DirEntry(parent=layout.leaf_id(leaf), children=children))


def _open_files(layout: Layout, opened: list[int]) -> Iterator[bytes]:
    for file in opened:
        entry = pb.FileUnderConstructionEntry(inodeId=layout.first_file + file, fullPath=layout.path(file))
        yield encode_delimited(entry)
