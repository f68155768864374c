"""Growth between two images, statistics of edits, and files only in snapshots."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pipeline.reports.queries.operations import activity, busiest, by_hour, by_type, causes, writers, written_files
from pipeline.reports.queries.small_files import made_small
from pipeline.reports.queries.snapshots import held_by_directory, held_directories, held_files
from pipeline.reports.queries.tree import changes
from pipeline.reports.rows import collect
from pipeline.tables.inodes import BLOCKS, DIRECTORIES
from pipeline.tables.snapshots import SNAPSHOT_DIFFS, SNAPSHOTS
from tests.pipeline.report_frames import AS_OF, edits, frame, inodes, keyed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def test_operations_by_type_hour_and_directory(spark: SparkSession) -> None:
    active = activity(edits(spark, EDITS))
    types = keyed(collect(by_type(active)), "op")
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
    hours = collect(by_hour(active, limit=10))
    assert [(row["hour"] - AS_OF) / HOUR for row in hours] == [0, 1, 2]
    assert [(row["creates"], row["deletes"], row["other"], row["count"]) for row in hours] == [
        (2, 0, 1, 3),
        (0, 0, 2, 3),
        (2, 1, 1, 5),
    ]
    assert [row["hour"] for row in collect(by_hour(active, limit=1))] == [AS_OF + 2 * HOUR]
    assert [(row["directory"], row["count"]) for row in collect(busiest(active, limit=2))] == [("/a", 5), ("/a/b", 4)]


def test_causes_are_counted_at_a_depth(spark: SparkSession) -> None:
    found = collect(causes(activity(edits(spark, EDITS)), depth=1, limit=5))
    assert found == [
        {"directory": "/a", "creates": 3, "deletes": 1, "renames": 1, "appends": 1},
        {"directory": "/", "creates": 1, "deletes": 0, "renames": 0, "appends": 0},
    ]


def test_writers_are_known_by_the_opening_operation(spark: SparkSession) -> None:
    written = written_files(edits(spark, EDITS))
    found = collect(writers(written, limit=5))
    assert [tuple(row.values()) for row in found] == [
        ("alice", "10.0.0.2", 1, 1, 5000),
        ("alice", "10.0.0.1", 1, 0, 10),
        ("bob", "10.0.0.1", 1, 0, 0),
    ]
    assert [tuple(row.values()) for row in collect(made_small(written, ("directory",), 1000, limit=5))] == [
        ("/a/b", 1, 1, 10, 10)
    ]


def test_changes_of_what_came_went_and_stayed(spark: SparkSession) -> None:
    schema = "path string, files long, directories long, length long, raw long, blocks long"
    before = spark.createDataFrame(
        [("/", 3, 1, 30, 90, 3), ("/gone", 1, 0, 10, 30, 1), ("/same", 1, 0, 1, 3, 1)], schema
    )
    after = spark.createDataFrame(
        [("/", 4, 1, 70, 210, 4), ("/new", 2, 0, 50, 150, 2), ("/same", 1, 0, 1, 3, 1)], schema
    )
    found = collect(changes(before, after, "path", limit=5))
    assert [(row["path"], row["raw"], row["raw_before"], row["raw_after"], row["files"]) for row in found] == [
        ("/new", 150, 0, 150, 2),
        ("/", 120, 90, 210, 1),
        ("/gone", -30, 30, 0, -1),
    ]


def test_what_only_snapshots_hold(spark: SparkSession) -> None:
    snapshots = frame(
        spark,
        SNAPSHOTS,
        [
            {
                "snapshot_id": 0,
                "root_id": 2,
                "root_path": "/s",
                "creation_time": AS_OF,
                "deleted": False,
                "snapshot_counter": 3,
            },
            {
                "snapshot_id": 1,
                "root_id": 2,
                "root_path": "/s",
                "creation_time": AS_OF + HOUR,
                "deleted": False,
                "snapshot_counter": 3,
            },
            {
                "snapshot_id": 2,
                "root_id": 3,
                "root_path": "/t",
                "creation_time": AS_OF,
                "deleted": False,
                "snapshot_counter": 3,
            },
        ],
    )
    diff = {"kind": "DIRECTORYDIFF", "index": 0, "has_copy": False}
    diffs = frame(
        spark,
        SNAPSHOT_DIFFS,
        [
            {**diff, "inode_id": 2, "snapshot_id": 0, "deleted_inodes": [10, 20]},
            {**diff, "inode_id": 2, "snapshot_id": 1, "deleted_inodes": []},
            {**diff, "inode_id": 11, "snapshot_id": 1, "kind": "FILEDIFF"},
        ],
    )
    block = {"index": 0, "genstamp": 1, "striped": False, "replication": 3, "under_construction": False}
    blocks = frame(
        spark,
        BLOCKS,
        [
            {**block, "block_id": 1, "inode_id": 10, "bytes": 5, "raw_bytes": 15},
            {**block, "block_id": 2, "inode_id": 10, "bytes": 1, "raw_bytes": 3},
            {**block, "block_id": 3, "inode_id": 11, "bytes": 7, "raw_bytes": 21},
            {**block, "block_id": 4, "inode_id": 21, "bytes": 9, "raw_bytes": 27},
        ],
    )
    held = held_files(blocks, inodes(spark, [{"id": 2, "type": "DIRECTORY"}, {"id": 11, "type": "FILE"}]))
    assert keyed(collect(held), "inode_id") == {
        10: {"inode_id": 10, "length": 6, "raw": 18, "blocks": 2},
        21: {"inode_id": 21, "length": 9, "raw": 27, "blocks": 1},
    }
    found = keyed(collect(held_by_directory(diffs, snapshots, held)), "path")
    assert found == {
        "/s": {
            "path": "/s",
            "snapshots": 2,
            "oldest": AS_OF,
            "newest": AS_OF + HOUR,
            "changed": 2,
            "deleted_trees": 2,
            "files": 1,
            "length": 6,
            "raw": 18,
        },
        "/t": {
            "path": "/t",
            "snapshots": 1,
            "oldest": AS_OF,
            "newest": AS_OF,
            "changed": 0,
            "deleted_trees": 0,
            "files": 0,
            "length": 0,
            "raw": 0,
        },
    }
    rows = [
        {
            "id": 2,
            "path": "/s",
            "children": 0,
            "reference_children": 0,
            "ns_quota": -1,
            "ds_quota": -1,
            "snapshottable": True,
            "snapshots": 2,
            "with_snapshot": True,
        },
        {
            "id": 20,
            "path": None,
            "children": 0,
            "reference_children": 0,
            "ns_quota": -1,
            "ds_quota": -1,
            "snapshottable": False,
            "snapshots": 0,
            "with_snapshot": False,
        },
    ]
    assert collect(held_directories(frame(spark, DIRECTORIES, rows))) == [{"id": 20}]
