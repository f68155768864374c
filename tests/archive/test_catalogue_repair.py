"""The catalogue after a kill, damaged commits and missing objects; archiving continues."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import IDENTITY, Archive
from archive.catalogue import COMMITS, MAIN
from archive.checking import check_archive
from archive.errors import ArchiveDamagedError
from archive.following import ArchiveFollower
from archive.object_store import FolderStore
from tests.archive.killing_store import KilledError
from tests.archive.open_segment import FIRST, Writer, found, op_of, parts
from tests.archive.storage import segment
from tests.cli_runner import fingerprint, run_cli
from tests.engine.image_builder import BASE_TXID


def follow_growth(archive: Archive, nn: Path, writer: Writer, rounds: int) -> int:
    """Archive an open segment while it grows; return its last transaction."""
    follower = ArchiveFollower(archive, AddOptions())
    follower.follow(found(nn))
    for _ in range(rounds):
        writer.write(op_of(writer.last))
        follower.follow(found(nn))
    return writer.last


def test_commits_left_by_a_killed_replacement_are_ignored(archive: Archive, nn: Path) -> None:
    writer, remove = Writer(nn), FolderStore.remove

    def killed(store: FolderStore, name: str) -> None:
        if name.startswith(COMMITS):
            raise KilledError
        remove(store, name)

    with mock.patch("archive.archive._COMPACT_AFTER", 8):
        with mock.patch.object(FolderStore, "remove", killed), pytest.raises(KilledError):
            follow_growth(archive, nn, writer, 20)
        assert len(archive.catalogue().replaced) == 8
        follow_growth(archive, nn, writer, 8)
        assert archive.catalogue().replaced == frozenset()
        writer.finish()
        assert ArchiveFollower(archive, AddOptions()).follow(found(nn)).last_txid == writer.last
    assert parts(archive) == [(FIRST, writer.last, True)]
    # after the kill, parts that the last part absorbed may remain as garbage, but no commit remains
    report = check_archive(archive, repair=True)
    assert (report.damaged, [name for name in report.garbage if name.startswith(COMMITS)]) == ({}, [])
    assert check_archive(archive).garbage == []


def test_repair_unlists_objects_that_a_damaged_commit_had_removed(archive: Archive, nn: Path, tmp_path: Path) -> None:
    writer = Writer(nn)
    follow_growth(archive, nn, writer, 5)
    writer.finish()
    assert ArchiveFollower(archive, AddOptions()).follow(found(nn)).last_txid == writer.last
    newest = max((tmp_path / "archive" / COMMITS).iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    report = check_archive(archive, repair=True)
    assert (report.adopted, len(report.unlisted) > 0) == ([], True)
    assert check_archive(archive).damaged == {}
    assert parts(archive) == [(FIRST, writer.last, True)]
    segment(nn, writer.last, op_of(90))
    assert add_directory(archive, nn).branch == MAIN


@pytest.mark.parametrize("name", [COMMITS, IDENTITY])
def test_messages_lead_to_the_repair_of_the_catalogue(archive: Archive, nn: Path, tmp_path: Path, name: str) -> None:
    last = segment(nn, FIRST - 1, op_of(1))
    add_directory(archive, nn)
    words = ("--archive", tmp_path / "archive")
    for file in (tmp_path / "archive").glob(f"{name}*/*" if name == COMMITS else name):
        if name == COMMITS:
            file.write_bytes(file.read_bytes()[:-1])
        else:
            file.unlink()
            shown = run_cli("archive", "list", *words)
            assert (shown.code, "has lost its archive.json" in shown.err) == (6, True), shown
            assert f"archive check --archive {tmp_path}/archive --repair` writes archive.json again" in shown.err
    for option, conclusion in (
        ((), "next: repeat this command with --repair"),
        (("--repair",), "repaired; next: repeat"),
    ):
        checked = run_cli("archive", "check", *words, *option)
        assert (checked.code, conclusion in checked.out, "purged" in checked.out) == (3, True, False), checked
    checked = run_cli("archive", "check", *words)
    assert (checked.code, "every archived moment can be restored" in checked.out) == (0, True)
    assert f"from transaction {BASE_TXID} to {last}" in run_cli("archive", "list", *words).out


@pytest.mark.parametrize("place", ["nn", "nn/current"])
def test_an_archive_does_not_begin_in_a_storage_directory(nn: Path, place: str) -> None:
    segment(nn, FIRST - 1, op_of(1))
    before = fingerprint(nn)
    refused = run_cli("archive", "add", nn, "--archive", nn.parent / place)
    assert (refused.code, f"{place} is a storage directory" in refused.err) == (6, True), refused
    assert fingerprint(nn) == before


def test_the_error_names_the_directory_of_edits(nn: Path, tmp_path: Path) -> None:
    refused = run_cli("archive", "add", nn, "--archive", tmp_path / "archive", "--edits", tmp_path)
    assert (refused.code, f"{tmp_path} is not a directory of edits" in refused.err) == (6, True), refused


def test_repair_keeps_records_of_missing_objects_without_replacement(
    archive: Archive, nn: Path, tmp_path: Path
) -> None:
    last = segment(nn, FIRST - 1, op_of(1))
    add_directory(archive, nn)
    segment(nn, last, op_of(2))
    lost = add_directory(archive, nn).edits[0]
    (tmp_path / "archive" / lost.name).unlink()
    assert check_archive(archive, repair=True).unlisted == []
    report = check_archive(archive)
    assert (list(report.damaged), report.lost) == ([lost.name], [(MAIN, lost.first, lost.last)])
    shown = run_cli("archive", "check", "--archive", tmp_path / "archive")
    assert (shown.code, f"--archive {tmp_path}/archive --restore-target 0` stores a base image" in shown.out) == (
        3,
        True,
    )


@pytest.mark.parametrize("missing", [False, True])
def test_archiving_continues_after_damage_of_a_part(
    missing: bool, nn: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive = Archive(FolderStore(tmp_path / "archive"), immutable=True)
    writer = Writer(nn)
    follow_growth(archive, nn, writer, 4)
    damaged = tmp_path / "archive" / archive.catalogue().edits[-1].name
    content = bytearray(damaged.read_bytes())
    content[10] ^= 1
    damaged.write_bytes(content)
    if missing:
        damaged.unlink()
    writer.finish()
    last = segment(nn, writer.last, op_of(50))
    added = add_directory(archive, nn)
    assert (added.branch, added.last_txid) == (MAIN, last)
    assert damaged.name in caplog.text
    # the finalized segment replaces its parts
    with mock.patch("archive.branch_choice.fetch_segment", side_effect=AssertionError("a part is read again")):
        assert add_directory(archive, nn).edits == ()


def test_immutable_archive_with_a_damaged_commit_is_repaired_by_appending(nn: Path, tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path / "archive"), immutable=True)
    writer = Writer(nn)
    follow_growth(archive, nn, writer, 3)
    before = archive.catalogue().names
    newest = max((tmp_path / "archive" / COMMITS).iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(ArchiveDamagedError, match="commit is damaged"):
        add_directory(archive, nn)
    stored = set((tmp_path / "archive").rglob("*"))
    assert len(check_archive(archive, repair=True).adopted) == 1
    assert set((tmp_path / "archive").rglob("*")) > stored
    report = check_archive(archive)
    assert (report.damaged, report.garbage, archive.catalogue().names) == ({}, [], before)
    # the damaged commit remains and is harmless
    with mock.patch.object(FolderStore, "read", side_effect=AssertionError("a commit is read again")):
        assert archive.catalogue() is archive.catalogue()
    segment(nn, writer.finish(), op_of(90))
    assert add_directory(archive, nn).branch == MAIN
