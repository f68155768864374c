"""The XML of the OfflineImageViewer of Hadoop 3.x, section by section (PBImageXmlWriter)."""

from __future__ import annotations

from collections.abc import Iterator

from hadoop_common.hadoop_releases import HADOOP_3
from hadoop_common.java_numbers import signed64
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.kernels.program import HEX
from image_tools.dump.records import DirectoryDiffRecords, FileDiffRecords, ImageRecords
from image_tools.dump.template import always_inside, decide_utf8, each, inside, literal, put_data, put_word, when
from image_tools.dump.values import SerialNames, java_text
from image_tools.dump.xml_elements import (
    BLOCKS,
    PERMISSION,
    QUOTAS,
    UNDER_CONSTRUCTION,
    XmlSections,
    created_element,
    escaped,
    inode_steps,
    number,
    number_steps,
    text,
    text_steps,
    word_steps,
)

_MODE_BITS = 0o1777
_FEATURES = (
    *when(
        literal("<xattrs>"),
        inside(
            "xAttrs",
            each(
                "xAttrs",
                literal("<xattr>"),
                put_word("attribute", "name"),
                decide_utf8("value"),
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
    *PERMISSION,
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
    *PERMISSION,
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
_INODE = inode_steps(_FILE, _DIRECTORY)
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


class Release3Xml(XmlSections):
    """Writer of the document.

    Args:
        revision: source revision of the viewer's release.
    """

    complete = True
    inode = _INODE
    children = ("child", "refChild")

    def __init__(self, records: ImageRecords, names: SerialNames, revision: str = HADOOP_3.revision) -> None:
        self._revision = revision

        def permission(packed: int) -> str:
            user, group, mode = names.owner(packed)
            owner = ":".join("null" if name is None else name for name in (user, group))
            return escaped(java_text(f"{owner}:{mode & _MODE_BITS:04o}"))

        def attribute(packed: int) -> str:
            namespace, name = names.xattr(packed)
            return text("ns", namespace) + text("name", name or "")

        def acl(packed: int) -> str:
            return text("acl", names.acl_entry(packed))

        super().__init__(records, {"permission": permission, "attribute": attribute, "acl": acl})
        self._snapshot = self.template(pb.Snapshot, _SNAPSHOT)
        self._file_diff = self.template(pb.FileDiff, _FILE_DIFF)
        self._directory_diff = self.template(pb.DirectoryDiff, _DIRECTORY_DIFF)

    def head(self) -> Iterator[str]:
        """Yield the part before the first section."""
        summary = self.records.image.summary
        yield (
            f"<version>{number('layoutVersion', self.records.image.layout_version)}"
            f"{number('onDiskVersion', summary.ondiskVersion)}{text('oivRevision', self._revision)}</version>\n"
        )

    def snapshot(self, snapshot: pb.Snapshot) -> str:
        return self._snapshot.render(snapshot)

    def diffs(self, of_inode: FileDiffRecords | DirectoryDiffRecords) -> Iterator[str]:
        tag = "fileDiffEntry" if isinstance(of_inode, FileDiffRecords) else "dirDiffEntry"
        yield f"<{tag}>{number('inodeId', signed64(of_inode.inode_id))}{number('count', len(of_inode.diffs))}"
        if isinstance(of_inode, FileDiffRecords):
            yield from map(self._file_diff.render, of_inode.diffs)
        else:
            for diff, created in of_inode.diffs:
                yield self._directory_diff.render(diff)
                yield from map(created_element, created)
                yield "</dirDiff>\n"
        yield f"</{tag}>"

    def relative(self, value: bool) -> str:
        return "<relative/>" if value else ""
