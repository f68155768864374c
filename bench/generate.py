"""Generates name directories of any size, with a realistic image and edits; the same seed produces the same files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.variety import MOST_BLOCKS, Variety, skewed_homes
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.names import VERSION, image_name, segment_name
from hadoop_common.storage_info import StorageInfo, format_version
from image_format.kernels.inode import BLOCK_DTYPE, DIRECTORY, FILE, INODE_DTYPE, encode_inodes, encoded_size
from image_format.kernels.tables import LINK_DTYPE
from image_format.md5_file import write_md5_file
from image_format.output import DigestingFileSet
from image_format.permission import pack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter
from journal import ops
from journal.binary_codec import encode_op
from journal.segment_format import encode_header

LAYOUT = -63
CLOCK = 1_700_000_000_000
BLOCK_SIZE = 128 << 20
FILES_A_DIRECTORY = 50
_BATCH = 1 << 18
_NO_CLIENTS = np.zeros(0, LINK_DTYPE)
FIRST_BLOCK = 1 << 30


class Shape:
    """Layout of the inodes: ids increase, starting at the root, and each directory precedes its files.

    Args:
        varied: a few directories contain most of the files; otherwise all directories contain the same number.
    """

    def __init__(self, files: int, *, varied: bool = False) -> None:
        self.files = files
        self.varied = varied
        self.directories = max(1, files // FILES_A_DIRECTORY)
        self.first_file = ROOT_INODE_ID + 1 + self.directories
        self.last_id = ROOT_INODE_ID + self.directories + files

    def directory_path(self, index: int) -> str:
        """Return the path of a directory, on the first or the second level below the root."""
        group = index // FILES_A_DIRECTORY * FILES_A_DIRECTORY
        return f"/d{index:08d}" if index == group else f"/d{group:08d}/d{index:08d}"

    def file_path(self, index: int) -> str:
        home = int(self.homes[index]) if self.varied else index % self.directories
        return f"{self.directory_path(home)}/part-{index:09d}"

    @cached_property
    def homes(self) -> npt.NDArray[np.int64]:
        """Index of each file's directory."""
        if self.varied:
            return skewed_homes(self.files, self.directories, self.files)
        return np.arange(self.files) % self.directories

    def children(self) -> Iterator[tuple[int, list[int]]]:
        """Yield (index of a directory, ids of its files) for each directory."""
        if not self.varied:
            for index in range(self.directories):
                yield index, list(range(self.first_file + index, self.last_id + 1, self.directories))
            return
        order = np.argsort(self.homes, kind="stable") + self.first_file
        bounds = np.searchsorted(self.homes[order - self.first_file], np.arange(self.directories + 1))
        for index in range(self.directories):
            yield index, order[bounds[index] : bounds[index + 1]].tolist()


def _digits(numbers: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
    """Return decimal digits as ASCII, one row per number."""
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return (numbers[:, None] // powers % 10 + 48).astype(np.uint8)


def inode_rows(
    kind: int, first_id: int, numbers: npt.NDArray[np.int64], prefix: bytes, width: int
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


def encode_rows(
    rows: npt.NDArray[np.void], names: npt.NDArray[np.uint8], blocks: npt.NDArray[np.void]
) -> tuple[memoryview, npt.NDArray[np.int64]]:
    """Return delimited INode records, and their starts followed by the end of the last record."""
    wanted = np.arange(rows.size)
    out = np.empty(encoded_size(rows, wanted, names, blocks, _NO_CLIENTS, True, False), np.uint8)
    starts = np.empty(rows.size + 1, np.int64)
    encode_inodes(rows, wanted, names, blocks, _NO_CLIENTS, names, True, False, out, starts)
    return memoryview(out), starts


def _encode(
    rows: npt.NDArray[np.void], names: npt.NDArray[np.uint8], blocks: npt.NDArray[np.void], variety: Variety | None
) -> list[memoryview | bytes]:
    out, starts = encode_rows(rows, names, blocks)
    return [out] if variety is None else variety.decorate(out, starts)


def _varied_blocks(sizes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (blocks of each file, bytes of each block) for files of these sizes; sizes above the limit are capped."""
    counts = np.minimum(-(-sizes // BLOCK_SIZE), MOST_BLOCKS)
    last = np.cumsum(counts) - 1
    lengths = np.full(int(counts.sum()), BLOCK_SIZE, np.int64)
    some = counts > 0
    lengths[last[some]] = np.minimum(sizes[some] - (counts[some] - 1) * BLOCK_SIZE, BLOCK_SIZE)
    return counts, lengths


def _inodes(shape: Shape, permission: int, seed: int, variety: Variety | None) -> Iterator[memoryview | bytes]:
    random = np.random.default_rng(seed)
    no_blocks = np.zeros(1, BLOCK_DTYPE)
    yield encode_delimited(pb.INodeSection(lastInodeId=shape.last_id, numInodes=1 + shape.directories + shape.files))
    root = pb.INode(type=pb.INode.DIRECTORY, id=ROOT_INODE_ID, name=b"")
    root.directory.modificationTime = CLOCK
    root.directory.nsQuota = (1 << 63) - 1
    root.directory.dsQuota = (1 << 64) - 1
    root.directory.permission = permission
    yield encode_delimited(root)
    for start in range(0, shape.directories, _BATCH):
        numbers = np.arange(start, min(start + _BATCH, shape.directories))
        rows, names = inode_rows(DIRECTORY, ROOT_INODE_ID + 1, numbers, b"d", 8)
        rows["permission"] = permission
        if variety is not None:
            variety.directories(rows, numbers)
        yield from _encode(rows, names, no_blocks, variety)
    for start in range(0, shape.files, _BATCH):
        numbers = np.arange(start, min(start + _BATCH, shape.files))
        rows, names = inode_rows(FILE, shape.first_file, numbers, b"part-", 9)
        rows["permission"] = permission
        rows["replication"] = 3
        rows["atime"] = rows["mtime"]
        rows["block_size"] = BLOCK_SIZE
        counts = random.choice(np.array([1, 1, 1, 1, 1, 1, 1, 2, 2, 3]), numbers.size)
        lengths = None
        if variety is not None:
            counts, lengths = _varied_blocks(variety.files(rows, shape.homes[numbers]))
        offsets = np.cumsum(counts) - counts
        blocks = np.zeros(int(counts.sum()), BLOCK_DTYPE)
        blocks["id"] = FIRST_BLOCK + 1 + 3 * start + np.arange(blocks.size)
        blocks["genstamp"] = 1001 + np.arange(blocks.size)
        blocks["num_bytes"] = random.integers(1, BLOCK_SIZE, blocks.size) if lengths is None else lengths
        rows["block_count"] = counts
        rows["blocks_offset"] = offsets
        yield from _encode(rows, names, blocks, variety)


def _directories(shape: Shape) -> Iterator[bytes]:
    groups = range(0, shape.directories, FILES_A_DIRECTORY)
    yield encode_delimited(pb.DirEntry(parent=ROOT_INODE_ID, children=[ROOT_INODE_ID + 1 + group for group in groups]))
    for index, files in shape.children():
        children: list[int] = []
        if index % FILES_A_DIRECTORY == 0:
            last = min(index + FILES_A_DIRECTORY, shape.directories)
            children.extend(range(ROOT_INODE_ID + 2 + index, ROOT_INODE_ID + 1 + last))
        children.extend(files)
        yield encode_delimited(pb.DirEntry(parent=ROOT_INODE_ID + 1 + index, children=children))


def generate_image(directory: Path, files: int, *, txid: int = 1000, seed: int = 1, varied: bool = False) -> Path:
    """Write VERSION, `fsimage_txid` with `files` files and its digest into `directory`; return the image's path.

    Args:
        varied: whether inodes differ, so that reports look realistic: directories of all sizes, many owners, ages over
            years, empty files, a few ACLs, xattrs and quotas. Otherwise all inodes are alike.
    """
    shape = Shape(files, varied=varied)
    strings = StringTable.empty(0)
    user, group = strings.serial("hdfs", StringKind.USER), strings.serial("supergroup", StringKind.GROUP)
    branches = np.arange(shape.directories) // FILES_A_DIRECTORY
    variety = Variety(strings, CLOCK, branches, seed) if varied else None
    path = directory / image_name(txid)
    output = DigestingFileSet([path])
    writer = ImageWriter(output, LAYOUT)
    info = pb.NameSystemSection(
        namespaceId=1,
        genstampV1=1000,
        genstampV2=1001 + 3 * files,
        genstampV1Limit=0,
        lastAllocatedBlockId=FIRST_BLOCK + 3 * files + 1,
        transactionId=txid,
    )
    sections: dict[str, Iterator[memoryview | bytes]] = {
        "NS_INFO": iter([encode_delimited(info)]),
        "INODE": _inodes(shape, pack_permission(user, group, 0o644), seed, variety),
        "INODE_DIR": _directories(shape),
        "FILES_UNDERCONSTRUCTION": iter(()),
        "SNAPSHOT": iter([encode_delimited(pb.SnapshotSection(snapshotCounter=0, numSnapshots=0))]),
        "SNAPSHOT_DIFF": iter(()),
        "INODE_REFERENCE": iter(()),
        "SECRET_MANAGER": iter([encode_delimited(pb.SecretManagerSection())]),
        "CACHE_MANAGER": iter(
            [encode_delimited(pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0))]
        ),
        "STRING_TABLE": iter([strings.encode()]),
    }
    for name, chunks in sections.items():
        with writer.section(name) as out:
            for chunk in chunks:
                out.write(chunk)
    writer.finish()
    written = output.close()
    storage = StorageInfo(LAYOUT, 1, 0, "CID-bench", "BP-bench")
    (directory / VERSION).write_bytes(format_version(storage, datetime.fromtimestamp(CLOCK / 1000, UTC)))
    write_md5_file(path, written.md5)
    return path


def _job_mix(shape: Shape, transactions: int, seed: int) -> Iterator[ops.EditOp]:
    """Yield jobs that write and rename files, and deletions, new directories and changes of attributes."""
    random = np.random.default_rng(seed)
    permissions = ops.PermissionStatus("hdfs", "supergroup", 0o644)
    inode_id, block_id, genstamp = shape.last_id, FIRST_BLOCK + 3 * shape.files + 1, 1001 + 3 * shape.files
    now = CLOCK + 10_000_000_000
    made: list[str] = []
    while True:
        now += 1
        inode_id += 1
        choice = random.random()
        directory = shape.directory_path(int(random.integers(shape.directories)))
        if choice < 0.7:
            path, final = f"{directory}/_tmp-{inode_id}", f"{directory}/new-{inode_id}"
            common = {"inode_id": inode_id, "path": path, "replication": 3, "mtime": now, "atime": now}
            common |= {"block_size": BLOCK_SIZE, "permissions": permissions}
            yield ops.AddOp(**common, client_name="DFSClient_1", client_machine="10.0.0.1")
            block_id += 1
            genstamp += 1
            yield ops.AllocateBlockIdOp(block_id=block_id)
            yield ops.SetGenstampV2Op(genstamp=genstamp)
            yield ops.AddBlockOp(path=path, blocks=(ops.Block(block_id, 0, genstamp),))
            yield ops.CloseOp(**{**common, "inode_id": 0}, blocks=(ops.Block(block_id, 1 << 20, genstamp),))
            yield ops.RenameOp(src=path, dst=final, timestamp=now, options=b"\0")
            made.append(final)
        elif choice < 0.8 and made:
            yield ops.DeleteOp(path=made.pop(int(random.integers(len(made)))), timestamp=now)
        elif choice < 0.88:
            yield ops.MkdirOp(
                inode_id=inode_id, path=f"{directory}/dir-{inode_id}", timestamp=now, permissions=permissions
            )
        elif choice < 0.95:
            yield ops.SetPermissionsOp(src=shape.file_path(int(random.integers(shape.files))), mode=0o600)
        else:
            path = shape.file_path(int(random.integers(shape.files)))
            yield ops.TimesOp(path=path, mtime=-1, atime=now)


def generate_edits(
    directory: Path, files: int, transactions: int, *, first: int = 1001, seed: int = 2, varied: bool = False
) -> Path:
    """Write one finalized segment of `transactions` operations that follow `generate_image`'s image of this shape."""
    last = first + transactions - 1
    path = directory / segment_name(first, last)
    mix = _job_mix(Shape(files, varied=varied), transactions, seed)
    with path.open("wb") as out:
        out.write(encode_header(LAYOUT))
        for txid in range(first, last + 1):
            op: ops.EditOp
            if txid == first:
                op = ops.StartLogSegmentOp()
            elif txid == last:
                op = ops.EndLogSegmentOp()
            else:
                op = next(mix)
            op.txid = txid
            out.write(encode_op(op, LAYOUT))
    return path
