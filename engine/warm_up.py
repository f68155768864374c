"""Warm-up: small merges that compile or load the kernels, so that checkpoints do not wait for them."""

from __future__ import annotations

import collections
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba.core.event import Listener, install_listener

from engine.replay.kernel_state import KernelState
from engine.replay.kernels.frames import NO_END, check_frames
from engine.replay.kernels.open_files import follow_paths
from engine.scan_verification import ScanVerification
from engine.settings import MergeSettings
from engine.warm_namespace import WarmNamespace
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from hadoop_common.names import image_name, segment_name
from image_format.codecs import codec_class_name
from image_format.index_arrays import IndexArrays
from image_format.md5_file import md5_of_file, write_md5_file
from image_format.permission import pack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.string_table import StringKind, StringTable
from image_format.sub_section_rules import SubSectionRule
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter
from image_tools.dump.corruption import dump_corruption
from image_tools.dump.delimited import dump_delimited
from image_tools.dump.distribution import dump_distribution
from image_tools.dump.records import ImageRecords
from image_tools.verify.checker import verify_image
from journal import ops
from journal.binary_codec import encode_op
from journal.ops import PermissionStatus
from journal.segment_file import EditLogSegment, SegmentTransactions, list_segments
from journal.segment_format import HEADER_SIZE, encode_header

_LAYOUT = -63
_NEW_LAYOUT = -66
_FIRST = 2
_MORE = 1 << 14
_TXID_DIGITS = 19


def warm_up(*, first: bool = False, compiled: Callable[[int], None] | None = None) -> float:
    """Load the kernels that a checkpoint and `image dump` need; return the duration in seconds.

    Missing kernels are compiled now inside `compiled_kernels`, and in the background otherwise.

    Args:
        first: whether to load only the kernels of a merge without snapshots.
        compiled: called after each compiled kernel with the number so far.

    Raises:
        HdfsError: a merge failed unexpectedly.
        OSError: temporary files cannot be written.
    """
    started = time.monotonic()
    watched = install_listener("numba:compile", _Compilations(compiled)) if compiled is not None else nullcontext()
    with watched, tempfile.TemporaryDirectory(prefix="checkpointer-") as name:
        folder = Path(name)
        image = folder / image_name(_FIRST - 1)
        image.write_bytes(small_image())
        write_md5_file(image, md5_of_file(image))
        # Each merge uses the image of the previous merge. The steps add snapshots, compression, another layout and
        # sub-sections.
        for step in _steps()[: 1 if first else None]:
            image = _merge(folder, image, step, reads=not first)
            if not first:
                # A merge verifies its image if something was healed.
                verify_image(image)
        with ImageFile.open(image, verify_md5=False) as opened:
            # A merge checks a large image while it scans the image, and then follows the paths of open files.
            IndexArrays.scan(opened, inspector=ScanVerification(opened))
        follow_paths(KernelState().record, np.frombuffer(b"", np.uint8), np.empty((0, 2), np.int64), 0, 1)
        if not first:
            # The kernel of the delimited format also prints XML and JSON.
            with ImageFile.open(image, verify_md5=False) as opened:
                for dump in (dump_delimited, dump_distribution, dump_corruption):
                    collections.deque(dump(ImageRecords(opened)), maxlen=0)
        # The checksum thread is used only for longer segments.
        segment = list_segments(folder)[0]
        data = np.frombuffer(segment.path.read_bytes(), np.uint8)
        check_frames(data, HEADER_SIZE, data.size, NO_END)
    return time.monotonic() - started


class _Compilations(Listener):
    """Counter of the kernels that Numba compiles, excluding the kernels that it loads."""

    def __init__(self, compiled_text: Callable[[int], None]) -> None:
        self._compiled = compiled_text
        self._count = 0

    def on_start(self, event: object) -> None:
        """Do nothing; a kernel is counted after its compilation."""

    def on_end(self, event: object) -> None:
        self._count += 1
        self._compiled(self._count)


@dataclass(frozen=True, slots=True)
class _WarmUpStep:
    """Edits in the layout of the previous image, and settings of the next image; None keeps a setting."""

    edits: list[ops.EditOp]
    layout: int = _LAYOUT
    codec: str | None = None
    new_layout: int | None = None
    sub_sections: SubSectionRule | None = None


def _merge(folder: Path, image: Path, step: _WarmUpStep, *, reads: bool) -> Path:
    first = int(image.name[-_TXID_DIGITS:]) + 1
    edits = [ops.StartLogSegmentOp(), *step.edits, ops.EndLogSegmentOp()]
    for txid, op in enumerate(edits, first):
        op.txid = txid
    last = first + len(edits) - 1
    segment = EditLogSegment(first, last, folder / segment_name(first, last))
    segment.path.write_bytes(encode_header(step.layout) + b"".join(encode_op(op, step.layout) for op in edits))
    settings = MergeSettings(codec=step.codec, layout_version=step.new_layout, sub_sections=step.sub_sections)
    with WarmNamespace(settings, keeps_sums=reads) as namespace:
        namespace.load(image)
        if reads:
            # Read unchanged inodes.
            _count(namespace)
        # Grow the tables.
        namespace.namespace.tree.links.reserve_slots(_MORE)
        namespace.namespace.table.row_of.reserve(_MORE)
        # Load the kernel of `deleters`, which replay calls for renamed directories.
        namespace.namespace.tree.base.snapshot_index.deleters(np.array([ROOT_INODE_ID]))
        namespace.apply(SegmentTransactions([segment], first))
        if reads:
            _count(namespace)
        saved = namespace.save([folder]).saved.paths[0]
        namespace.rebase()
        return saved


def _count(namespace: WarmNamespace) -> None:
    """Sum the namespace with its stored sums, without them, and with a check of each directory."""
    with namespace.reading(0, 0) as browser:
        root = browser.root()
        if root is None:
            return
        for sums in (browser.sums, None):
            browser.sums = sums
            browser.content(root)
        browser.content(root, lambda _: None)


def small_image() -> bytes:
    """Return an image of a root with a directory that contains a file and an open file."""
    strings = StringTable.empty(0)
    owner = strings.serial("hdfs", StringKind.USER), strings.serial("supergroup", StringKind.GROUP)
    inodes = [
        pb.INode(type=pb.INode.DIRECTORY, id=ROOT_INODE_ID + number, name=name)
        for number, name in enumerate((b"", b"d"))
    ]
    for inode in inodes:
        inode.directory.permission = pack_permission(*owner, 0o755)
    file = pb.INode(type=pb.INode.FILE, id=ROOT_INODE_ID + 2, name=b"f")
    file.file.permission = pack_permission(*owner, 0o644)
    file.file.blocks.add(blockId=1, genStamp=1001, numBytes=1)
    opened = pb.INode(type=pb.INode.FILE, id=ROOT_INODE_ID + 3, name=b"g")
    opened.file.permission = file.file.permission
    file.file.replication = opened.file.replication = 1
    opened.file.fileUC.clientName = opened.file.fileUC.clientMachine = "c"
    children = [[ROOT_INODE_ID + 1], [file.id, opened.id]]
    sections = {
        "NS_INFO": encode_delimited(
            pb.NameSystemSection(genstampV2=1001, lastAllocatedBlockId=1 << 30, transactionId=_FIRST - 1)
        ),
        "INODE": b"".join(
            map(encode_delimited, [pb.INodeSection(lastInodeId=opened.id, numInodes=4), *inodes, file, opened])
        ),
        "INODE_DIR": b"".join(
            encode_delimited(pb.DirEntry(parent=ROOT_INODE_ID + number, children=found))
            for number, found in enumerate(children)
        ),
        "FILES_UNDERCONSTRUCTION": encode_delimited(pb.FileUnderConstructionEntry(inodeId=opened.id, fullPath="/d/g")),
        "SNAPSHOT": encode_delimited(pb.SnapshotSection(snapshotCounter=0, numSnapshots=0)),
        "SNAPSHOT_DIFF": b"",
        "INODE_REFERENCE": b"",
        "SECRET_MANAGER": encode_delimited(pb.SecretManagerSection()),
        "CACHE_MANAGER": encode_delimited(pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0)),
        "STRING_TABLE": strings.encode(),
    }
    out = bytearray()
    writer = ImageWriter(out.extend, _LAYOUT)
    for name, data in sections.items():
        writer.copy_section(name, data)
    writer.finish()
    return bytes(out)


def _steps() -> list[_WarmUpStep]:
    # Kernels do not know this owner, so plain functions run.
    new = PermissionStatus("new", "new", 0o755)

    def mkdir(path: str, number: int) -> ops.EditOp:
        return ops.MkdirOp(path=path, inode_id=ROOT_INODE_ID + number, timestamp=1, permissions=new)

    def snapshot(name: str) -> ops.EditOp:
        return ops.CreateSnapshotOp(snapshot_root="/d", snapshot_name=name)

    def delete_snapshot(name: str) -> ops.EditOp:
        return ops.DeleteSnapshotOp(snapshot_root="/d", snapshot_name=name)

    def touch(path: str) -> ops.EditOp:
        return ops.TimesOp(path=path, mtime=1, atime=1)

    def delete(path: str) -> ops.EditOp:
        return ops.DeleteOp(path=path, timestamp=2)

    def rename(source: str, target: str) -> ops.EditOp:
        return ops.RenameOp(src=source, dst=target, timestamp=2)

    snapshots: list[ops.EditOp] = [
        ops.AllowSnapshotOp(snapshot_root="/d"),
        snapshot("s0"),
        touch("/d/f"),
        delete("/d/e"),
        rename("/d/f", "/f"),
        mkdir("/d/k", 5),
        snapshot("s1"),
    ]
    return [
        _WarmUpStep([touch("/d/f"), mkdir("/d/e", 4), rename("/d/g", "/d/h")]),
        _WarmUpStep(snapshots),
        _WarmUpStep(
            [touch("/f"), mkdir("/d/k/l", 6), snapshot("s2"), delete("/d/k"), delete_snapshot("s1")],
            codec=codec_class_name("default"),
        ),
        _WarmUpStep(
            [touch("/f"), rename("/f", "/d/f"), snapshot("s3"), delete_snapshot("s0"), delete_snapshot("s2")],
            codec="",
            new_layout=_NEW_LAYOUT,
            sub_sections=SubSectionRule(2, 0),
        ),
        _WarmUpStep(
            [delete_snapshot("s3"), ops.DisallowSnapshotOp(snapshot_root="/d"), delete("/d")], layout=_NEW_LAYOUT
        ),
    ]
