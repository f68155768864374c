"""Decisions of the checks of a daemon: age of the image, transactions, alarms and archive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.checks.checkpoint_checks import coverage
from checkpointer.checks.facts import DaemonFacts, Observation
from checkpointer.checks.registry import perform
from checkpointer.checks.thresholds import Thresholds
from checkpointer.checks.verdict import State
from hadoop_common.names import SegmentName
from node_state.state import CheckpointBlock, CheckpointRecord, NodeState, RoleDetails
from tests.checkpointer.check_facts import BY_NAME, DOWN, NOW, daemon, decide, down, facts, image, journal, namenode


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


@pytest.mark.parametrize(
    ("ours", "segments", "message"),
    [
        (101, (SegmentName(91, 100),), "image at txid 101 is ahead of the NameNode"),
        (95, (SegmentName(91, 100),), "image at txid 95 does not belong to the NameNode's past"),
    ],
)
def test_edits_check_of_an_image_of_another_history(ours: int, segments: tuple[SegmentName, ...], message: str) -> None:
    nodes = (namenode(segments=Observation(segments)),)
    found = decide("edits", namenodes=nodes, image=image(txid=ours))
    assert found.state is State.CRITICAL
    assert message in found.summary
    whole = (namenode(segments=Observation((SegmentName(91, ours), SegmentName(ours + 1, ours + 9)))),)
    assert decide("edits", namenodes=whole, image=image(txid=ours)).state is (
        State.OK if ours <= 100 else State.CRITICAL
    )


@pytest.mark.parametrize(("applied", "state"), [(99, State.WARNING), (70, State.CRITICAL), (None, State.CRITICAL)])
def test_edits_check_of_a_standby_whose_image_is_older_than_the_edits(applied: int | None, state: State) -> None:
    """While another daemon leads, the standby keeps its old image, and the NameNode purges the edits after it."""
    status = Observation(NodeState(role="standby", details=RoleDetails(applied_txid=applied)))
    following = {"daemon": replace(facts().daemon or DaemonFacts(url=""), status=status), "image": image(txid=40)}
    shared = journal(SegmentName(81, 90), SegmentName(91, None))
    (outcome,) = perform([BY_NAME["edits"]], facts(journal=shared, **following), Thresholds())
    assert outcome.verdict.state is state
    assert "our image at txid 40 is too old, because transactions 41-80 are missing" in outcome.verdict.summary
    assert outcome.hint.startswith("The NameNode does not need these edits")
    # these edits follow the NameNode's image, which the daemon fetches immediately or after a restart
    following["rebootstrap"] = True
    (outcome,) = perform([BY_NAME["edits"]], facts(journal=shared, **following), Thresholds())
    assert outcome.verdict.state is (State.OK if state is State.WARNING else State.WARNING)
    assert "fetches the NameNode's image" in outcome.verdict.summary
    assert "A running daemon fetches that image" in outcome.verdict.hint
    assert "Do not restart" not in outcome.hint
    # the NameNode's image ends with the last missing edit
    (last,) = perform([BY_NAME["edits"]], facts(journal=journal(SegmentName(91, None)), **following), Thresholds())
    assert "transactions 41-90 are missing: " in last.verdict.summary
    assert last.verdict.state is outcome.verdict.state
    (lost,) = perform([BY_NAME["edits"]], facts(journal=journal(SegmentName(95, None)), **following), Thresholds())
    assert lost.verdict.state is State.CRITICAL
    assert "Do not restart the NameNode" in lost.hint


@pytest.mark.parametrize(
    ("segments", "gaps", "tail"),
    [
        ([(91, 100)], (), None),
        ([(91, 95), (96, None)], (), None),
        ([(91, 95)], (), (96, 100)),
        ([(96, 100)], ((91, 95),), None),
        ([(1, 92), (90, 95), (98, None)], ((96, 97),), None),
        ([(1, 50)], (), (91, 100)),
        ([], (), (91, 100)),
        ([(91, 120)], (), None),
        ([(101, None)], ((91, 100),), None),
        ([(91, 92), (95, 96), (99, 100)], ((93, 94), (97, 98)), None),
    ],
)
def test_coverage_by_segments(
    segments: list[tuple[int, int | None]], gaps: tuple[tuple[int, int], ...], tail: tuple[int, int] | None
) -> None:
    found = coverage(90, [SegmentName(first, last) for first, last in segments], 100)
    assert (found.gaps, found.tail) == (gaps, tail)


@given(
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(1, 30), st.one_of(st.none(), st.integers(0, 8))), max_size=8),
    st.integers(0, 30),
)
def test_coverage_agrees_with_a_count_of_transactions(
    base: int, drawn: list[tuple[int, int | None]], last: int
) -> None:
    segments = [SegmentName(first, None if size is None else first + size) for first, size in drawn]
    held = {txid for each in segments for txid in range(each.first, (last if each.last is None else each.last) + 1)}
    lacking = set(range(base + 1, last + 1)) - held
    found = coverage(base, segments, last)
    reported = {
        txid for first, end in [*found.gaps, *([found.tail] if found.tail else [])] for txid in range(first, end + 1)
    }
    assert reported == lacking
    if found.tail:
        assert not held & set(range(found.tail[0], last + 1))


@pytest.mark.parametrize(
    ("change", "state", "word"),
    [
        ({"journal": journal(SegmentName(91, 95), SegmentName(96, None))}, State.OK, "no edits are missing"),
        ({"journal": journal(SegmentName(91, 95))}, State.WARNING, "96-100 are not"),
        ({"journal": journal(SegmentName(94, 100))}, State.CRITICAL, "91-93"),
        ({"journal": journal(), "image": image(txid=200)}, State.CRITICAL, "ahead"),
        ({"journal": journal(), "image": Observation(error="no image")}, State.UNKNOWN, "no image"),
        ({"journal": replace(journal(), segments=DOWN)}, State.UNKNOWN, "refused"),
        # the NameNode's open segment is not in any manifest
        ({"namenodes": (namenode(segments=Observation((SegmentName(91, 95),))),)}, State.OK, "no edits are missing"),
        ({"namenodes": (namenode(segments=Observation((SegmentName(93, 95),))),)}, State.CRITICAL, "91-92"),
        ({"namenodes": (namenode(segments=DOWN),)}, State.UNKNOWN, "refused"),
        ({"namenodes": (down(),)}, State.UNKNOWN, "no NameNode"),
    ],
)
def test_edits_check(change: dict[str, Any], state: State, word: str) -> None:
    found = decide("edits", **change)
    assert found.state is state
    assert word in found.summary


def test_long_list_of_gaps_is_shortened() -> None:
    found = decide(
        "edits", journal=journal(*[SegmentName(txid, txid) for txid in range(92, 100, 2)], SegmentName(100, None))
    )
    assert "91-91" in found.summary
    many = decide("edits", image=image(txid=0), journal=journal(*[SegmentName(txid, txid) for txid in range(2, 60, 2)]))
    assert "more" in many.summary
