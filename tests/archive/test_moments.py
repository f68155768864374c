"""Moments of an archive found by time, by a deletion and by a path."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from archive.adding import add_directory
from archive.archive import Archive
from archive.catalogue import MAIN
from archive.errors import NoSuchMomentError
from archive.moments import view_of
from archive.removals import archived_removal
from archive.restoring import txid_at
from hadoop_common.cli.progress import ProgressObserver
from journal.ops import AllowSnapshotOp, CreateSnapshotOp
from tests.archive.storage import saved, segment, storage
from tests.cli_runner import run_cli
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir, rename, set_permissions
from tests.site_files import write_site

# ---- finding moments ---------------------------------------------------------------------------------------


def test_moment_is_found_by_time_and_by_deletion(deletion_by_mistake: tuple[Archive, Path, int]) -> None:
    archive, folder, deleted = deletion_by_mistake
    view = view_of(archive.catalogue(), MAIN)
    assert archived_removal(archive, view, "/data/warehouse/f", folder).txid == deleted
    assert archived_removal(archive, view, "/data//warehouse/", folder).txid == deleted
    # the path was moved before its directory was deleted
    assert archived_removal(archive, view, "/data/tmp", folder).txid == deleted - 2
    assert txid_at(archive, view, 8999, folder) == deleted - 1
    assert txid_at(archive, view, 9000, folder) == deleted
    assert txid_at(archive, view, 99999, folder) == deleted + 2
    answer = run_cli(
        "archive", "restore", "--archive", folder / "archive", "--before-delete", "/nothing", "--out", folder / "no"
    )
    assert (answer.code, "no archived transaction deletes /nothing" in answer.err) == (2, True)


def test_time_whose_edits_are_missing_is_rejected(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    first = segment(nn, BASE_TXID, mkdir("/a", 16386, 5000))
    # retention rules leave such a gap before a segment
    segment(nn, first + 10, mkdir("/b", 16387, 9000), mkdir("/c", 16388, 9500))
    add_directory(archive, nn)
    view = view_of(archive.catalogue(), MAIN)
    for moment in (5000, 8999):
        with pytest.raises(NoSuchMomentError, match=f"lacks the edits around this time.* {first}"):
            txid_at(archive, view, moment, tmp_path)
    assert txid_at(archive, view, 9000, tmp_path) == first + 12
    log = run_cli("archive", "log", "--archive", tmp_path / "archive", "--path", "/b")
    assert (log.code, "1 transaction on /b" in log.out) == (0, True)
    assert f"lacks transactions {first + 1} to {first + 10}" in log.err


def test_time_after_the_newest_edits_is_warned_about(
    deletion_by_mistake: tuple[Archive, Path, int], caplog: pytest.LogCaptureFixture
) -> None:
    archive, folder, deleted = deletion_by_mistake
    view = view_of(archive.catalogue(), MAIN)
    assert txid_at(archive, view, 9499, folder) == deleted
    assert not caplog.messages
    assert txid_at(archive, view, 9500, folder) == deleted + 2
    assert "changes before the given time may be missing" in caplog.text


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("drill",), ["load", "replay", "save", "load"]),
        (("diff", "101", "102"), ["load", "replay", "save", "load", "replay", "save", "compare"]),
    ],
    ids=["drill", "diff"],
)
def test_commands_that_restore_show_each_phase(
    deletion_by_mistake: tuple[Archive, Path, int], command: tuple[str, ...], expected: list[str]
) -> None:
    _, folder, deleted = deletion_by_mistake
    words = (*command, *(("--txid", str(deleted)) if command == ("drill",) else ()))
    with mock.patch.object(ProgressObserver, "phase") as phase:
        assert run_cli("archive", *words, "--archive", folder / "archive").code in (0, 1)
    assert [each.args[0] for each in phase.call_args_list] == expected


def test_restore_reports_later_transactions_and_the_difference(deletion_by_mistake: tuple[Archive, Path, int]) -> None:
    _, folder, deleted = deletion_by_mistake
    words = ("--archive", folder / "archive")
    answer = run_cli(
        "archive", "restore", *words, "--before-delete", "/data/warehouse", "--out", folder / "out", "--json"
    )
    found = json.loads(answer.out)
    assert (found["txid"], found["later"]["transactions"]) == (deleted - 1, 3)
    assert (found["later"]["deletions"], found["later"]["files"]) == (1, 1)
    assert "/data/warehouse/f" in saved(folder / "out", deleted - 1)
    again = run_cli("archive", "restore", *words, "--txid", str(deleted), "--out", folder / "out")
    assert (again.code, "exists and is not an empty directory" in again.err) == (6, True)
    difference = run_cli("archive", "diff", str(deleted - 1), str(deleted), *words, "--path", "/data")
    assert (difference.code, "/data" in difference.out) == (1, True)
    assert run_cli("archive", "diff", str(deleted), str(deleted), *words).code == 0
    for path in ("/data/tmp/f", "/data/warehouse/f"):
        moved = run_cli("archive", "diff", str(deleted - 3), str(deleted - 2), *words, "--path", path)
        assert (moved.code, "/data/tmp -> /data/warehouse\n1 difference\n" in moved.out) == (1, True), moved
    assert json.loads(run_cli("archive", "drill", *words, "--json").out)["branch"] == MAIN
    assert run_cli("archive", "show", str(deleted), *words).code == 0
    assert run_cli("archive", "restore", *words, "--out", folder / "none").code == 2
    late = run_cli("archive", "restore", *words, "--txid", "110", "--without", "112", "--out", folder / "none")
    assert (late.code, "but the restore ends at 110" in late.err) == (2, True)


def test_difference_on_a_path_includes_snapshots_and_both_paths_of_an_inode(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    begin = segment(
        nn, BASE_TXID, mkdir("/s", 16386), AllowSnapshotOp(snapshot_root="/s"), mkdir("/a", 16387), mkdir("/a/b", 16388)
    )
    snapshot = segment(nn, begin, CreateSnapshotOp(snapshot_root="/s", snapshot_name="s", mtime=7000))
    end = segment(nn, snapshot, rename("/a", "/z", 8000), set_permissions("/z/b", 0o700))
    add_directory(archive, nn)

    def changes(first: int, second: int, path: str) -> str:
        words = ("--archive", tmp_path / "archive", "--path", path)
        return run_cli("archive", "diff", str(first), str(second), *words).out

    assert "snapshot 0 (/s)" in changes(begin, snapshot, "/s")
    for path in ("/a/b", "/z/b"):
        assert "inode /z/b mode" in changes(snapshot, end, path), path


def test_drill_finds_its_archive_in_the_configuration(deletion_by_mistake: tuple[Archive, Path, int]) -> None:
    _, folder, _ = deletion_by_mistake
    conf = write_site(folder / "conf", {"checkpointer.archive.dir": str(folder / "archive")})
    answer = run_cli("archive", "drill", "--conf", conf, "--json")
    assert (answer.code, json.loads(answer.out)["branch"]) == (0, MAIN)
    write_site(conf, {})
    unset = run_cli("archive", "drill", "--conf", conf)
    assert (unset.code, "sets checkpointer.archive.dir" in unset.err) == (2, True)
