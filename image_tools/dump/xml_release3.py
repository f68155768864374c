"""The XML of the OfflineImageViewer of Hadoop 3.x, section by section (PBImageXmlWriter)."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message

from hadoop_common.hadoop_releases import HADOOP_3
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.kernels.program import HEX
from image_tools.dump.record_text import inode_texts, record_texts
from image_tools.dump.records import FileDiffRecords, ImageRecords
from image_tools.dump.template import (
    PrintStep,
    RecordTemplate,
    WordFunction,
    always_inside,
    each,
    inside,
    literal,
    put_data,
    put_word,
    tell,
    when,
)
from image_tools.dump.values import SerialNames, java_text, signed32, signed64
from image_tools.dump.xml_elements import (
    BLOCKS,
    OPEN_FILE,
    QUOTAS,
    REFERENCE,
    UNDER_CONSTRUCTION,
    created_element,
    directive_element,
    entry_steps,
    erasure_coding_section,
    escaped,
    inode_steps,
    number,
    number_steps,
    pool_element,
    secret_manager_section,
    snapshottable_element,
    text,
    text_steps,
    word_steps,
)

_MODE_BITS = 0o1777
_PERMISSION = word_steps("permission", "permission", "permission")
_FEATURES = (
    *when(
        literal("<xattrs>"),
        inside(
            "xAttrs",
            each(
                "xAttrs",
                literal("<xattr>"),
                put_word("attribute", "name"),
                tell("value"),
                *when(*text_steps("val", "value"), present=["value?"]),
                *when(literal("<valHex>"), put_data("value", HEX), literal("</valHex>"), absent=["value?"]),
                literal("</xattr>"),
            ),
        ),
        literal("</xattrs>"),
        present=["xAttrs"],
    ),
    inside("acl", *when(literal("<acls>"), each("entries", put_word("acl")), literal("</acls>"), present=["entries"])),
)
"""Extended attributes, then ACL entries."""
_FILE = (
    # A striped file has one replica of its blocks.
    *when(literal("<replication>1</replication>"), present=["erasureCodingPolicyID"]),
    *when(*number_steps("replication", "replication"), absent=["erasureCodingPolicyID"]),
    *number_steps("mtime", "modificationTime"),
    *number_steps("atime", "accessTime"),
    *number_steps("preferredBlockSize", "preferredBlockSize"),
    *_PERMISSION,
    *_FEATURES,
    *BLOCKS,
    *when(*number_steps("storagePolicyId", "storagePolicyID"), present=["storagePolicyID"]),
    *when(
        *word_steps("blockType", "", "blockType"),
        *number_steps("erasureCodingPolicyId", "erasureCodingPolicyID"),
        present=["erasureCodingPolicyID"],
    ),
    UNDER_CONSTRUCTION,
)
_DIRECTORY = (
    *number_steps("mtime", "modificationTime"),
    *_PERMISSION,
    *_FEATURES,
    *QUOTAS,
    inside(
        "typeQuotas",
        each(
            "quotas",
            literal("<typeQuota>"),
            *word_steps("type", "", "storageType"),
            *number_steps("quota", "quota"),
            literal("</typeQuota>"),
        ),
    ),
)
_SYMLINK = (
    *_PERMISSION,
    *text_steps("target", "target"),
    *number_steps("mtime", "modificationTime"),
    *number_steps("atime", "accessTime"),
)
_INODE = inode_steps(_FILE, _DIRECTORY, _SYMLINK)
_SNAPSHOT = (
    literal("<snapshot>"),
    *number_steps("id", "snapshotId"),
    literal("<root>"),
    always_inside("root", *_INODE),
    literal("</root></snapshot>"),
)
_FILE_DIFF = (
    literal("<fileDiff>"),
    *number_steps("snapshotId", "snapshotId"),
    *number_steps("size", "fileSize"),
    *text_steps("name", "name"),
    literal("<snapshotCopy>"),
    # Hadoop also prints an absent copy, with default values.
    always_inside("snapshotCopy", *_FILE),
    literal("</snapshotCopy>\n"),
    *BLOCKS,
    literal("</fileDiff>\n"),
)
_DIRECTORY_DIFF = (
    literal("<dirDiff>"),
    *number_steps("snapshotId", "snapshotId"),
    *number_steps("childrenSize", "childrenSize"),
    *when(literal("<isSnapshotRoot/>"), present=["isSnapshotRoot!"]),
    *text_steps("name", "name"),
    *when(
        literal("<snapshotCopy>"),
        inside("snapshotCopy", *_DIRECTORY),
        literal("</snapshotCopy>\n"),
        present=["snapshotCopy"],
    ),
    *number_steps("createdListSize", "createdListSize"),
    each("deletedINode", *number_steps("deletedInode", "")),
    each("deletedINodeRef", *number_steps("deletedInoderef", "")),
)
"""The part before the created list, whose entries are separate records."""


class Release3Xml:
    """Writer of the document.

    Args:
        revision: source revision of the viewer's release.
    """

    def __init__(self, records: ImageRecords, names: SerialNames, revision: str = HADOOP_3.revision) -> None:
        self._records = records
        self._revision = revision

        def permission(packed: int) -> str:
            user, group, mode = names.owner(packed)
            owner = ":".join("null" if name is None else name for name in (user, group))
            return escaped(java_text(f"{owner}:{mode & _MODE_BITS:04o}"))

        def attribute(packed: int) -> str:
            namespace, name = names.xattr(packed)
            return text("ns", namespace) + text("name", name or "")

        self._words: dict[str, WordFunction] = {
            "permission": permission,
            "attribute": attribute,
            "acl": lambda packed: text("acl", names.acl_entry(packed)),
        }

    def head(self) -> Iterator[str]:
        """Yield the part before the first section."""
        summary = self._records.image.summary
        yield (
            f"<version>{number('layoutVersion', self._records.image.layout_version)}"
            f"{number('onDiskVersion', summary.ondiskVersion)}{text('oivRevision', self._revision)}</version>\n"
        )

    def section(self, name: str) -> Iterator[str | bytes]:
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
                yield from self._open_files()
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

    def _inodes(self) -> Iterator[str | bytes]:
        header = self._records.inode_header()
        yield f"<INodeSection>{number('lastInodeId', signed64(header.lastInodeId))}"
        yield number("numInodes", signed64(header.numInodes))
        inode = literal("<inode>"), *_INODE, literal("</inode>\n")
        yield from inode_texts(self._records, self._template(pb.INode, inode))
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
        yield number("numSnapshots", signed32(header.numSnapshots)) + snapshottable_element(header)
        template = self._template(pb.Snapshot, _SNAPSHOT)
        yield from map(template.render, self._records.snapshots())
        yield "</SnapshotSection>\n"

    def _directories(self) -> Iterator[str | bytes]:
        yield "<INodeDirectorySection>"
        yield from self._each("INODE_DIR", pb.DirEntry, entry_steps("child", "refChild"))
        yield "</INodeDirectorySection>\n"

    def _open_files(self) -> Iterator[str | bytes]:
        yield "<FileUnderConstructionSection>"
        yield from self._each("FILES_UNDERCONSTRUCTION", pb.FileUnderConstructionEntry, OPEN_FILE)
        yield "</FileUnderConstructionSection>\n"

    def _snapshot_diffs(self) -> Iterator[str]:
        file_diff = self._template(pb.FileDiff, _FILE_DIFF)
        directory_diff = self._template(pb.DirectoryDiff, _DIRECTORY_DIFF)
        yield "<SnapshotDiffSection>"
        for of_inode in self._records.snapshot_diffs():
            tag = "fileDiffEntry" if isinstance(of_inode, FileDiffRecords) else "dirDiffEntry"
            yield f"<{tag}>{number('inodeId', signed64(of_inode.inode_id))}{number('count', len(of_inode.diffs))}"
            if isinstance(of_inode, FileDiffRecords):
                yield from map(file_diff.render, of_inode.diffs)
            else:
                for diff, created in of_inode.diffs:
                    yield directory_diff.render(diff)
                    yield from map(created_element, created)
                    yield "</dirDiff>\n"
            yield f"</{tag}>"
        yield "</SnapshotDiffSection>\n"

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
