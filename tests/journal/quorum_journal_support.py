"""A quorum journal on nodes in memory, of the model and of the product, and calls that fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from journal.journal import Journal, SegmentWriter
from journal.quorum.errors import QuorumError
from journal.quorum.quorum_journal import QuorumJournal
from tests.journal.quorum_model import LAYOUT, NAMESPACE, ModelNode
from tests.journal.quorum_ops import batch, batch_of, mark, start_op, write_segment
from tests.journal.quorum_real_node import RealNode
from tests.journal.quorum_simulation import SETTINGS, Fate, Message, Simulation, simulated_journal

A, B, C = "jn1:8485", "jn2:8485", "jn3:8485"
TAILING = replace(SETTINGS, tail_in_progress=True)


@pytest.fixture(params=[ModelNode, RealNode])
def simulation(request: pytest.FixtureRequest) -> Simulation:
    return Simulation(request.param)


@pytest.fixture
def journal(simulation: Simulation) -> QuorumJournal:
    """A formatted and recovered journal."""
    journal = simulated_journal(simulation)
    journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    return journal


def taken_over(simulation: Simulation) -> QuorumJournal:
    other = simulated_journal(simulation)
    other.recover(NAMESPACE)
    return other


def failing(simulation: Simulation, *calls: tuple[str, str], fate: Fate = Fate.FAIL_BEFORE) -> None:
    """Make requests with these names to these nodes fail from now on; without `calls`, end all failures."""

    def sent(message: Message) -> None:
        if (message.call.node, message.call.work.name) in calls:
            message.fate = fate

    simulation.on_send = sent


def ranges(journal: Journal, from_txid: int = 1, *, in_progress: bool = False) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in journal.segments(from_txid, in_progress=in_progress)]


def finalized(simulation: Simulation, name: str) -> list[tuple[int, int]]:
    held = simulation.hosts[name].node.snapshot().finalized
    return sorted((first, first + len(records) - 1) for first, records in held.items())


def left_at_345(simulation: Simulation, journal: QuorumJournal) -> None:
    """Leave an open segment up to txid 3, 4 and 5 on the nodes."""
    segment = write_segment(journal, 1, 3, finalize=False)
    simulation.settle()
    failing(simulation, (A, "journal"))
    segment.append(batch(4, 4))
    simulation.settle()
    failing(simulation, (B, "journal"))
    with pytest.raises(QuorumError):
        segment.append(batch(5, 5))
    simulation.settle()
    failing(simulation)


def write_on_one(simulation: Simulation, journal: QuorumJournal) -> None:
    """Write txids 1 to 3 of a first writer to `A` only, and stop `A`."""
    segment = journal.start_segment(1, LAYOUT)
    failing(simulation, (B, "journal"), (C, "journal"))
    with pytest.raises(QuorumError):
        segment.append(batch_of(1, [start_op(1), mark(2, 91), mark(3, 92)]))
    simulation.settle()
    failing(simulation)
    simulation.crash(A)


def cut_off(simulation: Simulation, journal: QuorumJournal) -> None:
    """Leave `A` with txids 1 to 3 of a first writer, and the other nodes with acknowledged txids 1 to 3 of a second
    writer.
    """
    write_on_one(simulation, journal)
    other = taken_over(simulation)
    other_segment = other.start_segment(1, LAYOUT)
    simulation.restart(A)
    other_segment.append(batch_of(1, [start_op(1), mark(2, 1), mark(3, 2)]))
    simulation.settle()
    # `A` learns the committed txid although it has none of these transactions
    simulation.pass_time(simulation.now + 2)
    other_segment.append(batch_of(4, [mark(4, 3)]))
    simulation.settle()


GOOD = {1: start_op(1), 2: mark(2, 1), 3: mark(3, 2)}


def lose_majority(simulation: Simulation, segment: SegmentWriter) -> None:
    """Fail a write while two nodes are down, and restart these nodes."""
    simulation.crash(A)
    simulation.crash(B)
    with pytest.raises(QuorumError, match="txid 4: journal: "):
        segment.append(batch(4, 4))
    simulation.restart(A)
    simulation.restart(B)
