"""Every call of a writer's life, and of a recovery, fails in every way, on one node and on two nodes
(TestQJMWithFaults).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from journal.errors import JournalError
from journal.quorum.quorum_journal import QuorumJournal
from tests.depth import sample
from tests.journal.journal_support import count_of
from tests.journal.quorum_model import JOURNAL, NAMESPACE, ModelNode
from tests.journal.quorum_ops import batch, read_all, write_segment
from tests.journal.quorum_real_node import RealNode
from tests.journal.quorum_simulation import Fate, Message, Simulation, instant_reader, simulated_journal

_SINGLE, _DOUBLE, _DYING = 60, 100, 40
"""Numbers of plans in the quick tier."""

Plan = dict[tuple[str, int], Fate]
"""The fate of the call with this number (counted from 1) to a node."""

FATES = (Fate.FAIL_BEFORE, Fate.FAIL_AFTER, Fate.LOST, Fate.SILENT, Fate.LATE)
HARD = (Fate.FAIL_BEFORE, Fate.FAIL_AFTER, Fate.LATE)
LATE_SECONDS = 25.0  # longer than the timeouts of start and write, but shorter than the timeout of a call to one node
WORKLOAD_CALLS = 12  # getJournalState, newEpoch, and for two segments: start, three batches, finalize
RECOVERY_CALLS = 5  # getJournalState, newEpoch, prepareRecovery, acceptRecovery, finalize
NODES = ("jn1:8485", "jn2:8485", "jn3:8485")


class Planned:
    """A plan that counts the calls to each node from now on, and gives each call its fate."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self.plan = plan
        self.calls: Counter[str] = Counter()
        simulation.on_send = self.sent

    def sent(self, message: Message) -> None:
        node = message.call.node
        self.calls[node] += 1
        message.fate = self.plan.get((node, self.calls[node]), Fate.GOOD)
        if message.fate is Fate.LATE:
            message.due += LATE_SECONDS


def formatted(make_node: Callable[..., Any] = ModelNode) -> Simulation:
    simulation = Simulation(make_node)
    for host in simulation.hosts.values():
        host.node.format(JOURNAL, NAMESPACE, force=False)
    return simulation


def workload(journal: QuorumJournal) -> int:
    """Write two segments of three transactions; return the last acknowledged txid."""
    acked = 0
    try:
        journal.recover(NAMESPACE)
        for first in (1, 4):
            segment = journal.start_segment(first, -63)
            for txid in range(first, first + 3):
                segment.append(batch(txid, txid, 1))
                acked = txid
            segment.finalize(first + 2)
    except JournalError:
        return acked
    return acked


def check_next_writer(simulation: Simulation, acked: int, before: QuorumJournal) -> None:
    """Check that a writer without faults has everything that was acknowledged, and that the previous writer is
    fenced.
    """
    simulation.on_send = lambda message: None
    journal = simulated_journal(simulation)
    journal.recover(NAMESPACE)
    last = count_of(journal, 1)
    assert last >= acked
    with pytest.raises(JournalError):
        write_segment(before, last + 1, last + 1, value=2)
    write_segment(journal, last + 1, last + 3, value=3)
    simulation.settle()  # now the delayed messages arrive
    expected = {**written(1, last, 1), **written(last + 1, last + 3, 3)}
    for group in itertools.combinations(NODES, 2):
        assert read_all(instant_reader(simulation, list(group)).streams(1, in_progress=True)) == expected


def written(first: int, last: int, value: int) -> dict[int, bytes]:
    found = batch(first, last, value).records
    size = len(found) // max(1, last - first + 1)
    return {txid: bytes(found[(txid - first) * size :][:size]) for txid in range(first, last + 1)}


def single(calls: int) -> Sequence[Plan]:
    """Return every fault on one node; in the quick tier, some of them."""
    plans = [{(node, number): fate} for node, number, fate in itertools.product(NODES, range(1, calls + 1), FATES)]
    return sample(plans, _SINGLE, f"a fault of {calls} calls")


def double(calls: int, fates: tuple[Fate, ...]) -> Sequence[Plan]:
    """Return every pair of faults on two nodes; in the quick tier, some of them."""
    each = list(itertools.product(range(1, calls + 1), fates))
    pairs = itertools.product(itertools.combinations(NODES, 2), each, each)
    plans = [{(one, a): fate_a, (other, b): fate_b} for (one, other), (a, fate_a), (b, fate_b) in pairs]
    return sample(plans, _DOUBLE, f"two faults of {calls} calls")


def test_number_of_calls_of_the_workload() -> None:
    simulation = formatted()
    planned = Planned(simulation, {})
    assert workload(simulated_journal(simulation)) == 6
    simulation.settle()
    assert set(planned.calls.values()) == {WORKLOAD_CALLS}


def check_workload(plan: Plan, make_node: Callable[..., Any]) -> int:
    simulation = formatted(make_node)
    Planned(simulation, plan)
    journal = simulated_journal(simulation)
    acked = workload(journal)
    check_next_writer(simulation, acked, journal)
    return acked


@pytest.mark.parameters(1)
@pytest.mark.parametrize("make_node", [ModelNode, RealNode])
def test_one_fault_while_writing_does_not_affect_the_writer(make_node: Callable[..., Any]) -> None:
    assert {check_workload(plan, make_node) for plan in single(WORKLOAD_CALLS)} == {6}


def test_two_faults_while_writing_lose_nothing() -> None:
    acked = Counter(check_workload(plan, ModelNode) for plan in double(WORKLOAD_CALLS, HARD))
    assert acked.keys() == set(range(7))


def left_open(make_node: Callable[..., Any]) -> Simulation:
    """Return a simulation without a writer; its nodes have a segment up to txid 3, 4 and 5
    (TestQuorumJournalManager).
    """
    simulation = formatted(make_node)
    writer = simulated_journal(simulation)
    writer.recover(NAMESPACE)
    segment = writer.start_segment(1, -63)
    for txid in (1, 2, 3):
        segment.append(batch(txid, txid, 1))
    simulation.settle()
    Planned(simulation, {("jn1:8485", 1): Fate.FAIL_BEFORE})
    segment.append(batch(4, 4, 1))
    simulation.settle()
    Planned(simulation, {("jn2:8485", 1): Fate.FAIL_BEFORE})
    with pytest.raises(JournalError):
        segment.append(batch(5, 5, 1))
    writer.close()
    simulation.settle()
    return simulation


def check_recovery(plan: Plan, make_node: Callable[..., Any], *, crash: tuple[str, str] | None = None) -> bool:
    """Run the recovery; return whether it succeeded although calls failed."""
    simulation = left_open(make_node)
    Planned(simulation, plan)
    if crash is not None:
        simulation.hosts[crash[0]].node.crash_at = crash[1]
    journal = simulated_journal(simulation)
    try:
        journal.recover(NAMESPACE)
        ended = True
    except JournalError:
        ended = False
    for name in NODES:
        simulation.hosts[name].node.crash_at = ""
        simulation.restart(name)
    check_next_writer(simulation, 4, journal)
    return ended


def test_number_of_calls_of_a_recovery() -> None:
    simulation = left_open(ModelNode)
    planned = Planned(simulation, {})
    simulated_journal(simulation).recover(NAMESPACE)
    simulation.settle()
    assert set(planned.calls.values()) == {RECOVERY_CALLS}


@pytest.mark.parameters(1)
@pytest.mark.parametrize("make_node", [ModelNode, RealNode])
def test_one_fault_does_not_stop_a_recovery(make_node: Callable[..., Any]) -> None:
    assert all(check_recovery(plan, make_node) for plan in single(RECOVERY_CALLS))


@pytest.mark.parameters(1)
@pytest.mark.parametrize("make_node", [ModelNode, RealNode])
def test_two_faults_in_a_recovery_lose_nothing(make_node: Callable[..., Any]) -> None:
    ended = Counter(check_recovery(plan, make_node) for plan in double(RECOVERY_CALLS, FATES))
    assert ended.keys() == {False, True}


def dying(points: Sequence[str], first_call: int, fate: Fate) -> Sequence[tuple[Plan, tuple[str, str]]]:
    """Return plans with a failing call to one node, and a point at which another node dies."""
    calls = range(first_call, RECOVERY_CALLS + 1)
    found = [
        ({(failing, number): fate}, (victim, point))
        for victim, failing in itertools.permutations(NODES, 2)
        for point, number in itertools.product(points, calls)
    ]
    return sample(found, _DYING, f"dying {fate}")


@pytest.mark.parameters(2)
@pytest.mark.parametrize("fate", FATES)
def test_node_crash_and_a_second_fault_in_a_recovery_lose_nothing(fate: Fate) -> None:
    for plan, crash in dying(("promised", "finalized", "downloaded", "persisted"), 1, fate):
        check_recovery(plan, ModelNode, crash=crash)


@pytest.mark.parameters(1)
@pytest.mark.parametrize("fate", [Fate.FAIL_BEFORE, Fate.SILENT])
def test_crash_of_our_node_at_any_recovery_step_loses_nothing(fate: Fate) -> None:
    for plan, crash in dying([str(step) for step in range(12)], 3, fate):
        check_recovery(plan, RealNode, crash=crash)
