"""Decisions of the checks of a daemon: age of the image, transactions, alarms and archive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkpointer.checks.facts import DaemonFacts, Observation
from checkpointer.checks.registry import perform
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import State
from node_state.state import ArchiveState, CheckpointBlock, CheckpointRecord, NodeState
from tests.checkpointer.check_facts import BY_NAME, DOWN, NOW, daemon, decide, down, facts, image, namenode


@pytest.mark.parametrize(
    ("age", "state"), [(7200, State.OK), (7201, State.WARNING), (10_800, State.WARNING), (10_801, State.CRITICAL)]
)
def test_age_check(age: int, state: State) -> None:
    assert decide("age", image=image(modified=NOW - age)).state is state
    beans = Observation({"LastCheckpointTime": int((NOW - age) * 1000)})
    found = decide("age", namenodes=(namenode(beans=beans),))
    assert found.state is state
    assert str(found.metrics[0]) == f"age={age}s;7200;10800"


def test_age_check_reports_a_clock_difference() -> None:
    beans = Observation({"LastCheckpointTime": int((NOW + 7200) * 1000)})
    found = decide("age", namenodes=(namenode(beans=beans),))
    assert found.state is State.WARNING
    assert found.summary == "the time of the last checkpoint is 2 h 0 min ahead of this host's clock"
    assert found.details[:1] == ("http://nn1:9870 reports 2 h 0 min ahead of this host's clock",)
    assert "NTP" in found.hint
    assert decide("age", image=image(modified=NOW + 60)).state is State.OK


@pytest.mark.parametrize(
    ("ahead", "age", "state"),
    [(7200, 5, State.WARNING), (-7200, 5, State.WARNING), (7200, 7201, State.WARNING), (7200, 10_801, State.CRITICAL)],
)
def test_age_check_uses_the_clock_of_the_namenode(ahead: float, age: int, state: State) -> None:
    beans = Observation({"LastCheckpointTime": int((NOW + ahead - age) * 1000)})
    found = decide("age", namenodes=(namenode(beans=beans, clock_ahead=ahead),))
    assert (found.state, found.metrics[0].value) == (state, age)
    side = "ahead of" if ahead > 0 else "behind"
    assert found.summary.endswith(f"; the clock of http://nn1:9870 is 2 h 0 min {side} this host's clock")
    assert ("NTP" in found.hint) is (age == 5)


@pytest.mark.parametrize(("at", "age"), [(NOW - 5, 5), (NOW - 700, 660), (None, 660)])
def test_age_check_uses_the_newer_report_of_daemon_and_namenode(at: float | None, age: int) -> None:
    """/jmx is cached for a while; the daemon has recorded which images the NameNode has accepted in the meantime."""
    beans = Observation({"LastCheckpointTime": int((NOW - 660) * 1000)})
    daemon = DaemonFacts(url="http://localhost:9868", status=Observation(NodeState(role="secondary", checkpoint_at=at)))
    (metric,) = decide("age", namenodes=(namenode(beans=beans),), daemon=daemon).metrics
    assert metric.value == age


def test_age_check_without_later_transactions() -> None:
    idle = namenode(checkpoint_txid=Observation(100))
    assert decide("age", image=image(modified=0.0), namenodes=(idle,)).state is State.OK


def test_daemon_check_repeats_the_next_step_of_an_alarm() -> None:
    status = NodeState(role="secondary", alarms=("it is full",), next_steps={"it is full": "Free space."})
    daemon = DaemonFacts(
        url="http://here",
        live=Observation((True, "running")),
        ready=Observation((False, "it is full")),
        status=Observation(status),
    )
    verdict = decide("daemon", daemon=daemon)
    assert (verdict.state, verdict.hint) == (State.WARNING, "Free space.")


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        ({"cancelled": CheckpointBlock(reason="maintenance", seconds_left=60.0)}, "--cancel --minutes 0"),
        (
            {
                "error": "nn1:8020 did not answer",
                "alarms": ("nn1:8020 did not answer",),
                "next_steps": {"nn1:8020 did not answer": "Check nn1."},
                "ready": False,
            },
            "Check nn1.",
        ),
        ({"record": CheckpointRecord(last_error="upload failed", last_error_at=NOW - 30)}, "The daemon's log"),
    ],
)
def test_daemon_check_hint_depends_on_the_reason(status: dict[str, Any], hint: str) -> None:
    state = Observation(NodeState(role="secondary", **status))
    ready: Observation[Any] = Observation((not state.value.error, state.value.error)) if state.value else DOWN
    (outcome,) = perform([BY_NAME["daemon"]], facts(**daemon(status=state, ready=ready)), Thresholds())
    assert outcome.verdict.state is State.WARNING
    assert hint in outcome.hint
    assert "systemctl" not in outcome.hint


def test_age_check_without_any_age() -> None:
    nobody = {"image": Observation(error="no image"), "namenodes": (down(),)}
    assert decide("age", **nobody).state is State.UNKNOWN


def test_age_is_not_negative_if_the_clock_is_behind() -> None:
    assert decide("age", image=image(modified=NOW + 50)).metrics[0].value == 0


def test_transactions_check() -> None:
    many = {"namenodes": (namenode(checkpoint_txid=Observation(0), last_txid=Observation(101)),)}
    assert decide("transactions").state is State.OK
    assert decide("transactions", **many).state is State.WARNING
    assert decide("transactions", Thresholds(critical={"transactions": 100.0}), **many).state is State.CRITICAL
    assert decide("transactions", namenodes=(down(),)).state is State.UNKNOWN


def test_noncritical_check_is_at_most_a_warning() -> None:
    made = replace(BY_NAME["daemon"], critical=False)
    gone = facts(daemon=DaemonFacts(url="http://x", live=DOWN))
    assert perform([made], gone, Thresholds())[0].verdict.state is State.WARNING


def test_transactions_check_uses_the_active_namenode() -> None:
    standby = namenode(1, state=Observation("STANDBY"), last_txid=Observation(500))
    assert decide("transactions", namenodes=(standby, namenode(2))).metrics[0].value == 10
    # without an active NameNode, a standby whose own image is old does not count
    old, new = (
        namenode(n, state=Observation("STANDBY"), checkpoint_txid=Observation(txid)) for n, txid in ((1, 0), (2, 95))
    )
    assert decide("transactions", namenodes=(old, new)).metrics[0].value == 5


def archived(**values: Any) -> Observation[NodeState]:
    known = {
        "directory": "/a",
        "branch": "main",
        "archived_txid": 90,
        "restorable_txid": 90,
        "lag_transactions": 3,
        "lag_seconds": 2.0,
    }
    state = NodeState(role="standby", archive=ArchiveState(**{**known, **values}))
    if error := state.archive and state.archive.error:
        state = replace(
            state, alarms=(f"not being filled: {error}",), next_steps={f"not being filled: {error}": "free space"}
        )
    if values.get("lag_seconds"):
        state = replace(state, alarm_kinds={"/a has been incomplete for 400 s": "archive"})
    return Observation(state)


@pytest.mark.parametrize(
    ("status", "state", "word"),
    [
        (Observation(NodeState(role="standby")), State.OK, "is not set"),
        (
            archived(),
            State.OK,
            "every moment of branch main up to transaction 90, 3 transactions behind, complete 2 s ago",
        ),
        (archived(missing_transactions=4), State.OK, "a purge removed 4 transactions before they were archived"),
        (archived(missing_transactions=4, restorable_txid=80), State.WARNING, "a purge removed 4 transactions"),
        (archived(restorable_txid=-1), State.WARNING, "no image"),
        (archived(branch=""), State.WARNING, "not known yet whether /a contains the present history"),
        (archived(error="disk full"), State.WARNING, "/a is not being filled: disk full"),
        (archived(lag_seconds=400.0), State.WARNING, "has been incomplete"),
        (DOWN, State.UNKNOWN, "refused"),
    ],
)
def test_archive_check(status: Observation[NodeState], state: State, word: str) -> None:
    found = decide("archive", **daemon(status=status))
    assert found.state is state
    assert word in found.summary
    assert (found.hint == "free space") == ("disk full" in word)


def failed(error: str, **record: float) -> Observation[NodeState]:
    record["last_error_at"] = NOW - 30
    return Observation(NodeState(role="secondary", record=CheckpointRecord(last_error=error, **record)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "state", "word"),
    [
        ({"live": DOWN}, State.CRITICAL, "does not answer"),
        ({"live": Observation((False, "stopping"))}, State.CRITICAL, "stopping"),
        ({"ready": Observation((False, "3 periods late"))}, State.WARNING, "3 periods late"),
        ({"ready": DOWN}, State.UNKNOWN, "refused"),
        ({"status": DOWN}, State.UNKNOWN, "refused"),
        ({"status": failed("disk full")}, State.WARNING, "30 s ago: disk full"),
        ({"status": failed("x", saved_at=NOW - 40)}, State.WARNING, "x"),
        ({"status": failed("x", saved_at=NOW - 20)}, State.OK, "ready"),
        ({"status": failed("x", uploaded_at=NOW - 20)}, State.OK, "ready"),
        ({"status": failed("x", recovered_at=NOW - 40)}, State.WARNING, "x"),
        ({"status": failed("x", recovered_at=NOW - 20)}, State.OK, "ready"),
    ],
)
def test_daemon_check(change: dict[str, Any], state: State, word: str) -> None:
    found = decide("daemon", **daemon(**change))
    assert found.state is state
    assert word in found.summary
