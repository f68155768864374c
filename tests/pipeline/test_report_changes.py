"""Growth between two images, and statistics of edits."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.reports.counts.edits import EditRules, ordered
from pipeline.reports.counts.tree import changes
from pipeline.reports.earlier_reports import last_report
from pipeline.reports.headline import headline
from pipeline.reports.model import NamespaceReport, ReportTable, TimeLine, as_json
from pipeline.reports.request import ReportOptions
from pipeline.reports.rows import records
from pipeline.reports.sections import make_section
from pipeline.reports.work import CountedImage, ReportData
from tests.pipeline.report_frames import AS_OF, ROOT, counted, counted_edits, directory, file, keyed

HOUR = timedelta(hours=1)


def _edit(txid: int, op: str, path: str | None, hours: int = 0, **more: Any) -> dict[str, Any]:
    return {"txid": txid, "op": op, "path": path, "approximate_time": AS_OF + hours * HOUR, **more}


EDITS = [
    _edit(1, "OP_START_LOG_SEGMENT", None),
    _edit(2, "OP_MKDIR", "/a"),
    _edit(3, "OP_ADD", "/a/f", owner="alice", client_machine="10.0.0.1"),
    _edit(4, "OP_CLOSE", "/a/f", 1, owner="alice", length=100),
    _edit(5, "OP_APPEND", "/a/f", 1, client_machine="10.0.0.2"),
    _edit(6, "OP_CLOSE", "/a/f", 1, owner="alice", length=5000),
    _edit(7, "OP_ADD", "/a/b/g", 2, owner="alice", client_machine="10.0.0.1"),
    _edit(8, "OP_CLOSE", "/a/b/g", 2, owner="alice", length=10),
    _edit(9, "OP_ADD", "/a/b/open", 2, owner="bob", client_machine="10.0.0.1"),
    _edit(10, "OP_DELETE", "/a/b/g", 2),
    _edit(11, "OP_RENAME_OLD", "/a/f", 2, target="/g"),
]


RULES = EditRules(depth=1, small=1000, limit=5)


def test_operations_by_type_hour_and_directory() -> None:
    tables = counted_edits(EDITS, RULES)
    types = keyed(records(ordered(tables, "types")), "op")
    assert {op: row["count"] for op, row in types.items()} == {
        "OP_START_LOG_SEGMENT": 1,
        "OP_MKDIR": 1,
        "OP_ADD": 3,
        "OP_CLOSE": 3,
        "OP_APPEND": 1,
        "OP_DELETE": 1,
        "OP_RENAME_OLD": 1,
    }
    assert types["OP_ADD"]["directories"] == 2
    assert types["OP_START_LOG_SEGMENT"]["directories"] == 0
    hours = records(ordered(tables, "hours"))[::-1]
    assert [(row["hour"] - AS_OF) / HOUR for row in hours] == [0, 1, 2]
    assert [(row["creates"], row["deletes"], row["other"], row["count"]) for row in hours] == [
        (2, 0, 1, 3),
        (0, 0, 2, 3),
        (2, 1, 1, 5),
    ]
    assert [row["hour"] for row in records(ordered(tables, "hours", 1))] == [AS_OF + 2 * HOUR]
    assert [(row["directory"], row["count"]) for row in records(ordered(tables, "busiest", 2))] == [
        ("/a", 5),
        ("/a/b", 4),
    ]


def test_operations_are_counted_by_directory_at_a_depth() -> None:
    assert records(ordered(counted_edits(EDITS, RULES), "causes")) == [
        {"directory": "/a", "creates": 3, "deletes": 1, "renames": 1, "appends": 1, "changes": 6},
        {"directory": "/", "creates": 1, "deletes": 0, "renames": 0, "appends": 0, "changes": 1},
    ]


def test_writers_are_taken_from_the_opening_operation() -> None:
    for tasks in (1, 2, 5, 11):  # the opening and the closing operation meet in the bucket of their directory
        tables = counted_edits(EDITS, RULES, tasks)
        assert [tuple(row.values()) for row in records(ordered(tables, "writers"))] == [
            ("alice", "10.0.0.2", 1, 1, 5000),
            ("alice", "10.0.0.1", 1, 0, 10),
            ("bob", "10.0.0.1", 1, 0, 0),
        ]
        assert [tuple(row.values()) for row in records(ordered(tables, "made_by_directory"))] == [
            ("/a/b", 1, 1, 10, 10)
        ]
        assert [tuple(row.values()) for row in records(ordered(tables, "made_by_client"))] == [
            ("alice", "10.0.0.1", 1, 1, 10, 10)
        ]


def test_tables_are_empty_without_transactions() -> None:
    tables = counted_edits([], RULES)
    assert {name: len(ordered(tables, name)) for name in tables} == dict.fromkeys(tables, 0)


def test_changes_of_added_removed_and_kept_rows() -> None:
    names = ("path", "files", "directories", "length", "raw", "blocks")

    def side(*rows: tuple[object, ...]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])

    before = side(("/", 3, 1, 30, 90, 3), ("/gone", 1, 0, 10, 30, 1), ("/same", 1, 0, 1, 3, 1))
    after = side(("/", 4, 1, 70, 210, 4), ("/new", 2, 0, 50, 150, 2), ("/same", 1, 0, 1, 3, 1))
    found = records(changes(before, after, "path", 5))
    assert [(row["path"], row["raw"], row["raw_before"], row["raw_after"], row["files"]) for row in found] == [
        ("/new", 150, 0, 150, 2),
        ("/", 120, 90, 210, 1),
        ("/gone", -30, 30, 0, -1),
    ]


def test_a_series_of_images_equals_plain_sums() -> None:
    images = []
    sizes = [[5, 7], [5, 9, 11], [1]]
    for txid, lengths in enumerate(sizes, 1):
        rows = [directory(ROOT, None, "/"), directory(2, ROOT, "/a")]
        rows += [file(10 + at, 2, f"/a/{at}", each, owner=f"o{at}") for at, each in enumerate(lengths)]
        images.append(CountedImage(txid, AS_OF + txid * HOUR, counted(rows)))
    made = make_section("growth", ReportData(ReportOptions(AS_OF), images[-1].counts, tuple(images)))
    tables = {
        table.name: [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]
        for table in made.tables
    }
    assert (tables["growth"][0]["raw"], tables["growth"][0]["raw_before"]) == (3 - 36, 36)
    assert [(row["txid"], row["length"], row["files"]) for row in tables["growth_images"]] == [
        (1, 12, 2),
        (2, 25, 3),
        (3, 1, 1),
    ]
    by_path = [(row["path"], row["txid"], row["raw"]) for row in tables["growth_images_by_directory"]]
    assert by_path == [(path, txid, raw) for path in ("/", "/a") for txid, raw in ((1, 36), (2, 75), (3, 3))]
    by_owner = {(row["owner"], row["txid"]): row["length"] for row in tables["growth_images_by_owner"]}
    assert by_owner == {(f"o{at}", txid): (sizes[txid - 1] + [0, 0, 0])[at] for at in range(2) for txid in (1, 2, 3)}
    (line, *_) = made.charts
    assert isinstance(line, TimeLine)
    assert [point.value for point in line.series[0].points] == [36, 75, 3]
    without_times = [replace(image, time=None) for image in images]
    found = make_section("growth", ReportData(ReportOptions(AS_OF), images[-1].counts, tuple(without_times)))
    assert not any(isinstance(chart, TimeLine) for chart in found.charts)


def test_missing_edits_are_reported() -> None:
    counts, edits = counted([directory(ROOT, None, "/")]), counted_edits(EDITS, RULES)
    for last, expected in ((11, ""), (20, "The edits lack 9 of the 20 transactions of this period.")):
        images = (CountedImage(0, None, counts), CountedImage(last, None, counts))
        note, *others = make_section("growth", ReportData(ReportOptions(AS_OF), counts, images, edits=edits)).notes
        assert (note if others else "") == expected


def _sized(sizes: dict[str, int]) -> list[dict[str, Any]]:
    """Return a file of each owner in a directory of the owner's name."""
    rows = [directory(ROOT, None, "/")]
    for number, (owner, size) in enumerate(sizes.items(), 2):
        rows += [directory(number, ROOT, f"/{owner}"), file(100 + number, number, f"/{owner}/f", size, owner=owner)]
    return rows


def _tables_of(work: ReportData, name: str) -> dict[str, ReportTable]:
    return {table.name: table for table in make_section(name, work).tables}


@pytest.mark.parametrize("top", [20, 2])
def test_growth_since_the_last_report_equals_that_since_its_image(top: int, tmp_path: Path) -> None:
    """A short list of the last report omits other owners, but totals stay exact."""
    old, new = _sized({"a": 100, "b": 900, "c": 50, "d": 70}), _sized({"a": 300, "b": 900, "d": 60, "e": 10})
    older, image = counted(old), counted(new)
    options = ReportOptions(AS_OF, top=top)
    sections = tuple(make_section(name, ReportData(options, older)) for name in ("space", "owners"))
    files = {
        "last": NamespaceReport("", "", 5, None, AS_OF, sections, namespace="7"),
        "other": NamespaceReport("", "", 6, None, AS_OF, sections, namespace="8"),
        "later": NamespaceReport("", "", 9, None, AS_OF, sections, namespace="7"),
        "small": NamespaceReport("", "", 7, None, AS_OF, sections[1:], namespace="7"),
    }
    for age, (name, report) in enumerate([("oldest", replace(files["last"], txid=4)), *files.items()]):
        (tmp_path / f"{name}.json").write_text(json.dumps(as_json(report)))
        os.utime(tmp_path / f"{name}.json", (age, age))
    for name, content in (
        ("list", "[1]"),
        ("text", "text"),
        ("empty", "{}"),
        ("long", '{"sections": [{}]}'),
        ("deep", "[" * 100_000),
    ):
        (tmp_path / f"{name}.json").write_text(content)
    (tmp_path / "folder.json").mkdir()
    last = last_report(tmp_path, 9, "7")
    assert last is not None
    assert last.path == tmp_path / "last.json"
    assert last_report(tmp_path, 4, "7") is None
    assert last_report(tmp_path, 9, "") == last_report(tmp_path, 9, "8") != last
    found = _tables_of(ReportData(options, image, last=last), "growth")
    images = (CountedImage(5, None, older), CountedImage(9, None, image))
    expected = _tables_of(ReportData(replace(options, top=20), image, images), "growth")
    assert found["growth"] == expected["growth"]
    listed = {"/", "/a", "/b", "/c", "/d"} if top > 2 else {"/", "/b"}
    rows = [row for row in expected["growth_by_directory"].rows if row[0] in listed]
    assert list(found["growth_by_directory"].rows) == rows[:top]
    owners = {"a", "b", "c", "d", "e", "hdfs"} if top > 2 else {"b", "a"}
    rows = [row for row in expected["growth_by_owner"].rows if row[0] in owners]
    assert list(found["growth_by_owner"].rows) == rows[:top]
    made = NamespaceReport("", "", 9, None, AS_OF, (make_section("growth", ReportData(options, image, last=last)),))
    assert headline(made).changes
