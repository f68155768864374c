"""Breakdowns by owner, class and policy; small files; cold data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.reports.counts.classes import (
    AGE_DAYS,
    AGE_LABELS,
    NO_TIME,
    SIZE_BOUNDS,
    SIZE_LABELS,
    age_class,
    raw_space,
    size_class,
)
from pipeline.reports.counts.namespace import DIMENSIONS, Rules
from pipeline.reports.counts.tree import EFFECTIVE_POLICY, SAVINGS
from pipeline.reports.request import ReportOptions
from pipeline.reports.sections import make_section
from pipeline.reports.sections.cold import most_cold
from pipeline.reports.sections.small_files import most_small
from pipeline.reports.work import ReportData
from tests.pipeline.report_frames import AS_OF, MIB, ROOT, counted, directory, file, keyed

ROWS = [
    directory(ROOT, None, "/"),
    directory(2, ROOT, "/warm"),
    directory(3, ROOT, "/archive", storage_policy="COLD"),
    directory(4, 3, "/archive/old"),
    directory(5, 3, "/archive/fast", storage_policy="ALL_SSD"),
    file(10, 2, "/warm/empty", 0),
    file(11, 2, "/warm/tiny", MIB, days=400),
    file(12, 2, "/warm/tiny2", 2 * MIB, days=400, read=10),
    file(13, 2, "/warm/other", MIB, owner="bob"),
    file(14, 2, "/warm/big", 300 * MIB),
    file(15, 4, "/archive/old/x", 200 * MIB, days=2000),
    file(16, 5, "/archive/fast/y", 100 * MIB, days=40, storage_policy="ONE_SSD"),
    file(17, 5, "/archive/fast/z", 100 * MIB, days=40),
    file(18, 2, "/warm/striped", 9 * MIB, replication=0, ec_policy="RS-6-3-1024k"),
    {**directory(19, 2, "/warm/link"), "type": "SYMLINK", "ns_quota": None, "ds_quota": None},
]


def _by(**rules: Any) -> dict[str, dict[Any, dict[str, Any]]]:
    image = counted(ROWS, Rules(AS_OF, **rules))
    return {name: keyed(image.dimension(name, 50), "value") for name in (*DIMENSIONS, EFFECTIVE_POLICY)}


def test_one_pass_counts_every_dimension() -> None:
    found = _by()
    owners = {owner: (row["files"], row["directories"], row["symlinks"]) for owner, row in found["owner"].items()}
    assert owners == {"alice": (8, 0, 0), "bob": (1, 0, 0), "hdfs": (0, 4, 1)}
    assert found["owner"]["bob"]["raw"] == 3 * MIB
    assert {group: row["files"] for group, row in found["group"].items()} == {"users": 9, "supergroup": 0}
    sizes = {SIZE_LABELS[int(key)]: row["files"] for key, row in found["size_class"].items()}
    assert sizes == {"empty": 1, "1 - 8 MiB": 3, "8 - 32 MiB": 1, "32 - 128 MiB": 2, "128 - 512 MiB": 2}
    ages = {AGE_LABELS[int(key)]: row["files"] for key, row in found["mtime_class"].items()}
    assert ages == {"< 1 day": 4, "1 - 2 years": 2, "≥ 5 years": 1, "30 - 90 days": 2}
    uses = {AGE_LABELS[int(key)]: row["files"] for key, row in found["use_class"].items()}
    assert uses == {"< 1 day": 4, "1 - 2 years": 1, "7 - 30 days": 1, "≥ 5 years": 1, "30 - 90 days": 2}
    assert {key: row["files"] for key, row in found["replication"].items()} == {"3": 8, "0": 1}
    assert {key: row["files"] for key, row in found["ec_policy"].items()} == {None: 8, "RS-6-3-1024k": 1}
    assert sum(row["read_files"] for row in found["use_class"].values()) == 1


def test_erasure_coded_files_have_no_replication_factor() -> None:
    made = make_section("files", ReportData(ReportOptions(AS_OF), counted(ROWS)))
    rows = {table.name: [row[:2] for row in table.rows] for table in made.tables}
    assert rows["by_replication"] == [("3", 8), ("(erasure-coded)", 1)]
    assert rows["by_erasure_coding"] == [("(replicated)", 8), ("RS-6-3-1024k", 1)]


def test_a_file_inherits_the_nearest_policy() -> None:
    policies = {key: row["files"] for key, row in _by()["effective_policy"].items()}
    assert policies == {None: 6, "COLD": 1, "ONE_SSD": 1, "ALL_SSD": 1}


def test_directories_with_their_own_policy_are_listed() -> None:
    coded = [*ROWS, directory(20, 2, "/warm/coded", ec_policy="XOR-2-1-1024k"), file(21, 20, "/warm/coded/f", MIB)]
    made = make_section("files", ReportData(ReportOptions(AS_OF), counted(coded)))
    tables = {table.name: table for table in made.tables}
    rows = [row[:2] + row[3:5] for row in tables["storage_policy_directories"].rows]
    assert rows == [("/archive/fast", "ALL_SSD", 200 * MIB, 2), ("/archive", "COLD", 200 * MIB, 1)]
    assert [row[:2] for row in tables["erasure_coding_directories"].rows] == [("/warm/coded", "XOR-2-1-1024k")]
    plain = make_section("files", ReportData(ReportOptions(AS_OF), counted([ROWS[0], *ROWS[1:2]])))
    assert not {"storage_policy_directories", "erasure_coding_directories"} & {table.name for table in plain.tables}


@pytest.mark.parametrize(
    ("length", "replication", "policy", "raw"),
    [
        (10, 3, None, 30),
        (0, 0, "RS-6-3-1024k", 0),
        (1, 0, "RS-6-3-1024k", 4),
        (MIB + 1, 0, "RS-6-3-1024k", MIB + 1 + 3 * MIB),
        (6 * MIB, 0, "RS-LEGACY-6-3-1024k", 9 * MIB),
        (9 * MIB, 0, "RS-6-3-1024k", 15 * MIB),
        (5 * MIB, 0, "XOR-2-1-1024k", 8 * MIB),
        (7, 2, "RS-6-3-1024k", 14),
        (7, 0, "100", 7),  # a policy that the image does not describe
        (7, 0, "RS-0-3-1024k", 7),
        (7, 0, "RS-6-3-99999999999999999999k", 7),
    ],
)
def test_raw_space_by_replication_and_policy(length: int, replication: int, policy: str | None, raw: int) -> None:
    found = raw_space(np.array([length]), np.array([replication]), pa.array([policy], pa.string()))
    assert found.tolist() == [raw]


def test_classes_include_their_lower_bounds() -> None:
    sizes = [0, *(bound + more for bound in SIZE_BOUNDS for more in (-1, 0))]
    assert size_class(np.array(sizes)).tolist() == [0, *(n for n in range(len(SIZE_BOUNDS)) for n in (n, n + 1))]
    as_of = int(AS_OF.timestamp()) * 1_000_000
    ages = [NO_TIME, as_of + 1, *(as_of - days * 86_400_000_000 + more for days in AGE_DAYS for more in (1, 0))]
    assert age_class(np.array(ages), AS_OF).tolist() == [-1, 0, *(n for n in range(len(AGE_DAYS)) for n in (n, n + 1))]


def test_each_bound_has_a_label() -> None:
    assert len(SIZE_LABELS) == len(SIZE_BOUNDS) + 1
    assert len(AGE_LABELS) == len(AGE_DAYS) + 1


def test_small_files_and_the_savings_of_merging() -> None:
    image = counted(ROWS)
    columns = ("path", "files", "small_files", "small_length", "small_blocks", *SAVINGS)
    found = most_small(image.by_directory, "path", 5)
    assert [{name: row[name] for name in columns} for row in found] == [
        {
            "path": "/warm",
            "files": 6,
            "small_files": 5,
            "small_length": 13 * MIB,
            "small_blocks": 4,
            # alice's four files become one block, and bob's single file stays
            "saved_inodes": 3,
            "saved_blocks": 2,
            "saved_heap": 750,
        }
    ]
    owners = keyed(most_small(image.by_owner, "owner", 5), "owner")
    assert {owner: (row["small_files"], row["saved_inodes"]) for owner, row in owners.items()} == {
        "alice": (4, 3),
        "bob": (1, 0),
    }


def test_the_size_limit_of_small_files_is_configurable() -> None:
    image = counted(ROWS, Rules(AS_OF, small=101 * MIB))
    found = keyed(most_small(image.by_directory, "path", 5), "path")
    assert {path: (row["small_files"], row["saved_inodes"]) for path, row in found.items()} == {
        "/warm": (5, 3),
        "/archive/fast": (2, 0),
    }


def test_cold_files_are_neither_read_nor_written() -> None:
    image = counted(ROWS, Rules(AS_OF, cold_days=365))
    by_path = most_cold(image.by_directory, "path", 5)
    assert [(row["path"], row["cold_files"], row["cold_raw"]) for row in by_path] == [
        ("/archive/old", 1, 600 * MIB),
        ("/warm", 1, 3 * MIB),
    ]
    columns = ("owner", "cold_files", "cold_length", "cold_raw", "files", "raw")
    found = most_cold(image.by_owner, "owner", 5)
    assert [{name: row[name] for name in columns} for row in found] == [
        {
            "owner": "alice",
            "cold_files": 2,
            "cold_length": 201 * MIB,
            "cold_raw": 603 * MIB,
            "files": 8,
            "raw": sum(
                row["length"]
                for row in ROWS
                if row["type"] == "FILE" and row["owner"] == "alice" and row["replication"]
            )
            * 3
            + 15 * MIB,
        }
    ]
