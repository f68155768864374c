"""The archive of a daemon: a separate process that follows the edits and never delays a checkpoint."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from archive.archive import open_archive
from archive.catalogue import MAIN
from archive.moments import newest_moment, view_of
from checkpointer.archiving.messages import ArchiveReport, ArchiveSource
from checkpointer.archiving.worker import work
from checkpointer.daemon.archive_process import ArchiveProcess
from checkpointer.daemon.service import CheckpointService
from checkpointer.set_back.start_over import LostPast
from engine.merge import Timings
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name, segment_name
from journal.segment_file import EditLogSegment, list_segments
from node_state.state import ArchiveState
from servlets.status import TriggerState
from site_config.checkpoint_config import CheckpointConfig
from tests.archive.open_segment import Writer
from tests.archive.storage import segment
from tests.checkpointer.archive_support import nn, number, place, source_of
from tests.checkpointer.service_support import Clock, FakeRole, StoredDetails, standby_config
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder
from tests.engine.op_makers import mkdir
from tests.namenode_stub.stub_support import wait_until

__all__ = ["nn", "place"]


class FolderRole(FakeRole):
    """A role whose image and edits are in one directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.current = directory / "current"
        self.confirms = True

    def image_folders(self) -> list[Path]:
        return [self.current]

    def latest_image(self) -> Path:
        return self.current / image_name(BASE_TXID)

    def confirm_image(self) -> Path:
        if not self.confirms:
            raise StorageError("the NameNode does not answer")
        return self.latest_image()

    def segments(self) -> list[EditLogSegment]:
        return list_segments(self.current)


def config_of(place: Path, **values: str) -> CheckpointConfig:
    return standby_config(**{"checkpointer.archive.dir": str(place), "checkpointer.archive.period": "100ms", **values})


@pytest.fixture
def process(place: Path) -> Iterator[ArchiveProcess]:
    made = ArchiveProcess(config_of(place))
    yield made
    made.stop()


def state_of(process: ArchiveProcess, journal: int | None = None) -> ArchiveState:
    state = process.state(journal)
    assert state is not None
    return state


# ---- the process ---------------------------------------------------------------------------------------------------


def test_growing_open_segment_is_archived_even_after_a_kill(
    process: ArchiveProcess, nn: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role, writer = FolderRole(nn), Writer(nn)
    service = CheckpointService(role, config_of(place), archive=process)
    role.confirms = False
    service.poll()
    # an image that is not confirmed is not archived
    wait_until("the process", lambda: state_of(process).running)
    assert (state_of(process).archived_txid, state_of(process).complete_at, place.exists()) == (-1, None, False)
    role.confirms = True
    assert service.poll().state is TriggerState.SKIPPED
    wait_until("the image", lambda: state_of(process).restorable_txid == writer.last)
    last = writer.write(number(1))
    wait_until("the next transaction", lambda: state_of(process).restorable_txid == last)
    role.journal = last + 2
    reported = service.status()["archive"]
    assert (reported["branch"], reported["archivedTxid"], reported["lagTransactions"], reported["error"]) == (
        MAIN,
        last,
        2,
        "",
    )
    failed, raised = process._failed, list[str]()

    def noted(error: str, hint: str) -> None:
        failed(error, hint)
        # the alarm ends as soon as the restarted process has archived something
        raised.extend(process.alarms())

    monkeypatch.setattr(process, "_failed", noted)
    assert process._child is not None
    os.kill(process._child.pid, signal.SIGKILL)
    wait_until("the alarm", lambda: "its process ended" in "".join(raised))
    end = writer.write(number(2))
    wait_until("the restarted process", lambda: state_of(process).restorable_txid == end and not process.alarms())
    with open_archive(str(place)) as archive:
        assert newest_moment(view_of(archive.catalogue(), MAIN)) == end
    service.stop()
    assert not state_of(process).running


def test_archive_failure_is_an_alarm_until_recovery(process: ArchiveProcess, nn: Path, place: Path) -> None:
    place.write_text("not a directory")
    role = FolderRole(nn)
    last = segment(nn, BASE_TXID, number(1))
    service = CheckpointService(role, config_of(place), archive=process)
    role.journal = 1000
    assert service.poll().state is TriggerState.DONE
    wait_until("the alarm", lambda: bool(process.alarms()))
    status = service.status()
    (alarm,) = status["alarms"]
    assert f"the archive {place} is not being filled: {place}" in alarm
    assert "checkpointer.archive.dir" in status["nextSteps"][alarm]
    assert service.ready().ok
    assert status["failures"] == 0
    place.unlink()

    def filled() -> bool:
        # after a failure, a poll has to confirm the image again
        service.poll()
        return not process.alarms() and state_of(process).archived_txid == last

    wait_until("the archive", filled)
    assert state_of(process).failures >= 1


def test_secrets_in_reports_of_the_process_are_hidden(process: ArchiveProcess) -> None:
    error = 'cannot GET "https://a/c?sig=abc" and "http://nn/a?delegation=abc"'
    report = ArchiveReport(error=error, hint='Check "https://a/c?sig=abc".').to_line()
    child = SimpleNamespace(stdout=[report.encode(), b"Traceback: http://nn/a?delegation=abc"])
    assert process._follow(child) == "Traceback: http://nn/a?delegation=***"  # type: ignore[arg-type]
    (alarm,) = process.alarms()
    assert error.replace("=abc", "=***") in alarm


class Inbox:
    """Inbox of a daemon that ends after `rounds` waits; `before` is called before each round."""

    def __init__(self, source: ArchiveSource, rounds: int, before: Callable[[int], None]) -> None:
        self.source, self.left, self.before, self.ended = source, rounds, before, self

    def is_set(self) -> bool:
        return self.left < 0

    def wait(self, seconds: float) -> bool:
        self.left -= 1
        self.before(self.left)
        return self.is_set()


def test_no_archive_is_created_in_an_unmounted_mount_point(
    nn: Path, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Until the file system is mounted again, no process begins another archive in the mount point."""
    writer, away = Writer(nn), place.with_name("away")

    def unmounted(left: int) -> None:
        if left == 6:
            place.rename(away)
            place.mkdir()
        if left == 3:
            writer.finish()
        if left > 3:
            writer.write(number(100 - left))

    work(config_of(place), Inbox(source_of(nn), 8, unmounted))  # type: ignore[arg-type]
    work(config_of(place), Inbox(source_of(nn), 3, lambda left: None))  # type: ignore[arg-type]
    assert not list(place.iterdir())
    last = ArchiveReport.from_line(capfd.readouterr().out.splitlines()[-1])
    assert (last.complete, last.error) == (False, f"{place} no longer contains the archive")
    place.rmdir()
    away.rename(place)
    work(config_of(place), Inbox(source_of(nn), 2, lambda left: None))  # type: ignore[arg-type]
    last = ArchiveReport.from_line(capfd.readouterr().out.splitlines()[-1])
    assert (last.complete, last.last_txid, last.error) == (True, writer.last, "")


def test_failed_round_keeps_the_history_of_the_image(nn: Path, place: Path) -> None:
    """The image of a lost past is not stored in the history that replaces it."""
    shared = segment(nn, BASE_TXID, number(1))
    lost = segment(nn, shared, *map(number, range(2, 6)))
    builder = ImageBuilder(HADOOP3)
    builder.info.transactionId = lost
    builder.save(nn / "current")
    source = replace(source_of(nn), confirmations=1)
    inbox = Inbox(source, 20, lambda left: None)

    def events(left: int) -> None:
        if left == 17:
            inbox.source = replace(source, image=nn / "current" / image_name(lost), confirmations=2)
        if left == 15:
            # the NameNode was set back, and the archive is unreachable for a while
            (nn / "current" / segment_name(shared + 1, lost)).unlink()
            segment(nn, shared, *(mkdir(f"/new{n}", 17000 + n, 7000) for n in range(8)))
            place.rename(place.with_name("away"))
        if left == 8:
            place.with_name("away").rename(place)

    inbox.before = events
    work(config_of(place, **{"checkpointer.archive.restore-target": "0"}), inbox)  # type: ignore[arg-type]
    with open_archive(str(place)) as archive:
        catalogue = archive.catalogue()
    assert [(each.txid, each.branch) for each in catalogue.images] == [(BASE_TXID, MAIN), (lost, MAIN)]
    assert len(catalogue.branches) == 2


def test_image_is_confirmed_again_for_another_history(
    process: ArchiveProcess, nn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the new history has no base image before the next checkpoint."""
    role, confirmed = FolderRole(nn), list[Path]()

    def confirm() -> Path:
        confirmed.append(role.latest_image())
        return confirmed[-1]

    monkeypatch.setattr(role, "confirm_image", confirm)
    monkeypatch.setattr(process, "feed", lambda role: None)
    for branch, count in (("", 1), (MAIN, 1), (MAIN, 1), ("after-3", 2), ("after-3", 2)):
        process._reported(ArchiveReport(branch=branch))
        process.offer(role)
        assert len(confirmed) == count


def test_a_bug_does_not_stop_the_archive_without_an_alarm(
    process: ArchiveProcess, nn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(message: object) -> bytes:
        raise AttributeError("it cannot be pickled")

    with monkeypatch.context() as patch:
        patch.setattr("checkpointer.daemon.archive_process.pickle.dumps", failing)
        process.feed(FolderRole(nn))
        wait_until("the alarm", lambda: "it cannot be pickled" in "".join(process.alarms()))
    wait_until("the next process", lambda: state_of(process).running)


def test_no_process_without_an_archive(nn: Path) -> None:
    process = ArchiveProcess(standby_config())
    process.offer(FolderRole(nn))
    assert (process.state(1), process.alarms(), process._worker) == (None, [], None)


# ---- reports --------------------------------------------------------------------------------------------------------


def test_incomplete_archive_is_an_alarm(place: Path) -> None:
    clock = Clock()
    process = ArchiveProcess(config_of(place), clock=clock, wall=clock.wall)
    process._reported(ArchiveReport(MAIN, 10, 10, complete=True))
    clock.now = 301
    assert process.alarms() == [f"the archive {place} has been incomplete for 5 min 1 s"]
    process._reported(ArchiveReport(MAIN, 20, 10, missing=4))
    (alarm,) = process.alarms()
    assert "lacks 4 transactions that a purge removed before they were archived" in alarm
    process._reported(ArchiveReport(MAIN, 20, 20, missing=4, complete=True, pruning_error="permission denied"))
    assert process.alarms() == [
        f"the archive {place} grows, because its retention rules were not applied: permission denied"
    ]
    process._reported(ArchiveReport(MAIN, 20, 20, missing=4, complete=True))
    assert process.alarms() == []
    assert (state_of(process, 25).missing_transactions, state_of(process, 25).lag_transactions) == (4, 5)
    process._failed("the disk is full", "Free space.")
    assert "the disk is full" in process.alarms()[0]


def test_incomplete_archive_is_an_alarm_although_the_clock_was_set_back(place: Path) -> None:
    clock, wall = Clock(), Clock(86_400.0)
    process = ArchiveProcess(config_of(place), clock=clock, wall=wall)
    process._reported(ArchiveReport(MAIN, 10, 10, complete=True))
    clock.now, wall.now = 301.0, 301.0
    assert process.alarms() == [f"the archive {place} has been incomplete for 5 min 1 s"]
    assert state_of(process).lag_seconds == 301


def test_lag_of_the_archive_includes_the_time_for_which_the_host_slept(place: Path) -> None:
    clock, wall = Clock(), Clock(86_400.0)
    process = ArchiveProcess(config_of(place), clock=clock, wall=wall)
    process._reported(ArchiveReport(MAIN, 10, 10, complete=True))
    wall.now += 301
    assert process.alarms() == [f"the archive {place} has been incomplete for 5 min 1 s"]


def test_report_on_the_previous_history_is_discarded_after_a_start_over(
    place: Path, nn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the archive was compared with the present history, its state is unknown."""
    clock, role = Clock(), FolderRole(nn)
    process = ArchiveProcess(config_of(place), clock=clock, wall=clock.wall)
    process._worker = threading.current_thread()
    role.journal = 20
    process.feed(role)
    process._reported(ArchiveReport(MAIN, 20, 20, complete=True))
    assert (state_of(process).branch, state_of(process).restorable_txid) == (MAIN, 20)
    details = StoredDetails(lost_past=LostPast("the NameNode was set back", (), at=5.0))
    monkeypatch.setattr(role, "details", lambda: details)
    role.journal = 10
    process.feed(role)
    for report in (ArchiveReport(), ArchiveReport(MAIN, 20, 20, complete=True)):
        process._reported(report)
        assert (state_of(process).branch, state_of(process).restorable_txid) == ("", -1)
    clock.now = 400
    assert "incomplete" in "".join(process.alarms())
    process._reported(ArchiveReport(MAIN, 20, 20, error="the disk is full"))
    assert state_of(process).branch == ""
    assert "the disk is full" in state_of(process).error
    process._reported(ArchiveReport("after-3", 10, 10, complete=True, started_over=5.0))
    assert (state_of(process).branch, state_of(process).restorable_txid) == ("after-3", 10)
    assert process.alarms() == []


def test_archive_without_edits_that_the_role_has_read_is_incomplete(place: Path, nn: Path) -> None:
    """Later edits are still archived, for instance if the folder of edits was empty for a while."""
    clock, role = Clock(), FolderRole(nn)
    process = ArchiveProcess(config_of(place), clock=clock, wall=clock.wall)
    process._worker = threading.current_thread()
    role.journal = 20
    process.feed(role)
    clock.now = 301
    process._reported(ArchiveReport(MAIN, 19, 19, complete=True))
    assert "incomplete" in "".join(process.alarms())
    process._reported(ArchiveReport(MAIN, 20, 20, complete=True))
    assert process.alarms() == []
    role.read_fault = StorageError("the edits cannot be listed")
    process.feed(role)
    clock.now = 700
    process._reported(ArchiveReport(MAIN, 20, 20, complete=True))
    assert process.alarms() == [f"the archive {place} has been incomplete for 6 min 39 s: the edits cannot be listed"]


def test_archiving_starts_after_a_thread_start_failure(place: Path, nn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    fed = threading.Event()
    monkeypatch.setattr(ArchiveProcess, "_work", lambda _: fed.set())
    process, role = ArchiveProcess(config_of(place)), FolderRole(nn)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            process.feed(role)
    process.feed(role)
    assert fed.wait(600)


def test_settings_of_the_archive_apply_to_a_running_daemon(place: Path) -> None:
    process = ArchiveProcess(config_of(place))
    process._reported(ArchiveReport(MAIN, 10, 10, complete=True))
    process.reconfigure(config_of(place))
    assert state_of(process).archived_txid == 10
    process.reconfigure(config_of(place.with_name("other")))
    assert state_of(process).archived_txid == -1


def test_replay_rate_is_measured_from_large_checkpoints(place: Path, nn: Path) -> None:
    process, role = ArchiveProcess(config_of(place)), FolderRole(nn)
    role.journal = 50
    made = role.checkpoint(_Silent())
    process.measured(made)
    assert process._source_of(role).replay_rate == 0
    process.measured(replace(made, transactions=100_000, timings=Timings(1.0, 0.5, 1.0)))
    assert process._source_of(role).replay_rate == 200_000


class _Silent:
    def phase(self, name: str, total: int | None) -> None: ...

    def advance(self, done: int) -> None: ...

    def saved(self) -> None: ...

    def cancelled(self) -> bool:
        return False
