"""Appends to the lake after checkpoints: each in a separate process, one at a time, without delaying checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.daemon.lake import LakeAppender, find_module
from checkpointer.daemon.reload import RELOADABLE
from checkpointer.daemon.service import CheckpointService
from hadoop_common.errors import StorageError
from journal.segment_file import EditLogSegment
from servlets.status import TriggerState
from tests.checkpointer.service_support import TRANSACTIONS, FakeRole, standby_config
from tests.namenode_stub.stub_support import wait_until

MODULE = "tests.checkpointer.fake_lake"
NOW = 1234.5


class LakeRole(FakeRole):
    def __init__(self) -> None:
        super().__init__()
        self.journal = TRANSACTIONS

    def latest_image(self) -> Path:
        return Path(f"/name/current/fsimage_{self.journal}")

    def segments(self) -> list[EditLogSegment]:
        return [
            EditLogSegment(1, 2, Path("/shared/current/edits_1-2")),
            EditLogSegment(3, 4, Path("/shared/current/edits_3-4")),
            EditLogSegment(5, None, Path("/open/current/edits_inprogress_5")),
        ]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def appender(lake: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeAppender]:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    values = {"checkpointer.lake.dir": str(lake), "checkpointer.lake.images.retained": "7"}
    config = replace(standby_config(**values), conf_dir=Path("/etc/site"))
    made = LakeAppender(config, module=lambda: MODULE, wall=lambda: NOW)
    yield made
    made.stop()


def calls(lake: Path) -> list[str]:
    return (lake / "calls").read_text().splitlines() if (lake / "calls").exists() else []


def appends(appender: LakeAppender) -> int:
    return appender.state.appends if appender.state else 0


def test_checkpoint_starts_an_append(appender: LakeAppender, lake: Path) -> None:
    role = LakeRole()
    service = CheckpointService(role, standby_config(), lake=appender)
    assert service.poll().state is TriggerState.DONE
    wait_until("the append", lambda: appends(appender) == 1)
    (call,) = calls(lake)
    assert (lake / "conf").read_text() == "/etc/site"
    assert call == (
        f"append --image /name/current/fsimage_{role.journal} --retain 7 --master local[2] --driver-memory 1g"
        f" --edits /shared/current -- {lake}"
    )
    assert service.status()["lake"] == {
        "directory": str(lake),
        "running": False,
        "appendedAt": NOW,
        "appends": 1,
        "failures": 0,
        "error": "",
    }


def test_append_can_read_an_image_that_is_purged_meanwhile(appender: LakeAppender, lake: Path) -> None:
    stored = lake / "name" / "current" / "fsimage_7"
    stored.parent.mkdir(parents=True)
    stored.write_bytes(b"image")
    role = LakeRole()
    role.latest_image = lambda: stored  # type: ignore[method-assign]
    (lake / "wait").touch()
    appender.offer(role)
    wait_until("the append", lambda: len(calls(lake)) == 1)
    stored.unlink()
    linked = Path(calls(lake)[0].split()[2])
    assert (linked.name, linked.read_bytes()) == (stored.name, b"image")
    (lake / "wait").unlink()
    wait_until("the append", lambda: appends(appender) == 1)
    wait_until("the link to be removed", lambda: not linked.exists())


def test_append_without_a_directory_of_edits(
    appender: LakeAppender, lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    role = LakeRole()
    role.segments = lambda: []  # type: ignore[method-assign]
    appender.reconfigure(
        standby_config(**{"checkpointer.lake.dir": str(lake), "dfs.namenode.shared.edits.dir": "qjournal://a;b;c/ns"})
    )
    caplog.set_level("INFO")
    appender.offer(role)
    wait_until("the append", lambda: appends(appender) == 1)
    (call,) = calls(lake)
    assert "--edits" not in call
    assert "the edits in qjournal://a:8485;b:8485;c:8485/ns are not in a directory" in caplog.text


def test_only_the_newest_pending_append_runs(appender: LakeAppender, lake: Path) -> None:
    role = LakeRole()
    (lake / "wait").touch()
    for role.journal in (10, 20, 30):
        appender.offer(role)
        wait_until("the append", lambda: len(calls(lake)) == 1)
    assert appender.state is not None
    assert appender.state.running
    (lake / "wait").unlink()
    wait_until("the append", lambda: appends(appender) == 2)
    assert [call.split()[2] for call in calls(lake)] == ["/name/current/fsimage_10", "/name/current/fsimage_30"]


def test_failed_append_is_an_alarm_until_one_succeeds(appender: LakeAppender, lake: Path) -> None:
    role = LakeRole()
    service = CheckpointService(role, standby_config(), lake=appender)
    (lake / "fail").touch()
    assert service.poll().state is TriggerState.DONE
    wait_until("the append", lambda: bool(appender.alarms()))
    status = service.status()
    assert status["alarms"] == [f"appending to the lake {lake} failed: the disk is full"]
    assert status["failures"] == 0
    assert service.ready().ok
    assert (status["lake"]["error"], status["lake"]["failures"]) == ("the disk is full", 1)
    (lake / "fail").unlink()
    appender.offer(role)
    wait_until("the append", lambda: not appender.alarms())


def test_stop_ends_a_running_append(appender: LakeAppender, lake: Path) -> None:
    (lake / "wait").touch()
    service = CheckpointService(LakeRole(), standby_config(), lake=appender)
    service.poll()
    wait_until("the append", lambda: len(calls(lake)) == 1)
    service.stop()
    assert appender.state is not None
    assert not appender.state.running
    assert appender.alarms() == []
    appender.offer(LakeRole())
    assert len(calls(lake)) == 1


def test_append_without_an_image_is_a_failure(appender: LakeAppender) -> None:
    appender.offer(FakeRole())
    wait_until("the failure", lambda: bool(appender.alarms()))
    assert "no image" in appender.alarms()[0]


def test_no_append_without_a_lake_or_its_module(lake: Path) -> None:
    none = LakeAppender(standby_config(), module=lambda: MODULE)
    none.offer(FakeRole())
    assert none.state is None
    assert none.alarms() == []
    missing = LakeAppender(standby_config(**{"checkpointer.lake.dir": str(lake)}), module=lambda: "")
    missing.offer(LakeRole())
    wait_until("the append", lambda: bool(missing.alarms()))
    assert "installed" in missing.alarms()[0]
    missing.stop()


def test_lake_settings_apply_to_a_running_daemon(appender: LakeAppender, lake: Path) -> None:
    assert {"lake_directory", "lake_images_retained", "lake_master", "lake_driver_memory"} <= RELOADABLE
    other = lake / "other"
    other.mkdir()
    appender.reconfigure(replace(standby_config(), lake_directory=str(other)))
    appender.offer(LakeRole())
    wait_until("the append", lambda: appends(appender) == 1)
    assert len(calls(other)) == 1


@pytest.mark.parametrize("other", ["", "/another/lake"])
def test_error_of_a_lake_does_not_outlive_its_setting(appender: LakeAppender, lake: Path, other: str) -> None:
    (lake / "fail").touch()
    appender.offer(LakeRole())
    wait_until("the alarm", lambda: bool(appender.alarms()))
    appender.reconfigure(replace(standby_config(), lake_directory=str(lake)))
    assert appender.alarms()
    appender.reconfigure(replace(standby_config(), lake_directory=other))
    assert appender.alarms() == []


def test_running_append_to_a_previous_lake_raises_no_alarm(
    appender: LakeAppender, lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    other = lake / "other"
    other.mkdir()
    (lake / "wait").touch()
    (lake / "fail").touch()
    appender.offer(LakeRole())
    wait_until("the append", lambda: len(calls(lake)) == 1)
    appender.reconfigure(replace(standby_config(), lake_directory=str(other)))
    (lake / "wait").unlink()
    wait_until("the end", lambda: f"the append to the previous lake {lake} ended: the disk is full" in caplog.messages)
    assert appender.alarms() == []
    assert appender.state is not None
    assert (appender.state.failures, appender.state.error) == (0, "")
    appender.offer(LakeRole())
    wait_until("the append", lambda: appends(appender) == 1)
    assert len(calls(other)) == 1


def test_pending_append_to_a_removed_lake_does_not_run(appender: LakeAppender, lake: Path) -> None:
    role = LakeRole()
    (lake / "wait").touch()
    for role.journal in (10, 20):
        appender.offer(role)
        wait_until("the append", lambda: len(calls(lake)) == 1)
    appender.reconfigure(standby_config())
    (lake / "wait").unlink()
    wait_until("the end", lambda: not appender._children.running and appender._children._pending is None)
    other = lake / "other"
    other.mkdir()
    appender.reconfigure(replace(standby_config(), lake_directory=str(other)))
    appender.offer(role)
    wait_until("the append", lambda: appends(appender) == 1)
    assert (len(calls(lake)), len(calls(other))) == (1, 1)
    assert appender.alarms() == []


def test_installed_module_is_found() -> None:
    assert find_module() in {"", "pipeline.lake"}


def test_append_error_does_not_fail_the_checkpoint(appender: LakeAppender) -> None:
    role = LakeRole()
    role.segments = lambda: (_ for _ in ()).throw(StorageError("unreadable"))  # type: ignore[method-assign]
    service = CheckpointService(role, standby_config(), lake=appender)
    assert service.poll().state is TriggerState.DONE
    assert "unreadable" in appender.alarms()[0]
