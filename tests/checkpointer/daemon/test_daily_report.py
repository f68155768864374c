"""Daily reports after checkpoints: in a separate process with limits, one per day, without delaying checkpoints."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from checkpointer.daemon import child_process
from checkpointer.daemon.child_process import ChildCommand
from checkpointer.daemon.daily_report import DailyReporter
from checkpointer.daemon.reload import RELOADABLE
from checkpointer.daemon.service import CheckpointService
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.errors import StorageError
from image_format.md5_file import md5_path
from node_state.report_folder import KeptReport, list_reports
from servlets.status import TriggerState
from site_config.checkpoint_config import CheckpointConfig
from site_config.keys import REPORT_DIR, REPORT_PATHS
from tests.checkpointer.service_support import TRANSACTIONS, FakeRole, standby_config
from tests.clock import Clock
from tests.namenode_stub.stub_support import wait_until

COMMAND = (sys.executable, "-m", "tests.checkpointer.fake_report")
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
DAY = 86_400.0


class ImageRole(FakeRole):
    def __init__(self, storage: Path) -> None:
        super().__init__()
        self.journal = TRANSACTIONS
        self.storages = [storage / "current"]

    def image_folders(self) -> list[Path]:
        return self.storages

    def latest_image(self) -> Path:
        return self.storages[0] / f"fsimage_{self.journal:019d}"


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON.timestamp())


@pytest.fixture
def role(tmp_path: Path) -> ImageRole:
    return ImageRole(tmp_path)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    return folder


@pytest.fixture
def reporter(clock: Clock) -> Iterator[DailyReporter]:
    made = DailyReporter(config(), command=COMMAND, wall=clock, clock=clock)
    yield made
    made.stop()


def config(**values: str) -> CheckpointConfig:
    return standby_config(**{"checkpointer.report.daily": "true", "checkpointer.report.retained": "2", **values})


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []


def settled(reporter: DailyReporter, role: ImageRole) -> bool:
    state = reporter.state(role)
    return state is not None and not state.running and (state.reported_at is not None or state.failures > 0)


def next_command(reporter: DailyReporter, role: ImageRole) -> ChildCommand | None:
    """Return the work that the reporter's thread performs after an offer."""
    reporter._offered = True
    with reporter._task(role) as command:
        return command


def test_first_checkpoint_of_a_day_starts_a_report(
    reporter: DailyReporter, role: ImageRole, reports: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered: list[int] = []
    monkeypatch.setattr(child_process, "lower_session_priority", lambda _, niceness: lowered.append(niceness))
    service = CheckpointService(role, standby_config(), reports=reporter)
    assert service.poll().state is TriggerState.DONE
    wait_until("the report", lambda: settled(reporter, role))
    assert lowered == [10]
    name = f"report_20261128T120000Z_{role.journal:019d}"
    (call,) = calls(reports)
    assert call == (
        f"{role.latest_image()} --master local[2] --driver-memory 1024m --since-last {reports} --format json"
        f" --out {reports}/{name}.html --out {reports}/{name}.json --force"
    )
    assert (reports / "limits").read_text() == f"{min(19, os.nice(0) + 10)} {2 << 30}"
    assert service.reports() == [KeptReport(NOON, role.journal, reports / f"{name}.html")]
    assert service.status()["report"] == {
        "directory": str(reports),
        "running": False,
        "reportedAt": clock.now,
        "failures": 0,
        "error": "",
    }
    assert next_command(reporter, role) is None
    assert next_command(DailyReporter(config(), command=COMMAND, wall=clock), role) is None


def test_status_is_reported_without_a_usable_storage_directory(
    reporter: DailyReporter, role: ImageRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_folders() -> list[Path]:
        raise StorageError("no storage directory is left")

    monkeypatch.setattr(role, "image_folders", no_folders)
    service = CheckpointService(role, standby_config(), reports=reporter)
    assert service.status()["report"]["directory"] == ""
    assert next_command(reporter, role) is None


def test_next_day_has_its_own_report_and_old_ones_are_deleted(
    reporter: DailyReporter, role: ImageRole, reports: Path, clock: Clock
) -> None:
    (reports / "report_20261101T000000Z_0000000000000000001.html").touch()
    (reports / "other.html").touch()
    for day in range(3):
        clock.now = NOON.timestamp() + day * DAY
        reporter.offer(role)
        wait_until("the report", lambda: (state := reporter.state(role)) is not None and state.reported_at == clock.now)
    assert [report.time.day for report in list_reports(reports)] == [30, 29]
    assert len(list(reports.glob("report_*"))) == 4
    assert (reports / "other.html").exists()


def test_only_one_report_runs_at_a_time(reporter: DailyReporter, role: ImageRole, reports: Path) -> None:
    (reports / "wait").touch()
    reporter.offer(role)
    wait_until("the report", lambda: len(calls(reports)) == 1)
    reporter.offer(role)
    assert list_reports(reports) == []
    (reports / "wait").unlink()
    wait_until("the report", lambda: settled(reporter, role))
    assert next_command(reporter, role) is None
    assert len(calls(reports)) == 1


def test_failed_report_is_an_alarm_and_checkpoints_continue(
    reporter: DailyReporter, role: ImageRole, reports: Path, clock: Clock
) -> None:
    (reports / "fail").touch()
    service = CheckpointService(role, standby_config(), reports=reporter)
    assert service.poll().state is TriggerState.DONE
    wait_until("the report", lambda: settled(reporter, role))
    status = service.status()
    assert status["alarms"] == ["the daily report failed: the disk is full (Free space.)"]
    assert list(status["alarmKinds"].values()) == ["report"]
    assert service.ready().ok
    (reports / "fail").unlink()
    assert next_command(reporter, role) is None
    clock.now += 3600
    reporter.offer(role)
    wait_until("the report", lambda: not reporter.alarms())


def test_stop_ends_a_running_report(reporter: DailyReporter, role: ImageRole, reports: Path) -> None:
    (reports / "wait").touch()
    reporter.offer(role)
    wait_until("the report", lambda: len(calls(reports)) == 1)
    reporter.stop()
    assert reporter.alarms() == []
    assert list_reports(reports) == []


def test_reports_are_disabled_by_default(role: ImageRole, reports: Path) -> None:
    off = DailyReporter(standby_config(), command=COMMAND)
    off.offer(role)
    assert off._children._worker is None
    assert off.state(role) is None
    assert not list(reports.iterdir())


def test_reports_are_written_to_the_configured_folder(reporter: DailyReporter, role: ImageRole, tmp_path: Path) -> None:
    assert {"report_daily", "report_directory", "reports_retained", "report_paths", "report_memory"} <= RELOADABLE
    other = tmp_path / "a" / "b"
    reporter.reconfigure(
        config(**{"checkpointer.report.dir": other.as_uri(), "checkpointer.report.paths": "file:///etc/paths.toml"})
    )
    reporter.offer(role)
    wait_until("the report", lambda: settled(reporter, role))
    assert "--paths /etc/paths.toml" in calls(other)[0]
    assert len(reporter.reports()) == 1
    assert reporter.reports()[0].page.parent == other


def test_folder_that_depends_on_the_working_directory_causes_a_warning() -> None:
    given = {"checkpointer.report.dir": "reports", "checkpointer.report.paths": "paths.toml"}
    made = config(**given)
    assert (made.report_directory, made.report_paths) == ("reports", "paths.toml")
    settings = Configuration.from_mapping(given, {})
    assert [REPORT_DIR.read(settings), REPORT_PATHS.read(settings)] == ["reports", "paths.toml"]
    assert ["is not absolute" in each for each in settings.warnings] == [True, True]


def test_folder_must_be_local() -> None:
    with pytest.raises(ConfigurationError, match=r"checkpointer\.report\.dir='hdfs://nn/reports': is not a local dir"):
        config(**{"checkpointer.report.dir": "hdfs://nn/reports"})


def test_folder_that_cannot_be_created_is_an_alarm(reporter: DailyReporter, role: ImageRole, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    reporter.reconfigure(config(**{"checkpointer.report.dir": str(tmp_path / "file" / "reports")}))
    reporter.offer(role)
    wait_until("the alarm", lambda: bool(reporter.alarms()))
    assert "Not a directory" in reporter.alarms()[0]


def test_files_with_other_names_are_not_reports(reports: Path) -> None:
    names = ("report_20261128T120000Z_1", "report_20269928T120000Z_0000000000000000001", "report")
    for name in names:
        (reports / f"{name}.html").touch()
        (reports / f"{name}.json").touch()
    assert list_reports(reports) == []
    assert list_reports(reports / "missing") == []


def test_hanging_folder_delays_neither_uploads_nor_pages(
    reporter: DailyReporter, role: ImageRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, hangs = threading.Event(), threading.Event()
    uploads_before: list[int] = []

    def hang(folder: Path) -> list[KeptReport]:
        uploads_before.append(len(role.forced))
        hangs.set()
        released.wait(600)
        return []

    monkeypatch.setattr("checkpointer.daemon.daily_report.list_reports", hang)
    service = CheckpointService(role, standby_config(), reports=reporter)
    try:
        for _ in range(2):
            role.journal += TRANSACTIONS
            assert service.poll().state is TriggerState.DONE
            assert hangs.wait(600)
        assert service.reports() == []
    finally:
        released.set()
    assert uploads_before[0] == 1


def test_list_of_earlier_reports_is_read_in_the_background(
    reporter: DailyReporter, role: ImageRole, reports: Path
) -> None:
    known = KeptReport.named(reports, NOON, 1)
    known.page.touch()
    known.data.touch()
    service = CheckpointService(role, standby_config(), reports=reporter)
    assert service.reports() == []
    (job,) = (job for job in service.jobs() if job.name == "reports")
    assert not job.run()
    wait_until("the list", lambda: service.reports() == [known])


def test_thread_start_failure_is_an_alarm(
    reporter: DailyReporter, role: ImageRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patches:
        patches.setattr("checkpointer.daemon.child_process.threading.Thread.start", refuse)
        reporter.offer(role)
    assert "can't start new thread" in reporter.alarms()[0]


def test_only_reports_are_deleted(
    reporter: DailyReporter, role: ImageRole, reports: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = (
        "report_2026-budget.xlsx",
        f"report_20261128T115900Z_{7:019d}.html",
        f"report_20261128T115900Z_{7:019d}.json.tmp",
        "report_old/page.html",
        f"report_20261101T000000Z_{1:019d}.html/page.html",
    )
    deleted = (f"report_20261102T000000Z_{2:019d}.html", f"report_20261103T000000Z_{3:019d}.json.tmp")
    for name in (*kept, *deleted):
        (reports / name).parent.mkdir(exist_ok=True)
        (reports / name).touch()
    reporter.offer(role)
    wait_until("the report", lambda: settled(reporter, role))
    assert reporter.alarms() == []
    assert [name for name in (*kept, *deleted) if (reports / name).exists()] == list(kept)
    assert "cannot be deleted" in caplog.text


def test_report_can_read_an_image_that_is_purged_meanwhile(
    reporter: DailyReporter, role: ImageRole, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "spark"))
    image = role.latest_image()
    image.parent.mkdir()
    for path in (image, md5_path(image), image.with_name("VERSION")):
        path.write_text(path.name)
    reporter._offered = True
    with reporter._task(role) as command:
        assert command is not None
        linked = Path(command.words[len(COMMAND)])
        image.unlink()
        md5_path(image).unlink()
        assert [path.read_text() for path in (linked, md5_path(linked), linked.with_name("VERSION"))] == [
            image.name,
            md5_path(image).name,
            "VERSION",
        ]
        scratch = Path(command.environment["SPARK_LOCAL_DIRS"])
        assert scratch.parent == tmp_path / "spark"
        (scratch / "blocks").touch()
    assert not scratch.exists()
    assert not linked.parent.exists()
    reporter._ended(f"{linked} is damaged")
    assert f"{image} is damaged" in reporter.alarms()[0]
    assert {path.name for path in tmp_path.iterdir()} == {"current", "reports", "spark"}
