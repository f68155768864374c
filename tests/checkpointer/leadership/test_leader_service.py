"""A service that leads, stands by or loses its lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from checkpointer.daemon.lake import LakeAppender
from checkpointer.daemon.service import CheckpointService
from checkpointer.daemon.upload_forecast import UploadForecast
from checkpointer.leadership.leadership import Leadership
from checkpointer.leadership.leadership_state import Leader
from checkpointer.leadership.lock_backend import LockBackend, LockOutcome
from checkpointer.transfer.image_acceptance import ImageAcceptance
from checkpointer.transfer.upload_target import Upload, UploadTarget
from engine.errors import CheckpointCancelledError
from engine.healing import HealedFault
from engine.observer import Observer
from hadoop_common.errors import HdfsError, StorageError
from hadoop_common.names import ImageKind
from node_state.state import CheckpointRecord
from servlets.status import TriggerState
from site_config.leadership import LeaderSettings
from tests.checkpointer.leader_support import ANOTHER, ME, OTHER
from tests.checkpointer.service_support import PERIOD, START, TRANSACTIONS, Clock, FakeRole, standby_config
from tests.namenode_stub.stub_support import wait_until


class FakeBackend:
    """A lock backend that returns the responses set by a test."""

    def __init__(self) -> None:
        self.answer: tuple[LockOutcome, Leader | None] | None = (LockOutcome.ACQUIRED, None)
        self.validity = float("inf")
        self.asked = threading.Event()
        self.on_ask: Callable[[], object] = lambda: None

    def ask(self, me: Leader) -> tuple[LockOutcome, Leader | None]:
        self.asked.set()
        self.on_ask()
        if self.answer is None:
            raise HdfsError("nobody answers")
        return self.answer

    def close(self) -> None:
        """Do nothing."""


class WarmRole(FakeRole):
    """A role that counts calls of `keep_up`. Each upload calls `sending`; `cut` shows whether the upload was
    cancelled.
    """

    kept_up = 0
    to_end = cut = False

    def sending(self) -> None:
        """Do nothing."""

    def upload(self, cancelled: Callable[[], bool], began: Callable[[], None], *, force: bool) -> Iterator[Upload]:
        self.sending()
        self.cut = cancelled()
        if self.cut:
            raise CheckpointCancelledError("cancelled during the upload")
        return super().upload(cancelled, began, force=force)

    def keep_up(self, cancelled: Callable[[], bool]) -> None:
        self.kept_up += 1
        self.to_end = cancelled()


class Scene:
    def __init__(self, *, required: bool = False, values: Mapping[str, str] | None = None) -> None:
        config = standby_config(**(values or {}))
        self.clock, self.role, self.backend = Clock(), WarmRole(), FakeBackend()
        self.role.wall = self.clock.wall
        chosen = LeaderSettings(file=Path("/lock"), session_timeout=10.0, required=required)
        backend: LockBackend = self.backend
        self.leadership = Leadership(chosen, ME, backend=backend, clock=self.clock)
        self.namenode = ImageAcceptance(version="3.4.1", state="active", last_at=START, last_txid=0)
        # NameNodes whose reports differ from `namenode`
        self.others: dict[str, ImageAcceptance] = {}
        forecast = UploadForecast(
            standby_config(), ask=lambda address, **_: self.others.get(address, self.namenode), wall=self.clock.wall
        )
        self.service = CheckpointService(
            self.role,
            config,
            lake=LakeAppender(config, module=lambda: ""),
            clock=self.clock,
            wall=self.clock.wall,
            leadership=self.leadership,
            forecast=forecast,
        )
        self.role.journal = TRANSACTIONS

    def says(self, answer: tuple[LockOutcome, Leader | None] | None) -> None:
        self.backend.answer = answer
        self.leadership.ask()


def test_only_the_leader_makes_checkpoints() -> None:
    scene = Scene()
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    result = scene.service.poll()
    assert (result.state, scene.role.merges, scene.role.kept_up) == (TriggerState.SKIPPED, 0, 1)
    assert result.message == f"another checkpointer is the leader: {OTHER}"
    asked = scene.service.request(force=True, wait=True)
    assert asked.state is TriggerState.UNAVAILABLE
    assert asked.details["hint"].startswith("Request the checkpoint on the leader's host")
    assert f"is not the leader; {OTHER} is the leader" in scene.service.ready().message
    assert scene.service.ready().ok
    scene.says((LockOutcome.ACQUIRED, None))
    assert scene.service.poll().state is TriggerState.DONE
    reported = scene.service.status()["leader"]
    assert (reported["claim"], reported["terms"], reported["leader"]) == ("leading", 1, str(ME))


def test_every_standby_makes_a_rollback_image_but_only_the_leader_uploads() -> None:
    """Without the image, the tail of the standby would wait until the daemon leads."""
    scene = Scene()
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    scene.role.urgent = "a rolling upgrade waits for fsimage_rollback_7"
    scene.role.fault = StorageError("the disk is full")
    assert scene.service.poll().state is TriggerState.FAILED
    scene.role.fault = None
    # the retry waits as after any other failure
    assert (scene.service.poll().state, scene.role.merges) == (TriggerState.SKIPPED, 0)
    scene.clock.now += PERIOD
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    assert (scene.service.poll().state, scene.role.merges) == (TriggerState.SKIPPED, 1)
    status = scene.service.status()
    assert (status["checkpoints"], status["uploads"]) == (1, 0)
    scene.role.urgent = ""
    scene.role.journal += TRANSACTIONS
    assert (scene.service.poll().state, scene.role.merges) == (TriggerState.SKIPPED, 1)


def stand_by(scene: Scene) -> CheckpointRecord:
    """Let another daemon lead and make a checkpoint; return this daemon's record after its next poll."""
    scene.clock.now += PERIOD
    scene.namenode = replace(scene.namenode, last_at=scene.clock.wall())
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    scene.service.jobs()[0].run()
    assert scene.service.poll().state is TriggerState.SKIPPED
    return scene.service.state().record


def test_faults_of_a_leader_are_cleared_once_another_daemon_leads() -> None:
    scene = Scene()
    scene.role.upload_fault = StorageError("cannot be compared now")
    for _ in range(2):
        scene.says((LockOutcome.ACQUIRED, None))
        assert scene.service.poll().state is TriggerState.FAILED
        (target,) = scene.role.targets
        scene.role.targets = (target.failed(ImageKind.IMAGE, "connection reset", at=1.0, now=0.0, wait=0.0),)
        scene.clock.now += 1
    assert list(scene.service.state().alarm_kinds.values()) == ["attempts", "upload"]
    record = stand_by(scene)
    assert (scene.service.ready().ok, scene.service.state().alarms) == (True, ())
    assert [each.failures for each in scene.service.state().targets] == [0]
    assert record.recovered_at == scene.clock.wall() > (record.last_error_at or 0)


def test_held_image_is_cleared_once_another_daemon_uploads() -> None:
    scene = Scene()
    scene.says((LockOutcome.ACQUIRED, None))
    scene.service.jobs()[0].run()
    scene.role.uploads = [replace(scene.role.uploads[0], txid=TRANSACTIONS)]
    scene.role.healed = (HealedFault("diff-deleted", "SNAPSHOT_DIFF", 7, "/s", "a link: kept"),)
    assert scene.service.poll().state is TriggerState.DONE
    stand_by(scene)
    assert list(scene.service.state().alarm_kinds.values()) == ["healed"]
    scene.role.targets = (replace(scene.role.targets[0], held=TRANSACTIONS),)
    assert [each.held_txid for each in scene.service.state().targets] == [TRANSACTIONS]
    scene.namenode = replace(scene.namenode, last_txid=9 * TRANSACTIONS)
    stand_by(scene)
    assert [each.held_txid for each in scene.service.state().targets] == [-1]
    assert scene.service.state().alarms == ()


def test_alarms_of_lake_and_report_end_when_the_daemon_stands_by(tmp_path: Path) -> None:
    """Neither the lake nor the daily report keeps its alarm, because only the leader repeats this work."""
    reports = {"checkpointer.report.daily": "true", "checkpointer.report.dir": str(tmp_path)}
    scene = Scene(values={"checkpointer.lake.dir": "/lake", **reports})
    scene.says((LockOutcome.ACQUIRED, None))
    scene.service.poll()
    # this role has no image, and no program for lakes is installed
    wait_until("both alarms", lambda: set(scene.service.state().alarm_kinds.values()) == {"lake", "report"})
    stand_by(scene)
    assert scene.service.state().alarms == ()


def test_follower_records_the_recovery_of_its_faults() -> None:
    scene = Scene()
    stand_by(scene)
    scene.clock.now += PERIOD + 1
    scene.role.read_fault = StorageError("disk failed")
    assert scene.service.poll().state is TriggerState.FAILED
    scene.role.read_fault = None
    failed = scene.service.state().record
    assert (failed.last_error, failed.recovered_at) == ("disk failed", None)
    recovered = stand_by(scene)
    assert recovered.recovered_at == scene.clock.wall()
    scene.clock.now += 1
    scene.service.job_done("reports")
    assert scene.service.state().record.recovered_at == recovered.recovered_at
    scene.service.job_failed("reports", StorageError("disk failed"))
    scene.clock.now += 1
    scene.service.job_done("reports")
    assert scene.service.state().record.recovered_at == scene.clock.wall()


def test_follower_makes_a_checkpoint_if_the_leader_is_late() -> None:
    scene = Scene()
    patience = 1.5 * PERIOD + 10 + standby_config().poll_interval + 10
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    scene.clock.now = patience - 1
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    assert scene.service.poll().state is TriggerState.SKIPPED
    scene.clock.now = patience + 1
    # the image has the same age, but this daemon has just become the leader
    scene.says((LockOutcome.HELD_BY_OTHER, ANOTHER))
    assert scene.service.poll().state is TriggerState.SKIPPED
    scene.clock.now = 2 * patience + 2
    scene.says((LockOutcome.HELD_BY_OTHER, ANOTHER))
    assert scene.service.poll().state is TriggerState.DONE


def test_set_back_clock_delays_the_leader_by_at_most_a_period() -> None:
    scene = Scene()
    scene.role.journal = 1
    # according to the clock of this host, the newest image is from the next day
    scene.role.written_at = START + 86_400
    scene.says((LockOutcome.ACQUIRED, None))
    assert scene.service.poll().state is TriggerState.SKIPPED
    scene.clock.now = PERIOD
    scene.says((LockOutcome.ACQUIRED, None))
    result = scene.service.poll()
    assert (result.state, result.details["reason"]) == (TriggerState.DONE, "period")


def test_former_leader_keeps_up_and_checks_before_leading_again() -> None:
    scene = Scene()
    scene.says((LockOutcome.ACQUIRED, None))
    scene.service.poll()
    assert scene.role.kept_up == 1
    scene.service.poll()
    assert scene.role.kept_up == 1
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    scene.service.poll()
    assert (scene.role.kept_up, scene.role.to_end) == (2, False)
    scene.says((LockOutcome.ACQUIRED, None))
    scene.service.poll()
    assert scene.role.kept_up == 3


def test_loss_of_the_lock_ends_the_merge() -> None:
    scene = Scene()
    scene.says((LockOutcome.ACQUIRED, None))
    seen: list[bool] = []

    def during(observer: Observer) -> None:
        seen.append(observer.cancelled())
        scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
        seen.append(observer.cancelled())

    scene.role.during = during
    scene.service.poll()
    assert seen == [False, True]


def test_image_merged_by_a_former_leader_is_not_uploaded() -> None:
    scene = Scene()
    scene.says((LockOutcome.ACQUIRED, None))
    scene.role.during = lambda observer: scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    result = scene.service.poll()
    assert result.state is TriggerState.UNAVAILABLE
    assert scene.service.status()["uploads"] == 0


def test_upload_waits_a_session_timeout_if_the_backend_is_silent() -> None:
    """If ZooKeeper is unavailable, the last leader continues once a session timeout has passed."""
    scene = Scene()
    scene.says((LockOutcome.ACQUIRED, None))

    def during(observer: Observer) -> None:
        scene.says(None)
        scene.clock.now += 11

    scene.role.during = during
    assert scene.service.poll().state is TriggerState.DONE
    assert scene.service.status()["uploads"] == 1


def test_upload_ends_when_the_lease_expires() -> None:
    """Another daemon may then have the lock. Once the backend is known to be unavailable, the image is sent again."""
    scene = Scene()
    scene.says((LockOutcome.ACQUIRED, None))

    def sending() -> None:
        scene.clock.now += 5
        scene.says(None)
        scene.clock.now += 5

    scene.role.sending = sending  # type: ignore[method-assign]
    assert scene.service.poll().state is TriggerState.UNAVAILABLE
    assert (scene.role.merges, scene.role.cut, scene.service.status()["uploads"]) == (1, True, 0)
    scene.role.sending = lambda: None  # type: ignore[method-assign]
    scene.clock.now += 5
    scene.service.poll()
    assert (scene.role.merges, scene.role.cut, scene.service.status()["uploads"]) == (1, False, 1)


def test_isolated_leader_stands_by_once_another_daemon_uploads() -> None:
    scene = Scene()
    scene.service.jobs()[0].run()
    scene.says((LockOutcome.ACQUIRED, None))
    assert scene.service.poll().state is TriggerState.DONE
    scene.role.journal += TRANSACTIONS
    scene.says(None)
    scene.clock.now += 20
    scene.says(None)
    assert scene.service.poll().state is TriggerState.DONE
    # an image of another daemon
    taken_at = scene.clock.wall() + 1
    scene.namenode = replace(scene.namenode, last_at=taken_at, last_txid=scene.role.journal + TRANSACTIONS)
    scene.role.journal += 2 * TRANSACTIONS
    scene.clock.now += 20
    result = scene.service.poll()
    assert (result.state, scene.role.merges) == (TriggerState.SKIPPED, 2)
    assert "another checkpointer was the leader" in result.message
    scene.says((LockOutcome.ACQUIRED, None))
    assert scene.service.poll().state is TriggerState.DONE


def test_isolated_leader_continues_after_the_own_image_of_a_standby_namenode() -> None:
    scene = Scene()
    standby = scene.others["http://nn2:9870"] = replace(scene.namenode, state="standby")
    scene.role.targets += (UploadTarget("http://nn2:9870"),)
    scene.service.jobs()[0].run()
    scene.says((LockOutcome.ACQUIRED, None))
    assert scene.service.poll().state is TriggerState.DONE
    scene.role.journal += TRANSACTIONS
    scene.says(None)
    scene.clock.now += 20
    scene.says(None)
    newer = replace(standby, last_at=scene.clock.wall(), last_txid=scene.role.journal)
    scene.others["http://nn2:9870"] = newer
    assert scene.service.poll().state is TriggerState.DONE
    # after a failover, the NameNode still has only its own image
    scene.others["http://nn2:9870"] = active = replace(newer, state="active")
    scene.role.journal += TRANSACTIONS
    assert scene.service.poll().state is TriggerState.DONE
    # an image of another daemon
    scene.clock.now += 20
    scene.role.journal += 2 * TRANSACTIONS
    scene.others["http://nn2:9870"] = replace(active, last_at=scene.clock.wall(), last_txid=scene.role.journal)
    assert (scene.service.poll().state, scene.role.merges) == (TriggerState.SKIPPED, 3)


def test_new_leader_reports_when_the_period_ends() -> None:
    scene = Scene()
    scene.role.journal = 1
    assert scene.service.due_in() is None
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    scene.service.poll()
    assert scene.service.due_in() is None
    scene.says((LockOutcome.ACQUIRED, None))
    scene.clock.now += 5
    scene.leadership.ask()
    assert scene.service.due_in() == PERIOD - 5
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    scene.clock.now = PERIOD + 1
    scene.says((LockOutcome.HELD_BY_OTHER, OTHER))
    assert scene.service.poll().state is TriggerState.SKIPPED
    scene.says((LockOutcome.ACQUIRED, None))
    assert scene.service.due_in() == 0
    # the image cannot be made now; the next poll makes it
    scene.role.read_fault = StorageError("it is away")
    assert scene.service.poll().state is TriggerState.FAILED
    assert scene.service.due_in() is None
    scene.role.read_fault = None
    assert scene.service.poll().state is TriggerState.DONE
    assert scene.service.due_in() == PERIOD
    scene.role.journal += 1
    assert scene.service.poll().state is TriggerState.SKIPPED
    scene.clock.now += PERIOD
    scene.says((LockOutcome.KEPT, None))
    assert scene.service.due_in() == 0


def test_hanging_lock_backend_counts_as_away() -> None:
    """A file on NFS hangs if its server has failed, but checkpoints continue."""
    scene = Scene()
    scene.says((LockOutcome.ACQUIRED, None))
    scene.backend.asked.clear()
    answer = threading.Event()
    scene.backend.on_ask = lambda: answer.wait(600)
    with ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(scene.leadership.ask)
            assert scene.backend.asked.wait(600)
            scene.clock.now += 5
            scene.leadership.check_backend()
            # the process was frozen, so a missing response in that time does not count as silence
            scene.clock.now += 100
            assert scene.service.poll().state is TriggerState.SKIPPED
            scene.leadership.check_backend()
            scene.clock.now += 5
            assert scene.service.poll().state is TriggerState.SKIPPED
            scene.clock.now += 6
            assert scene.service.poll().state is TriggerState.DONE
            assert "does not answer" in scene.service.status()["leader"]["problem"]
        finally:
            answer.set()
    scene.says((LockOutcome.KEPT, None))
    assert scene.service.status()["leader"]["claim"] == "leading"


def test_late_failure_after_a_freeze_leaves_the_lock_uncertain() -> None:
    """Another daemon may already lead, because the late failure of the request proves nothing about the time before
    it.
    """
    scene = Scene()
    scene.says((LockOutcome.ACQUIRED, None))

    def sleep() -> None:
        scene.clock.now += 100

    scene.backend.on_ask = sleep
    scene.says(None)
    assert scene.service.status()["leader"]["claim"] == "uncertain"


def test_background_thread_detects_a_silent_backend(tmp_path: Path) -> None:
    backend, answer = FakeBackend(), threading.Event()
    backend.on_ask = lambda: answer.wait(600)
    leadership = Leadership(LeaderSettings(file=tmp_path / "lock", session_timeout=0.2), ME, backend=backend)
    leadership.start()
    try:
        wait_until("it", lambda: leadership.state().claim == "away")  # type: ignore[union-attr]
    finally:
        answer.set()
        leadership.stop()


def test_no_checkpoint_without_a_required_lock() -> None:
    scene = Scene(required=True)
    scene.says(None)
    scene.clock.now += 100 * PERIOD
    result = scene.service.poll()
    assert (result.state, scene.role.merges) == (TriggerState.SKIPPED, 0)
    assert "checkpointer.leader.required" in result.message
    asked = scene.service.request(force=True, wait=True)
    assert asked.details["hint"].startswith("Restore the service that stores the lock")


def test_background_thread_acquires_the_lock_and_releases_it_at_its_end(tmp_path: Path) -> None:
    chosen = LeaderSettings(file=tmp_path / "lock", session_timeout=600.0)
    first, second = (Leadership.of(chosen, "standby", f"{name}:1") for name in "ab")
    taken: list[str] = []
    first.start(lambda: taken.append("lock"))
    # `start` waits for the first response, but not for the callback
    wait_until("the call", lambda: taken == ["lock"])
    assert first.state().claim == "leading"  # type: ignore[union-attr]
    first.stop()
    second.start()
    assert second.state().claim == "leading"  # type: ignore[union-attr]
    second.stop()
