"""Elements that the XML dumps of Hadoop 2.7 and 3.x have in common (PBImageXmlWriter)."""

from __future__ import annotations

from collections.abc import Iterator

from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import ImageRecords
from image_tools.dump.values import signed32, signed64
from image_tools.dump.xml_text import number, text

__all__ = [
    "blocks_element",
    "created_element",
    "directive_element",
    "pool_element",
    "quota_elements",
    "reference_element",
    "snapshottable_element",
    "under_construction_element",
    "under_construction_section",
]


def blocks_element(holder: pb.INodeFile | pb.FileDiff) -> str:
    """The blocks of a file or of a file diff."""
    return f"<blocks>{''.join(map(_block, holder.blocks))}</blocks>\n"


def _block(block: pb.BlockProto) -> str:
    return (
        f"<block><id>{signed64(block.blockId)}</id><genstamp>{signed64(block.genStamp)}</genstamp>"
        f"<numBytes>{signed64(block.numBytes)}</numBytes></block>\n"
    )


def under_construction_element(feature: pb.FileUnderConstructionFeature) -> str:
    """Who writes an open file."""
    return (
        f"<file-under-construction>{text('clientName', feature.clientName)}"
        f"{text('clientMachine', feature.clientMachine)}</file-under-construction>\n"
    )


def quota_elements(directory: pb.INodeDirectory) -> str:
    """Both quotas, only where the record has both."""
    if not (directory.HasField("dsQuota") and directory.HasField("nsQuota")):
        return ""
    return number("nsquota", signed64(directory.nsQuota)) + number("dsquota", signed64(directory.dsQuota))


def reference_element(reference: pb.INodeReference) -> str:
    """One INODE_REFERENCE record; absent numbers print as 0."""
    return (
        f"<ref>{number('referredId', signed64(reference.referredId))}{text('name', reference.name)}"
        f"{number('dstSnapshotId', signed32(reference.dstSnapshotId))}"
        f"{number('lastSnapshotId', signed32(reference.lastSnapshotId))}</ref>\n"
    )


def snapshottable_element(header: pb.SnapshotSection) -> str:
    """The snapshottable directories, nothing where there are none."""
    if not header.snapshottableDir:
        return ""
    directories = "".join([number("dir", signed64(inode_id)) for inode_id in header.snapshottableDir])
    return f"<snapshottableDir>{directories}</snapshottableDir>\n"


def under_construction_section(records: ImageRecords) -> Iterator[str]:
    """FILES_UNDERCONSTRUCTION, alike in both releases."""
    yield "<FileUnderConstructionSection>"
    for entry in records.files_under_construction():
        yield f"<inode>{number('id', signed64(entry.inodeId))}{text('path', entry.fullPath)}</inode>\n"
    yield "</FileUnderConstructionSection>\n"


def created_element(name: bytes) -> str:
    """One entry of a created list."""
    return f"<created>{text('name', name)}</created>\n"


def pool_element(pool: pb.CachePoolInfoProto) -> str:
    """One cache pool."""
    return (
        f"<pool>{text('poolName', pool.poolName)}{text('ownerName', pool.ownerName)}"
        f"{text('groupName', pool.groupName)}{number('mode', pool.mode)}{number('limit', pool.limit)}"
        f"{number('maxRelativeExpiry', pool.maxRelativeExpiry)}</pool>\n"
    )


def directive_element(directive: pb.CacheDirectiveInfoProto, relative: str) -> str:
    """One cache directive; `relative` is the element that says what kind of expiration it has."""
    return (
        f"<directive>{number('id', directive.id)}{text('path', directive.path)}"
        f"{number('replication', signed32(directive.replication))}{text('pool', directive.pool)}"
        f"<expiration>{number('millis', directive.expiration.millis)}{relative}</expiration>\n</directive>\n"
    )
