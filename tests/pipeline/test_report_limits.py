"""Impossible sizes, and sums beyond a long: a report shows them and does not fail."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from pipeline.reports.counts.classes import known_size
from pipeline.reports.counts.edits import EditRules, ordered
from pipeline.reports.counts.grouping import add_up, grouped, total_of
from pipeline.reports.counts.tree import CHANGES, ImageCounts, changes
from pipeline.reports.request import ReportOptions
from pipeline.reports.rows import records
from pipeline.reports.sections import space
from pipeline.reports.sections.cold import most_cold
from pipeline.reports.sections.small_files import most_small
from pipeline.reports.work import ReportData
from pipeline.schema import TIMESTAMP
from tests.pipeline.report_frames import AS_OF, ROOT, counted, counted_edits, directory, file, keyed

NO_ACK = (1 << 63) - 1
MOST = (1 << 63) - 1
HUGE = 1 << 48


@pytest.fixture(scope="module")
def image() -> ImageCounts:
    """A directory whose size exceeds a long, among directories of a hundred petabytes and with absurd lengths."""
    rows = [
        directory(ROOT, None, "/", ns_quota=MOST),
        directory(2, ROOT, "/huge"),
        directory(3, ROOT, "/odd", ds_quota=1000),
        directory(4, ROOT, "/large", ds_quota=1 << 58),
        *(file(10 + each, 2, f"/huge/f{each}", HUGE, days=900, replication=32767, block_count=1) for each in range(3)),
        file(20, 3, "/odd/deleted", NO_ACK, block_count=1),
        file(21, 3, "/odd/negative", -2),
        file(22, 3, "/odd/plain", 100),
        file(30, 4, "/large/f", HUGE, replication=512, block_count=1),
    ]
    return counted(rows)


def test_sums_saturate_at_the_largest_long(image: ImageCounts) -> None:
    rolled = image.rolled(3)
    trees = keyed(rolled.to_pylist(), "path")
    assert {path: row["raw"] for path, row in trees.items()} == {
        "/": MOST,
        "/huge": MOST,
        "/odd": 300,
        "/large": 512 * HUGE,
    }
    assert trees["/huge"]["length"] == 3 * HUGE
    assert trees["/odd"]["length"] == 100
    assert image.total["raw"] == MOST
    assert keyed(most_cold(image.by_owner, "owner", 5), "owner")["alice"]["cold_raw"] == MOST
    assert most_small(image.by_owner, "owner", 5)[0]["small_files"] == 3
    assert {row["value"]: row["raw"] for row in image.dimension("group", 50)} == {"users": MOST, "supergroup": 0}
    nothing = rolled.slice(0, 0)
    assert keyed(records(changes(nothing, rolled, "path", 9)), "path")["/"]["raw"] == MOST
    assert keyed(records(changes(rolled, nothing, "path", 9)), "path")["/"]["raw"] == -MOST
    owner = rolled.select(CHANGES).append_column("owner", pa.array(["alice"] * len(rolled)))  # with one key
    assert [row["raw"] for row in records(changes(owner, owner.slice(0, 0), "owner", 9))] == [-MOST]
    assert [row["raw"] for row in records(changes(owner.slice(0, 0), owner, "owner", 9))] == [MOST]


def test_percentages_of_very_large_quotas(image: ImageCounts) -> None:
    section = space.section(ReportData(ReportOptions(AS_OF), image))
    quotas = next(table for table in section.tables if table.name == "quotas")
    used = {row[0]: row[-1] for row in quotas.rows}
    assert used == {"/odd": 30.0, "/large": 50.0}


def test_edits_with_impossible_lengths() -> None:
    rows = []
    for number, length in enumerate((NO_ACK, NO_ACK, 7)):
        path = f"/f{number}"
        rows.append({"txid": 2 * number, "op": "OP_ADD", "path": path, "owner": "a", "client_machine": "m"})
        rows.append({"txid": 2 * number + 1, "op": "OP_CLOSE", "path": path, "length": length})
    tables = counted_edits(rows, EditRules(depth=1, small=1000, limit=5))
    assert records(ordered(tables, "writers"))[0]["length"] == 7
    assert records(ordered(tables, "made_by_client"))[0]["length"] == 7


def test_impossible_sizes_count_as_zero() -> None:
    assert known_size(np.array([3, NO_ACK, -1, HUGE, HUGE + 1])).tolist() == [3, 0, 0, HUGE, 0]


@pytest.mark.parametrize("most", [1, 1 << 52, 1 << 61, MOST])
def test_sums_are_exact_up_to_a_long(most: int) -> None:
    chance = np.random.default_rng(most % 1000)
    values, groups = chance.integers(0, most, 400, endpoint=True), chance.integers(0, 7, 400)
    expected = [
        min(MOST, sum(value for value, of in zip(values.tolist(), groups.tolist(), strict=True) if of == group))
        for group in range(8)
    ]
    assert add_up(values, groups, 8).tolist() == expected


def test_sums_of_empty_and_null_values() -> None:
    rows = pa.table({"key": pa.array(["a", None, "a", None]), "size": pa.array([3, 4, None, None], pa.int64())})
    assert grouped(rows, ("key",), ("size",)).to_pylist() == [{"key": "a", "size": 3}, {"key": None, "size": 4}]
    assert grouped(rows.slice(0, 0), ("key",), ("size",)).num_rows == 0
    assert total_of(rows["size"]) == 7
    assert total_of(rows.slice(0, 0)["size"]) == 0


def test_times_beyond_the_calendar_become_none() -> None:
    rows = pa.table({"at": pa.array([1_000_000, 9_000_000_000_000_000_000, None], TIMESTAMP)})
    assert records(rows) == [{"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}, {"at": None}, {"at": None}]
