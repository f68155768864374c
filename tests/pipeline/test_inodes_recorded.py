"""The `inodes` table of every recorded image matches Hadoop's own viewers."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.image_format.image_support import RECORDED
from tests.image_tools.dump_support import Viewed, recorded_views
from tests.pipeline.oiv_inodes import inode_rows
from tests.pipeline.oiv_tables import OivTables
from tests.pipeline.recorded_inodes import delimited_row, read

VIEWS = [view for view in recorded_views(large=True) if "corrupt" not in view.id and "/odd/" not in view.id]
DELIMITED = sorted((Path(__file__).parent.parent / "image_tools" / "data").glob("oiv_delimited_*.tsv.gz"))


@pytest.mark.recorded
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.id)
def test_rows_equal_those_of_the_viewers_xml(view: Viewed, tmp_path: Path) -> None:
    rows, expected = read(view.image, tmp_path), list(inode_rows(OivTables(view.xml)))
    shown = [{name: row[name] for name in wanted} for row, wanted in zip(rows, expected, strict=True)]
    assert shown == expected


@pytest.mark.recorded
@pytest.mark.parametrize("stored", DELIMITED, ids=lambda path: path.name)
def test_rows_equal_those_of_hadoops_delimited_output(stored: Path, tmp_path: Path) -> None:
    case = stored.name.removeprefix("oiv_delimited_").removesuffix(".tsv.gz")
    view = Viewed(RECORDED / "hadoop-2.7.3" / case / "oiv_after.xml.gz")
    expected = gzip.decompress(stored.read_bytes()).decode("utf-8")
    assert "".join(delimited_row(row) for row in read(view.image, tmp_path)) == expected


@pytest.mark.recorded
@pytest.mark.parametrize("columns", [("path",), ("owner", "id"), ("ec_policy", "length", "parent")])
def test_columns_are_returned_in_the_requested_order(columns: tuple[str, ...], tmp_path: Path) -> None:
    image = Viewed(RECORDED / "hadoop-3.4.1" / "basic-files" / "oiv_after.xml.gz").image
    whole = read(image, tmp_path)
    rows = read(image, tmp_path, columns)
    assert [tuple(row) for row in rows] == [columns] * len(whole)
    assert rows == [{name: row[name] for name in columns} for row in whole]
