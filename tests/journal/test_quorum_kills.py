"""Writer and JournalNodes of a quorum are processes that are killed at random moments: nothing acknowledged is lost."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from hashlib import sha1
from multiprocessing.connection import Connection
from typing import Any

import pytest

from journal.errors import JournalError
from journal.quorum.errors import QuorumError
from journal.quorum.open_quorum import open_quorum_journal
from journal.quorum.quorum_journal import QuorumJournal
from tests.depth import SEED, scaled
from tests.journal.quorum_model import NAMESPACE
from tests.journal.quorum_ops import read_all
from tests.journal.quorum_processes import FORKS, SETTINGS, Node, collect, nodes
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
    hearing, telling = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=write_until_killed, args=(uri, number, telling), daemon=True)
    process.start()
    telling.close()
    lines: list[str] = []
    collector = threading.Thread(target=collect, args=(hearing, lines))
    collector.start()
    await_lines(process, lines, max(least, chance.choice([0, 0, 1, chance.randrange(20)])))
    for node in chance.sample(nodes, chance.choice([0, 1, 1, 2])):
        time.sleep(chance.random() * 0.15)  # a random time of the kill
        node.kill()
        if chance.random() < 0.7:
            node.start()
    time.sleep(chance.random() * 0.15)
    process.kill()
    process.join()
    collector.join()
    for node in nodes:
        if not node.process.is_alive():
            node.start()
    acknowledged = (line.split() for line in lines if line.startswith("acknowledged"))
    return {(int(first), int(last)): digest for _, first, last, digest in acknowledged}


def await_lines(process: Any, lines: list[str], wanted: int) -> None:
    """Wait for this number of acknowledgements, or the writer's end."""
    while sum(line.startswith("acknowledged") for line in lines) < wanted and process.is_alive():
        time.sleep(0.005)


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
    recover(journal)
    found = read_all(journal.segments(1))
    journal.close()
    assert list(found) == list(range(1, len(found) + 1)), label
    for (first, last), digest in batches.items():
        records = b"".join(found.get(txid, b"") for txid in range(first, last + 1))
        assert sha1(records).hexdigest() == digest, f"{label}: txid {first} .. {last}"


def recover(journal: QuorumJournal) -> None:
    """Recover, even while nodes still process requests of the killed writer, such as a proposal of an epoch."""
    for _ in range(5):
        with suppress(QuorumError):
            journal.recover(NAMESPACE)
            return
    journal.recover(NAMESPACE)
