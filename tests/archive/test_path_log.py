"""The transactions of a path, with their users from audit logs."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import pytest

from archive.adding import add_directory
from archive.archive import Archive
from archive.audit import join_audit, parse_audit, read_audit
from archive.catalogue import MAIN
from archive.fetching import fetch_segment
from archive.moments import view_of
from archive.path_log import LogEntry, path_log
from tests.archive.storage import segment, storage
from tests.cli_runner import run_cli
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir, rename


def test_path_log_follows_renames_in_both_directions(deletion_by_mistake: tuple[Archive, Path, int]) -> None:
    archive, folder, deleted = deletion_by_mistake
    view = view_of(archive.catalogue(), MAIN)
    by_new = path_log(archive, view, "/data/warehouse/f", folder)
    assert [(each.operation, each.known_as) for each in by_new] == [
        ("OP_ADD", "/data/tmp/f"),
        ("OP_CLOSE", "/data/tmp/f"),
        ("OP_RENAME", "/data/warehouse/f"),
        ("OP_DELETE", "/data/warehouse/f"),
    ]
    by_old = path_log(archive, view, "/data/tmp/f", folder)
    assert [each.txid for each in by_old] == [each.txid for each in by_new]
    assert path_log(archive, view, "/z", folder) == []
    (folder / "audit.log").write_text(
        "1970-01-01 00:00:09,500 INFO FSNamesystem.audit: allowed=true\tugi=eve (auth:SIMPLE)\tip=/10.0.0.7\t"
        "cmd=delete\tsrc=/data\tdst=null\tperm=null\tproto=rpc\n"
    )
    with mock.patch.dict("os.environ", {"TZ": "UTC"}):
        __import__("time").tzset()
        answer = run_cli(
            *("archive", "log", "--archive", folder / "archive", "--path", "/data/tmp/f", "--op", "delete", "--json"),
            *("--audit", f"{folder}/audit*"),
        )
    (entry,) = json.loads(answer.out)["entries"]
    assert (entry["txid"], entry["user"], entry["address"]) == (deleted, "eve", "10.0.0.7")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2026-13-01"])
def test_impossible_time_is_a_usage_error(text: str) -> None:
    """The first two times do not exist in UTC."""
    code, _, err = run_cli("archive", "log", "--archive", "/nowhere", "--path", "/data", "--since", text)
    assert (code, f"'{text}' is not a time such as " in err) == (2, True), err


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("2026-10-25T02:30", True),
        ("2026-03-29T02:30", True),
        ("2026-10-25T03:00", False),
        ("2026-10-25T02:30+01:00", False),
    ],
)
def test_a_time_that_a_clock_change_repeats_or_skips_needs_an_offset(
    monkeypatch: pytest.MonkeyPatch, text: str, refused: bool
) -> None:
    with monkeypatch.context() as context:
        context.setenv("TZ", "Europe/Berlin")
        time.tzset()
        code, _, err = run_cli("archive", "log", "--archive", "/nowhere", "--path", "/data", "--since", text)
    time.tzset()
    assert (code == 2, "offset, such as 2026-11-28T14:03:00Z" in " ".join(err.split())) == (refused, refused), err


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            ("01:59:59", "02:30:00", "02:59:59", "02:00:00", "02:29:59", "02:30:01", "03:00:00"),
            ["23:59:59", "00:30:00", "00:59:59", "01:00:00", "01:29:59", "01:30:01", "02:00:00"],
        ),
        (("02:30:00", "02:59:59", "02:00:00", "03:00:00"), ["00:30:00", "00:59:59", "01:00:00", "02:00:00"]),
        (("02:10:00", "02:10:00", "02:59:59", "03:00:00"), ["01:10:00", "01:10:00", "01:59:59", "02:00:00"]),
        (("02:10:00", "03:30:00"), ["01:10:00", "02:30:00"]),
        (("02:10:00", "02:59:59"), ["00:10:00", "00:59:59"]),
    ],
    ids=["before", "first pass", "second pass", "quiet", "unknown"],
)
def test_audit_lines_of_a_repeated_hour_are_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, texts: tuple[str, ...], expected: list[str]
) -> None:
    log = tmp_path / "audit.log"
    line = "2026-10-25 {} INFO audit: allowed=true\tugi=eve\tip=/1\tcmd=delete\tsrc=/a\tdst=null\tperm=null\n"
    log.write_text("".join(map(line.format, texts)))
    with monkeypatch.context() as context:
        context.setenv("TZ", "Europe/Berlin")
        time.tzset()
        times = [datetime.fromtimestamp(each.time / 1000, UTC).strftime("%H:%M:%S") for each in read_audit([log])]
    time.tzset()
    assert times == expected


def test_an_audit_log_may_be_a_pipe() -> None:
    line = "2026-10-25 12:00:00 INFO audit: allowed=true\tugi=eve\tip=/1\tcmd=delete\tsrc=/{}\tdst=null\tperm=null\n"
    reader, writer = os.pipe()
    os.write(writer, "".join(map(line.format, "abc")).encode())
    os.close(writer)
    try:
        assert [each.src for each in read_audit([Path(f"/dev/fd/{reader}")])] == ["/a", "/b", "/c"]
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("operation", "path", "logged"),
    [
        ("OP_RENAME_OLD", "/w/ü=1/s", r"cmd=rename\tsrc=/w/\u00FC=1/s\tdst=/w/\u00FC=1/t"),
        ("OP_DELETE", '/w/😀 "q"\\\t', r"cmd=delete\tsrc=/w/\uD83D\uDE00 \"q\"\\\t\tdst=null"),
        ("OP_TIMES", "/w/s dst=x perm=", r"cmd=setTimes\tsrc=/w/s dst=x perm=\tdst=null"),
        ("OP_DELETE", "/w/ü", "cmd=delete\tsrc=/w/ü\tdst=null"),
        ("OP_CONCAT_DELETE", "/w/a b/f2", r"cmd=concat\tsrc=[/w/a b/f0, /w/a b/f1]\tdst=/w/a b/f2"),
        ("OP_RENAME_SNAPSHOT", "/w", r"cmd=renameSnapshot\tsrc=/w/.snapshot/s1\tdst=/w/.snapshot/s2"),
        ("OP_DELETE_SNAPSHOT", "/", r"cmd=deleteSnapshot\tsrc=/.snapshot/s2\tdst=null"),
        ("OP_CREATE_SNAPSHOT", "/w", r"cmd=createSnapshot\tsrc=/w\tdst=/w/.snapshot/s1"),
    ],
)
def test_lines_of_a_namenode_belong_to_their_operations(operation: str, path: str, logged: str) -> None:
    """The lines are from Hadoop 3.5.0, except the line with a raw "ü", which is from Hadoop 2."""
    fields = logged.replace(r"\tsrc=", "\tsrc=").replace(r"\tdst=", "\tdst=")
    line = parse_audit(
        "2026-11-30 23:59:36,100 INFO FSNamesystem.audit: allowed=true\tugi=alice (auth:SIMPLE)\tip=/127.0.0.1\t"
        f"{fields}\tperm=null\tproto=rpc\tcallerContext=CLI"
    )
    assert line is not None
    entry = LogEntry(7, line.time, False, operation, (path,), path)
    assert join_audit([entry], [line]) == {7: line}


@pytest.mark.parametrize(
    "command",
    [
        ("archive", "log", "--archive", "/nowhere", "--path"),
        ("archive", "diff", "1", "2", "--archive", "/nowhere", "--path"),
        ("archive", "restore", "--archive", "/nowhere", "--out", "/nowhere/out", "--before-delete"),
        ("undelete", "/", "--out", "/nowhere/out", "--path"),
    ],
)
def test_a_path_that_edits_never_contain_is_a_usage_error(command: tuple[str, ...]) -> None:
    found = {}
    inode = "/.reserved/.inodes/7"
    for path in (
        *("hdfs://nn:8020/a%20b?c#d", "viewfs://c", "hdfs:/a", "/a/.snapshot/s1/b", inode, f"/.reserved/raw{inode}"),
        *("/.reserved/raw/a", "/a:b/c"),
    ):
        code, _, err = run_cli(*command, path)
        found[path] = "" if code != 2 else err.partition("; specify ")[2].strip()
    assert found == {
        "hdfs://nn:8020/a%20b?c#d": "its path, /a%20b?c#d",
        "viewfs://c": "its path, /",
        "hdfs:/a": "its path, /a",
        "/a/.snapshot/s1/b": "the path without .snapshot",
        inode: "the path of the inode",
        f"/.reserved/raw{inode}": "the path of the inode",
        "/.reserved/raw/a": "",
        "/a:b/c": "",
    }
    code, _, err = run_cli(*command, "")
    advice = "; specify / for the whole tree" if command[1] in ("log", "diff") else ""
    assert (code, f"the path is empty{advice}\n" in err) == (2, True), err


def test_misspelt_operation_is_a_usage_error() -> None:
    code, out, err = run_cli("archive", "log", "--archive", "/nowhere", "--path", "/data", "--op", "delet")
    assert (code, out) == (2, "")
    assert "OP_DELET is not an operation. Did you mean OP_DELETE?" in err


def test_repeatedly_swapped_names_are_searched_once(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/now", 16386), mkdir("/before", 16387))
    for day in range(8):
        swap = [rename("/now", "/tmp"), rename("/before", "/now"), rename("/tmp", "/before")]
        last = segment(nn, last, *swap, mkdir(f"/now/{day}", 16390 + day))
    add_directory(archive, nn)
    view = view_of(archive.catalogue(), MAIN)
    with mock.patch("archive.path_log.fetch_segment", side_effect=fetch_segment) as fetched_segments:
        entries = path_log(archive, view, "/now", tmp_path)
    assert [each.operation for each in entries].count("OP_RENAME") == 24
    assert [each.paths for each in entries if each.operation == "OP_MKDIR"][:2] == [("/now",), ("/before",)]
    # each of the three names needs at most two passes over nine segments
    assert fetched_segments.call_count <= 6 * 9
