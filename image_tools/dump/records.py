"""Decodes all records of an image in order, section by section (fsimage.proto)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from google.protobuf.message import Message

from hadoop_common.quantities import counted
from image_format.errors import RecordError
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.summary import SECTIONS, is_known_section, is_sub_section
from image_format.varint import iter_records, parse_message

PROGRESS_STEP = 8192
_M = TypeVar("_M", bound=Message)


class FileDiffRecords(NamedTuple):
    """The snapshot diffs of one file, newest first."""

    inode_id: int
    diffs: list[pb.FileDiff]


class DirectoryDiffRecords(NamedTuple):
    """The snapshot diffs of one directory, newest first, each with the names of its created list."""

    inode_id: int
    diffs: list[tuple[pb.DirectoryDiff, list[bytes]]]


class SecretRecords(NamedTuple):
    """The SECRET_MANAGER section."""

    header: pb.SecretManagerSection
    keys: list[pb.DelegationKey]
    tokens: list[pb.PersistToken]


class CacheRecords(NamedTuple):
    """The CACHE_MANAGER section."""

    header: pb.CacheManagerSection
    pools: list[pb.CachePoolInfoProto]
    directives: list[pb.CacheDirectiveInfoProto]


class ImageRecords:
    """Decoder of the sections of an image, one record at a time; an absent section has no records.

    Every method reads its section from the start and raises RecordError for a damaged or missing record.

    Args:
        image: open image.
        progress: called by `inodes` with the number of decoded inodes, after every `PROGRESS_STEP` inodes and at the
            end.
    """

    def __init__(self, image: ImageFile, progress: Callable[[int], None] | None = None) -> None:
        self.image = image
        self.progress = progress
        present = [entry.name for entry in image.sections if not is_sub_section(entry.name)]
        self.sections = [name for name in SECTIONS if name in present]
        self.unknown_sections = [name for name in present if not is_known_section(name)]

    def erasure_coding(self) -> pb.ErasureCodingSection:
        return _Cursor(self.image, "ERASURE_CODING").head(pb.ErasureCodingSection())

    def inode_header(self) -> pb.INodeSection:
        return _Cursor(self.image, "INODE").head(pb.INodeSection())

    def inodes(self) -> Iterator[pb.INode]:
        """Yield every inode in the order of the file.

        Raises:
            RecordError: a record is damaged, or the inode count in the section's header is wrong.
        """
        cursor = _Cursor(self.image, "INODE")
        cursor.head(pb.INodeSection())
        count = 0
        for inode in cursor.rest(pb.INode):
            yield inode
            count += 1
            if self.progress is not None and count % PROGRESS_STEP == 0:
                self.progress(count)
        self.check_inode_count(count)
        if self.progress is not None:
            self.progress(count)

    def check_inode_count(self, found: int) -> None:
        """Raise RecordError if the inode count in the header of INODE differs from `found`."""
        expected = self.inode_header().numInodes
        if found != expected:
            text = f"header counts {counted(expected, 'inode')}, found {found}"
            raise self.image.place("INODE").error(RecordError, text, 0)

    def references(self) -> Iterator[pb.INodeReference]:
        return _Cursor(self.image, "INODE_REFERENCE").rest(pb.INodeReference)

    def files_under_construction(self) -> Iterator[pb.FileUnderConstructionEntry]:
        return _Cursor(self.image, "FILES_UNDERCONSTRUCTION").rest(pb.FileUnderConstructionEntry)

    def snapshot_header(self) -> pb.SnapshotSection:
        return _Cursor(self.image, "SNAPSHOT").head(pb.SnapshotSection())

    def snapshots(self) -> Iterator[pb.Snapshot]:
        cursor = _Cursor(self.image, "SNAPSHOT")
        header = cursor.head(pb.SnapshotSection())
        for _ in range(header.numSnapshots):
            yield cursor.next(pb.Snapshot)

    def snapshot_diffs(self) -> Iterator[FileDiffRecords | DirectoryDiffRecords]:
        for _, _, diffs in self.located_snapshot_diffs():
            yield diffs

    def located_snapshot_diffs(
        self, offset: int = 0
    ) -> Iterator[tuple[int, int, FileDiffRecords | DirectoryDiffRecords]]:
        """Yield (offset, end, diffs) for each inode from `offset` of the section, the start of a DiffEntry."""
        cursor = _Cursor(self.image, "SNAPSHOT_DIFF", offset)
        for entry in cursor.rest(pb.DiffEntry):
            start, diffs = cursor.offset, self._diffs(cursor, entry)
            yield start, cursor.end, diffs

    @staticmethod
    def _diffs(cursor: _Cursor, entry: pb.DiffEntry) -> FileDiffRecords | DirectoryDiffRecords:
        if entry.type == pb.DiffEntry.FILEDIFF:
            return FileDiffRecords(entry.inodeId, [cursor.next(pb.FileDiff) for _ in range(entry.numOfDiff)])
        return DirectoryDiffRecords(entry.inodeId, [_directory_diff(cursor) for _ in range(entry.numOfDiff)])

    def secrets(self) -> SecretRecords:
        cursor = _Cursor(self.image, "SECRET_MANAGER")
        header = cursor.head(pb.SecretManagerSection())
        keys = [cursor.next(pb.DelegationKey) for _ in range(header.numKeys)]
        return SecretRecords(header, keys, [cursor.next(pb.PersistToken) for _ in range(header.numTokens)])

    def caches(self) -> CacheRecords:
        cursor = _Cursor(self.image, "CACHE_MANAGER")
        header = cursor.head(pb.CacheManagerSection(nextDirectiveId=1, numPools=0, numDirectives=0))
        pools = [cursor.next(pb.CachePoolInfoProto) for _ in range(header.numPools)]
        return CacheRecords(
            header, pools, [cursor.next(pb.CacheDirectiveInfoProto) for _ in range(header.numDirectives)]
        )


def _directory_diff(cursor: _Cursor) -> tuple[pb.DirectoryDiff, list[bytes]]:
    diff = cursor.next(pb.DirectoryDiff)
    return diff, [cursor.next(pb.CreatedListEntry).name for _ in range(diff.createdListSize)]


class _Cursor:
    """Reader of a section's records, each as the message that the caller expects.

    Attributes:
        offset, end: bounds of the last record.
    """

    def __init__(self, image: ImageFile, name: str, offset: int = 0) -> None:
        section = image.section(name)
        self.offset = self.end = offset
        self._empty = section is None or section.size == 0
        if section is not None:
            self._place = image.place(name)
            self._records = iter_records(section.data, offset, self._place)

    def head(self, absent: _M) -> _M:
        """Return the section's first record, or `absent` if the section is missing or empty."""
        return absent if self._empty else self.next(type(absent))

    def next(self, kind: type[_M]) -> _M:
        record = next(self._records, None)
        if record is None:
            text = f"the section ends where a {kind.DESCRIPTOR.name} is expected"
            raise self._place.error(RecordError, text, self.end)
        self.offset, self.end = record.offset, record.end
        return parse_message(kind, record, self._place)

    def rest(self, kind: type[_M]) -> Iterator[_M]:
        """Yield all remaining records; the caller may also call `next` during the iteration."""
        if self._empty:
            return
        for record in self._records:
            self.offset, self.end = record.offset, record.end
            yield parse_message(kind, record, self._place)
