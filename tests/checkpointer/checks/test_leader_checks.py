"""Decisions of the check of the leader."""

from __future__ import annotations

from checkpointer.checks.facts import LockFacts, Observation
from checkpointer.checks.verdict import CheckVerdict, State
from checkpointer.leadership.leadership_state import Leader
from checkpointer.leadership.lock_backend import LockHolder
from tests.checkpointer.check_facts import DOWN, NOW, decide

LEADER = Leader(host="b", pid=7, role="secondary", address="0.0.0.0:9868", since=NOW - 900)


def lock(holding: Observation[LockHolder | None], *, host: str = "a", required: bool = False) -> CheckVerdict:
    found = LockFacts(
        lock="ZooKeeper /hadoop-checkpointer/ns1/leader",
        required=required,
        host=host,
        address="0.0.0.0:9868",
        holding=holding,
    )
    return decide("leader", lock=found)


def test_leader_check_names_the_leader_and_the_lock() -> None:
    found = lock(Observation(LockHolder(LEADER, NOW - 600)))
    assert found.state is State.OK
    assert found.summary == (
        "secondary on b (process 7, HTTP 0.0.0.0:9868) has been the leader for 10 min 0 s; the daemon of this "
        "configuration is not the leader (best effort, lock: ZooKeeper /hadoop-checkpointer/ns1/leader)"
    )
    assert found.details[0] == "since 1970-01-12T13:36:40+00:00"
    ours = lock(Observation(LockHolder(LEADER, NOW - 600)), host="b", required=True)
    assert "this is the daemon of this configuration (required, lock:" in ours.summary
    assert (
        "a daemon whose entry cannot be read has been the leader for"
        in lock(Observation(LockHolder(None, NOW))).summary
    )


def test_leader_check_without_a_leader_or_an_answer() -> None:
    assert decide("leader").summary.startswith("this daemon needs no lock")
    nobody = lock(Observation())
    assert (nobody.state, nobody.summary.partition(" (")[0]) == (State.WARNING, "no daemon is the leader")
    assert lock(DOWN).state is State.WARNING
    assert "checkpoints continue without it: connection refused" in lock(DOWN).summary
    required = lock(DOWN, required=True)
    assert required.state is State.CRITICAL
    assert "checkpoints stop without it" in required.summary
