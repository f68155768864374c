"""Columns of the `summary` table: the sections of an image, and the numbers in their headers."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import Column, Table

_ENTRY = "fsimage.proto FileSummary.Section"

SUMMARY = Table(
    "summary",
    "The structure of an image. Rows of kind SECTION and SUB_SECTION are the entries of its FileSummary; rows of kind "
    "VALUE are single numbers of a section's header, e.g. transactionId of NS_INFO, and the erasure coding policies "
    "(name, id and state).",
    (
        Column("kind", pa.string(), "SECTION, SUB_SECTION or VALUE.", "FileSummary", nullable=False),
        Column(
            "section",
            pa.string(),
            "Section, e.g. INODE; the name of a sub-section ends in _SUB.",
            f"{_ENTRY}.name",
            nullable=False,
        ),
        Column("name", pa.string(), "Hadoop's name of the header's field; null for sections.", "each section's header"),
        Column("value", pa.int64(), "Value of the field.", "each section's header"),
        Column(
            "text",
            pa.string(),
            "State of an erasure coding policy: ENABLED, DISABLED or REMOVED.",
            "ErasureCodingPolicyProto.state",
        ),
        Column("offset", pa.int64(), "Start of the section in the file.", f"{_ENTRY}.offset", "bytes"),
        Column(
            "length", pa.int64(), "Stored size of the section, compressed if the image is.", f"{_ENTRY}.length", "bytes"
        ),
        Column(
            "records",
            pa.int64(),
            "Number of records without the header: inodes, directories with children, references, inodes with "
            "diffs, snapshots, open files, strings, keys and tokens, pools and directives; null for sub-sections.",
            "each section's header or scan",
        ),
        Column(
            "codec",
            pa.string(),
            "Class name of the compression codec; empty for none.",
            "FileSummary.codec",
            nullable=False,
        ),
        Column(
            "layout_version",
            pa.int32(),
            "Layout version of the image, negative.",
            "FileSummary.layoutVersion",
            nullable=False,
        ),
        Column(
            "on_disk_version", pa.int32(), "Version of the file format.", "FileSummary.ondiskVersion", nullable=False
        ),
    ),
)
