"""The XML that the OfflineImageViewer of Hadoop 2.7 prints, section by section (PBImageXmlWriter)."""

from __future__ import annotations

from collections.abc import Iterator

from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import DirectoryDiffs, FileDiffs, ImageRecords
from image_tools.dump.values import Names, mode_symbols, signed32, signed64
from image_tools.dump.xml_elements import (
    blocks_element,
    created_element,
    directive_element,
    pool_element,
    quota_elements,
    reference_element,
    snapshottable_element,
    under_construction_element,
    under_construction_section,
)
from image_tools.dump.xml_text import number, text

__all__ = ["Release2Xml"]


class Release2Xml:
    """Pieces of the document; an image of another release prints what this form has a place for."""

    def __init__(self, records: ImageRecords, names: Names) -> None:
        self._records = records
        self._names = names

    def head(self) -> Iterator[str]:
        """What stands before the first section."""
        yield from ()

    def section(self, name: str) -> Iterator[str]:
        """The XML of a section of the image."""
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
                yield from under_construction_section(self._records)
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

    def _inodes(self) -> Iterator[str]:
        yield f"<INodeSection>{number('lastInodeId', signed64(self._records.inode_header().lastInodeId))}"
        for inode in self._records.inodes():
            kind = pb.INode.Type.Name(inode.type)
            yield (
                f"<inode><id>{signed64(inode.id)}</id><type>{kind}</type>"
                f"{text('name', inode.name)}{self._body(inode)}</inode>\n"
            )
        yield "</INodeSection>\n"

    def _body(self, inode: pb.INode) -> str:
        if inode.HasField("file"):
            return self._file(inode.file)
        if inode.HasField("directory"):
            return self._directory(inode.directory)
        return self._symlink(inode.symlink) if inode.HasField("symlink") else ""

    def _file(self, file: pb.INodeFile) -> str:
        parts = [
            number("replication", signed32(file.replication)),
            number("mtime", signed64(file.modificationTime)),
            number("atime", signed64(file.accessTime)),
            number("perferredBlockSize", signed64(file.preferredBlockSize)),
            self._permission(file.permission),
        ]
        if file.blocks:
            parts.append(blocks_element(file))
        if file.HasField("fileUC"):
            parts.append(under_construction_element(file.fileUC))
        return "".join(parts)

    def _directory(self, directory: pb.INodeDirectory) -> str:
        head = number("mtime", signed64(directory.modificationTime)) + self._permission(directory.permission)
        return head + quota_elements(directory)

    def _symlink(self, link: pb.INodeSymlink) -> str:
        return (
            f"{self._permission(link.permission)}{text('target', link.target)}"
            f"{number('mtime', signed64(link.modificationTime))}{number('atime', signed64(link.accessTime))}"
        )

    def _permission(self, packed: int) -> str:
        owner = self._names.owner(packed)
        return text("permission", f"{_or_null(owner.user)}:{_or_null(owner.group)}:{mode_symbols(owner.mode)}")

    def _references(self) -> Iterator[str]:
        yield "<INodeReferenceSection>"
        for reference in self._records.references():
            yield reference_element(reference)
        yield "</INodeReferenceSection>"

    def _snapshots(self) -> Iterator[str]:
        header = self._records.snapshot_header()
        yield f"<SnapshotSection>{number('snapshotCounter', signed32(header.snapshotCounter))}"
        yield snapshottable_element(header)
        for snapshot in self._records.snapshots():
            yield number("snapshot", signed32(snapshot.snapshotId))
        yield "</SnapshotSection>\n"

    def _directories(self) -> Iterator[str]:
        yield "<INodeDirectorySection>"
        for entry in self._records.directories():
            children = "".join([number("inode", signed64(child)) for child in entry.children])
            references = "".join([number("inodereference-index", signed32(index)) for index in entry.refChildren])
            yield f"<directory>{number('parent', signed64(entry.parent))}{children}{references}</directory>\n"
        yield "</INodeDirectorySection>\n"

    def _snapshot_diffs(self) -> Iterator[str]:
        yield "<SnapshotDiffSection>"
        for of_inode in self._records.snapshot_diffs():
            yield f"<diff>{number('inodeid', signed64(of_inode.inode_id))}"
            if isinstance(of_inode, FileDiffs):
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


def _directory_diffs(of_inode: DirectoryDiffs) -> Iterator[str]:
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
