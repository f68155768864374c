"""Namespaces that are unlike those of most clusters, with edits that are scattered over all of them.

`python -m bench.shapes` merges each, and says what an inode and a transaction cost as compared with those of the mix
`jobs` on an image of as many inodes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.generate import BLOCK_SIZE, CLOCK, FIRST_BLOCK, LAYOUT, encode_rows, inode_rows
from bench.phases import Run, run_phases
from bench.scene import CONSOLE, machine, make_edits, make_image, read_all
from hadoop_common.inode_ids import ROOT_INODE_ID
from hadoop_common.names import SEEN_TXID, VERSION, image_name, segment_name
from hadoop_common.storage_info import StorageInfo, format_version
from image_format.inode_table import DIRECTORY, FILE
from image_format.kernels.inode import BLOCK_DTYPE
from image_format.md5_file import format_md5
from image_format.output import DigestingFileSet
from image_format.permission import (
    AclScope,
    AclType,
    XAttrNamespace,
    pack_acl_entry,
    pack_permission,
    pack_xattr_name,
)
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter
from journal import ops
from journal.binary_codec import encode_op
from journal.segment import encode_header

TXID = 1000
_BATCH = 1 << 18
_SHORT, _LONG = 5, 200
_JOBS, _PERMISSIONS, _TIMES = 0.6, 0.15, 0.15

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """How files lie in directories, and what they have.

    Attributes:
        per_directory: files in one; 0 for all in one directory.
        depth: directories above a file.
        name: characters before the digits of a file's name.
        shuffled: records in random order of ids.
        opened: every second file is open for write.
        features: every second file has an ACL and an extended attribute.
    """

    label: str
    per_directory: int = 1_000
    depth: int = 1
    name: int = _SHORT
    shuffled: bool = False
    opened: bool = False
    features: bool = False


SHAPES = {
    shape.label: shape
    for shape in (
        Shape("scattered"),
        Shape("one directory", per_directory=0),
        Shape("small directories", per_directory=10),
        Shape("depth 200", depth=200, per_directory=100_000),
        Shape("long names", name=_LONG),
        Shape("random ids", shuffled=True),
        Shape("open files", opened=True),
        Shape("features", features=True),
    )
}
"""By label: what `python -m bench.shapes` measures."""


class _Layout:
    """Ids and paths of a shape with a number of files: the root, chains of directories, files."""

    def __init__(self, shape: Shape, files: int) -> None:
        self.shape = shape
        self.files = files
        self.leaves = max(1, files // shape.per_directory) if shape.per_directory else 1
        self.directories = self.leaves * shape.depth
        self.first_file = ROOT_INODE_ID + 1 + self.directories
        self.last_id = self.first_file + files - 1
        self._prefix = "f" * shape.name
        self._folders = [self._folder(leaf) for leaf in range(self.leaves)]

    def _folder(self, leaf: int) -> str:
        first = leaf * self.shape.depth
        return "".join(f"/d{first + level:08d}" for level in range(self.shape.depth))

    def folder(self, leaf: int) -> str:
        return self._folders[leaf]

    def leaf_id(self, leaf: int) -> int:
        return ROOT_INODE_ID + (leaf + 1) * self.shape.depth

    def bounds(self) -> Ids:
        """By leaf, the number of its first file, and one entry more."""
        return np.arange(self.leaves + 1) * self.files // self.leaves

    def path(self, file: int) -> str:
        leaf = min(file * self.leaves // self.files, self.leaves - 1)
        # the division above rounds down where `bounds` does
        while (leaf + 1) * self.files // self.leaves <= file:
            leaf += 1
        return f"{self._folders[leaf]}/{self._prefix}{file:09d}"

    def prefix(self) -> bytes:
        return self._prefix.encode()


def _write_image(current: Path, shape: Shape, files: int, *, seed: int = 1) -> Path:
    """Write VERSION, seen_txid, `fsimage_1000` and its digest into the folder `current`; returns the image's path."""
    layout = _Layout(shape, files)
    strings = StringTable.empty(0)
    user, group = strings.serial("hdfs", StringKind.USER), strings.serial("supergroup", StringKind.GROUP)
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
        "INODE": lambda: _inodes(layout, pack_permission(user, group, 0o644), opened, decorate, seed),
        "INODE_DIR": lambda: _entries(layout),
        "FILES_UNDERCONSTRUCTION": lambda: _open_files(layout, opened),
        "SNAPSHOT": lambda: iter([encode_delimited(pb.SnapshotSection(snapshotCounter=0, numSnapshots=0))]),
        "SNAPSHOT_DIFF": lambda: iter(()),
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
    path.with_name(path.name + ".md5").write_bytes(format_md5(written.md5, path.name))
    return path


def _inodes(
    layout: _Layout, permission: int, opened: list[int], decorate: Callable[[pb.INode], None] | None, seed: int
) -> Iterator[memoryview | bytes]:
    random = np.random.default_rng(seed)
    total = 1 + layout.directories + layout.files
    yield encode_delimited(pb.INodeSection(lastInodeId=layout.last_id, numInodes=total))
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


def _changed(
    encoded: memoryview,
    starts: Ids,
    numbers: Ids,
    layout: _Layout,
    opened: list[int],
    decorate: Callable[[pb.INode], None] | None,
) -> Iterator[bytes | memoryview]:
    """The records, every second of them open or with features."""
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


def _entries(layout: _Layout) -> Iterator[bytes]:
    depth, bounds = layout.shape.depth, layout.bounds()
    tops = [ROOT_INODE_ID + 1 + leaf * depth for leaf in range(layout.leaves)]
    yield encode_delimited(pb.DirEntry(parent=ROOT_INODE_ID, children=tops))
    for leaf in range(layout.leaves):
        first = tops[leaf]
        for parent in range(first, first + depth - 1):
            yield encode_delimited(pb.DirEntry(parent=parent, children=[parent + 1]))
        children = range(layout.first_file + int(bounds[leaf]), layout.first_file + int(bounds[leaf + 1]))
        yield encode_delimited(pb.DirEntry(parent=layout.leaf_id(leaf), children=children))


def _open_files(layout: _Layout, opened: list[int]) -> Iterator[bytes]:
    for file in opened:
        entry = pb.FileUnderConstructionEntry(inodeId=layout.first_file + file, fullPath=layout.path(file))
        yield encode_delimited(entry)


def _write_edits(current: Path, shape: Shape, files: int, transactions: int, *, seed: int = 2) -> Path:
    """Write one finalized segment behind the image: each transaction in another directory, on another file.

    Jobs write a file in one directory and rename it into another; modes and times of files of the image change, and
    some of these files are renamed.
    """
    layout = _Layout(shape, files)
    first, last = TXID + 1, TXID + transactions
    path = current / segment_name(first, last)
    mix = _scattered(layout, seed)
    with path.open("wb") as out:
        out.write(encode_header(LAYOUT))
        out.write(encode_op(ops.StartLogSegmentOp(txid=first), LAYOUT))
        for txid in range(first + 1, last):
            op = next(mix)
            op.txid = txid
            out.write(encode_op(op, LAYOUT))
        out.write(encode_op(ops.EndLogSegmentOp(txid=last), LAYOUT))
    (current / SEEN_TXID).write_text(f"{last}\n")
    return path


def _scattered(layout: _Layout, seed: int) -> Iterator[ops.EditOp]:
    random = np.random.default_rng(seed)
    permissions = ops.PermissionStatus("hdfs", "supergroup", 0o644)
    inode, block, genstamp = layout.last_id, FIRST_BLOCK + 3 * layout.files + 1, 1001 + 3 * layout.files
    now = CLOCK + 10_000_000_000
    # even ones are renamed, each once; of odd ones the attributes change
    moved = iter((random.permutation(layout.files // 2) * 2).tolist())
    while True:
        draws = random.random(1 << 12).tolist()
        places = random.integers(layout.leaves, size=(1 << 12, 2)).tolist()
        chosen = (random.integers(layout.files // 2, size=1 << 12) * 2 + 1).tolist()
        for draw, (home, other), file in zip(draws, places, chosen, strict=True):
            now += 1
            if draw < _JOBS:
                inode, block, genstamp = inode + 1, block + 1, genstamp + 1
                path, final = f"{layout.folder(home)}/_tmp-{inode}", f"{layout.folder(other)}/new-{inode}"
                yield ops.AddOp(
                    inode_id=inode, path=path, replication=3, mtime=now, atime=now, block_size=BLOCK_SIZE,
                    permissions=permissions, client_name="DFSClient_1", client_machine="10.0.0.1",
                )  # fmt: skip
                yield ops.AllocateBlockIdOp(block_id=block)
                yield ops.SetGenstampV2Op(genstamp=genstamp)
                yield ops.AddBlockOp(path=path, blocks=(ops.Block(block, 0, genstamp),))
                yield ops.CloseOp(
                    path=path, replication=3, mtime=now, atime=now, block_size=BLOCK_SIZE, permissions=permissions,
                    blocks=(ops.Block(block, 1 << 20, genstamp),),
                )  # fmt: skip
                yield ops.RenameOp(src=path, dst=final, timestamp=now, options=b"\0")
            elif draw < _JOBS + _PERMISSIONS:
                yield ops.SetPermissionsOp(src=layout.path(file), mode=0o600)
            elif draw < _JOBS + _PERMISSIONS + _TIMES:
                yield ops.TimesOp(path=layout.path(file), mtime=-1, atime=now)
            elif (source := next(moved, None)) is not None:
                target = f"{layout.folder(other)}/moved-{source}"
                yield ops.RenameOldOp(src=layout.path(source), dst=target, timestamp=now)


def make_shape(folder: Path, shape: Shape, files: int, transactions: int, *, seed: int = 1) -> Path:
    """Write an image and edits behind it into the new folder `folder`/current; returns the image's path."""
    current = folder / "current"
    current.mkdir(parents=True)
    image = _write_image(current, shape, files, seed=seed)
    _write_edits(current, shape, files, transactions, seed=seed + 1)
    return image


# ---- what they cost ------------------------------------------------------------------------------------------


def _cost(runs: list[Run], inodes: int, transactions: int) -> tuple[float, float]:
    """(nanoseconds of load and write an inode, of replay a transaction), medians."""
    parts = [run.parts for run in runs]
    inode = statistics.median(each["load"].seconds + each["write"].seconds for each in parts)
    replay = statistics.median(each["replay"].seconds for each in parts)
    return 1e9 * inode / inodes, 1e9 * replay / transactions


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.shapes", description=__doc__)
    parser.add_argument("--inodes", type=int, default=2_000_000)
    parser.add_argument("--transactions", type=int, default=500_000)
    parser.add_argument("--shape", choices=tuple(SHAPES), action="append", help="repeatable (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work-dir", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"), help="Markdown")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    inodes, transactions = arguments.inodes, arguments.transactions
    with tempfile.TemporaryDirectory(dir=arguments.work_dir, prefix="bench-") as scratch:
        folder = Path(scratch)
        base = make_image(folder / "base", inodes, snapshots=False, seed=1)
        scenes = {"jobs": make_edits(base, folder / "jobs", transactions, "jobs", seed=2).path}
        for label in arguments.shape or SHAPES:
            with CONSOLE.status(f"generate: {label}"):
                scenes[label] = make_shape(folder / label, SHAPES[label], inodes, transactions)
        runs: dict[str, list[Run]] = {label: [] for label in scenes}
        for number in range(arguments.rounds):
            for label, image in scenes.items():
                with CONSOLE.status(f"round {number + 1}: {label}"):
                    read_all(image.parent)
                    runs[label].append(run_phases([sys.executable, "-m", "bench.one_merge", str(image.parent)]))
        costs = {label: _cost(found, inodes, transactions) for label, found in runs.items()}
        sizes = {label: image.stat().st_size / inodes for label, image in scenes.items()}
        shutil.rmtree(folder / "base")
    arguments.output.write_text(_page(costs, sizes, arguments))
    print(json.dumps({"machine": machine(), "costs": costs}) if arguments.json else arguments.output.read_text())


def _page(costs: dict[str, tuple[float, float]], sizes: dict[str, float], arguments: argparse.Namespace) -> str:
    inode, transaction = costs["jobs"]
    introduction = (
        f"`python -m bench.shapes` on {machine()}; medians of {arguments.rounds} rounds, in each of which all shapes "
        f"ran in turn; {arguments.inodes:,} inodes and {arguments.transactions:,} transactions each. Load and write "
        "count for an inode, replay for a transaction."
    )
    lines = [
        "# Cost by shape",
        "",
        textwrap.fill(introduction, 120),
        "",
        "| shape | image bytes/inode | ns/inode | x jobs | ns/transaction | x jobs |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for label, (each, replay) in costs.items():
        lines.append(
            f"| {label} | {sizes[label]:.0f} | {each:.0f} | {each / inode:.2f} | {replay:.0f} "
            f"| {replay / transaction:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
