"""A day of a secondary in virtual time: its reports are correct at every moment, and its log is short.

The expected state follows from what this test does to the NameNode, the disk and the configuration. The test
repeatedly compares readiness, /status, metrics and `check` with the expected state, and reads the log at the end of
each scene. The test advances the time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastjsonschema
import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from checkpointer.checks.gather import Cluster, gather
from checkpointer.checks.registry import CHECKS, FactGroup, perform
from checkpointer.checks.thresholds import Thresholds
from checkpointer.roles.secondary.role import SecondaryRole
from checkpointer.roles.standby.role import StandbyRole
from checkpointer.transfer.download_retry import DownloadRetry
from hadoop_common.back_off import BackOff
from hadoop_common.configuration import Configuration, ConfigurationError, ConfigurationFault
from hadoop_common.process_control import Control
from journal.segment_file import list_segments
from namenode_stub.node import NameNodeStub
from namenode_stub.ports import free_port
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.checkpointer.standby_support import config_for as standby_beside
from tests.checkpointer.standby_support import write_edits
from tests.checkpointer.virtual_day import DAY, LogBook, Scheduler, VirtualClock, daemon, stamp
from tests.depth import deep
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.namenode_stub.stub_support import formatted, wait_until
from tests.tools.status_schema import FILE

PERIOD = 3600.0
POLL = 60.0 if deep() else 300.0
# interval of comparisons during a scene
LOOK = 300.0 if deep() else 1800.0
LONGEST_WAIT = PERIOD / 4 + POLL
ASKED = ("namenode", "age", "daemon", "space")
VALID = fastjsonschema.compile(json.loads(FILE.read_text()))


class Day:
    """The daemon, its environment, and the expected state."""

    def __init__(
        self, folder: Path, node: NamenodeDouble, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.folder, self.node, self.clock = folder, node, clock
        self._patch = monkeypatch
        self.log = LogBook(clock)
        self.values = {
            "fs.defaultFS": f"hdfs://127.0.0.1:{node.rpc_port}",
            "dfs.namenode.http-address": f"127.0.0.1:{node.http_port}",
            "dfs.namenode.checkpoint.dir": str(folder / "secondary"),
            "dfs.namenode.secondary.http-address": f"127.0.0.1:{free_port()}",
            "dfs.namenode.checkpoint.period": f"{PERIOD:.0f}",
            "dfs.namenode.checkpoint.check.period": f"{POLL:.0f}",
            # measured in real time, which virtual time does not shorten
            "ipc.client.rpc-timeout.ms": "600000",
            "dfs.image.transfer.timeout": "600000",
            "hadoop.user.name": "hdfs",
            "dfs.namenode.resource.du.reserved": "0",
        }
        self.url = f"http://{self.values['dfs.namenode.secondary.http-address']}"
        # the expected state
        self.silent = self.hangs = self.full = self.refusing = self.bad_configuration = self.away = False
        self.cancelled_until = 0.0
        # whether several consecutive attempts have failed
        self.failing = False

    # ---- the daemon ----------------------------------------------------------------------------------------

    def configuration(self) -> Configuration:
        return Configuration.from_mapping(self.values, {})

    def config(self) -> CheckpointConfig:
        if self.bad_configuration:
            problem = "is not a number"
            raise ConfigurationError(
                [ConfigurationFault("hdfs-site.xml", problem, "dfs.namenode.checkpoint.txns", "x")]
            )
        return CheckpointConfig.from_configuration(self.configuration(), Role.SECONDARY)

    @contextmanager
    def life(self) -> Iterator[None]:
        """Run one process of the daemon."""
        config = self.config()
        retry = DownloadRetry(back_off=BackOff(0.001, 0.002))
        self.role = SecondaryRole(config, retry=retry, clock=self.clock.monotonic)
        with daemon(self.role, config, self.clock, self.config) as (scheduler, control):
            self.scheduler: Scheduler = scheduler
            self.control: Control = control
            yield

    def _after(self) -> None:
        stamp(self.folder / "secondary" / "current", self.clock)

    def passes(self, seconds: float) -> None:
        """Advance the time, and compare all reports regularly after a poll."""
        end = self.clock.passed + seconds
        while self.clock.passed < end:
            self.scheduler.run(min(LOOK, end - self.clock.passed), self._after)
            self.agrees()

    def recovers(self, within: float = LONGEST_WAIT) -> None:
        """End a fault; the daemon notices within its longest wait."""
        for _ in range(round(within / POLL) + 1):
            self.scheduler.run(POLL, self._after)
            if self.get("/health/ready").status_code == 200:
                break
        self.agrees()

    # ---- reports -------------------------------------------------------------------------------------------

    def get(self, path: str) -> requests.Response:
        return requests.get(self.url + path, timeout=600)

    def checks(self) -> dict[str, tuple[str, str]]:
        chosen = [check for check in CHECKS if check.name in ASKED]
        parts = frozenset[FactGroup]().union(*(check.needs for check in chosen))
        cluster = Cluster.of(self.configuration(), Role.SECONDARY, parts)
        facts = gather(cluster, parts, limit=3 if self.hangs else 600, clock=self.clock.wall)
        return {
            each.name: (each.verdict.state.name, each.verdict.summary)
            for each in perform(chosen, facts, Thresholds({}, {}))
        }

    def metrics(self) -> dict[str, float]:
        families = text_string_to_metric_families(self.get("/metrics").text)
        return {
            sample.name.removeprefix("hdfs_checkpointer_"): sample.value
            for family in families
            for sample in family.samples
            if not sample.labels
        }

    def agrees(self) -> None:
        """Compare every report with the expected state."""
        age = self.clock.wall() - self.node.checkpointed_at
        late = age > 3 * PERIOD
        ready = not (self.silent or self.away or self.failing or self.refusing or self.full or late)
        answer, status, metrics, checks = self.get("/health/ready"), self.get("/status").json(), self.metrics(), None
        message = answer.json()["message"]
        what = f"at {self.clock.passed:.0f}: {message}"
        VALID(status)
        assert (answer.status_code == 200) == ready, what
        assert (status["ready"], status["message"]) == (ready, message)
        assert metrics["ready"] == ready
        assert metrics["alarms"] == len(status["alarms"])
        # the ages, with a tolerance of two seconds
        assert abs(status["secondsSinceCheckpoint"] - age) < 2, what
        assert abs(metrics["checkpoint_age_seconds"] - age) < 2
        assert abs(metrics["last_checkpoint_timestamp_seconds"] - self.node.checkpointed_at) < 2
        # the reasons
        unread = self.silent or self.away
        assert (status["error"] is not None) == unread, what
        assert [path for path, state in status["storage"].items() if state != "in use"] == (
            [str(self.folder / "secondary")] if self.away else []
        )
        alarms = " | ".join(status["alarms"])
        assert ("no checkpoint for" in alarms) == late, alarms
        assert ("checkpoint failed" in alarms) == self.failing, alarms
        assert ("does not receive the image" in alarms) == self.refusing, alarms
        assert ("no space for a checkpoint" in alarms) == self.full, alarms
        assert (status["transactionsBehind"] is None) == unread, what
        assert ("transactions_since_checkpoint" in metrics) != unread
        assert all(alarm in status["alarms"] for alarm in status["nextSteps"])
        assert ("configuration on disk is invalid" in alarms) == self.bad_configuration, alarms
        held = self.clock.passed < self.cancelled_until
        assert (status["cancelled"] is not None) == held
        # the results of `check`, which a monitoring system uses as a plugin
        checks = self.checks()
        assert (checks["namenode"][0] == "OK") != self.silent, checks
        if not self.silent:
            expected = "CRITICAL" if late else "WARNING" if age > 2 * PERIOD else "OK"
            assert checks["age"][0] == expected, checks
        assert (checks["space"][0] == "OK") != self.full, checks
        state, summary = checks["daemon"]
        assert ("not ready" in summary) != ready, summary
        assert ("cancelled" in summary) == held, summary
        if ready and not held and not self.bad_configuration and not status["lastError"]:
            assert state == "OK", summary

    # ---- events --------------------------------------------------------------------------------------------

    def disk(self, free: int) -> None:
        self.full = free < 1 << 20
        for module in ("storage.disk_space", "checks.ask_storage"):
            self._patch.setattr(
                f"checkpointer.{module}.shutil.disk_usage", lambda path: SimpleNamespace(free=free, total=free)
            )

    @contextmanager
    def hanging(self, step: str) -> Iterator[None]:
        """Make a call of the NameNode hang for longer than the daemon waits."""
        self.node.faults[step] = "hang"
        self.silent = self.hangs = True
        self.role.reconfigure(replace(self.config(), rpc_timeout=1.5))
        yield
        self.role.reconfigure(self.config())
        self.node.faults.clear()
        self.node.release()
        self.node.await_calls()
        self.silent = self.hangs = False

    def reload(self) -> None:
        lines = len(self.log.lines)
        self.control.reload()
        wait_until("the reload", lambda: len(self.log.since(lines, "INFO", "WARNING", "ERROR")) > 0)

    @contextmanager
    def scene(self, *reported: Callable[[str], bool]) -> Iterator[None]:
        """Run a part of the day; check that its log has exactly the warnings, errors and recoveries `reported`."""
        first = len(self.log.lines)
        yield
        lines = [
            line.text
            for line in self.log.lines[first:]
            if line.level != "INFO" or "again" in line.text or "configuration" in line.text
        ]
        assert len(lines) == len(reported), lines
        for line, fits in zip(lines, reported, strict=True):
            assert fits(line), lines


def says(*words: str) -> Callable[[str], bool]:
    return lambda line: all(word in line for word in words)


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    clock = VirtualClock()
    clock.patch(monkeypatch)
    with NamenodeDouble(tmp_path / "name") as node:
        node.now, node.busy = clock.wall, True
        node.checkpointed_at = clock.wall() - 10 * DAY
        found = Day(tmp_path, node, clock, monkeypatch)
        found.disk(1 << 40)
        root = logging.getLogger()
        level = root.level
        root.addHandler(found.log)
        root.setLevel(logging.INFO)
        try:
            yield found
        finally:
            root.removeHandler(found.log)
            root.setLevel(level)


def test_reports_and_log_of_a_day(day: Day) -> None:
    node = day.node
    with day.life():
        with day.scene():
            # the NameNode's image is ten days old, and edits are pending
            day.scheduler.run(1, day._after)
            day.agrees()
            day.passes(POLL)
            assert day.get("/health/ready").status_code == 200
            day.passes(2.5 * PERIOD)
            assert day.get("/status").json()["checkpoints"] >= 3
        with day.scene(
            says("no checkpoint can be made now", "; next: "),
            says("a checkpoint is due, but cannot be made", "; next: "),
            says("the NameNode answers again after", "polls"),
        ):
            node.stop()
            day.silent = True
            day.scheduler.run(POLL, day._after)
            day.passes(1.5 * PERIOD)
            node.start()
            day.silent = False
            day.scheduler.run(POLL, day._after)
            day.passes(2 * POLL)
        with day.scene(says("no checkpoint can be made now"), says("the NameNode answers again after", ", 2 polls")):
            with day.hanging("getTransactionId"):
                day.scheduler.run(2 * POLL, day._after)
                day.agrees()
            day.scheduler.run(POLL, day._after)
            day.agrees()
    age = day.clock.wall() - node.checkpointed_at
    with day.life(), day.scene():
        # a restart does not change the age of the image
        day.scheduler.run(1, day._after)
        assert age <= day.get("/status").json()["secondsSinceCheckpoint"] <= age + 2
        day.agrees()
        day.passes(PERIOD)
    with day.life():
        rolls = node.steps.count("rollEditLog")
        with day.scene(
            says("the next checkpoint will fail: no space for a checkpoint", "; next: "),
            says("checkpoint failed: no space for a checkpoint", "; next: "),
            says("no checkpoint for", "; next: "),
            says("there is space for a checkpoint again after", "polls"),
            says("checkpoints succeed again after", "attempts"),
            says("checkpoints are on time again"),
        ):
            day.disk(4096)
            # two failed attempts are needed first
            while day.get("/status").json()["failuresInRow"] < 2:
                day.scheduler.run(POLL, day._after)
            day.failing = True
            day.passes(3 * PERIOD)
            assert node.steps.count("rollEditLog") == rolls
            day.disk(1 << 40)
            day.failing = False
            day.recovers()
            assert node.steps.count("rollEditLog") == rolls + 1
        with day.scene(
            says("storage directory", "is not used", "; next: "),
            says("storage directory", "its file system may not be mounted; next: Mount"),
            says("no checkpoint can be made now: no checkpoint directory is left", "; next: "),
            says("storage directory", "is used again after"),
            says("storage and journal can be read again after", "polls"),
        ):
            # the disk is not mounted for a while
            elsewhere = (day.folder / "secondary").rename(day.folder / "elsewhere")
            day.away = True
            day.scheduler.run(POLL, day._after)
            day.passes(2 * POLL)
            elsewhere.rename(day.folder / "secondary")
            day.scheduler.run(POLL, day._after)
            day.away = False
            day.passes(POLL)
        with day.scene(
            says("configuration on disk is invalid", "dfs.namenode.checkpoint.txns", "; next: "),
            says("configuration reloaded: dfs.namenode.checkpoint.txns 1000000 → 500000"),
        ):
            day.bad_configuration = True
            day.reload()
            day.passes(LOOK)
            day.bad_configuration = False
            day.values["dfs.namenode.checkpoint.txns"] = "500000"
            day.reload()
            day.passes(LOOK)
        with day.scene(says("checkpoints may begin again after a cancellation: maintenance")):
            post = {"minutes": "90", "reason": "maintenance"}
            assert requests.post(f"{day.url}/cancel", params=post, timeout=600).ok
            day.cancelled_until = day.clock.passed + 90 * 60
            day.passes(90 * 60)
            day.passes(2 * POLL)
        with day.scene(says("upload to", "failed", "; next: "), says("accepts images again after")):
            node.faults["upload"] = 500
            while day.get("/status").json()["targets"][0]["failures"] < 2:
                day.scheduler.run(POLL, day._after)
            day.refusing = True
            day.passes(PERIOD)
            node.faults.clear()
            day.refusing = False
            day.recovers(PERIOD)
        day.passes(max(POLL, DAY - day.clock.passed) if deep() else PERIOD)
    assert day.log.busiest_hour() < 60, day.log.lines
    for line in day.log.lines:
        assert "HTTPConnectionPool" not in line.text
        assert line.level != "ERROR" or "; next: " in line.text, line


def test_checkpoints_continue_after_the_clock_is_set_back(day: Day) -> None:
    with day.life():
        day.passes(PERIOD + POLL)
        made = day.get("/status").json()["checkpoints"]
        with day.scene(says("the clock of this host was set back by 3 h 0 min")):
            day.clock.set_back = 3 * PERIOD
            wait_until("the notice", lambda: any("was set back" in line.text for line in day.log.lines))
            day.scheduler.run(PERIOD + POLL, day._after)
        assert day.get("/status").json()["checkpoints"] == made + 1


def test_jobs_skip_their_missed_runs_after_the_clock_is_set_forward(day: Day) -> None:
    """A list of all missed runs of all jobs would exhaust the memory."""
    with day.life():
        day.passes(PERIOD + POLL)
        made = day.get("/status").json()["checkpoints"]
        day.clock.set_back = -30 * DAY
        now = datetime.fromtimestamp(day.clock.wall(), UTC)
        for job in day.scheduler.get_jobs():
            assert job.trigger.get_next_fire_time(job.next_run_time, now) > now, job.id
        day.scheduler.run(POLL, day._after)
        assert day.get("/status").json()["checkpoints"] == made + 1
        day.agrees()


def test_disk_that_is_full_from_the_start(day: Day) -> None:
    """No checkpoint was ever made, and every attempt fails, so the daemon is not ready, and makes few requests."""
    day.node.checkpointed_at = day.clock.wall() - 60
    day.disk(4096)
    with day.life():
        while day.get("/status").json()["failuresInRow"] < 2:
            day.scheduler.run(POLL, day._after)
        day.failing = True
        day.passes(PERIOD)
        status: dict[str, Any] = day.get("/status").json()
        assert (status["imageTxid"], status["savedAt"], status["checkpoints"]) == (-1, None, 0)
        assert "rollEditLog" not in day.node.steps
        day.disk(1 << 40)
        day.failing = False
        day.recovers()
        assert day.get("/status").json()["checkpoints"] == 1
    assert day.log.busiest_hour() < 60


def test_log_of_a_standby_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults that last for hours: the NameNode or the shared directory is unavailable, or edits are missing."""
    clock = VirtualClock()
    clock.patch(monkeypatch)
    book = LogBook(clock)
    shared, mount = tmp_path / "active" / "shared", tmp_path / "mount"
    mount.symlink_to(shared)
    hours = 4 if deep() else 1.5
    with NameNodeStub(formatted(tmp_path / "active", rpc_address=("127.0.0.1", 0))) as stub:
        times = {"poll_interval": POLL, "tail_period": POLL, "log_roll_period": POLL}
        config = standby_beside(tmp_path, stub, shared_edits=mount.as_uri(), **times)
        role = StandbyRole(config, clock=clock.monotonic, jitter=lambda: 1.0)
        logging.getLogger().addHandler(book)
        monkeypatch.setattr(logging.getLogger(), "level", logging.INFO)
        try:
            with daemon(role, config, clock, lambda: config) as (scheduler, _):

                def passes(seconds: float) -> list[str]:
                    """Return the log lines of a period, except lines about checkpoints."""
                    first = len(book.lines)
                    scheduler.run(seconds, lambda: stamp(tmp_path / "nn2" / "current", clock))
                    return book.since(first, "WARNING", "ERROR")

                write_edits(stub, "a")
                assert passes(hours * PERIOD) == []
                # the shared directory is not mounted
                mount.unlink()
                reported = passes(hours * PERIOD)
                assert 1 <= len(reported) <= 3, reported
                assert all("; next: " in line for line in reported), reported
                assert role.alarms()
                mount.symlink_to(shared)
                assert passes(POLL) == []
                assert role.alarms() == []
                assert "edits are read and applied again after" in book.lines[-1].text
                # edits are missing
                write_edits(stub, "b")
                lost = max(list_segments(shared / "current"), key=lambda each: each.last or 0).path
                away = lost.rename(tmp_path / lost.name)
                write_edits(stub, "c")
                told_of_gap = passes(hours * PERIOD)
                assert 1 <= len(told_of_gap) <= 4, told_of_gap
                assert role.alarms()
                away.rename(lost)
                passes(LONGEST_WAIT)
                assert role.alarms() == []
                # an image for the NameNode exists, but the NameNode is unavailable
                write_edits(stub, "d")
                stub.__exit__(None, None, None)
                told_of_silence = passes(2 * hours * PERIOD)
                assert 1 <= len(told_of_silence) <= 6, told_of_silence
        finally:
            logging.getLogger().removeHandler(book)
    assert book.busiest_hour() < 60, book.lines
