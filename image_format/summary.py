"""Frame of an fsimage: magic, FileSummary and trailing length (FSImageUtil, fsimage.proto)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from google.protobuf.message import Message

from hadoop_common.file_kind import HEAD_BYTES, IMAGE_MAGIC, file_kind
from hadoop_common.java_numbers import signed32, unsigned32
from hadoop_common.names import parse_image
from hadoop_common.quantities import counted
from image_format.errors import (
    BadMagicError,
    BufferOrigin,
    RecordError,
    SummaryError,
    TruncatedImageError,
    UnsupportedLayoutError,
)
from image_format.layout import OLDEST_LAYOUT
from image_format.proto import fsimage_pb2 as pb
from image_format.proto.fsimage_pb2 import FileSummary
from image_format.varint import encode_delimited, parse_message, read_record

MAGIC = IMAGE_MAGIC
TRAILER_LENGTH = 4
ONDISK_VERSION = 1
_SUB_SUFFIX = "_SUB"
# NameNodes know this name, but never write the section
_NEVER_WRITTEN = "EXTENDED_ACL"
_TRAILER = struct.Struct(">i")
SectionName = Literal[
    "NS_INFO",
    "STRING_TABLE",
    "ERASURE_CODING",
    "INODE",
    "INODE_REFERENCE",
    "SNAPSHOT",
    "INODE_DIR",
    "FILES_UNDERCONSTRUCTION",
    "SNAPSHOT_DIFF",
    "SECRET_MANAGER",
    "CACHE_MANAGER",
]


class SectionRecords(NamedTuple):
    """The records of a section.

    Attributes:
        header: type of the first record; None in a section without a header.
        record: type of the other records; None if the section has no other records, or if these records have several
            types.
        has_parts: whether NameNodes know the name of the section's sub-sections.
    """

    header: type[Message] | None
    record: type[Message] | None
    has_parts: bool = False


SECTIONS: Final[Mapping[SectionName, SectionRecords]] = MappingProxyType(
    {
        "NS_INFO": SectionRecords(pb.NameSystemSection, None),
        "STRING_TABLE": SectionRecords(pb.StringTableSection, pb.StringTableEntry),
        "ERASURE_CODING": SectionRecords(pb.ErasureCodingSection, None),
        "INODE": SectionRecords(pb.INodeSection, pb.INode, has_parts=True),
        "INODE_REFERENCE": SectionRecords(None, pb.INodeReference, has_parts=True),
        "SNAPSHOT": SectionRecords(pb.SnapshotSection, pb.Snapshot),
        "INODE_DIR": SectionRecords(None, pb.DirEntry, has_parts=True),
        "FILES_UNDERCONSTRUCTION": SectionRecords(None, pb.FileUnderConstructionEntry),
        "SNAPSHOT_DIFF": SectionRecords(None, None, has_parts=True),
        "SECRET_MANAGER": SectionRecords(pb.SecretManagerSection, None),
        "CACHE_MANAGER": SectionRecords(pb.CacheManagerSection, None),
    }
)
"""The sections that NameNodes write, in the order in which they load them, which differs from the order in the file."""


@dataclass(frozen=True, slots=True)
class Section:
    """Entry of the FileSummary; `offset` is relative to the file's start, and `length` is the stored length."""

    name: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Summary:
    """Checked FileSummary; `sections` are in the FileSummary's order and include sub-sections; `codec` may be ""."""

    message: FileSummary
    layout_version: int
    codec: str
    sections: tuple[Section, ...]


def is_sub_section(name: str) -> bool:
    """Return whether an entry describes a slice of another section (`INODE_SUB`, Hadoop 3.3 and newer)."""
    return name.endswith(_SUB_SUFFIX)


def sub_section_name(section: str) -> str:
    """Return the name of the entries for slices of `section`."""
    return f"{section}{_SUB_SUFFIX}"


_KNOWN_NAMES = frozenset(
    (*SECTIONS, _NEVER_WRITTEN, *(sub_section_name(name) for name, each in SECTIONS.items() if each.has_parts))
)


def is_known_section(name: str) -> bool:
    """Return whether NameNodes of the known layouts load an image with this entry.

    They refuse images with other names (FSImageFormatProtobuf.SectionName).
    """
    return name in _KNOWN_NAMES


def check_magic(head: bytes, file: str = "") -> None:
    """Check the file's first eight bytes.

    The error names the kind of file, which is determined from at most HEAD_BYTES bytes in `head`.

    Raises:
        TruncatedImageError: `head` has fewer than eight bytes.
        UnsupportedLayoutError: the image is older than the protobuf format.
        BadMagicError: the bytes are not HDFSIMG1.
    """
    if len(head) < len(MAGIC):
        raise TruncatedImageError(f"the file has {len(head)} bytes, too few for an fsimage", file=file)
    if head[: len(MAGIC)] != MAGIC:
        # Such an image begins with its layout version.
        layout_version = int(_TRAILER.unpack(head[: _TRAILER.size])[0])
        if OLDEST_LAYOUT < layout_version < 0:
            raise UnsupportedLayoutError(
                f"the image is in the format of Hadoop before 2.4 (layout version {layout_version})",
                file=file,
                hint="Only a NameNode converts such an image, when the cluster is upgraded (`hdfs namenode -upgrade`). "
                "First try the upgrade on a copy of the storage directory.",
            )
        raise _not_an_image(head, file)


def _not_an_image(head: bytes, file: str) -> BadMagicError:
    problem = f"the file starts with {bytes(head[: len(MAGIC)])!r} instead of {MAGIC!r}"
    kind = file_kind(head)
    if kind is None:
        return BadMagicError(problem, file=file, offset=0)
    # the hint explains the use of another kind of file; for a file with an image's name, another copy is needed instead
    hint = "" if parse_image(Path(file).name) else kind.hint
    return BadMagicError(f"{problem}: it is {kind.name}", file=file, offset=0, hint=hint)


def summary_length(trailer: bytes, file_size: int, file: str = "") -> int:
    """Return the length of the delimited FileSummary that precedes the four `trailer` bytes of a file.

    Raises:
        TruncatedImageError: the file is too short for a trailer, or for the length in the trailer.
        SummaryError: the length is zero or negative.
    """
    if file_size < len(MAGIC) + TRAILER_LENGTH or len(trailer) != TRAILER_LENGTH:
        raise TruncatedImageError(f"the file has {file_size} bytes and no FileSummary", file=file)
    length = int(_TRAILER.unpack(trailer)[0])
    offset = file_size - TRAILER_LENGTH
    if length <= 0:
        raise SummaryError(f"the FileSummary's length is {length}", file=file, offset=offset)
    if length > offset - len(MAGIC):
        text = f"the FileSummary's length {length} exceeds the file; the file is truncated or not an fsimage"
        raise TruncatedImageError(text, file=file, offset=offset)
    return length


def parse_summary(stored: memoryview, file_size: int, file: str = "") -> Summary:
    """Parse and check the delimited FileSummary in `stored`, which ends at the trailer.

    Raises:
        SummaryError: the bytes are not one FileSummary, its on-disk version is unknown, or sections do not fit into the
            file.
    """
    base = file_size - TRAILER_LENGTH - len(stored)
    place = BufferOrigin(file, "", base)
    try:
        record = read_record(stored, 0, place)
        message = parse_message(FileSummary, record, place)
    except RecordError as error:
        raise SummaryError(f"the FileSummary is damaged ({error.detail})", file=file, offset=base) from error
    if spare := len(stored) - record.end:
        raise SummaryError(
            f"the file contains {counted(spare, 'byte')} between the FileSummary and its length", file=file, offset=base
        )
    if message.ondiskVersion != ONDISK_VERSION:
        text = f"on-disk version {message.ondiskVersion} is not supported; only version {ONDISK_VERSION} is supported"
        raise SummaryError(text, file=file, offset=base)
    sections = tuple(_section(entry, file, base) for entry in message.sections)
    _check_sections(sections, base, file)
    return Summary(message, signed32(message.layoutVersion), message.codec, sections)


def parse_file(data: memoryview, file: str = "") -> Summary:
    """Check the magic, trailer and FileSummary of a complete image.

    Raises:
        ImageFormatError: see `check_magic`, `summary_length` and `parse_summary`.
    """
    check_magic(bytes(data[:HEAD_BYTES]), file)
    size = len(data)
    length = summary_length(bytes(data[-TRAILER_LENGTH:]), size, file)
    return parse_summary(data[size - TRAILER_LENGTH - length : size - TRAILER_LENGTH], size, file)


def build_summary(
    layout_version: int, codec: str, sections: Sequence[Section], template: FileSummary | None = None
) -> FileSummary:
    """Return a FileSummary for the given sections, in the same order.

    Unknown fields of `template` are copied; unknown fields of its sections are copied to sections of the same name.
    """
    message = FileSummary()
    known: dict[str, FileSummary.Section] = {}
    if template is not None:
        message.CopyFrom(template)
        names = [entry.name for entry in template.sections]
        known = {entry.name: entry for entry in template.sections if names.count(entry.name) == 1}
    message.ClearField("sections")
    message.ClearField("codec")
    message.ondiskVersion = ONDISK_VERSION
    message.layoutVersion = unsigned32(layout_version)
    if codec:
        message.codec = codec
    for section in sections:
        entry = message.sections.add()
        if section.name in known:
            entry.CopyFrom(known[section.name])
        entry.name, entry.offset, entry.length = section.name, section.offset, section.length
    return message


def encode_trailer(summary: FileSummary) -> bytes:
    """Encode the part of the file after the sections: varint length, FileSummary, and the int32 length of both."""
    delimited = encode_delimited(summary)
    return delimited + _TRAILER.pack(len(delimited))


def _section(entry: FileSummary.Section, file: str, base: int) -> Section:
    if not entry.name:
        raise SummaryError("a section has no name", file=file, offset=base)
    return Section(entry.name, entry.offset, entry.length)


def _check_sections(sections: Sequence[Section], limit: int, file: str) -> None:
    """Check that sections are inside the section area, and that top-level sections do not repeat or overlap."""
    for section in sections:
        if section.offset < len(MAGIC) or section.end > limit:
            text = f"its {section.length} bytes reach outside the section area {len(MAGIC)}..{limit}"
            raise SummaryError(text, file=file, section=section.name, offset=section.offset)
    top_level = [section for section in sections if not is_sub_section(section.name)]
    seen: set[str] = set()
    for section in top_level:
        if section.name in seen:
            raise SummaryError("the section is listed twice", file=file, section=section.name, offset=section.offset)
        seen.add(section.name)
    end, previous = len(MAGIC), ""
    for section in sorted(top_level, key=lambda section: (section.offset, section.length)):
        if section.length and section.offset < end:
            text = f"the section overlaps {previous}"
            raise SummaryError(text, file=file, section=section.name, offset=section.offset)
        if section.length:
            end, previous = section.end, section.name
