"""Compiles the kernels by one small merge, so that no checkpoint has to wait for it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from checkpointer.replay.kernels.frames import NO_END, check_frames
from checkpointer.warm import WarmNamespace
from hadoop_common.names import image_name, segment_name
from image_format.md5_file import format_md5, md5_of_file, md5_path
from image_format.permission import pack_permission
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringKind, StringTable
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter
from journal import ops
from journal.binary_codec import encode_op
from journal.ops import PermissionStatus
from journal.segment import HEADER_SIZE, encode_header
from journal.segment_file import EditLogSegment, read_transactions

__all__ = ["warm_up"]

_LAYOUT = -63
_ROOT_ID = 16385
_FIRST = 2
_MORE = 1 << 14


def warm_up() -> float:
    """Compile what a checkpoint needs, or load it where that was done before; returns the seconds it took.

    Raises:
        HdfsError: the merge failed, as no merge should.
        OSError: there is no room for temporary files.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="checkpointer-") as folder:
        image = Path(folder) / image_name(_FIRST - 1)
        image.write_bytes(_image())
        md5_path(image).write_bytes(format_md5(md5_of_file(image), image.name))
        edits = _edits()
        last = _FIRST + len(edits) - 1
        segment = EditLogSegment(_FIRST, last, Path(folder) / segment_name(_FIRST, last))
        for txid, op in enumerate(edits, _FIRST):
            op.txid = txid
        segment.path.write_bytes(encode_header(_LAYOUT) + b"".join(encode_op(op, _LAYOUT) for op in edits))
        with WarmNamespace() as namespace:
            namespace.load(image, for_save=True)
            # tables that grow
            namespace.namespace.tree.links.reserve_slots(_MORE)
            namespace.namespace.table.row_of.reserve(_MORE)
            namespace.apply(read_transactions([segment], _FIRST))
            namespace.save([Path(folder)])
        # The thread that does this is for longer segments.
        data = np.frombuffer(segment.path.read_bytes(), np.uint8)
        check_frames(data, HEADER_SIZE, data.size, NO_END)
    return time.monotonic() - started


def _image() -> bytes:
    """A root with a directory, and a file and an open one in it."""
    strings = StringTable.empty(0)
    owner = strings.serial("hdfs", StringKind.USER), strings.serial("supergroup", StringKind.GROUP)
    inodes = [
        pb.INode(type=pb.INode.DIRECTORY, id=_ROOT_ID + number, name=name) for number, name in enumerate((b"", b"d"))
    ]
    for inode in inodes:
        inode.directory.permission = pack_permission(*owner, 0o755)
    file = pb.INode(type=pb.INode.FILE, id=_ROOT_ID + 2, name=b"f")
    file.file.permission = pack_permission(*owner, 0o644)
    file.file.blocks.add(blockId=1, genStamp=1001, numBytes=1)
    opened = pb.INode(type=pb.INode.FILE, id=_ROOT_ID + 3, name=b"g")
    opened.file.permission = file.file.permission
    opened.file.fileUC.clientName = opened.file.fileUC.clientMachine = "c"
    children = [[_ROOT_ID + 1], [file.id, opened.id]]
    sections = {
        "NS_INFO": encode_delimited(pb.NameSystemSection(genstampV2=1001, transactionId=_FIRST - 1)),
        "INODE": b"".join(
            map(encode_delimited, [pb.INodeSection(lastInodeId=opened.id, numInodes=4), *inodes, file, opened])
        ),
        "INODE_DIR": b"".join(
            encode_delimited(pb.DirEntry(parent=_ROOT_ID + number, children=found))
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


def _edits() -> list[ops.EditOp]:
    return [
        ops.StartLogSegmentOp(),
        ops.TimesOp(path="/d/f", mtime=1, atime=1),
        # for the plain functions, as nobody knows the owner
        ops.MkdirOp(path="/d/e", inode_id=_ROOT_ID + 4, timestamp=1, permissions=PermissionStatus("new", "new", 0o755)),
        ops.DeleteOp(path="/d", timestamp=2),
        ops.EndLogSegmentOp(),
    ]
