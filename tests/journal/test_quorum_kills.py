"""Writer and JournalNodes of a quorum, as processes killed at random moments: no acknowledged transaction is lost."""

from __future__ import annotations

import random
from contextlib import suppress
from multiprocessing.connection import Connection

import pytest

from journal.errors import JournalError
from journal.quorum.open_quorum import open_quorum_journal
from tests.depth import SEED, scaled
from tests.journal.killed_processes import ACKNOWLEDGED, FORKS, Writing, check_batches, disturb, recover, restart
from tests.journal.quorum_model import NAMESPACE
from tests.journal.quorum_ops import read_all
from tests.journal.quorum_processes import SETTINGS, Node, nodes
from tests.journal.quorum_writer import write

__all__ = ["nodes"]

ROUNDS = scaled(60, quick=4)
ROUNDS_OF_ONE_JOURNAL = 24

FORKS.set_forkserver_preload([__name__])


def write_until_killed(uri: str, value: int, reported: Connection) -> None:
    with suppress(JournalError):
        write(uri, value, reported.send, SETTINGS)


def round_of_kills(
    uri: str, number: int, nodes: list[Node], chance: random.Random, least: int
) -> dict[tuple[int, int], str]:
    """Run a writer while nodes are killed, and kill the writer; return its acknowledged batches.

    Args:
        least: minimum number of batches acknowledged before the first kill.
    """
    writing = Writing(write_until_killed, uri, number)
    writing.await_lines(max(least, chance.choice([0, 0, 1, chance.randrange(20)])), ACKNOWLEDGED)
    disturb(nodes, chance)
    batches = writing.kill()
    restart(nodes)
    return batches


@pytest.mark.timeout(1800 + 60 * ROUNDS)
def test_acknowledged_transactions_are_recovered(nodes: list[Node]) -> None:
    chance = random.Random(SEED)
    addresses = ";".join(f"127.0.0.1:{node.ports[0]}" for node in nodes)
    total = 0
    for begin in range(0, ROUNDS, ROUNDS_OF_ONE_JOURNAL):
        uri = f"qjournal://{addresses}/from-round-{begin}"
        journal = open_quorum_journal(uri, user="hdfs", settings=SETTINGS)
        journal.format(NAMESPACE)
        journal.close()
        batches: dict[tuple[int, int], str] = {}
        for number in range(begin, min(ROUNDS, begin + ROUNDS_OF_ONE_JOURNAL)):
            least = 1 + min(ROUNDS, ROUNDS_OF_ONE_JOURNAL) if number == begin else 0
            batches |= round_of_kills(uri, number, nodes, chance, least)
            check(uri, batches, f"seed {SEED}, round {number}")
        total += len(batches)
    assert total > ROUNDS


def check(uri: str, batches: dict[tuple[int, int], str], label: str) -> None:
    """Recover the journal, and check that every acknowledged batch is intact, byte for byte."""
    journal = open_quorum_journal(uri, user="hdfs", settings=SETTINGS)
    recover(journal, NAMESPACE)
    found = read_all(journal.segments(1))
    journal.close()
    check_batches(found, batches, label)
