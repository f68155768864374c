"""One of the two images in a comparison: its records, tree, names and references."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from hadoop_common.java_numbers import signed32, signed64
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.string_table import StringKind
from image_format.varint import parse_message
from image_tools.compare.record_attributes import plain
from image_tools.dump.records import ImageRecords
from image_tools.dump.tree import ImageTree
from image_tools.dump.values import SerialNames


class ComparedReference(NamedTuple):
    """An INODE_REFERENCE record; a number is None if the record lacks it."""

    inode: int
    name: str | None
    destination_snapshot: int | None
    last_snapshot: int | None

    def __str__(self) -> str:
        parts = [f"inode {self.inode}"]
        if self.name is not None:
            parts.append(f"name {self.name}")
        if self.destination_snapshot is not None:
            parts.append(f"dstSnapshotId {self.destination_snapshot}")
        if self.last_snapshot is not None:
            parts.append(f"lastSnapshotId {self.last_snapshot}")
        return ", ".join(parts)


class ComparedImage:
    """The data of an image for the comparison.

    Args:
        image: open image, which must stay open while this object is used.

    Raises:
        RecordError: the tree or the string table is damaged.
    """

    def __init__(self, image: ImageFile) -> None:
        self.image = image
        self.records = ImageRecords(image)
        self.names = SerialNames(image.string_table())
        self.tree = ImageTree(self.records)

    @cached_property
    def references(self) -> list[ComparedReference]:
        """References by record number."""
        return [_reference(record) for record in self.records.references()]

    @cached_property
    def strings(self) -> dict[StringKind, dict[int, str]]:
        """Users, groups and xattr names by serial."""
        place = self.image.place("STRING_TABLE")
        found = self.image.records("STRING_TABLE")
        mask_bits = parse_message(pb.StringTableSection, next(found), place).maskBits
        kinds = (StringKind.USER, StringKind.GROUP, StringKind.XATTR)
        out: dict[StringKind, dict[int, str]] = {kind: {} for kind in kinds}
        shift = 32 - mask_bits
        for record in found:
            entry = parse_message(pb.StringTableEntry, record, place)
            for kind in kinds:
                if not mask_bits or entry.id >> shift == kind:
                    out[kind][entry.id & (1 << shift) - 1] = plain(entry.str)
        return out

    def path(self, inode_id: int) -> str | None:
        """Return the path in the current tree, or None for an inode outside the tree."""
        path = self.tree.path(inode_id)
        return None if path is None else plain(path)


def _reference(record: pb.INodeReference) -> ComparedReference:
    return ComparedReference(
        signed64(record.referredId),
        plain(record.name) if record.HasField("name") else None,
        signed32(record.dstSnapshotId) if record.HasField("dstSnapshotId") else None,
        signed32(record.lastSnapshotId) if record.HasField("lastSnapshotId") else None,
    )
