"""Thousands of schedules of writers, readers and dying nodes in simulated time, checked by `World.check`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from journal.quorum import writer
from tests.depth import deep, examples, scaled
from tests.journal.quorum_hadoop_client import HadoopRecovery
from tests.journal.quorum_model import ModelNode
from tests.journal.quorum_real_node import RealNode
from tests.journal.quorum_world import CRASH_POINTS, World

DISK_STEPS = tuple(map(str, range(10)))
BLOCK = 250 if deep() else 12
"""Number of schedules per test."""
STEPS = 200

Fetch = Callable[[str], bytes]


def hadoop_2(name: str, fetch: Fetch) -> ModelNode:
    """Return a node that does not report committed txids, and has no cache."""
    return ModelNode(name, fetch, tells_committed=False, caches=False)


def stir(world: World, rng: random.Random, crash_points: tuple[str, ...], *, check_every: int) -> None:
    """Cause events in a random order."""
    simulation = world.simulation
    faulty = rng.random() * 0.3
    for step in range(STEPS):
        kind = rng.random()
        if kind < 0.3:
            world.go_on(rng.choice(world.actors), rng.randint(1, 3), rng.randint(0, 3))
        elif kind < 1 - faulty and simulation.wire:
            simulation.deliver(rng.choice(simulation.wire) if rng.random() < 0.7 else simulation.wire[0])
        elif simulation.wire:
            spoil(world, rng, crash_points)
        elif rng.random() < 0.3:
            simulation.pass_time(min(simulation.next_time(), simulation.now + 1000))
        if step % check_every == 0:
            world.check()
    world.heal()


def spoil(world: World, rng: random.Random, crash_points: tuple[str, ...]) -> None:
    """Cause one fault, or read the journal."""
    simulation = world.simulation
    message, actor, name = rng.choice(simulation.wire), rng.choice(world.actors), rng.choice(simulation.names)
    host = simulation.hosts[name]
    match rng.randint(0, 10):
        case 0:
            simulation.break_connection(message)
        case 1:
            simulation.lose(message)
        case 2 if not message.answer:
            simulation.double(message)
        case 3:
            simulation.crash(name)
        case 4:
            simulation.restart(name)
        case 5:
            host.node.crash_at = rng.choice(crash_points)
        case 6:
            simulation.pass_time(simulation.next_time())
        case 7:
            host.reachable = not host.reachable
        case 8 if rng.random() < 0.3:
            world.replace(actor)
        case 9:
            world.purge(actor)
        case _:
            group = rng.sample(simulation.names, rng.randint(world.need, len(simulation.names)))
            world.read(group, tail=rng.random() < 0.3)


@pytest.mark.parametrize("make_node", [ModelNode, hadoop_2], ids=["3.x", "2.x"])
@pytest.mark.parametrize("block", range(scaled(6)))
def test_random_schedules(block: int, make_node: Callable[[str, Fetch], Any]) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(seed)
        world = World(make_node, nodes=rng.choice([3, 3, 5]), writers=rng.choice([1, 2, 3]))
        with_seed(seed, lambda world=world, rng=rng: stir(world, rng, CRASH_POINTS, check_every=1))


@pytest.mark.parametrize("block", range(scaled(3)))
def test_random_schedules_with_our_nodes(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(seed)
        world = World(RealNode, writers=rng.choice([1, 2, 3]))
        with_seed(seed, lambda world=world, rng=rng: stir(world, rng, DISK_STEPS, check_every=20))


@pytest.mark.parametrize("block", range(scaled(3)))
def test_random_schedules_of_hadoops_writer_with_our_nodes(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop's writer does not compare copies. It also asks nodes that did not accept the recovery to finalize the
    segment, and Hadoop's nodes do so.
    """
    monkeypatch.setattr(writer, "SegmentRecovery", HadoopRecovery)
    test_random_schedules_with_our_nodes(block)


def with_seed(seed: int, run: Callable[[], None]) -> None:
    try:
        run()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


class QuorumMachine(RuleBasedStateMachine):
    """State machine with the same steps; Hypothesis chooses them and shortens a failing schedule."""

    writers = st.integers(0, 2)
    nodes = st.integers(0, 4)
    places = st.integers(0, 30)

    @initialize(
        nodes=st.sampled_from([3, 5]), writers=st.integers(1, 3), make_node=st.sampled_from([ModelNode, hadoop_2])
    )
    def begin(self, nodes: int, writers: int, make_node: Callable[[str, Fetch], Any]) -> None:
        self.world = World(make_node, nodes=nodes, writers=writers)
        self.simulation = self.world.simulation

    def name(self, number: int) -> str:
        return self.simulation.names[number % len(self.simulation.names)]

    def message(self, place: int) -> Any:
        return self.simulation.wire[place % len(self.simulation.wire)]

    @rule(writer=writers, size=st.integers(1, 3), choice=st.integers(0, 3))
    def continue_writer(self, writer: int, size: int, choice: int) -> None:
        self.world.go_on(self.world.actors[writer % len(self.world.actors)], size, choice)

    @precondition(lambda self: self.simulation.wire)
    @rule(place=places)
    def deliver_message(self, place: int) -> None:
        self.simulation.deliver(self.message(place))

    @precondition(lambda self: self.simulation.wire)
    @rule(count=st.integers(2, 20))
    def deliver_messages_in_order(self, count: int) -> None:
        for _ in range(min(count, len(self.simulation.wire))):
            if self.simulation.wire:
                self.simulation.deliver(self.simulation.wire[0])

    @precondition(lambda self: self.simulation.wire)
    @rule(place=places, silent=st.booleans())
    def lose_message(self, place: int, silent: bool) -> None:
        message = self.message(place)
        if silent:
            self.simulation.lose(message)
        else:
            self.simulation.break_connection(message)

    @precondition(lambda self: any(not each.answer for each in self.simulation.wire))
    @rule(place=places)
    def duplicate_request(self, place: int) -> None:
        requests = [each for each in self.simulation.wire if not each.answer]
        self.simulation.double(requests[place % len(requests)])

    @precondition(lambda self: self.simulation.in_flight)
    @rule()
    def advance_time(self) -> None:
        self.simulation.pass_time(self.simulation.next_time())

    @rule(node=nodes)
    def crash_node(self, node: int) -> None:
        self.simulation.crash(self.name(node))

    @rule(node=nodes)
    def restart_node(self, node: int) -> None:
        self.simulation.restart(self.name(node))

    @rule(node=nodes, point=st.sampled_from(CRASH_POINTS), torn=st.integers(0, 3))
    def crash_node_at_point(self, node: int, point: str, torn: int) -> None:
        model = self.simulation.hosts[self.name(node)].node
        model.crash_at, model.torn = point, torn

    @rule(node=nodes)
    def toggle_reachability(self, node: int) -> None:
        host = self.simulation.hosts[self.name(node)]
        host.reachable = not host.reachable

    @rule(writer=writers)
    def replace_writer(self, writer: int) -> None:
        self.world.replace(self.world.actors[writer % len(self.world.actors)])

    @rule(writer=writers)
    def purge_segments(self, writer: int) -> None:
        self.world.purge(self.world.actors[writer % len(self.world.actors)])

    @rule(order=st.permutations(range(5)), more=st.integers(0, 2), tail=st.booleans())
    def read_from_nodes(self, order: list[int], more: int, tail: bool) -> None:
        names = [self.simulation.names[number] for number in order if number < len(self.simulation.names)]
        self.world.read(names[: self.world.need + more], tail=tail)

    @invariant()
    def promises_are_kept(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.heal()


TestQuorumMachine = QuorumMachine.TestCase
TestQuorumMachine.settings = examples(300, stateful_step_count=80, suppress_health_check=[HealthCheck.too_slow])
