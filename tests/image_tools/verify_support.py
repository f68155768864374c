"""Recorded images as lists of messages, which tests damage and write again; comparison of two images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import Message

from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import iter_records, parse_message
from image_tools.verify.findings import Finding
from tests.image_format.image_support import RECORDED, build_image, delimited, store

M = TypeVar("M", bound=Message)

CASES = {
    "rename": "hadoop-2.7.3/snapshots-rename-references/after",
    "rename3": "hadoop-3.4.1/snapshots-rename-references/after",
    "basic": "hadoop-2.7.3/snapshots-basic/after",
    "tokens": "hadoop-2.7.3/tokens/after",
    "cache": "hadoop-2.7.3/cache/after",
    "ec": "hadoop-3.4.1/erasure-coding/after",
    "leases": "hadoop-2.7.3/open-files-leases/after",
    "leases3": "hadoop-3.4.1/open-files-leases/after",
    "acl": "hadoop-2.7.3/acl-xattr/after",
    "acl3": "hadoop-3.4.1/acl-xattr/after",
}


def recorded(case: str) -> Path:
    return next((RECORDED / CASES[case]).glob("fsimage_" + "?" * 19))


class Diffs:
    """A DiffEntry with its diffs."""

    def __init__(self, header: pb.DiffEntry, diffs: list[Any], created: list[list[bytes]]) -> None:
        self.header, self.diffs, self.created = header, diffs, created

    def messages(self) -> Iterator[Message]:
        self.header.numOfDiff = len(self.diffs)
        yield self.header
        for diff, created in zip(self.diffs, self.created, strict=True):
            if created or (isinstance(diff, pb.DirectoryDiff) and diff.createdListSize):
                diff.createdListSize = len(created)
            yield diff
            yield from (pb.CreatedListEntry(name=name) for name in created)


class Model:
    """Every section of an image as messages; `save` writes their present state.

    `extra` replaces or adds whole sections; `order` lists the sections in the order of the source.
    """

    def __init__(self, path: Path) -> None:
        with ImageFile.open(path) as image:
            self.layout, self.name = image.layout_version, path.name
            self.order = [section.name for section in image.sections if not section.name.endswith("_SUB")]
            raw = {name: bytes(image.section_bytes(name)) for name in self.order}
        self.extra: dict[str, bytes] = {}
        (self.info,) = self._all(raw, "NS_INFO", pb.NameSystemSection)
        self.inode_header, self.inodes = self._headed(raw, "INODE", pb.INodeSection, pb.INode)
        self.dirs = self._all(raw, "INODE_DIR", pb.DirEntry)
        self.refs = self._all(raw, "INODE_REFERENCE", pb.INodeReference)
        self.snapshot_header, self.snapshots = self._headed(raw, "SNAPSHOT", pb.SnapshotSection, pb.Snapshot)
        self.diffs = list(self._diffs(raw.get("SNAPSHOT_DIFF", b"")))
        self.leases = self._all(raw, "FILES_UNDERCONSTRUCTION", pb.FileUnderConstructionEntry)
        self.string_header, self.strings = self._headed(raw, "STRING_TABLE", pb.StringTableSection, pb.StringTableEntry)
        self.secret_header, rest = self._split(raw["SECRET_MANAGER"], pb.SecretManagerSection)
        self.keys = [parse_message(pb.DelegationKey, record) for record in rest[: self.secret_header.numKeys]]
        self.tokens = [parse_message(pb.PersistToken, record) for record in rest[self.secret_header.numKeys :]]
        self.cache_header, rest = self._split(raw["CACHE_MANAGER"], pb.CacheManagerSection)
        pools = self.cache_header.numPools
        self.pools = [parse_message(pb.CachePoolInfoProto, record) for record in rest[:pools]]
        self.directives = [parse_message(pb.CacheDirectiveInfoProto, record) for record in rest[pools:]]
        self.policies = next(iter(self._all(raw, "ERASURE_CODING", pb.ErasureCodingSection)), None)

    @staticmethod
    def _split(data: bytes, kind: type[M]) -> tuple[M, list[Any]]:
        first, *rest = iter_records(memoryview(data))
        return parse_message(kind, first), rest

    @staticmethod
    def _all(raw: dict[str, bytes], name: str, kind: type[M]) -> list[M]:
        return [parse_message(kind, record) for record in iter_records(memoryview(raw.get(name, b"")))]

    def _headed(self, raw: dict[str, bytes], name: str, head: type[M], kind: type[Any]) -> tuple[M, list[Any]]:
        header, rest = self._split(raw[name], head)
        return header, [parse_message(kind, record) for record in rest]

    @staticmethod
    def _diffs(data: bytes) -> Iterator[Diffs]:
        records = iter_records(memoryview(data))
        for record in records:
            header = parse_message(pb.DiffEntry, record)
            found = Diffs(header, [], [])
            for _ in range(header.numOfDiff):
                if header.type == pb.DiffEntry.FILEDIFF:
                    found.diffs.append(parse_message(pb.FileDiff, next(records)))
                    found.created.append([])
                else:
                    diff = parse_message(pb.DirectoryDiff, next(records))
                    found.diffs.append(diff)
                    names = [
                        parse_message(pb.CreatedListEntry, next(records)).name for _ in range(diff.createdListSize)
                    ]
                    found.created.append(names)
            yield found

    # ---- finding things ------------------------------------------------------------------------------------

    def inode(self, inode_id: int) -> pb.INode:
        return next(inode for inode in self.inodes if inode.id == inode_id)

    def kind(self, kind: int) -> list[pb.INode]:
        return [inode for inode in self.inodes if inode.type == kind and inode.id != 16385]

    def entry(self, least: int = 2) -> pb.DirEntry:
        """Return a directory with at least `least` plain children."""
        return next(entry for entry in self.dirs if len(entry.children) >= least)

    def referring(self) -> pb.DirEntry:
        return next(entry for entry in self.dirs if entry.refChildren)

    def directory_diffs(self, *, created: int = 0, deleted: int = 0, references: int = 0) -> tuple[Diffs, int]:
        """Return the first diff with at least these numbers of list entries, and its number."""
        for found in self.diffs:
            for index, diff in enumerate(found.diffs):
                if not isinstance(diff, pb.DirectoryDiff):
                    continue
                sizes = (len(found.created[index]), len(diff.deletedINode), len(diff.deletedINodeRef))
                if all(size >= least for size, least in zip(sizes, (created, deleted, references), strict=True)):
                    return found, index
        raise LookupError("no such diff")

    # ---- writing -------------------------------------------------------------------------------------------

    def sections(self) -> list[tuple[str, bytes]]:
        made = {
            "NS_INFO": delimited([self.info]),
            "ERASURE_CODING": delimited([self.policies] if self.policies is not None else []),
            "INODE": delimited([self.inode_header, *self.inodes]),
            "INODE_DIR": delimited(self.dirs),
            "FILES_UNDERCONSTRUCTION": delimited(self.leases),
            "SNAPSHOT": delimited([self.snapshot_header, *self.snapshots]),
            "SNAPSHOT_DIFF": delimited(message for found in self.diffs for message in found.messages()),
            "INODE_REFERENCE": delimited(self.refs),
            "SECRET_MANAGER": delimited([self.secret_header, *self.keys, *self.tokens]),
            "CACHE_MANAGER": delimited([self.cache_header, *self.pools, *self.directives]),
            "STRING_TABLE": delimited([self.string_header, *self.strings]),
        }
        names = [*self.order, *(name for name in self.extra if name not in self.order)]
        return [(name, self.extra.get(name, made.get(name, b""))) for name in names]

    def save(self, folder: Path, codec: str = "") -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        return store(folder, build_image(self.sections(), codec, self.layout), self.name)


def record_offsets(path: Path, section: str) -> set[int]:
    """Return the offsets in the file at which the records of the section start."""
    with ImageFile.open(path, verify_md5=False) as image:
        entry = next(entry for entry in image.sections if entry.name == section)
        return {record.offset + entry.offset for record in iter_records(image.section_bytes(section))}


def inode_records(path: Path) -> dict[int, bytes]:
    """Return the bytes of each inode's record by inode id."""
    with ImageFile.open(path, verify_md5=False) as image:
        _, *records = image.records("INODE")
        return {parse_message(pb.INode, record).id: bytes(record.body) for record in records}


def shown(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings))
