"""Random events over three electors, ours among Hadoop's or alone, and a simulated ZooKeeper."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.depth import SEED, scaled
from tests.failover.election_world import World

KINDS = {"ours": (True, True, True), "one among Hadoop's": (True, False, False), "two": (True, True, False)}
ROUNDS, STEPS = 10, 500


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parameters(6)
def test_one_is_active_and_whoever_was_before_is_fenced(kinds: str, wild: bool) -> None:
    """A million events in the deep tier."""
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
    # Whatever is proven was put to the test.
    assert seen["active"] >= 2
    assert seen["fence"] >= 1
    assert seen["expired"] >= 1
    assert seen["lost"] >= 1
