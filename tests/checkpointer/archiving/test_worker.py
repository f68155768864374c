"""The process that fills an archive: its rounds, its search for removed objects, and its end."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from unittest import mock

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import open_archive
from archive.catalogue import IMAGES, MAIN
from archive.errors import ArchiveError
from archive.following import ArchiveFollower
from archive.scratch import SCRATCH_PREFIX
from checkpointer.archiving.messages import ArchiveReport, ArchiveSource
from checkpointer.archiving.worker import Inbox, Rounds
from checkpointer.daemon.archive_process import ArchiveProcess
from hadoop_common.names import image_name, md5_name, segment_name
from site_config.archive_settings import ArchiveSettings, parse_rules
from tests.archive.open_segment import found
from tests.archive.storage import segment, storage
from tests.checkpointer.archive_support import nn, number, place, source_of
from tests.checkpointer.service_support import standby_config
from tests.cli_runner import run_cli
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder
from tests.engine.op_makers import mkdir

__all__ = ["nn", "place"]


def test_hanging_process_removes_its_folder_before_it_exits(tmp_path: Path) -> None:
    scratch, ended = tmp_path / f"{SCRATCH_PREFIX}1", threading.Event()
    scratch.mkdir()
    (scratch / "edits").write_bytes(b"decrypted")
    with (
        mock.patch("checkpointer.archiving.worker._GRACE_SECONDS", 0),
        mock.patch("checkpointer.archiving.worker.gettempdir", return_value=str(scratch)),
        mock.patch("checkpointer.archiving.worker.os._exit", side_effect=lambda code: ended.set()),
    ):
        Inbox(BytesIO())
        assert ended.wait(600)
    assert not scratch.exists()


def test_removed_object_is_found_within_an_hour(tmp_path: Path) -> None:
    nn, place = storage(tmp_path / "nn"), tmp_path / "archive"
    current = nn / "current"
    source = ArchiveSource((current,), (current,), BASE_TXID, current / image_name(BASE_TXID))
    segment(nn, BASE_TXID, mkdir("/a", 20001))
    with open_archive(str(place)) as archive:
        rounds = Rounds(archive, ArchiveSettings(), None)
        position = rounds.make(source)
        assert position is not None
        assert rounds.lost == ""
        (place / archive.catalogue().edits[0].name).unlink()
        rounds.make(source)
        # the archive is listed only once an hour
        assert rounds.lost == ""
        rounds._searched_at = None
        rounds.make(source)
        assert rounds.lost == archive.catalogue().edits[0].name
    process = ArchiveProcess(standby_config(**{"checkpointer.archive.dir": str(place)}))
    report = ArchiveReport(position.branch, position.last_txid, position.restorable_txid, complete=True)
    for lost in (rounds.lost, ""):
        process._reported(replace(report, lost=lost))
        assert [rounds.lost in alarm for alarm in process.alarms()] == [True] * bool(lost)


def test_object_that_another_process_replaces_during_the_search_is_not_lost(tmp_path: Path) -> None:
    nn, place = storage(tmp_path / "nn"), tmp_path / "archive"
    segment(nn, segment(nn, BASE_TXID, mkdir("/a", 20001)), mkdir("/b", 20002))
    with open_archive(str(place)) as archive:
        add_directory(archive, nn)
        follower = ArchiveFollower(archive, AddOptions())
        follower.follow(found(nn))
        first, second = archive.catalogue().edits
        sizes = archive.store.sizes

        def absorbed(folder: str) -> dict[str, int]:
            if folder == IMAGES:
                archive.publish(archive.catalogue(), remove=[second.name])
                archive.store.remove(second.name)
            return sizes(folder)

        with mock.patch.object(archive.store, "sizes", absorbed):
            assert follower.lost_objects() == []
        (place / first.name).unlink()
        assert follower.lost_objects() == [first.name]
        archive.publish(archive.catalogue(), remove=[first.name])
        assert follower.lost_objects() == []


def test_image_of_a_lost_history_is_not_the_base_of_another_one(place: Path, nn: Path) -> None:
    last = segment(nn, BASE_TXID, mkdir("/lost", 17000, 6000))
    with open_archive(str(place)) as archive:
        rounds = Rounds(archive, ArchiveSettings(), None)
        assert rounds.make(source_of(nn, confirmed=False)) is None
        add_directory(archive, nn)
        rounds.make(source_of(nn, confirmed=False))
        (nn / "current" / segment_name(BASE_TXID + 1, last)).unlink()
        segment(nn, BASE_TXID, mkdir("/new", 17000, 7000), mkdir("/newer", 17001, 7000))
        # the image was confirmed before the NameNode was set back
        builder = ImageBuilder(HADOOP3)
        builder.info.genstampV2 = 1234
        builder.save(nn / "current")
        position = rounds.make(source_of(nn))
        assert position is not None
        assert (position.branch != MAIN, position.restorable_txid) == (True, -1)
        assert len(archive.catalogue().images) == 1


def test_history_after_a_start_over_is_unknown_until_a_segment_was_compared(place: Path, nn: Path) -> None:
    """The node has only the NameNode's image, which does not show to which branch it belongs."""
    last = segment(nn, BASE_TXID, mkdir("/lost", 17000, 6000))
    with open_archive(str(place)) as archive:
        rounds = Rounds(archive, ArchiveSettings(), None)
        rounds.make(source_of(nn))
        assert rounds.started_over == 0.0
        (nn / "current" / segment_name(BASE_TXID + 1, last)).unlink()
        source = replace(source_of(nn), confirmations=1, started_over=5.0)
        position = rounds.make(source)
        assert position is not None
        assert (position.branch, rounds.started_over) == (MAIN, 0.0)
        segment(nn, BASE_TXID, mkdir("/new", 17000, 7000))
        position = rounds.make(source)
        assert position is not None
        assert (position.branch != MAIN, rounds.started_over) == (True, 5.0)


def test_archive_that_begins_after_a_start_over_is_known(place: Path, nn: Path) -> None:
    with open_archive(str(place)) as archive:
        rounds = Rounds(archive, ArchiveSettings(), None)
        position = rounds.make(replace(source_of(nn), started_over=5.0))
        assert position is not None
        assert (position.restorable_txid, rounds.started_over) == (BASE_TXID, 5.0)


def test_edits_that_arrive_after_later_edits_close_the_gap(place: Path, nn: Path, tmp_path: Path) -> None:
    """After its merge, a secondary fetches the edits that precede an image of the NameNode."""
    first = segment(nn, BASE_TXID, number(1))
    middle = segment(nn, first, number(2))
    end = segment(nn, middle, number(3))
    late = nn / "current" / segment_name(first + 1, middle)
    with open_archive(str(place)) as archive:
        rounds = Rounds(archive, ArchiveSettings(), None)
        late.rename(tmp_path / late.name)
        position = rounds.make(source_of(nn))
        assert position is not None
        assert (position.restorable_txid, position.missing) == (first, middle - first)
        (tmp_path / late.name).rename(late)
        position = rounds.make(source_of(nn))
    assert position is not None
    assert (position.branch, position.restorable_txid, position.missing) == (MAIN, end, 0)


def test_edits_removed_by_retention_rules_are_not_archived_again(place: Path, nn: Path, tmp_path: Path) -> None:
    last = segment(nn, BASE_TXID, mkdir("/a", 17000, 6000))
    with open_archive(str(place)) as archive:
        Rounds(archive, ArchiveSettings(), None).make(source_of(nn))
        words = ("--archive", place, "--txid", str(last), "--out", tmp_path / "out")
        assert run_cli("archive", "restore", *words).code == 0
        for name in (image_name(last), md5_name(image_name(last))):
            shutil.copy(tmp_path / "out" / "current" / name, nn / "current")
        end = segment(nn, last, mkdir("/b", 17001, 7_000_000))
        newer = replace(source_of(nn), image=nn / "current" / image_name(last))
        settings = ArchiveSettings(restore_target=0, keep=parse_rules("all for 1h"))
        for _ in range(2):
            position = Rounds(archive, settings, None).make(newer)
            assert position is not None
            assert (position.branch, position.restorable_txid, position.missing) == (MAIN, end, 0)
        assert [each.txid for each in archive.catalogue().images] == [last]
        assert [each.first for each in archive.catalogue().edits] == [last + 1]
        # the command also reads the older image
        assert run_cli("archive", "add", nn, "--archive", place).out.startswith("nothing new")


def test_archiving_continues_if_retention_rules_fail(
    place: Path, nn: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise ArchiveError("edits_1-2 cannot be removed: permission denied", hint="unused")

    monkeypatch.setattr("checkpointer.archiving.worker.prune", refused)
    segment(nn, BASE_TXID, number(1))
    with open_archive(str(place)) as archive:
        rounds = Rounds(archive, ArchiveSettings(keep=parse_rules("daily for 90d")), None)
        position = rounds.make(source_of(nn))
        assert rounds.pruning_error == "edits_1-2 cannot be removed: permission denied"
        monkeypatch.undo()
        rounds._pruned_at = None
        rounds.make(source_of(nn))
        assert rounds.pruning_error == ""
    assert position is not None
    assert position.restorable_txid == BASE_TXID + 3
    assert "the retention rules were not applied: edits_1-2 cannot be removed" in caplog.text
