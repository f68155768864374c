"""The table `inodes` of every recorded image is what Hadoop's own viewers print of it."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import pytest

from pipeline.host_image import HostImage
from pipeline.sources.readers import READERS
from tests.image_format.image_support import RECORDED
from tests.image_tools.dump_support import Viewed, recorded_views
from tests.pipeline.oiv_inodes import inode_rows
from tests.pipeline.oiv_tables import OivTables, Row

VIEWS = [view for view in recorded_views(large=True) if "corrupt" not in view.id and "/odd/" not in view.id]
DELIMITED = sorted((Path(__file__).parent.parent / "image_format" / "data").glob("oiv_delimited_*.tsv.gz"))
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


@pytest.mark.recorded
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.id)
def test_rows_are_those_of_the_viewers_xml(view: Viewed, tmp_path: Path) -> None:
    rows, expected = read(view.image, tmp_path), list(inode_rows(OivTables(view.xml)))
    shown = [{name: row[name] for name in wanted} for row, wanted in zip(rows, expected, strict=True)]
    assert shown == expected


@pytest.mark.recorded
@pytest.mark.parametrize("stored", DELIMITED, ids=lambda path: path.name)
def test_rows_are_those_of_hadoops_delimited(stored: Path, tmp_path: Path) -> None:
    case = stored.name.removeprefix("oiv_delimited_").removesuffix(".tsv.gz")
    view = Viewed(RECORDED / "hadoop-2.7.3" / case / "oiv_after.xml.gz")
    expected = gzip.decompress(stored.read_bytes()).decode("utf-8")
    assert "".join(delimited_row(row) for row in read(view.image, tmp_path)) == expected


def delimited_row(row: Row, zone: tzinfo | None = UTC) -> str:
    """A row as `hdfs oiv -p Delimited` of Hadoop 2.7.3 prints it; without a zone in the process's own."""
    times = [(row[name] or EPOCH).astimezone(zone).strftime("%Y-%m-%d %H:%M") for name in ("mtime", "atime")]
    numbers = ("block_size", "block_count", "length", "ns_quota", "ds_quota")
    cells = [row["path"], row["replication"] or 0, *times, *(row[name] or 0 for name in numbers)]
    cells += [symbols(row["permission"]), row["owner"], row["group"]]
    return "\t".join(map(str, cells)) + "\n"


def symbols(mode: int) -> str:
    text = "".join("rwx"[place % 3] if mode >> (8 - place) & 1 else "-" for place in range(9))
    return text[:-1] + ("t" if mode & 1 else "T") if mode & 0o1000 else text


@pytest.mark.recorded
@pytest.mark.parametrize("columns", [("path",), ("owner", "id"), ("ec_policy", "length", "parent")])
def test_columns_come_in_the_order_asked_for(columns: tuple[str, ...], tmp_path: Path) -> None:
    image = Viewed(RECORDED / "hadoop-3.4.1" / "basic-files" / "oiv_after.xml.gz").image
    whole = read(image, tmp_path)
    rows = read(image, tmp_path, columns)
    assert [tuple(row) for row in rows] == [columns] * len(whole)
    assert rows == [{name: row[name] for name in columns} for row in whole]
