"""The counts of every recorded image are plain sums over the rows of Hadoop's own viewer."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pipeline.reports.counts.classes import AGE_DAYS, SIZE_BOUNDS
from pipeline.reports.counts.grouping import unpack
from pipeline.reports.counts.namespace import MEASURES, OF_FILES, PARTS, Rules
from pipeline.reports.counts.path_groups import policy_subtrees
from pipeline.reports.counts.tree import EFFECTIVE_POLICY, ImageCounts
from pipeline.reports.sections import make_section
from pipeline.reports.tasks import InodesTask
from pipeline.reports.work import ReportData, ReportOptions
from pipeline.source_files import SourceFile
from pipeline.sources.table_reader import TablePart
from tests.image_tools.dump_support import Viewed, recorded_views
from tests.pipeline.oiv_inodes import inode_rows
from tests.pipeline.oiv_tables import OivTables, Row
from tests.pipeline.report_frames import AS_OF, keyed

VIEWS = [view for view in recorded_views(large=False) if "corrupt" not in view.id and "/odd/" not in view.id]
POLICIES = ("storage_policy", "ec_policy")
SMALL, COLD_DAYS, TASKS = 2000, 30, 3


def _counts(image: Path, scratch: Path) -> ImageCounts:
    rules = Rules(AS_OF, SMALL, COLD_DAYS)
    tasks = [InodesTask("image", 0, SourceFile(str(image)), TablePart(number, TASKS), rules) for number in range(TASKS)]
    with mock.patch("pipeline.sources.fsimage.host_scratch", return_value=scratch):
        return ImageCounts(unpack(task.run() for task in tasks))


def _raw(row: Row) -> int:
    """Return the bytes of a file with all replicas, or with the parity of its scheme."""
    found = re.search(r"-(\d+)-(\d+)-(\d+)k$", row.get("ec_policy") or "")
    if row["replication"] or not found:
        return int(row["length"] * row["replication"])
    data, parity, cell = int(found[1]), int(found[2]), int(found[3]) * 1024
    cells, rest = divmod(row["length"], data * cell)
    return int(row["length"] + parity * (cells * cell + min(rest, cell)))


def _class(value: float, bounds: tuple[int, ...]) -> str:
    return str(sum(value >= bound for bound in bounds))


def _ancestors(path: str) -> Iterator[str]:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


def _effective(row: Row, policies: dict[str, str | None]) -> str | None:
    above = (policies[path] for path in _ancestors(row["path"]))
    return row.get("storage_policy") or next(filter(None, above), None)


def _measure(row: Row) -> Counter[str]:
    if row["type"] != "FILE":
        return Counter({"directories" if row["type"] == "DIRECTORY" else "symlinks": 1})
    used = max(row["mtime"], row["atime"])
    found = Counter(files=1, length=row["length"], raw=_raw(row), blocks=row["block_count"])
    if row["length"] < SMALL:
        found += Counter(small_files=1, small_length=row["length"], small_blocks=row["block_count"])
    if used <= AS_OF - timedelta(days=COLD_DAYS):
        found += Counter(cold_files=1, cold_length=row["length"], cold_raw=_raw(row))
    if row["replication"] not in {0, 3}:
        found += Counter(unlike_files=1, unlike_raw=_raw(row))
    marks = {"empty_files": row["length"] == 0, "writable_files": bool(row["permission"] & 2)}
    return found + Counter(read_files=row["atime"] > row["mtime"], **marks)


@pytest.mark.recorded
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.id)
def test_counts_are_sums_over_all_inodes(view: Viewed, tmp_path: Path) -> None:
    tables = OivTables(view.xml)
    rows = list(inode_rows(tables))
    directories = {row["path"]: row for row in rows if row["type"] == "DIRECTORY"}
    policies = {path: row.get("storage_policy") for path, row in directories.items()}
    sums: dict[str, dict[str | None, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in rows:
        if row["path"] == "/":
            continue
        measure = _measure(row)
        keys = {"total": ["/"], "owner": [row["owner"]], "group": [row["group"]], "tree": [*_ancestors(row["path"])]}
        if row["type"] == "FILE":
            days = [(AS_OF - time) / timedelta(days=1) for time in (row["mtime"], max(row["mtime"], row["atime"]))]
            keys |= {
                "size_class": [_class(row["length"], SIZE_BOUNDS)],
                "mtime_class": [_class(days[0], AGE_DAYS)],
                "use_class": [_class(days[1], AGE_DAYS)],
                "replication": [str(row["replication"])],
            }
            if tables.release3:
                keys |= {"ec_policy": [row["ec_policy"]], EFFECTIVE_POLICY: [_effective(row, policies)]}
                for policy in POLICIES:
                    above = (path for path in _ancestors(row["path"]) if directories[path].get(policy))
                    keys[policy] = [each for each in [next(above, None)] if each]
        for name, values in keys.items():
            for value in values:
                sums[name][value] += measure
    image = _counts(view.image, tmp_path)
    total = {name: value for name, value in image.total.items() if "saved" not in name}
    assert _positive(total) == _positive(sums["total"]["/"])
    del sums["total"]
    trees = {row["path"]: _positive(row, MEASURES) for row in image.rolled(1000).to_pylist()}
    assert trees == {path: _positive(found, MEASURES) for path, found in sums.pop("tree", {}).items()}
    for policy in POLICIES if tables.release3 else ():
        subtrees = keyed(policy_subtrees(image, policy).to_pylist(), "path")
        assert {path: row[policy] for path, row in subtrees.items()} == {
            path: row[policy] for path, row in directories.items() if row.get(policy)
        }
        known = {path: _positive(row, OF_FILES) for path, row in subtrees.items() if row["files"]}
        assert known == {path: _positive(found, OF_FILES) for path, found in sums.pop(policy, {}).items()}
    for name in ("owner", "group"):
        by_size = Counter((row[name], int(_class(row["length"], SIZE_BOUNDS))) for row in rows if row["type"] == "FILE")
        assert {(of, size): n for of, sizes in image.sizes(name).items() for size, n in sizes.items()} == by_size
    for name, expected in sums.items():
        known = OF_FILES if name == EFFECTIVE_POLICY else (*MEASURES, *PARTS)
        found = {row["value"]: _positive(row, known) for row in image.dimension(name, 1000)}
        assert found == {value: _positive(counter, known) for value, counter in expected.items()}, name


@pytest.mark.recorded
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.id)
def test_attributes_and_open_files_are_those_of_hadoops_viewer(view: Viewed, tmp_path: Path) -> None:
    tables = OivTables(view.xml)
    if not tables.release3:
        return  # The viewer of Hadoop 2 shows neither.
    kinds = {row["id"]: row["type"] for row in inode_rows(tables)}
    rows = {name: tables.table(name) or [] for name in ("acls", "xattrs", "under_construction")}
    image = _counts(view.image, tmp_path)
    data = ReportData(ReportOptions(AS_OF, top=1000), image)
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


def _positive(counter: Mapping[str, Any], names: Sequence[str] | None = None) -> dict[str, int]:
    return {name: counter[name] for name in names or counter if counter[name]}
