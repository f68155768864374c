"""Two writers take turns. Each has its own directory, and both share a quorum of JournalNodes; all are processes.

The writer is killed at a random moment, or paused until the other writer has taken over. Nodes are also killed. The
other writer recovers everything that the first writer acknowledged, byte for byte and identical on a majority of the
nodes.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from journal.binary_codec import encode_op
from journal.edit_log_writer import EditLogWriter
from journal.errors import JournalError
from journal.journal_set import JournalMember, JournalSet
from journal.ops import DeleteOp
from journal.quorum.open_quorum import open_quorum_journal
from journal.segment_copies import read_log
from journal.segment_file import list_segments, read_ops
from tests.depth import SEED, scaled
from tests.journal.journal_support import count_of
from tests.journal.quorum_processes import FORKS, SETTINGS, Node, collect, nodes
from tests.journal.wal_support import INFO, LAYOUT, file_journal, records

__all__ = ["nodes"]

ROUNDS = scaled(40, quick=2)
ROUNDS_OF_ONE_JOURNAL = 16
THREADS = 3
BEGUN = "begun"

FORKS.set_forkserver_preload([__name__])


def journals_of(side: Path, uri: str) -> JournalSet:
    shared = open_quorum_journal(uri, user="hdfs", settings=SETTINGS)
    return JournalSet([JournalMember(file_journal(side)), JournalMember(shared, required=True, shared=True)])


def recover(journals: JournalSet) -> None:
    """Recover, even while nodes still process requests of another writer, such as a proposal of an epoch."""
    for _ in range(5):
        with suppress(JournalError):
            journals.recover(INFO)
            return
    journals.recover(INFO)


def write(side: Path, uri: str, label: str, tell: Callable[[str], object]) -> None:
    """Recover, write from several threads, roll, and report durable transactions, until the quorum is lost."""
    journals = journals_of(side, uri)
    recover(journals)
    log = EditLogWriter(journals, LAYOUT, count_of(journals, 1) + 1, capacity=400)
    tell(BEGUN)
    telling = threading.Lock()

    def work(writer: int) -> None:
        number = 0
        with suppress(JournalError):
            while True:
                number += 1
                op = DeleteOp(path=f"/{label}/{writer}/{number}", timestamp=number)
                txid = log.write(op)
                if number % 3:
                    log.sync(txid)
                    with telling:
                        tell(f"{txid} {op.path}")
                if number % 40 == writer:
                    log.roll()
                if journals.lagging:
                    journals.copy_missing()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write_until_killed(side: Path, uri: str, label: str, reported: Connection) -> None:
    with suppress(JournalError):
        write(side, uri, label, reported.send)


class Writing:
    """A writer's process, and its acknowledged transactions, txid to path."""

    def __init__(self, side: Path, uri: str, label: str) -> None:
        hearing, telling = FORKS.Pipe(duplex=False)
        self.process: Any = FORKS.Process(target=write_until_killed, args=(side, uri, label, telling), daemon=True)
        self.process.start()
        telling.close()
        self._lines: list[str] = []
        self._collector = threading.Thread(target=collect, args=(hearing, self._lines))
        self._collector.start()

    def signal(self, number: int) -> None:
        """Send a signal; do nothing if the process has ended because the quorum was lost."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def acknowledged(self) -> dict[int, str]:
        """Return the acknowledged transactions, after the end of the process."""
        self.process.join()
        self._collector.join()
        return {int(txid): path for txid, path in map(str.split, self._lines[1:])}

    def await_lines(self, number: int) -> None:
        """Wait for this number of reports, or the end."""
        while len(self._lines) < number and self._collector.is_alive():
            self._collector.join(0.005)

    @property
    def begun(self) -> bool:
        """Whether the writer has recovered the journal; until then, a resumed old writer would take over again."""
        return bool(self._lines)


def disturb(nodes: list[Node], chance: random.Random) -> None:
    """Kill up to two nodes; most restart immediately, the other nodes after the writer has ended."""
    for node in chance.sample(nodes, chance.choice([0, 1, 1, 2])):
        time.sleep(chance.random() * 0.15)  # a random time of the kill
        node.kill()
        if chance.random() < 0.7:
            node.start()
    time.sleep(chance.random() * 0.15)


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
            writing = Writing(mine, uri, f"round{number}")
            writing.await_lines(chance.choice([0, 1, 2, chance.randrange(100)]))
            disturb(nodes, chance)
            paused = chance.random() < 0.4 and writing.begun
            writing.signal(signal.SIGSTOP if paused else signal.SIGKILL)
            for node in nodes:
                if not node.process.is_alive():
                    node.start()
            found = take_over(other, uri)
            if paused:
                writing.signal(signal.SIGCONT)
            kept |= (acknowledged := writing.acknowledged())
            total += len(acknowledged)
            check(found, kept, label)
            check_copies(found, folders, mine, label)
    assert total > ROUNDS


def take_over(side: Path, uri: str) -> dict[int, bytes]:
    """Recover on the other side; check that its directory alone has the same transactions, and return them by txid."""
    journals = journals_of(side, uri)
    recover(journals)
    found = {op.txid: encode_op(op, LAYOUT) for op in read_log(journals.segments(1), 1)}
    with EditLogWriter(journals, LAYOUT, len(found) + 1):
        journals.copy_missing()
    journals.close()
    local = [record for _, segment in sorted(records(side).items()) for record in segment]
    assert local[: len(found)] == [found[txid] for txid in sorted(found)]
    return found


def check(found: dict[int, bytes], acknowledged: dict[int, str], label: str) -> None:
    assert list(found) == list(range(1, len(found) + 1)), label
    for txid, path in acknowledged.items():
        op = DeleteOp(txid=txid, path=path, timestamp=int(path.rpartition("/")[2]))
        assert found.get(txid) == encode_op(op, LAYOUT), f"{label}, txid {txid}"


def check_copies(found: dict[int, bytes], folders: list[Path], ended: Path, label: str) -> None:
    """Check that every segment is identical in all places, at least two nodes, and that an ended writer wrote nothing
    else.
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
