"""Leadership derived from the lock's state, even by daemons that freeze, compared with a model of the backend."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.leadership.leadership_state import (
    Leader,
    LeadershipState,
    LeadershipStatus,
    LeaseBasis,
    held_back,
    must_abort,
)
from tests.depth import examples, scaled

TIMEOUT = 10.0
OTHER = Leader(host="b", pid=2, role="standby", address="b:9870", since=1.5)
NEW = LeadershipState(timeout=TIMEOUT)
FIRST = LeaseBasis(LeadershipStatus.LEADING, 1)


def may_begin(state: LeadershipState, now: float, *, required: bool = False, late: bool = False) -> bool:
    return held_back(state, now, required=required, late=late) == ""


def ends(
    state: LeadershipState, now: float, basis: LeaseBasis, *, required: bool = False, sending: bool = False
) -> bool:
    return must_abort(state, now, basis, required=required, sending=sending)


@given(
    st.builds(Leader, host=st.text(), pid=st.integers(0), role=st.text(), address=st.text(), since=st.floats(0, 1e12))
)
@examples(60)
def test_leader_round_trip(leader: Leader) -> None:
    assert Leader.from_bytes(leader.to_bytes()) == leader


@pytest.mark.parametrize("data", [None, b"", b"null", b"[]", b"{}", b"\xff", b'{"host": 1}', b'{"pid": "x"}'])
def test_unreadable_leader_data_is_none(data: bytes | None) -> None:
    assert Leader.from_bytes(data) is None


def test_response_is_valid_for_a_session_timeout() -> None:
    mine = NEW.ours(100.0, taken=True)
    assert (mine.status(109.9), mine.status(110.0)) == (LeadershipStatus.LEADING, LeadershipStatus.UNCERTAIN)
    theirs = NEW.theirs(100.0, OTHER)
    assert (theirs.status(109.9), theirs.status(110.0)) == (LeadershipStatus.FOLLOWING, LeadershipStatus.UNCERTAIN)
    assert "standby on b (process 2, HTTP b:9870)" in held_back(theirs, 101.0, required=False, late=False)


def test_frozen_daemon_is_uncertain_until_the_next_response() -> None:
    """After a freeze, the last response has expired, but the backend was not silent, so the status is not AWAY."""
    frozen = NEW.ours(100.0, taken=True)
    assert frozen.status(5000.0) is LeadershipStatus.UNCERTAIN
    assert not may_begin(frozen, 5000.0, late=True)
    assert not ends(frozen, 5000.0, FIRST)
    assert ends(frozen, 5000.0, FIRST, sending=True)
    resumed = frozen.theirs(5000.0, OTHER)
    assert ends(resumed, 5000.1, FIRST)


def test_unavailable_backend_blocks_only_if_it_is_required() -> None:
    led = NEW.ours(100.0, taken=True).silent(105.0, "no route")
    assert led.status(109.0) is LeadershipStatus.LEADING
    assert led.status(112.0) is LeadershipStatus.UNCERTAIN
    assert not may_begin(led, 112.0)
    assert led.status(115.0) is LeadershipStatus.AWAY
    assert may_begin(led, 115.0)
    assert not may_begin(led, 115.0, required=True, late=True)
    assert not ends(led, 115.0, FIRST, sending=True)
    assert ends(led, 115.0, FIRST, required=True)
    followed = NEW.theirs(100.0, OTHER).silent(105.0, "no route")
    assert not may_begin(followed, 115.0)
    assert may_begin(followed, 115.0, late=True)
    never_heard = NEW.silent(100.0, "no route")
    assert not may_begin(never_heard, 105.0)
    assert may_begin(never_heard, 110.0)
    assert "no route" in held_back(never_heard, 110.0, required=True, late=False)


def test_lock_acquired_again_is_a_new_term() -> None:
    first = NEW.ours(100.0, taken=True)
    assert first.ours(200.0, taken=False).terms == first.terms
    again = first.theirs(201.0, OTHER).ours(202.0, taken=True)
    assert ends(again, 202.0, FIRST)
    assert not ends(again, 202.0, LeaseBasis(LeadershipStatus.LEADING, again.terms))
    # the lock was lost and acquired between two requests
    assert ends(first.ours(300.0, taken=True), 300.0, FIRST)


def test_checkpoints_that_began_without_the_lock() -> None:
    """A checkpoint that began because the leader was late continues under any leader. A checkpoint that began while
    the backend was unavailable stops once another daemon leads.
    """
    late, alone = LeaseBasis(LeadershipStatus.FOLLOWING, 0), LeaseBasis(LeadershipStatus.AWAY, 1)
    theirs = NEW.theirs(300.0, OTHER)
    assert not ends(theirs, 300.0, late, required=True, sending=True)
    assert ends(theirs, 300.0, alone)
    assert not ends(NEW.ours(300.0, taken=True), 300.0, alone, sending=True)


def test_isolated_daemon_stands_by_while_others_are_active() -> None:
    led = NEW.ours(100.0, taken=True).silent(105.0, "no route")
    assert may_begin(led, 115.0)
    assert "no route" in held_back(led, 115.0, required=False, late=False, others=True)
    assert held_back(led, 115.0, required=False, late=True, others=True) == ""


def test_late_leader_is_not_waited_for() -> None:
    theirs = NEW.theirs(100.0, OTHER)
    assert not may_begin(theirs, 101.0)
    assert may_begin(theirs, 101.0, late=True)
    assert not may_begin(theirs, 101.0, required=True, late=True)


# ---- several daemons and a backend, in simulated time -------------------------------------------------------


@dataclass
class ModelBackend:
    """A backend that ends a session once no message has arrived for the timeout, but not earlier, and that may be
    unavailable.
    """

    away: bool = False
    owner: int | None = None
    received: dict[int, float] = field(default_factory=dict)

    def expire(self, now: float) -> None:
        if not self.away and self.owner is not None and now - self.received[self.owner] >= TIMEOUT:
            self.owner = None

    def ask(self, who: int, now: float) -> tuple[bool, bool]:
        """Return whether `who` has the lock, and whether `who` has just acquired it."""
        self.expire(now)
        self.received[who] = now
        taken = self.owner is None
        if taken:
            self.owner = who
        return self.owner == who, taken


@dataclass
class Daemon:
    state: LeadershipState = NEW
    frozen_until: float = 0.0
    cut_until: float = 0.0


@pytest.mark.parametrize("seed", range(scaled(40, 4)))
def test_never_two_leaders_and_one_leader_in_the_end(seed: int) -> None:
    choose = random.Random(seed)
    backend, daemons, now = ModelBackend(), [Daemon() for _ in range(3)], 0.0
    for _ in range(5000):
        now += choose.uniform(0.01, 2.0)
        event = choose.random()
        victim = choose.choice(daemons)
        if event < 0.02:
            victim.frozen_until = now + choose.uniform(0, 4 * TIMEOUT)
        elif event < 0.04:
            victim.cut_until = now + choose.uniform(0, 4 * TIMEOUT)
        elif event < 0.05:
            victim.state = NEW
        elif event < 0.06:
            backend.away = not backend.away
        who = choose.randrange(len(daemons))
        ask(daemons[who], who, backend, now, choose.uniform(0, 0.5))
        leading = [each for each in daemons if each.state.status(now) is LeadershipStatus.LEADING]
        assert len(leading) <= 1
    backend.away = False
    for _ in range(200):
        now += 1.0
        for who, daemon in enumerate(daemons):
            daemon.frozen_until = daemon.cut_until = 0.0
            ask(daemon, who, backend, now, 0.0)
    claims = sorted(each.state.status(now).value for each in daemons)
    assert claims == ["following", "following", "leading"]


def ask(daemon: Daemon, who: int, backend: ModelBackend, now: float, travels: float) -> None:
    """Answer a request of `daemon` that was sent `travels` seconds ago."""
    if daemon.frozen_until > now:
        return
    asked_at = now - travels
    if backend.away or daemon.cut_until > now:
        daemon.state = daemon.state.silent(asked_at, "nobody answers")
        return
    mine, taken = backend.ask(who, now)
    daemon.state = daemon.state.ours(asked_at, taken=taken) if mine else daemon.state.theirs(asked_at, OTHER)
