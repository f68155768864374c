"""Random events with three electors, all ours or mixed with Hadoop's, and a simulated ZooKeeper."""

from __future__ import annotations

from collections import Counter

import pytest

from failover.election_events import Connected, Expired, Join, OpenSession, Tick
from failover.elector import Elector
from tests.depth import SEED, scaled
from tests.failover.election_world import World

KINDS = {"ours": (True, True, True), "one among Hadoop's": (True, False, False), "two": (True, True, False)}
ROUNDS, STEPS = 10, 500


def test_sessions_that_fail_at_once_are_retried_with_growing_waits() -> None:
    """Each login fails because of a local fault. Retries without a pause would cause a write on all servers for every
    session.
    """
    elector, now, waits = Elector(10.0), 0.0, []
    (opened,) = elector.handle(Join(b"nn1"), now)
    for _ in range(8):
        assert isinstance(opened, OpenSession)
        elector.handle(Connected(opened.session, 7), now)
        assert not any(isinstance(each, OpenSession) for each in elector.handle(Expired(opened.session), now))
        waits.append(elector.wake_at() - now)
        now = elector.wake_at()
        (opened,) = elector.handle(Tick(), now)
    assert waits[0] == 1.0
    assert waits == sorted(waits)
    assert waits[-1] == 30.0


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parameters(6)
def test_only_one_is_active_and_the_previous_one_is_fenced(kinds: str, wild: bool) -> None:
    """The deep tier simulates a million events."""
    seen: Counter[str] = Counter()
    for run in range(scaled(550, 4)):
        seed = SEED * 1_000_003 + run
        world = World(seed, KINDS[kinds], wild=wild)
        try:
            for _ in range(ROUNDS):
                for _ in range(STEPS):
                    world.step()
                world.rest()
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {fault}") from fault
        seen.update(world.counts)
    # The model reached all situations that it has to check.
    assert seen["active"] >= 2
    assert seen["fence"] >= 1
    assert seen["expired"] >= 1
    assert seen["lost"] >= 1
