"""Writes the image of a generated namespace in batches; the same size and seed produce the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bench.kernels.records import CLOCK, FIRST_BLOCK, RECORD_ROOM, directory_entries, inode_records
from bench.snapshots import NO_SNAPSHOTS, SnapshotSections, build_snapshots
from bench.styles import GROUPS, USERS
from bench.tree import Tree
from hadoop_common.names import SEEN_TXID, VERSION, image_name
from hadoop_common.storage_info import StorageInfo, format_version
from image_format.md5_file import write_md5_file
from image_format.output import DigestingFileSet
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter

LAYOUT = -63
TXID = 1000
_BATCH = 1 << 15
_CHILDREN = 1 << 17

Chunks = Iterable[memoryview | bytes]


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
    current: Path, tree: Tree, *, snapshots: bool = False, progress: Callable[[int], None] | None = None
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
    info = pb.NameSystemSection(
        namespaceId=1,
        genstampV1=1000,
        genstampV2=last_genstamp,
        genstampV1Limit=0,
        lastAllocatedBlockId=last_block,
        transactionId=TXID,
    )
    opened: list[int] = []
    header = pb.INodeSection(lastInodeId=last_inode, numInodes=tree.inodes + len(parts.deleted))
    sections: dict[str, Callable[[], Chunks]] = {
        "NS_INFO": lambda: [encode_delimited(info)],
        "INODE": lambda: _inodes(tree, header, parts, opened, progress or (lambda _: None)),
        "INODE_DIR": lambda: _entries(tree),
        "FILES_UNDERCONSTRUCTION": lambda: _open_files(tree, opened),
        "SNAPSHOT": lambda: parts.snapshots,
        "SNAPSHOT_DIFF": lambda: parts.diffs,
        "INODE_REFERENCE": list,
        "SECRET_MANAGER": lambda: [encode_delimited(_secrets())],
        "CACHE_MANAGER": lambda: [encode_delimited(_caches())],
        "STRING_TABLE": lambda: [_strings().encode()],
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
    return BaseImage(path, tree, TXID, last_inode, last_block, last_genstamp, parts.directories)


def _inodes(
    tree: Tree, header: pb.INodeSection, parts: SnapshotSections, opened: list[int], progress: Callable[[int], None]
) -> Iterator[memoryview | bytes]:
    yield encode_delimited(header)
    out, found = np.empty(_BATCH * RECORD_ROOM, np.uint8), np.empty(_BATCH, np.int64)
    directory = 0
    for first in range(0, tree.inodes, _BATCH):
        end = min(first + _BATCH, tree.inodes)
        size, count, directory = inode_records(tree.arrays, first, end, directory, out, found)
        opened.extend(found[:count].tolist())
        progress(end)
        yield out.data[:size]
    yield from parts.deleted


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


def _secrets() -> pb.SecretManagerSection:
    return pb.SecretManagerSection(currentId=0, tokenSequenceNumber=0, numKeys=0, numTokens=0)


def _caches() -> pb.CacheManagerSection:
    return pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0)
