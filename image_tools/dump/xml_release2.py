"""The XML of the OfflineImageViewer of Hadoop 2.7, section by section (PBImageXmlWriter)."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message

from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.record_text import inode_texts, record_texts
from image_tools.dump.records import DirectoryDiffRecords, FileDiffRecords, ImageRecords
from image_tools.dump.template import CHECKED_FEATURES, CHECKED_QUOTAS, PrintStep, RecordTemplate, literal
from image_tools.dump.values import SerialNames, java_text, mode_symbols, signed32, signed64
from image_tools.dump.xml_elements import (
    BLOCKS,
    OPEN_FILE,
    QUOTAS,
    REFERENCE,
    UNDER_CONSTRUCTION,
    created_element,
    directive_element,
    entry_steps,
    escaped,
    inode_steps,
    number,
    number_steps,
    pool_element,
    snapshottable_element,
    text,
    text_steps,
    word_steps,
)

_PERMISSION = word_steps("permission", "permission", "permission")
_FILE = (
    *number_steps("replication", "replication"),
    *number_steps("mtime", "modificationTime"),
    *number_steps("atime", "accessTime"),
    *number_steps("perferredBlockSize", "preferredBlockSize"),
    *_PERMISSION,
    *BLOCKS,
    UNDER_CONSTRUCTION,
    *CHECKED_FEATURES,
)
_DIRECTORY = (*number_steps("mtime", "modificationTime"), *_PERMISSION, *QUOTAS, *CHECKED_FEATURES, CHECKED_QUOTAS)
_SYMLINK = (
    *_PERMISSION,
    *text_steps("target", "target"),
    *number_steps("mtime", "modificationTime"),
    *number_steps("atime", "accessTime"),
)
_INODE = (literal("<inode>"), *inode_steps(_FILE, _DIRECTORY, _SYMLINK), literal("</inode>\n"))


class Release2Xml:
    """Writer of the document; content of other releases that this form lacks is omitted."""

    def __init__(self, records: ImageRecords, names: SerialNames) -> None:
        self._records = records

        def permission(packed: int) -> str:
            owner = names.owner(packed)
            return escaped(java_text(f"{_or_null(owner.user)}:{_or_null(owner.group)}:{mode_symbols(owner.mode)}"))

        self._words = {"permission": permission}

    def head(self) -> Iterator[str]:
        """Yield the part before the first section."""
        yield from ()

    def section(self, name: str) -> Iterator[str | bytes]:
        match name:
            case "NS_INFO":
                yield self._ns_info()
            case "INODE":
                yield from self._inodes()
            case "INODE_REFERENCE":
                yield from self._references()
            case "SNAPSHOT":
                yield from self._snapshots()
            case "INODE_DIR":
                yield from self._directories()
            case "FILES_UNDERCONSTRUCTION":
                yield from self._open_files()
            case "SNAPSHOT_DIFF":
                yield from self._snapshot_diffs()
            case "SECRET_MANAGER":
                yield self._secrets()
            case "CACHE_MANAGER":
                yield from self._caches()

    def _ns_info(self) -> str:
        info = self._records.image.ns_info()
        return (
            "<NameSection>\n"
            f"{number('genstampV1', signed64(info.genstampV1))}{number('genstampV2', signed64(info.genstampV2))}"
            f"{number('genstampV1Limit', signed64(info.genstampV1Limit))}"
            f"{number('lastAllocatedBlockId', signed64(info.lastAllocatedBlockId))}"
            f"{number('txid', signed64(info.transactionId))}</NameSection>\n"
        )

    def _inodes(self) -> Iterator[str | bytes]:
        yield f"<INodeSection>{number('lastInodeId', signed64(self._records.inode_header().lastInodeId))}"
        yield from inode_texts(self._records, self._template(pb.INode, _INODE))
        yield "</INodeSection>\n"

    def _template(self, message: type[Message], steps: tuple[PrintStep, ...]) -> RecordTemplate:
        return RecordTemplate(message, steps, escape=escaped, words=self._words)

    def _each(self, section: str, message: type[Message], steps: tuple[PrintStep, ...]) -> Iterator[bytes]:
        return record_texts(self._records, section, message, self._template(message, steps))

    def _references(self) -> Iterator[str | bytes]:
        yield "<INodeReferenceSection>"
        yield from self._each("INODE_REFERENCE", pb.INodeReference, REFERENCE)
        yield "</INodeReferenceSection>"

    def _snapshots(self) -> Iterator[str]:
        header = self._records.snapshot_header()
        yield f"<SnapshotSection>{number('snapshotCounter', signed32(header.snapshotCounter))}"
        yield snapshottable_element(header)
        for snapshot in self._records.snapshots():
            yield number("snapshot", signed32(snapshot.snapshotId))
        yield "</SnapshotSection>\n"

    def _directories(self) -> Iterator[str | bytes]:
        yield "<INodeDirectorySection>"
        yield from self._each("INODE_DIR", pb.DirEntry, entry_steps("inode", "inodereference-index"))
        yield "</INodeDirectorySection>\n"

    def _open_files(self) -> Iterator[str | bytes]:
        yield "<FileUnderConstructionSection>"
        yield from self._each("FILES_UNDERCONSTRUCTION", pb.FileUnderConstructionEntry, OPEN_FILE)
        yield "</FileUnderConstructionSection>\n"

    def _snapshot_diffs(self) -> Iterator[str]:
        yield "<SnapshotDiffSection>"
        for of_inode in self._records.snapshot_diffs():
            yield f"<diff>{number('inodeid', signed64(of_inode.inode_id))}"
            if isinstance(of_inode, FileDiffRecords):
                yield from map(_file_diff, of_inode.diffs)
            else:
                yield from _directory_diffs(of_inode)
            yield "</diff>"
        yield "</SnapshotDiffSection>\n"

    def _secrets(self) -> str:
        header = self._records.secrets().header
        return (
            f"<SecretManagerSection>{number('currentId', signed32(header.currentId))}"
            f"{number('tokenSequenceNumber', signed32(header.tokenSequenceNumber))}</SecretManagerSection>"
        )

    def _caches(self) -> Iterator[str]:
        caches = self._records.caches()
        yield f"<CacheManagerSection>{number('nextDirectiveId', signed64(caches.header.nextDirectiveId))}"
        yield from map(pool_element, caches.pools)
        for directive in caches.directives:
            relative = "true" if directive.expiration.isRelative else "false"
            yield directive_element(directive, f"<relatilve>{relative}</relatilve>")
        yield "</CacheManagerSection>\n"


def _or_null(name: str | None) -> str:
    return "null" if name is None else name


def _file_diff(diff: pb.FileDiff) -> str:
    return (
        f"<filediff>{number('snapshotId', signed32(diff.snapshotId))}{number('size', signed64(diff.fileSize))}"
        f"{text('name', diff.name)}</filediff>\n"
    )


def _directory_diffs(of_inode: DirectoryDiffRecords) -> Iterator[str]:
    for diff, created in of_inode.diffs:
        yield (
            f"<dirdiff>{number('snapshotId', signed32(diff.snapshotId))}"
            f"<isSnapshotroot>{'true' if diff.isSnapshotRoot else 'false'}</isSnapshotroot>"
            f"{number('childrenSize', signed32(diff.childrenSize))}{text('name', diff.name)}"
        )
        for name in created:
            yield created_element(name)
        for inode_id in diff.deletedINode:
            yield f"<deleted>{number('inode', signed64(inode_id))}</deleted>\n"
        for index in diff.deletedINodeRef:
            yield f"<deleted>{number('inodereference-index', signed32(index))}</deleted>\n"
        yield "</dirdiff>\n"
