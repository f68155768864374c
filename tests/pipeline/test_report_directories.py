"""Empty, temporary, full and world-writable directories, and the sections that show them."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.reports.counts.directory_findings import children, near_limit
from pipeline.reports.counts.features import open_file_counts
from pipeline.reports.counts.namespace import Rules
from pipeline.reports.headline import headline
from pipeline.reports.model import NamespaceReport, ReportSection
from pipeline.reports.request import ReportOptions
from pipeline.reports.sections import make_section
from pipeline.reports.work import ReportData, image_rules
from tests.pipeline.report_frames import AS_OF, ROOT, counted, directory, file, keyed

Row = dict[str, Any]


def _tables(rows: list[Row], section: str, **options: Any) -> dict[str, list[Row]]:
    made = _section(rows, section, **options)
    return {
        table.name: [dict(zip([each.name for each in table.columns], row, strict=True)) for row in table.rows]
        for table in made.tables
    }


def _section(rows: list[Row], section: str, **options: Any) -> ReportSection:
    chosen = ReportOptions(AS_OF, **{"top": 1000, **options})
    return make_section(section, ReportData(chosen, counted(rows, image_rules(chosen))))


def test_file_sizes_by_owner_and_group() -> None:
    tables = _tables(ROWS, "owners")
    expected = {"empty": 1, "below_1_mib": 2, "below_32_mib": 0, "below_128_mib": 0, "below_4_gib": 0, "from_4_gib": 0}
    assert tables["sizes_by_owner"][0] == {"value": "alice", **expected}
    assert sum(keyed(tables["sizes_by_group"], "value")["users"][name] for name in expected) == 3


ROWS = [
    directory(ROOT, None, "/"),
    directory(2, ROOT, "/tmp", permission=0o1777),
    directory(3, ROOT, "/open", permission=0o777),
    directory(4, 3, "/open/.Trash"),
    directory(5, 4, "/open/.Trash/_temporary"),
    directory(6, 3, "/open/hollow"),
    file(10, 5, "/open/.Trash/_temporary/part", 100, permission=0o666),
    file(11, 3, "/open/empty", 0, replication=2),
    file(12, 3, "/open/data", 300, replication=2),
]


def test_contents_of_the_cleanup_section() -> None:
    tables = _tables(ROWS, "cleanup")
    assert tables["empty"] == [{"empty_files": 1, "empty_directories": 2}]
    assert tables["empty_by_directory"] == [
        {"path": "/open", "empty_files": 1, "empty_directories": 1},
        {"path": "/", "empty_files": 0, "empty_directories": 1},
    ]
    assert tables["temporary"] == [{"raw": 300, "share": 33.33, "length": 100, "files": 1}]
    assert [row["name"] for row in tables["temporary_by_name"]] == [".Trash"]
    assert keyed(tables["temporary_trees"], "path")["/open/.Trash"]["directories"] == 1
    report = NamespaceReport("t", "i", 1, None, AS_OF, (_section(ROWS, "cleanup"),))
    assert [finding.text for finding in headline(report).findings] == [
        "300 B are in trash and other temporary directories, 33.3 % of all space."
    ]


def test_contents_of_the_permissions_section() -> None:
    tables = _tables(ROWS, "permissions")
    total = {"writable_files": 1, "writable_directories": 2, "without_sticky_bit": 1}
    assert tables["world_writable"] == [total]
    assert [(row["path"], row["mode"]) for row in tables["writable_directories"]] == [
        ("/open", "0777"),
        ("/tmp", "1777"),
    ]
    assert tables["writable_files_by_directory"] == [
        {"path": "/open/.Trash/_temporary", "writable_files": 1, "files": 1}
    ]
    # Shortening a list does not change its total.
    short = _section(ROWS, "permissions", top=1)
    assert [len(table.rows) for table in short.tables] == [1, 1, 1]
    assert short.tables[0].rows == ((1, 2, 1),)


def test_files_with_another_replication_than_the_default() -> None:
    assert _tables(ROWS, "files")["unlike_default"] == [{"unlike_files": 2, "unlike_raw": 600}]
    other = _tables(ROWS, "files", replication=2)
    assert other["unlike_default_by_directory"] == [
        {"path": "/open/.Trash/_temporary", "unlike_files": 1, "unlike_raw": 300}
    ]


@pytest.mark.parametrize(
    ("limit", "near", "full", "levels"), [(5, 0, 0, []), (4, 1, 1, ["fault"]), (3, 1, 1, ["fault"])]
)
def test_directories_near_the_child_limit_are_found(limit: int, near: int, full: int, levels: list[str]) -> None:
    rows = children(counted(ROWS))
    assert near_limit(rows, limit) == {"near_limit": near, "at_limit": full, "most_children": 4}
    section = _section(ROWS, "space", max_items=limit)
    report = NamespaceReport("t", "i", 1, None, AS_OF, (section,))
    assert [finding.level for finding in headline(report).findings] == levels


def test_ninety_percent_of_the_child_limit_is_a_warning() -> None:
    rows = [directory(ROOT, None, "/"), *(file(10 + each, ROOT, f"/f{each}", 1) for each in range(9))]
    report = NamespaceReport("t", "i", 1, None, AS_OF, (_section(rows, "space", max_items=10),))
    assert [(finding.level, finding.text) for finding in headline(report).findings] == [
        ("warning", "1 directory has at least 90 % of the children that a NameNode allows, the fullest 9.")
    ]


def test_a_shortened_list_of_open_files_keeps_their_counts() -> None:
    days = (3, 40, 0, 41)
    times = [(int(AS_OF.timestamp()) - each * 86_400 - 9) * 1_000_000 for each in days]
    rows: list[Row] = [
        {"path": f"/f{each}", "mtime": time, "length": 10} for each, time in zip(days, times, strict=True)
    ]
    found = open_file_counts([*rows, {"path": None, "mtime": 0, "length": 5}], Rules(AS_OF, limit=2))
    assert found["open_files"]["path"].to_pylist() == ["/f41", "/f40"]
    ages = {row["age_class"]: (row["files"], row["length"]) for row in found["open_ages"].to_pylist()}
    assert ages == {0: (1, 10), 1: (1, 10), 3: (2, 20)}
