"""The XML of the OfflineImageViewer of Hadoop 2.7, section by section (PBImageXmlWriter)."""

from __future__ import annotations

from collections.abc import Iterator

from hadoop_common.java_numbers import signed32, signed64
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import DirectoryDiffRecords, FileDiffRecords, ImageRecords
from image_tools.dump.template import CHECKED_FEATURES, CHECKED_QUOTAS
from image_tools.dump.values import SerialNames, java_text, mode_symbols
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
)

_FILE = (
    *number_steps("replication", "replication"),
    *number_steps("mtime", "modificationTime"),
    *number_steps("atime", "accessTime"),
    *number_steps("perferredBlockSize", "preferredBlockSize"),
    *PERMISSION,
    *BLOCKS,
    UNDER_CONSTRUCTION,
    *CHECKED_FEATURES,
)
_DIRECTORY = (*number_steps("mtime", "modificationTime"), *PERMISSION, *QUOTAS, *CHECKED_FEATURES, CHECKED_QUOTAS)


class Release2Xml(XmlSections):
    """Writer of the document; content of other releases that this form lacks is omitted."""

    complete = False
    inode = inode_steps(_FILE, _DIRECTORY)
    children = ("inode", "inodereference-index")

    def __init__(self, records: ImageRecords, names: SerialNames) -> None:
        def permission(packed: int) -> str:
            owner = names.owner(packed)
            return escaped(java_text(f"{_or_null(owner.user)}:{_or_null(owner.group)}:{mode_symbols(owner.mode)}"))

        super().__init__(records, {"permission": permission})

    def head(self) -> Iterator[str]:
        """Yield the part before the first section."""
        yield from ()

    def snapshot(self, snapshot: pb.Snapshot) -> str:
        return number("snapshot", signed32(snapshot.snapshotId))

    def diffs(self, of_inode: FileDiffRecords | DirectoryDiffRecords) -> Iterator[str]:
        yield f"<diff>{number('inodeid', signed64(of_inode.inode_id))}"
        if isinstance(of_inode, FileDiffRecords):
            yield from map(_file_diff, of_inode.diffs)
        else:
            yield from _directory_diffs(of_inode)
        yield "</diff>"

    def relative(self, value: bool) -> str:
        return f"<relatilve>{'true' if value else 'false'}</relatilve>"


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
