"""Two writers take turns. Each has a separate directory, and both share a quorum of JournalNodes; all are processes.

The writer is killed at a random moment, or paused until the other writer has taken over. Nodes are also killed. The
other writer recovers everything that the first writer acknowledged, byte for byte and identical on a majority of the
nodes.
"""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from journal.binary_codec import encode_op
from journal.edit_log_writer import EditLogWriter
from journal.errors import JournalError
from journal.journal_set import JournalMember, JournalSet
from journal.quorum.open_quorum import open_quorum_journal
from journal.segment_copies import read_log
from journal.segment_file import list_segments, read_ops
from tests.depth import SEED, scaled
from tests.journal.killed_processes import (
    FORKS,
    Writing,
    check_transactions,
    disturb,
    recover,
    restart,
    write_from_threads,
)
from tests.journal.quorum_processes import SETTINGS, Node, nodes
from tests.journal.wal_support import INFO, LAYOUT, file_journal, records

__all__ = ["nodes"]

ROUNDS = scaled(40, quick=2)
ROUNDS_OF_ONE_JOURNAL = 16

FORKS.set_forkserver_preload([__name__])


def journals_of(side: Path, uri: str) -> JournalSet:
    shared = open_quorum_journal(uri, user="hdfs", settings=SETTINGS)
    return JournalSet([JournalMember(file_journal(side)), JournalMember(shared, required=True, shared=True)])


def write_until_killed(side: Path, uri: str, label: str, reported: Connection) -> None:
    with suppress(JournalError):
        journals = journals_of(side, uri)
        recover(journals, INFO)
        write_from_threads(journals, label, reported.send)


def send_signal(writing: Writing, number: int) -> None:
    """Send a signal; do nothing if the process has ended because the quorum was lost."""
    with suppress(ProcessLookupError):
        os.kill(writing.process.pid, number)


@pytest.mark.timeout(1800 + 60 * ROUNDS)
def test_acknowledged_transactions_are_taken_over(nodes: list[Node], tmp_path: Path) -> None:
    chance = random.Random(SEED)
    addresses = ";".join(f"127.0.0.1:{node.ports[0]}" for node in nodes)
    total = 0
    for begin in range(0, ROUNDS, ROUNDS_OF_ONE_JOURNAL):
        journal_id = f"from-round-{begin}"
        uri = f"qjournal://{addresses}/{journal_id}"
        sides = [tmp_path / f"{journal_id}-{name}" for name in ("a", "b")]
        quorum = open_quorum_journal(uri, user="hdfs", settings=SETTINGS)
        quorum.format(INFO)
        quorum.close()
        folders = [node.root / journal_id for node in nodes]
        kept: dict[int, str] = {}
        for number in range(begin, min(ROUNDS, begin + ROUNDS_OF_ONE_JOURNAL)):
            label = f"seed {SEED}, round {number}"
            mine, other = sides if number % 2 else reversed(sides)
            file_journal(mine)
            writing = Writing(write_until_killed, mine, uri, f"round{number}")
            writing.await_lines(chance.choice([0, 1, 2, chance.randrange(100)]))
            disturb(nodes, chance)
            # until a writer has recovered the journal, a resumed writer would take over again
            paused = chance.random() < 0.4 and bool(writing.lines)
            send_signal(writing, signal.SIGSTOP if paused else signal.SIGKILL)
            restart(nodes)
            found = take_over(other, uri)
            if paused:
                send_signal(writing, signal.SIGCONT)
            kept |= (acknowledged := writing.transactions())
            total += len(acknowledged)
            check_transactions(found, kept, label)
            check_copies(found, folders, mine, label)
    assert total > ROUNDS


def take_over(side: Path, uri: str) -> dict[int, bytes]:
    """Recover on the other side; check that the directory of that side alone has the same transactions, and return the
    transactions by txid.
    """
    journals = journals_of(side, uri)
    recover(journals, INFO)
    found = {op.txid: encode_op(op, LAYOUT) for op in read_log(journals.segments(1), 1)}
    with EditLogWriter(journals, LAYOUT, len(found) + 1):
        journals.copy_missing()
    journals.close()
    local = [record for _, segment in sorted(records(side).items()) for record in segment]
    assert local[: len(found)] == [found[txid] for txid in sorted(found)]
    return found


def check_copies(found: dict[int, bytes], folders: list[Path], ended: Path, label: str) -> None:
    """Check that every segment has at least two copies, that all copies are identical, and that an ended writer wrote
    nothing else.
    """
    copies = [records(folder) for folder in folders]
    ends = {name for each in copies for name in each}
    covered = 0
    for name in sorted(ends):
        holding = [each[name] for each in copies if name in each]
        first = int(name.split("_")[1].split("-")[0])
        expected = [found[txid] for txid in range(first, first + len(holding[0])) if txid in found]
        if first > len(found):
            continue  # written by the other writer, after its takeover
        assert all(each == expected for each in holding), f"{label}: {name}"
        assert len(holding) >= 2, f"{label}: {name}"
        covered += len(expected)
    assert covered == len(found), label
    for segment in list_segments(ended / "current"):
        # The last operation may be torn.
        with suppress(JournalError):
            for op in read_ops(segment):
                assert encode_op(op, LAYOUT) == found[op.txid], f"{label}: {segment.path}"
