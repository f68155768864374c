"""Every number of a report is a plain sum: over the rows of Hadoop's viewer, and over the rows of random images."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from pipeline.reports.counts.grouping import unpack
from pipeline.reports.counts.namespace import in_buckets, merge_bucket
from pipeline.reports.counts.tree import ImageCounts
from pipeline.reports.request import ReportOptions
from pipeline.reports.sections import make_section
from pipeline.reports.tasks import InodesTask
from pipeline.reports.work import CountedImage, ReportData, image_rules
from pipeline.source_files import SourceFile
from pipeline.sources.table_reader import TablePart
from tests.depth import SEED, scaled
from tests.image_tools.dump_support import Viewed, recorded_views
from tests.pipeline.oiv_inodes import inode_rows
from tests.pipeline.oiv_tables import OivTables, Row
from tests.pipeline.plain_report import PlainReport, random_rows, save_rows
from tests.pipeline.report_frames import AS_OF

VIEWS = [view for view in recorded_views(large=False) if "corrupt" not in view.id and "/odd/" not in view.id]
TASKS = 3
BUCKETS = 2
OPTIONS = ReportOptions(AS_OF, depth=5, top=1000, small=2000, cold_days=30)
OF_HADOOP_3 = ("by_storage_policy", "storage_policy_directories", "erasure_coding_directories")
"""Tables of policies, which the viewer of Hadoop 2 does not show."""
SECTIONS = ("space", "owners", "files", "small-files", "cold", "cleanup", "permissions")


def _counts(image: Path, scratch: Path, options: ReportOptions = OPTIONS) -> ImageCounts:
    rules, file = image_rules(options), SourceFile(str(image))
    tasks = [InodesTask("image", 0, file, TablePart(number, TASKS), rules) for number in range(TASKS)]
    with mock.patch("pipeline.sources.fsimage.host_scratch", return_value=scratch):
        parts = [dict(in_buckets(task.run(), BUCKETS)) for task in tasks]
    return ImageCounts(
        unpack(each for bucket in range(BUCKETS) for each in merge_bucket([part[bucket] for part in parts]))
    )


def _check(data: ReportData, section: str, expected: dict[str, list[Row]], without: Sequence[str] = ()) -> None:
    """Compare every table of a section, whose rows may come in any order."""
    tables = {table.name: table for table in make_section(section, data).tables if table.name not in without}
    assert set(tables) == set(expected) - set(without)
    for name, table in tables.items():
        columns = [column.name for column in table.columns]
        rows = [tuple(row.get(column, 0) for column in columns) for row in expected[name]]
        assert not table.cut
        assert sorted(map(repr, table.rows)) == sorted(map(repr, rows)), (section, name)


def _plain(plain: PlainReport, section: str) -> dict[str, list[Row]]:
    tables: dict[str, list[Row]] = getattr(plain, section.replace("-", "_"))()
    return tables


@pytest.mark.recorded
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.id)
def test_a_report_equals_sums_over_all_inodes(view: Viewed, tmp_path: Path) -> None:
    tables = OivTables(view.xml)
    plain, data = PlainReport(list(inode_rows(tables)), OPTIONS), ReportData(OPTIONS, _counts(view.image, tmp_path))
    for section in SECTIONS:
        _check(data, section, _plain(plain, section), without=() if tables.release3 else OF_HADOOP_3)


@pytest.mark.parametrize("number", range(scaled(100, quick=2)))
def test_a_report_of_a_random_image_equals_plain_sums(number: int, tmp_path: Path) -> None:
    chance = random.Random(1000 * SEED + number)
    small, items = chance.choice([None, 1, 1000]), chance.choice([3, 10])
    options = ReportOptions(AS_OF, chance.choice([0, 2, 9]), 1000, small, chance.choice([1, 365]), 3, items)
    rows = random_rows(chance)
    kept = [row for row in rows if row["type"] == "DIRECTORY" or chance.random() < 0.7]
    old = [{**row, "owner": chance.choice([row["owner"], "dan"])} for row in kept]
    plain, before = PlainReport(rows, options), PlainReport(old, options)
    counts = {
        txid: _counts(save_rows(each.rows, tmp_path / str(txid), txid), tmp_path / f"scratch{txid}", options)
        for txid, each in ((100, before), (200, plain))
    }
    images = tuple(CountedImage(txid, None, each) for txid, each in counts.items())
    data = ReportData(options, counts[200], images)
    for section in (*SECTIONS, "attributes", "open-files"):
        _check(data, section, _plain(plain, section))
    _check(data, "growth", plain.growth(before))


@pytest.mark.recorded
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.id)
def test_attributes_and_open_files_equal_those_of_hadoops_viewer(view: Viewed, tmp_path: Path) -> None:
    tables = OivTables(view.xml)
    if not tables.release3:
        return  # The viewer of Hadoop 2 shows none of these tables.
    kinds = {row["id"]: row["type"] for row in inode_rows(tables)}
    rows = {name: tables.table(name) or [] for name in ("acls", "xattrs", "under_construction")}
    image = _counts(view.image, tmp_path)
    data = ReportData(OPTIONS, image)
    found = {table.name: table for name in ("attributes", "open-files") for table in make_section(name, data).tables}
    holders: Counter[str] = Counter()
    for feature, name in (("acl", "acls"), ("xattr", "xattrs")):
        inodes = {row["inode_id"] for row in rows[name]} & set(kinds)
        holders.update(f"{feature}_{'files' if kinds[each] == 'FILE' else 'directories'}" for each in inodes)
    of_directories = [row for row in rows["xattrs"] if kinds.get(row["inode_id"]) == "DIRECTORY"]
    names = Counter((row["namespace"], row["name"]) for row in of_directories)
    zones = {row["path"] for row in of_directories if row["name"] == "hdfs.crypto.encryption.zone"}
    (total,) = found["attributes"].rows
    expected = [holders[f"{feature}_{kind}"] for feature in ("acl", "xattr") for kind in ("files", "directories")]
    assert total == (*expected, len(zones))
    assert {row[:2]: row[2] for row in found["attributes_of_directories"].rows} == names
    assert {row[0] for row in found["encryption_zones"].rows} == zones
    opened = {row["path"]: row["length"] for row in rows["under_construction"] if row["path"] is not None}
    assert found["open_files"].rows == ((len(opened), sum(opened.values())),)
    assert {row[0] for row in found["oldest_open_files"].rows} <= set(opened)
    assert sum(int(str(row[1])) for row in found["open_by_age"].rows) == len(opened)
