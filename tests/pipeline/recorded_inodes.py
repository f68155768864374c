"""Rows of the inodes table, and the rows of Hadoop's delimited viewer for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from pipeline.host_image import HostImage
from pipeline.sources.readers import READERS
from tests.pipeline.oiv_tables import Row

READER = READERS["inodes"]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(path: Path, scratch: Path, columns: Sequence[str] = READER.table.names, parts: int = 3) -> list[Row]:
    image = HostImage.open(path, scratch)
    schema = READER.table.select(columns).arrow_schema()
    rows: list[Row] = []
    for part in READER.parts(image.image, parts):
        for batch in READER.read(image, part, columns):
            assert batch.schema == schema
            assert batch.num_rows <= 1 << 16
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


def delimited_row(row: Row, zone: tzinfo | None = UTC) -> str:
    """Format a row as `hdfs oiv -p Delimited` of Hadoop 2.7.3 does, by default in the process's time zone."""
    times = [(row[name] or EPOCH).astimezone(zone).strftime("%Y-%m-%d %H:%M") for name in ("mtime", "atime")]
    numbers = ("block_size", "block_count", "length", "ns_quota", "ds_quota")
    cells = [row["path"], row["replication"] or 0, *times, *(row[name] or 0 for name in numbers)]
    cells += [symbols(row["permission"]), row["owner"], row["group"]]
    return "\t".join(map(str, cells)) + "\n"


def symbols(mode: int) -> str:
    text = "".join("rwx"[place % 3] if mode >> (8 - place) & 1 else "-" for place in range(9))
    return text[:-1] + ("t" if mode & 1 else "T") if mode & 0o1000 else text
