"""The XML that the OfflineImageViewer of Hadoop 3.x prints, section by section (PBImageXmlWriter)."""

from __future__ import annotations

from collections.abc import Iterator

from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.erasure_xml import erasure_coding_section
from image_tools.dump.records import DirectoryDiffs, FileDiffs, ImageRecords
from image_tools.dump.secret_xml import secret_manager_section
from image_tools.dump.values import Names, signed32, signed64
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

__all__ = ["Release3Xml"]

_REVISION = "4d7825309348956336b8f06a08322b78422849b1"
"""The source revision of Hadoop 3.4.1, whose viewer prints this form."""
_MODE_BITS = 0o1777
_STRIPED_REPLICATION = 1


class Release3Xml:
    """Pieces of the document."""

    def __init__(self, records: ImageRecords, names: Names) -> None:
        self._records = records
        self._names = names

    def head(self) -> Iterator[str]:
        """What stands before the first section."""
        summary = self._records.image.summary
        yield (
            f"<version>{number('layoutVersion', self._records.image.layout_version)}"
            f"{number('onDiskVersion', summary.ondiskVersion)}{text('oivRevision', _REVISION)}</version>\n"
        )

    def section(self, name: str) -> Iterator[str]:
        """The XML of a section of the image."""
        match name:
            case "NS_INFO":
                yield self._ns_info()
            case "ERASURE_CODING":
                yield from erasure_coding_section(self._records.erasure_coding())
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
                yield from secret_manager_section(self._records.secrets())
            case "CACHE_MANAGER":
                yield from self._caches()

    def _ns_info(self) -> str:
        info = self._records.image.ns_info()
        return (
            f"<NameSection>{number('namespaceId', signed32(info.namespaceId))}"
            f"{number('genstampV1', signed64(info.genstampV1))}{number('genstampV2', signed64(info.genstampV2))}"
            f"{number('genstampV1Limit', signed64(info.genstampV1Limit))}"
            f"{number('lastAllocatedBlockId', signed64(info.lastAllocatedBlockId))}"
            f"{number('txid', signed64(info.transactionId))}</NameSection>\n"
        )

    def _inodes(self) -> Iterator[str]:
        header = self._records.inode_header()
        yield f"<INodeSection>{number('lastInodeId', signed64(header.lastInodeId))}"
        yield number("numInodes", signed64(header.numInodes))
        for inode in self._records.inodes():
            yield f"<inode>{self._inode(inode)}</inode>\n"
        yield "</INodeSection>\n"

    def _inode(self, inode: pb.INode) -> str:
        kind = pb.INode.Type.Name(inode.type)
        head = f"<id>{signed64(inode.id)}</id><type>{kind}</type>{text('name', inode.name)}"
        if inode.HasField("file"):
            return head + self._file(inode.file)
        if inode.HasField("directory"):
            return head + self._directory(inode.directory)
        return head + self._symlink(inode.symlink) if inode.HasField("symlink") else head

    def _file(self, file: pb.INodeFile) -> str:
        striped = file.HasField("erasureCodingPolicyID")
        parts = [
            number("replication", _STRIPED_REPLICATION if striped else signed32(file.replication)),
            number("mtime", signed64(file.modificationTime)),
            number("atime", signed64(file.accessTime)),
            number("preferredBlockSize", signed64(file.preferredBlockSize)),
            self._permission(file.permission),
            self._features(file),
        ]
        if file.blocks:
            parts.append(blocks_element(file))
        if file.HasField("storagePolicyID"):
            parts.append(number("storagePolicyId", signed32(file.storagePolicyID)))
        if striped:
            parts.append(text("blockType", pb.BlockTypeProto.Name(file.blockType)))
            parts.append(number("erasureCodingPolicyId", signed32(file.erasureCodingPolicyID)))
        if file.HasField("fileUC"):
            parts.append(under_construction_element(file.fileUC))
        return "".join(parts)

    def _directory(self, directory: pb.INodeDirectory) -> str:
        parts = [
            number("mtime", signed64(directory.modificationTime)),
            self._permission(directory.permission),
            self._features(directory),
            quota_elements(directory),
        ]
        for entry in directory.typeQuotas.quotas:
            kind = text("type", pb.StorageTypeProto.Name(entry.storageType))
            parts.append(f"<typeQuota>{kind}{number('quota', signed64(entry.quota))}</typeQuota>")
        return "".join(parts)

    def _symlink(self, link: pb.INodeSymlink) -> str:
        return (
            f"{self._permission(link.permission)}{text('target', link.target)}"
            f"{number('mtime', signed64(link.modificationTime))}{number('atime', signed64(link.accessTime))}"
        )

    def _permission(self, packed: int) -> str:
        user, group, mode = self._names.owner(packed)
        names = ":".join("null" if name is None else name for name in (user, group))
        return text("permission", f"{names}:{mode & _MODE_BITS:04o}")

    def _features(self, holder: pb.INodeFile | pb.INodeDirectory) -> str:
        """Extended attributes, then ACL entries."""
        attributes = ""
        if holder.HasField("xAttrs"):
            attributes = f"<xattrs>{''.join(map(self._xattr, holder.xAttrs.xAttrs))}</xattrs>"
        if not holder.acl.entries:
            return attributes
        entries = "".join([text("acl", self._names.acl_entry(entry)) for entry in holder.acl.entries])
        return f"{attributes}<acls>{entries}</acls>"

    def _xattr(self, attribute: pb.XAttrCompactProto) -> str:
        namespace, name = self._names.xattr(attribute.name)
        try:
            value = text("val", attribute.value.decode("utf-8"))
        except UnicodeDecodeError:
            value = text("valHex", attribute.value.hex())
        return f"<xattr>{text('ns', namespace)}{text('name', name or '')}{value}</xattr>"

    def _references(self) -> Iterator[str]:
        yield "<INodeReferenceSection>"
        for reference in self._records.references():
            yield reference_element(reference)
        yield "</INodeReferenceSection>"

    def _snapshots(self) -> Iterator[str]:
        header = self._records.snapshot_header()
        yield f"<SnapshotSection>{number('snapshotCounter', signed32(header.snapshotCounter))}"
        yield number("numSnapshots", signed32(header.numSnapshots)) + snapshottable_element(header)
        for snapshot in self._records.snapshots():
            root = self._inode(snapshot.root)
            yield f"<snapshot>{number('id', signed32(snapshot.snapshotId))}<root>{root}</root></snapshot>"
        yield "</SnapshotSection>\n"

    def _directories(self) -> Iterator[str]:
        yield "<INodeDirectorySection>"
        for entry in self._records.directories():
            children = "".join([number("child", signed64(child)) for child in entry.children])
            references = "".join([number("refChild", signed32(index)) for index in entry.refChildren])
            yield f"<directory>{number('parent', signed64(entry.parent))}{children}{references}</directory>\n"
        yield "</INodeDirectorySection>\n"

    def _snapshot_diffs(self) -> Iterator[str]:
        yield "<SnapshotDiffSection>"
        for of_inode in self._records.snapshot_diffs():
            tag = "fileDiffEntry" if isinstance(of_inode, FileDiffs) else "dirDiffEntry"
            yield f"<{tag}>{number('inodeId', signed64(of_inode.inode_id))}{number('count', len(of_inode.diffs))}"
            if isinstance(of_inode, FileDiffs):
                yield from map(self._file_diff, of_inode.diffs)
            else:
                yield from self._directory_diffs(of_inode)
            yield f"</{tag}>"
        yield "</SnapshotDiffSection>\n"

    def _file_diff(self, diff: pb.FileDiff) -> str:
        # Hadoop prints the copy of a diff without one too, with every field's default.
        blocks = blocks_element(diff) if diff.blocks else ""
        return (
            f"<fileDiff>{number('snapshotId', signed32(diff.snapshotId))}{number('size', signed64(diff.fileSize))}"
            f"{text('name', diff.name)}<snapshotCopy>{self._file(diff.snapshotCopy)}</snapshotCopy>\n"
            f"{blocks}</fileDiff>\n"
        )

    def _directory_diffs(self, of_inode: DirectoryDiffs) -> Iterator[str]:
        for diff, created in of_inode.diffs:
            root = "<isSnapshotRoot/>" if diff.isSnapshotRoot else ""
            copy = ""
            if diff.HasField("snapshotCopy"):
                copy = f"<snapshotCopy>{self._directory(diff.snapshotCopy)}</snapshotCopy>\n"
            yield (
                f"<dirDiff>{number('snapshotId', signed32(diff.snapshotId))}"
                f"{number('childrenSize', signed32(diff.childrenSize))}{root}{text('name', diff.name)}"
                f"{copy}{number('createdListSize', signed32(diff.createdListSize))}"
            )
            for inode_id in diff.deletedINode:
                yield number("deletedInode", signed64(inode_id))
            for index in diff.deletedINodeRef:
                yield number("deletedInoderef", signed32(index))
            yield from map(created_element, created)
            yield "</dirDiff>\n"

    def _caches(self) -> Iterator[str]:
        caches = self._records.caches()
        header = caches.header
        yield (
            f"<CacheManagerSection>{number('nextDirectiveId', signed64(header.nextDirectiveId))}"
            f"{number('numDirectives', signed32(header.numDirectives))}{number('numPools', signed32(header.numPools))}"
        )
        yield from map(pool_element, caches.pools)
        for directive in caches.directives:
            yield directive_element(directive, "<relative/>" if directive.expiration.isRelative else "")
        yield "</CacheManagerSection>\n"
