"""Small images for replay tests, which ImageWriter writes and the protobuf library alone reads."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from google.protobuf.message import Message

from engine.merge import load_image
from engine.replay import replay
from engine.replay.replayer import PLAIN
from engine.settings import ReplayRules
from hadoop_common.errors import HdfsError
from hadoop_common.names import image_name
from image_format.md5_file import write_md5_file
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited
from image_format.writer import ImageWriter
from journal.ops import EditOp, PermissionStatus
from tests.engine.replay_twins import check_twins

ROOT = 16385
BASE_TXID = 100
UNLIMITED = (1 << 63) - 1
UINT64 = (1 << 64) - 1
HADOOP2 = -63
HADOOP3 = -67
LAYOUTS = (HADOOP2, HADOOP3)
MODE = 0o755
OWNER = PermissionStatus("hdfs", "supergroup", MODE)

M = TypeVar("M", bound=Message)


def delimited(messages: Iterable[Message]) -> bytes:
    return b"".join(map(encode_delimited, messages))


class ImageBuilder:
    """Builder of an image from inodes by path; parents must be made before their children.

    `order` sorts the records of INODE; `sections` replaces or adds whole sections before `save`.
    """

    def __init__(self, layout_version: int = HADOOP2) -> None:
        self.layout_version = layout_version
        self.erasure_coding = layout_version <= -64
        self.expanded = layout_version <= -65
        self.order: Callable[[pb.INode], int] = lambda inode: inode.id
        self.sections: dict[str, bytes] = {}
        self.strings: list[tuple[int, str]] = []
        self.info = pb.NameSystemSection(
            namespaceId=7, genstampV1=1000, genstampV2=1000, lastAllocatedBlockId=1 << 30, transactionId=BASE_TXID
        )
        self.inodes: dict[str, pb.INode] = {}
        self.references: dict[str, list[int]] = {}
        self.next_id = ROOT
        self.unsorted = False
        root = self.directory("/")
        root.directory.nsQuota = UNLIMITED

    # ---- strings -------------------------------------------------------------------------------------------

    def serial(self, text: str, kind: int) -> int:
        """Return the serial of a string; `kind` is 1 for a user, 2 for a group, 3 for the name of an xattr."""
        key = (kind if self.expanded else 0, text)
        if key not in self.strings:
            self.strings.append(key)
        same = [entry for entry in self.strings if entry[0] == key[0]]
        return same.index(key) + 1

    def permission(self, status: PermissionStatus = OWNER) -> int:
        return self.serial(status.user, 1) << 40 | self.serial(status.group, 2) << 16 | status.mode

    def acl_entry(self, kind: int, scope: int, permission: int, name: str = "") -> int:
        return (self.serial(name, 1 + kind) if name else 0) << 6 | scope << 5 | kind << 3 | permission

    def xattr_name(self, space: int, name: str) -> int:
        return (space & 3) << 30 | self.serial(name, 3) << 6 | space >> 2 << 5

    # ---- inodes --------------------------------------------------------------------------------------------

    def _add(self, path: str, kind: int, inode_id: int | None) -> pb.INode:
        number = self.next_id if inode_id is None else inode_id
        self.next_id = max(self.next_id, number) + 1
        inode = pb.INode(id=number, name=path.rpartition("/")[2].encode())
        inode.type = kind  # type: ignore[assignment]
        self.inodes[path] = inode
        return inode

    def directory(self, path: str, inode_id: int | None = None, *, mtime: int = 1000) -> pb.INode:
        inode = self._add(path, pb.INode.DIRECTORY, inode_id)
        inode.directory.modificationTime = mtime
        inode.directory.nsQuota = inode.directory.dsQuota = UINT64
        inode.directory.permission = self.permission()
        return inode

    def file(
        self, path: str, inode_id: int | None = None, *, blocks: Sequence[tuple[int, int, int]] = (), open_by: str = ""
    ) -> pb.INode:
        """Add a file; each of `blocks` is (id, bytes, generation stamp)."""
        inode = self._add(path, pb.INode.FILE, inode_id)
        file = inode.file
        file.replication, file.preferredBlockSize, file.permission = 3, 128, self.permission()
        file.modificationTime = file.accessTime = 1000
        for block_id, num_bytes, genstamp in blocks:
            file.blocks.add(blockId=block_id, numBytes=num_bytes, genStamp=genstamp)
        if open_by:
            file.fileUC.clientName, file.fileUC.clientMachine = open_by, "host"
        file.storagePolicyID = 0
        if self.erasure_coding:
            file.blockType = pb.CONTIGUOUS
        return inode

    def symlink(self, path: str, target: str) -> pb.INode:
        inode = self._add(path, pb.INode.SYMLINK, None)
        inode.symlink.permission, inode.symlink.target = self.permission(), target.encode()
        inode.symlink.modificationTime = inode.symlink.accessTime = 1000
        return inode

    # ---- file ----------------------------------------------------------------------------------------------

    def _directory_entries(self) -> Iterator[pb.DirEntry]:
        children: dict[str, list[pb.INode]] = {}
        for path, inode in self.inodes.items():
            # Paths that do not start with a slash name inodes that are not in any directory.
            if path.startswith("/") and path != "/":
                children.setdefault(path.rpartition("/")[0] or "/", []).append(inode)
        for path in dict.fromkeys([*children, *self.references]):
            found = children.get(path, [])
            if not self.unsorted:
                found.sort(key=lambda inode: name_key(inode.name))
            yield pb.DirEntry(
                parent=self.inodes[path].id,
                children=[inode.id for inode in found],
                refChildren=self.references.get(path, []),
            )

    def _string_table(self) -> bytes:
        counts: dict[int, int] = {}
        entries = []
        for kind, text in self.strings:
            counts[kind] = counts.get(kind, 0) + 1
            entries.append(pb.StringTableEntry(id=kind << 29 | counts[kind], str=text.encode()))
        header = pb.StringTableSection(numEntry=len(entries))
        if self.expanded:
            header.maskBits = 3
        return delimited([header, *entries])

    def all_sections(self) -> dict[str, bytes]:
        inodes = sorted(self.inodes.values(), key=self.order)
        leased = [
            pb.FileUnderConstructionEntry(inodeId=inode.id, fullPath=path)
            for path, inode in self.inodes.items()
            if inode.file.HasField("fileUC")
        ]
        policies = [pb.ErasureCodingPolicyProto(id=number, state=pb.DISABLED) for number in range(1, 6)]
        sections = {
            "NS_INFO": delimited([self.info]),
            "INODE": delimited([pb.INodeSection(lastInodeId=self.next_id - 1, numInodes=len(inodes)), *inodes]),
            "INODE_DIR": delimited(self._directory_entries()),
            "FILES_UNDERCONSTRUCTION": delimited(leased),
            "SNAPSHOT": delimited([pb.SnapshotSection(snapshotCounter=0, numSnapshots=0)]),
            "SNAPSHOT_DIFF": delimited([pb.DiffEntry(type=pb.DiffEntry.DIRECTORYDIFF, inodeId=ROOT, numOfDiff=0)]),
            "INODE_REFERENCE": b"",
            "SECRET_MANAGER": delimited(
                [pb.SecretManagerSection(currentId=0, tokenSequenceNumber=0, numKeys=0, numTokens=0)]
            ),
            "CACHE_MANAGER": delimited([pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0)]),
            "STRING_TABLE": self._string_table(),
        }
        if self.erasure_coding:
            sections["ERASURE_CODING"] = delimited([pb.ErasureCodingSection(policies=policies)])
        return {**sections, **self.sections}

    def save(self, folder: Path, *, without: Sequence[str] = ()) -> Path:
        """Write the image and its digest file into `folder`."""
        out = bytearray()
        writer = ImageWriter(out.extend, self.layout_version)
        for name, body in self.all_sections().items():
            if name not in without:
                with writer.section(name) as section:
                    section.write(body)
        writer.finish()
        return store(folder, bytes(out), self.info.transactionId)


def store(folder: Path, data: bytes, txid: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / image_name(txid)
    path.write_bytes(data)
    write_md5_file(path, hashlib.md5(data, usedforsecurity=False).digest())
    return path


def numbered(ops: Sequence[EditOp], after: int) -> Sequence[EditOp]:
    """Assign consecutive transaction ids to operations, from `after` + 1 on."""
    for number, op in enumerate(ops, after + 1):
        op.txid = number
    return ops


def merge_bytes(path: Path, ops: Sequence[EditOp], codec: str | None = None, rules: ReplayRules | None = None) -> bytes:
    """Assign txids to `ops` and merge them into the image at `path`; check that kernels make the same image."""
    now = time.time_ns() // 1_000_000
    with patch("engine.replay.snapshots.now", lambda: now):
        out = bytearray()
        with ImageFile.open(path) as image:
            with patch.dict(os.environ, {PLAIN: "1"}):
                loaded = load_image(image, rules)
            given = numbered(ops, loaded.namespace.last_txid)
            try:
                replay(loaded.namespace, given)
                loaded.write(out.extend, codec=codec)
            except HdfsError as error:
                check_twins(path, given, rules, error)
                raise
        check_twins(path, given, rules, bytes(out), ignored=loaded.namespace.ignored)
    return bytes(out)


def merged(path: Path, *ops: EditOp) -> Saved:
    image = Saved(merge_bytes(path, ops))
    assert image.unsorted <= Saved(path.read_bytes()).unsorted
    return image


def messages(data: bytes, kinds: Iterable[type[M]]) -> Iterator[M]:
    """Yield the delimited messages of the given types."""
    position = 0
    for kind in kinds:
        if position == len(data):
            return
        size, position = _varint(data, position)
        message = kind()
        message.ParseFromString(data[position : position + size])
        position += size
        yield message


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def forever(kind: type[M]) -> Iterator[type[M]]:
    while True:
        yield kind


def header_and(data: bytes, head: type[Message], kind: type[M]) -> tuple[Message, list[M]]:
    found = list(messages(data, _chain(head, kind)))
    return found[0], found[1:]  # type: ignore[return-value]


def _chain(head: type[Message], kind: type[Message]) -> Iterator[type[Message]]:
    yield head
    yield from forever(kind)


_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "DefaultCodec": zlib.decompress,
    "GzipCodec": gzip.decompress,
}


@dataclass
class Saved:
    """An image file, decoded with the protobuf library alone."""

    data: bytes
    summary: pb.FileSummary = field(init=False)
    sections: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        assert self.data[:8] == b"HDFSIMG1"
        (size,) = struct.unpack(">i", self.data[-4:])
        (self.summary,) = messages(self.data[-4 - size : -4], [pb.FileSummary])
        decompress = _DECOMPRESS[self.summary.codec.rpartition(".")[2]]
        self.sections = {
            s.name: decompress(self.data[s.offset : s.offset + s.length]) if s.length else b""
            for s in self.summary.sections
        }
        self.info = next(messages(self.sections["NS_INFO"], [pb.NameSystemSection]))
        header, inodes = header_and(self.sections["INODE"], pb.INodeSection, pb.INode)
        self.header = header
        self.inodes = {inode.id: inode for inode in inodes}
        assert len(self.inodes) == len(inodes) == self.header.numInodes  # type: ignore[attr-defined]
        entries = list(messages(self.sections.get("INODE_DIR", b""), forever(pb.DirEntry)))
        self.children = {entry.parent: list(entry.children) for entry in entries}
        assert len(self.children) == len(entries)
        table, strings = header_and(self.sections["STRING_TABLE"], pb.StringTableSection, pb.StringTableEntry)
        self.mask_bits = table.maskBits  # type: ignore[attr-defined]
        self.strings = {entry.id: entry.str.decode() for entry in strings}
        assert len(self.strings) == table.numEntry  # type: ignore[attr-defined]
        self.unsorted: set[int] = set()
        self.paths = dict(self._walk("", ROOT))
        snapshots = next(messages(self.sections.get("SNAPSHOT", b""), [pb.SnapshotSection]), pb.SnapshotSection())
        # Snapshots and references contain inodes to which no plain path leads.
        only_plain = not snapshots.numSnapshots and not self.sections.get("INODE_REFERENCE")
        assert len(self.paths) == len(self.inodes) or not only_plain

    def _walk(self, prefix: str, inode_id: int) -> Iterator[tuple[str, pb.INode]]:
        yield prefix or "/", self.inodes[inode_id]
        children = self.children.get(inode_id, [])
        keys = [name_key(self.inodes[child].name) for child in children]
        assert len(keys) == len(set(keys))
        if keys != sorted(keys):
            self.unsorted.add(inode_id)
        for child in children:
            yield from self._walk(f"{prefix}/{self.inodes[child].name.decode('utf-8', 'surrogateescape')}", child)

    def __getitem__(self, path: str) -> pb.INode:
        return self.paths[path]

    def __contains__(self, path: str) -> bool:
        return path in self.paths

    def mtime(self, path: str) -> int:
        inode = self.paths[path]
        return (inode.file if inode.HasField("file") else inode.directory).modificationTime

    def string(self, serial: int, kind: int) -> str:
        return self.strings[serial | kind << 29 if self.mask_bits else serial]

    def status(self, permission: int) -> PermissionStatus:
        user, group = permission >> 40, permission >> 16 & 0xFFFFFF
        return PermissionStatus(self.string(user, 1), self.string(group, 2), permission & 0xFFFF)

    def acl(self, path: str) -> list[tuple[int, int, int, str]]:
        """Return (type, scope, permission, name) of each entry in the feature."""
        inode = self.paths[path]
        entries = (inode.file if inode.HasField("file") else inode.directory).acl.entries
        return [
            (e >> 3 & 3, e >> 5 & 1, e & 7, self.string(e >> 6, 1 + (e >> 3 & 3)) if e >> 6 else "") for e in entries
        ]

    def owner(self, path: str) -> tuple[str, str, int]:
        """Return the user, group and mode."""
        inode = self.paths[path]
        packed = (inode.file if inode.HasField("file") else inode.directory).permission
        return self.string(packed >> 40, 1), self.string(packed >> 16 & 0xFFFFFF, 2), packed & 0xFFFF

    def xattrs(self, path: str) -> list[tuple[int, str, bytes]]:
        """Return (namespace, name, value) of each attribute in the order of the record."""
        inode = self.paths[path]
        found = (inode.file if inode.HasField("file") else inode.directory).xAttrs.xAttrs
        return [(x.name >> 30 | (x.name >> 5 & 1) << 2, self.string(x.name >> 6 & 0xFFFFFF, 3), x.value) for x in found]

    def blocks(self, path: str) -> list[tuple[int, int, int]]:
        return [(b.blockId, b.numBytes, b.genStamp) for b in self.paths[path].file.blocks]

    def leases(self) -> dict[int, str]:
        return dict(self.lease_paths())

    def lease_paths(self) -> set[tuple[int, str]]:
        """Return inode ids and paths of all leases; a file may have several."""
        entries = messages(self.sections["FILES_UNDERCONSTRUCTION"], forever(pb.FileUnderConstructionEntry))
        return {(entry.inodeId, entry.fullPath) for entry in entries}

    def first(self, section: str, kind: type[M]) -> M:
        return next(messages(self.sections[section], [kind]))
