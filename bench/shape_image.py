"""Writes the image of a namespace of any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bench.generate import BLOCK_SIZE, CLOCK, FIRST_BLOCK, LAYOUT, encode_rows, inode_rows
from bench.shape_layout import Ids, Layout
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.names import SEEN_TXID, VERSION, image_name
from hadoop_common.storage_info import StorageInfo, format_version
from image_format.kernels.inode import BLOCK_DTYPE, DIRECTORY, FILE
from image_format.md5_file import write_md5_file
from image_format.output import DigestingFileSet
from image_format.permission import AclScope, AclType, XAttrNamespace, pack_acl_entry, pack_permission, pack_xattr_name
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter

TXID = 1000
_BATCH = 1 << 18


def write_shape(current: Path, layout: Layout, *, seed: int = 1) -> Path:
    """Write VERSION, seen_txid, `fsimage_1000` and its digest into the folder `current`; return the image's path."""
    shape, files = layout.shape, layout.files
    strings = StringTable.empty(0)
    user, group = strings.serial("hdfs", StringKind.USER), strings.serial("supergroup", StringKind.GROUP)
    permission = pack_permission(user, group, 0o644)
    snapshots = layout.snapshots(permission)
    decorate = _decorator(strings) if shape.features else None
    opened: list[int] = []
    info = pb.NameSystemSection(
        namespaceId=1,
        genstampV1=1000,
        genstampV2=1001 + 3 * files,
        genstampV1Limit=0,
        lastAllocatedBlockId=FIRST_BLOCK + 3 * files + 1,
        transactionId=TXID,
    )
    sections: dict[str, Callable[[], Iterator[memoryview | bytes]]] = {
        "NS_INFO": lambda: iter([encode_delimited(info)]),
        "INODE": lambda: _inodes(layout, permission, opened, decorate, snapshots.deleted, seed),
        "INODE_DIR": lambda: _entries(layout),
        "FILES_UNDERCONSTRUCTION": lambda: _open_files(layout, opened),
        "SNAPSHOT": lambda: iter(snapshots.snapshots),
        "SNAPSHOT_DIFF": lambda: iter(snapshots.diffs),
        "INODE_REFERENCE": lambda: iter(()),
        "SECRET_MANAGER": lambda: iter([encode_delimited(pb.SecretManagerSection())]),
        "CACHE_MANAGER": lambda: iter(
            [encode_delimited(pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0))]
        ),
        "STRING_TABLE": lambda: iter([strings.encode()]),
    }
    path = current / image_name(TXID)
    output = DigestingFileSet([path])
    writer = ImageWriter(output, LAYOUT)
    for name, chunks in sections.items():
        with writer.section(name) as out:
            for chunk in chunks():
                out.write(chunk)
    writer.finish()
    written = output.close()
    storage = StorageInfo(LAYOUT, 1, 0, "CID-bench", "BP-1-127.0.0.1-1")
    (current / VERSION).write_bytes(format_version(storage, datetime.fromtimestamp(CLOCK / 1000, UTC)))
    (current / SEEN_TXID).write_text(f"{TXID}\n")
    write_md5_file(path, written.md5)
    return path


def _inodes(
    layout: Layout,
    permission: int,
    opened: list[int],
    decorate: Callable[[pb.INode], None] | None,
    deleted: Sequence[bytes],
    seed: int,
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
        rows, names = inode_rows(DIRECTORY, ROOT_INODE_ID + 1, numbers, b"d", 8)
        rows["permission"] = permission
        yield encode_rows(rows, names, no_blocks)[0]
    order = random.permutation(layout.files) if layout.shape.shuffled else np.arange(layout.files)
    for start in range(0, layout.files, _BATCH):
        numbers = order[start : start + _BATCH]
        rows, names = inode_rows(FILE, layout.first_file, numbers, layout.prefix(), 9)
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
        if layout.shape.opened or decorate is not None:
            yield b"".join(_changed(encoded, starts, numbers, layout, opened, decorate))
        else:
            yield encoded
    yield from deleted


def _changed(
    encoded: memoryview,
    starts: Ids,
    numbers: Ids,
    layout: Layout,
    opened: list[int],
    decorate: Callable[[pb.INode], None] | None,
) -> Iterator[bytes | memoryview]:
    """Yield the records; every second file is open or has features."""
    for at, number in enumerate(numbers.tolist()):
        start, stop = int(starts[at]), int(starts[at + 1])
        if number % 2:
            yield encoded[start:stop]
            continue
        body = bytes(encoded[start:stop])
        while body[0] & 0x80:
            body = body[1:]
        inode = pb.INode.FromString(body[1:])
        if layout.shape.opened:
            inode.file.fileUC.clientName = f"DFSClient_{number % 1000}"
            inode.file.fileUC.clientMachine = "10.0.0.1"
            opened.append(number)
        if decorate is not None:
            decorate(inode)
        yield encode_delimited(inode)


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
