"""Growth and operations over the images and edits of a lake, compared with plain sums."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.lake import ImageOptions, append_edits, append_image
from pipeline.lake.activity import measure_activity
from tests.cli_runner import run_cli
from tests.pipeline.oiv_inodes import inode_rows
from tests.pipeline.oiv_tables import OivTables
from tests.recorded_cases import RECORDED

CASE = RECORDED / "hadoop-3.4.1" / "snapshots-basic"
CLUSTER = "CID-53b3e9fe-d929-4eb4-bbff-fe13a28bde2e.1579654704"
YEAR_2020 = 1_600_000_000


@pytest.fixture
def images(no_spark: Any, tmp_path: Path, lake: str) -> None:
    """Two images of 2020 in the lake; the edits between them date from a later day."""
    for name in ("before", "after"):
        folder = shutil.copytree(CASE / name, tmp_path / name)
        for path in folder.iterdir():
            os.utime(path, (YEAR_2020, YEAR_2020))
        append_image(no_spark, str(folder), lake, ImageOptions(tables=()))


@pytest.mark.usefixtures("images")
def test_growth_by_directory_and_owner(lake: str) -> None:
    reported = run_cli("lake", "report", lake, "--json", "--depth", "2")
    assert reported.code == 0, reported
    growth = json.loads(reported.out)
    assert [image["txid"] for image in growth["images"]] == [92, 292]
    for at, name in enumerate(("before", "after")):
        directories, owners = plain_totals(list(inode_rows(OivTables(CASE / f"oiv_{name}.xml.gz"))), 2)
        for kind, wanted in (("directories", directories), ("owners", owners)):
            found = {row["name"]: row["totals"][at] for row in growth[kind]}
            assert {key: value for key, value in found.items() if any(value.values())} == wanted
    text = run_cli("lake", "report", lake)
    assert "owner" in text.out
    assert "transaction 292" in text.out
    assert "no operations" in text.out


def plain_totals(rows: list[dict[str, Any]], depth: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sum files, directories and bytes by directory and by owner, without Arrow."""
    directories: dict[str, Any] = {}
    owners: dict[str, Any] = {}
    for row in rows:
        names = row["path"].split("/")[1:-1]
        places = ["/", *("/" + "/".join(names[: level + 1]) for level in range(min(depth, len(names))))]
        for found, name in [(owners, row["owner"]), *((directories, each) for each in places if row["path"] != "/")]:
            totals = found.setdefault(name, {"files": 0, "directories": 0, "bytes": 0})
            totals["files"] += row["type"] == "FILE"
            totals["directories"] += row["type"] == "DIRECTORY"
            totals["bytes"] += row["length"] or 0
    return directories, owners


@pytest.mark.usefixtures("images")
def test_since_that_excludes_the_images_is_named(lake: str) -> None:
    reported = run_cli("lake", "report", lake, "--since", "2099-01-01")
    assert (reported.code, f"{lake} has 0 since 2099-01-01" in reported.err) == (6, True), reported


@pytest.mark.usefixtures("images")
def test_operations_by_day_and_user(no_spark: Any, tmp_path: Path, lake: str) -> None:
    append_edits(no_spark, str(CASE / "before"), lake)
    records = ElementTree.fromstring(gzip.decompress((CASE / "edits.xml.gz").read_bytes())).findall("RECORD")
    creating = {"OP_ADD", "OP_MKDIR", "OP_SYMLINK"}
    users = Counter(
        record.findtext("DATA/PERMISSION_STATUS/USERNAME")
        for record in records
        if record.findtext("OPCODE") in creating
    )
    activity = measure_activity(lake, CLUSTER, "2020-01-01")
    assert sum(kinds.total() for kinds in activity.days.values()) == len(records) == 200
    assert {user: sum(day.total() for day in by_day.values()) for user, by_day in activity.users.items()} == users
    deletes = sum(record.findtext("OPCODE") == "OP_DELETE" for record in records)
    assert sum(kinds["deletes"] for kinds in activity.days.values()) == deletes > 0
    assert measure_activity(lake, CLUSTER, "9999-01-01").as_dict() == {"days": [], "users": [], "missing": []}

    log = tmp_path / "audit.log"
    line = (
        "{} INFO FSNamesystem.audit: allowed=true\tugi={} (auth:SIMPLE)\tip=/1\tcmd={}\tsrc=/a\tdst=null\tperm=null\n"
    )
    message = [("eve", "delete"), ("eve", "open"), ("bob", "create"), ("eve", "createSnapshot"), ("eve", "append")]
    message += [
        ("eve", "getfileinfo"),
        ("eve", "listStatus"),
        ("root", "safemode_leave"),
        ("bob", "getDelegationToken"),
    ]
    log.write_text("".join(line.format("9000-01-01 12:00:00,000", *each) for each in message))
    reported = run_cli("lake", "report", lake, "--audit", f"{tmp_path}/audit*", "--json")
    assert reported.code == 0, reported
    found = json.loads(reported.out)["operations"]["users"]
    kinds = {each["name"]: {kind: n for kind, n in each["days"][0].items() if n} for each in found}
    day = "9000-01-01"
    assert kinds == {
        "eve": {"day": day, "operations": 3, "deletes": 1, "appends": 1, "other": 1, "opens": 1, "lookups": 2},
        "bob": {"day": day, "operations": 2, "creates": 1, "other": 1},
    }
    read = json.loads(reported.out)["operations"]["days"][-1]
    assert {kind: n for kind, n in read.items() if n} == {"day": day, "users": 2, "opens": 1, "lookups": 2}
    text = run_cli("lake", "report", lake)
    assert "creates" in text.out
    assert "lookups" not in text.out
    assert "lookups" in run_cli("lake", "report", lake, "--audit", f"{tmp_path}/audit*").out
    assert run_cli("lake", "report", lake, "--audit", "/nothing*").code == 2
