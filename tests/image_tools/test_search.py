"""Search by columns: every predicate, compared with a walk of the same recorded image by path."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_format.array_allocator import ArrayAllocator
from image_format.inode_columns import InodeColumns
from image_format.proto import fsimage_pb2 as pb
from image_format.string_table import StringTable
from image_tools.browse import ImageBrowser
from image_tools.dump.values import SerialNames
from image_tools.search.criteria import Criteria, CriteriaMatcher, NumberRange
from image_tools.search.listing import attributes, listed, sized
from image_tools.search.ranking import rank
from image_tools.search.rows import json_lines, path_lines, write_parquet
from image_tools.search.scan import NamespaceScan, NoSuchPathError
from tests.engine.image_builder import ROOT, ImageBuilder, delimited
from tests.image_format.image_support import RECORDED
from tests.image_tools.dump_support import open_image
from tests.recorded_cases import image_in

CASES = ("hadoop-2.7.3/acl-xattr", "hadoop-2.7.3/quotas-storage-policy", "hadoop-2.7.3/random-snapshot-1")
# attributes that a listing and a found row have in common
SHARED = ("path", "type", "owner", "group", "mode", "length", "mtime", "atime")

Row = dict[str, Any]


@pytest.fixture(params=CASES)
def image(request: pytest.FixtureRequest) -> Iterator[Any]:
    with open_image(image_in(RECORDED / request.param / "after")) as opened:
        yield opened


def walked(browser: ImageBrowser, path: str) -> Iterator[Row]:
    """Yield the attributes of an inode and of all inodes below it."""
    (top,) = listed(browser, path, itself=True)
    row = attributes(browser, top)
    yield row
    if row["type"] == "directory":
        for child in listed(browser, path, itself=False):
            yield from walked(browser, child.path)


def found(scan: NamespaceScan, *tops: str, **criteria: Any) -> list[Row]:
    return [json.loads(line) for line in json_lines(scan, scan.find(tops, Criteria(**criteria)))]


def by_path(rows: list[Row]) -> list[Row]:
    return sorted(({key: row[key] for key in SHARED} for row in rows), key=lambda row: row["path"])


def test_each_predicate_finds_the_same_rows_as_a_walk(image: Any) -> None:
    browser, scan = ImageBrowser(image), NamespaceScan(image, ArrayAllocator())
    rows = list(walked(browser, "/"))
    assert by_path(found(scan, "/")) == by_path(rows)
    middle = sorted(row["mtime"] for row in rows)[len(rows) // 2]
    owner, group = rows[-1]["owner"], rows[0]["group"]
    directory = next(row["path"] for row in reversed(rows) if row["type"] == "directory")
    predicates: list[tuple[Row, Callable[[Row], bool]]] = [
        ({"kind": "directory"}, lambda row: row["type"] == "directory"),
        ({"size": NumberRange(least=1)}, lambda row: row["length"] >= 1),
        ({"size": NumberRange(most=0)}, lambda row: row["type"] == "file" and row["length"] == 0),
        ({"modified": NumberRange(most=middle)}, lambda row: row["mtime"] <= middle),
        ({"modified": NumberRange(least=middle)}, lambda row: row["mtime"] >= middle),
        ({"accessed": NumberRange(least=middle)}, lambda row: row["atime"] >= middle),
        ({"accessed": NumberRange(most=middle)}, lambda row: row["type"] != "directory" and row["atime"] <= middle),
        ({"owner": owner}, lambda row: row["owner"] == owner),
        ({"owner": owner, "group": "nobody"}, lambda row: False),
        ({"group": group}, lambda row: row["group"] == group),
        ({"replication": NumberRange(2, 3)}, lambda row: row["type"] == "file" and 2 <= row["replication"] <= 3),
        ({"name": "*a*"}, lambda row: "a" in row["path"].rpartition("/")[2]),
        ({"acl": True}, lambda row: bool(row["acl"])),
        ({"name": "*a*", "kind": "file"}, lambda row: row["type"] == "file" and "a" in row["path"].rpartition("/")[2]),
    ]
    for criteria, fits in predicates:
        assert by_path(found(scan, "/", **criteria)) == by_path(list(filter(fits, rows))), criteria
    assert by_path(found(scan, directory)) == by_path(list(walked(browser, directory)))
    assert by_path(found(scan, rows[-1]["path"], f"//{rows[-1]['path']}/")) == by_path(rows[-1:])
    lengths = sorted((row["length"] for row in rows if row["type"] == "file"), reverse=True)
    assert [row.length for row in rank(scan, ["/"], "files", "length", 5)] == lengths[:5]
    for what in ("directories", "owners", "groups"):
        ranked = rank(scan, ["/"], what, "files", len(rows))
        assert sum(row.files for row in ranked) == len(lengths)
        assert sum(row.length for row in ranked) == sum(lengths)
    (top,) = listed(browser, "/", itself=True)
    assert sized(browser, top)["length"] == sum(lengths)
    with pytest.raises(NoSuchPathError, match="/missing/path does not exist"):
        found(scan, "/missing/path")


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("?.txt", ["é.txt", "日.txt", "a.txt"]),
        ("[äöé]*", ["é.txt", "ä"]),
        ("[!a]", ["ä"]),
        ("*.txt", ["é.txt", "日.txt", "a.txt"]),
        ("é*", ["é.txt"]),
    ],
)
def test_a_glob_matches_characters(glob: str, expected: list[str]) -> None:
    names = ["é.txt", "日.txt", "a.txt", "ä", "ß.", "ab"]
    sizes = np.array([len(each.encode()) for each in names], np.int64)
    columns = InodeColumns(*(np.zeros_like(sizes) for _ in InodeColumns._fields))._replace(
        name_start=np.cumsum(sizes) - sizes, name_size=sizes
    )
    matcher = CriteriaMatcher(Criteria(name=glob), SerialNames(StringTable(b"\0")))
    mask = matcher.named(np.frombuffer("".join(names).encode(), np.uint8), columns)
    assert [name for name, fits in zip(names, mask.tolist(), strict=True) if fits] == expected


def test_search_by_storage_policy() -> None:
    with open_image(image_in(RECORDED / CASES[1] / "after")) as image:
        scan = NamespaceScan(image, ArrayAllocator())
        policies = {row["path"]: row["storagePolicy"] for row in found(scan, "/") if row["storagePolicy"]}
        assert policies
        for policy in set(policies.values()):
            expected = sorted(path for path, each in policies.items() if each == policy)
            assert sorted(row["path"] for row in found(scan, "/", policy=policy)) == expected


def test_json_lines_and_parquet_contain_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with open_image(image_in(RECORDED / CASES[0] / "after")) as image:
        scan = NamespaceScan(image, ArrayAllocator())
        rows = found(scan, "/")
        lines = b"".join(path_lines(scan, scan.find(["/"], Criteria()))).decode().splitlines()
        write_parquet(scan, scan.find(["/"], Criteria()), tmp_path / "rows.parquet")
    assert lines == [row["path"] for row in rows]
    assert parquet.read_table(tmp_path / "rows.parquet").to_pylist() == rows


def test_an_erasure_coded_file_has_replication_1_as_in_a_namenode() -> None:
    with open_image(image_in(RECORDED / "hadoop-3.3.6" / "erasure-coding" / "after")) as image:
        files = [row for row in walked(ImageBrowser(image), "/") if row["type"] == "file"]
        scan = NamespaceScan(image, ArrayAllocator())
        once = found(scan, "/", kind="file", replication=NumberRange(1, 1))
        assert found(scan, "/", replication=NumberRange(most=0)) == []
    coded = {row["path"]: row["replication"] for row in files if row["erasureCodingPolicy"]}
    assert set(coded.values()) == {1}
    assert len(coded) < len(files)
    assert {row["path"]: row["replication"] for row in once}.items() >= coded.items()


def test_a_snapshot_may_be_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    levels = sys.getrecursionlimit() + 10
    builder = ImageBuilder()
    for level in range(1, levels + 1):
        builder.directory("/d" * level)
    snapshot = pb.Snapshot(snapshotId=0, root=builder.inodes["/"])
    snapshot.root.name = b"s"
    header = pb.SnapshotSection(snapshotCounter=1, snapshottableDir=[ROOT], numSnapshots=1)
    builder.sections["SNAPSHOT"] = delimited([header, snapshot])
    with open_image(builder.save(tmp_path)) as image:
        browser = ImageBrowser(image)
        (top,) = listed(browser, "/.snapshot/s", itself=True)
        assert sized(browser, top)["directories"] == levels + 1
