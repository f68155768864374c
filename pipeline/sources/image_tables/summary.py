"""Rows of the `summary` table: the FileSummary's entries, and the fields of the sections' headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hadoop_common.java_numbers import signed32, signed64
from image_format.erasure_policies import policies_of
from image_format.proto import fsimage_pb2 as pb
from image_format.summary import SECTIONS, is_sub_section
from image_format.varint import parse_message, read_record
from image_tools.dump.records import ImageRecords
from pipeline.sources.image_tables.batches import text

_Row = dict[str, Any]
_SIGNED = {FieldDescriptor.TYPE_UINT64: signed64, FieldDescriptor.TYPE_UINT32: signed32}
# the fields of a header that count records begin with this word
_NUMBER = "num"


def section_headers(records: ImageRecords) -> dict[str, Message]:
    """Return the header of each non-empty section with a header.

    Raises:
        RecordError: a header is damaged.
    """
    found: dict[str, Message] = {}
    for name, kinds in SECTIONS.items():
        section = records.image.section(name)
        if kinds.header is not None and section is not None and section.size:
            place = records.image.place(name)
            found[name] = parse_message(kinds.header, read_record(section.data, 0, place), place)
    return found


def summary_rows(records: ImageRecords, scanned: Mapping[str, int]) -> Iterator[_Row]:
    """Yield a row for each entry of the FileSummary, then a row for each field of a header and each erasure coding
    policy.

    Args:
        scanned: number of records of each section whose header does not count them.

    Raises:
        RecordError: a header is damaged.
    """
    image = records.image
    everywhere = {
        "codec": image.codec,
        "layout_version": image.layout_version,
        "on_disk_version": image.summary.ondiskVersion,
    }
    headers = section_headers(records)
    counts = {**scanned, **{name: _count(header) for name, header in headers.items()}}
    for entry in image.sections:
        part = is_sub_section(entry.name)
        yield {
            "kind": "SUB_SECTION" if part else "SECTION",
            "section": entry.name,
            "offset": entry.offset,
            "length": entry.length,
            "records": None if part else counts.get(entry.name),
            **everywhere,
        }
    for section, header in headers.items():
        for row in _values(header):
            yield {"kind": "VALUE", "section": section, **row, **everywhere}


def _count(header: Message) -> int:
    if isinstance(header, pb.ErasureCodingSection):
        return len(header.policies)
    counts = [getattr(header, each.name) for each in header.DESCRIPTOR.fields if each.name.startswith(_NUMBER)]
    # a header without counts is the only record of its section
    return sum(counts) if counts else 1


def _values(header: Message) -> Iterator[_Row]:
    """Yield the single numbers of a header; the ids of snapshottable directories are in the `directories` table."""
    if isinstance(header, pb.ErasureCodingSection):
        names = policies_of(header)
        for policy in header.policies:
            known = names.get(policy.id)
            state = pb.ErasureCodingPolicyState.Name(policy.state)
            yield {"name": text(policy.name if known is None else known.name), "value": policy.id, "text": state}
        return
    for field, value in header.ListFields():
        if not field.is_repeated:
            yield {"name": field.name, "value": _SIGNED[field.type](value)}
