"""Servers and writers as processes that a test kills, and functions that find lost acknowledged transactions."""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha1
from multiprocessing.connection import Connection
from typing import Any

from hadoop_common.storage_info import StorageInfo
from journal.binary_codec import encode_op
from journal.edit_log_writer import EditLogWriter
from journal.errors import JournalError
from journal.journal import Journal
from journal.journal_set import JournalSet
from journal.ops import DeleteOp
from tests.journal.journal_support import count_of
from tests.journal.wal_support import LAYOUT

THREADS = 3
BEGUN = "begun"
ACKNOWLEDGED = "acknowledged"

# The parent of forked processes has no threads, and has imported all modules.
FORKS = multiprocessing.get_context("forkserver")


class Server:
    """A process that can be killed and restarted."""

    process: Any = None

    def start(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def disturb(servers: Sequence[Server], chance: random.Random, seconds: float = 0.15) -> None:
    """Kill up to two servers; most restart immediately, the other servers after the writer has ended."""
    for server in chance.sample(servers, chance.choice([0, 1, 1, 2])):
        time.sleep(chance.random() * seconds)  # a random time of the kill
        server.kill()
        if chance.random() < 0.7:
            server.start()
    time.sleep(chance.random() * seconds)


def restart(servers: Sequence[Server]) -> None:
    for server in servers:
        if not server.process.is_alive():
            server.start()


class Writing:
    """The process of a writer, `target(*arguments, connection)`, and the lines that it sends."""

    def __init__(self, target: Callable[..., None], *arguments: object) -> None:
        hearing, telling = FORKS.Pipe(duplex=False)
        self.process: Any = FORKS.Process(target=target, args=(*arguments, telling), daemon=True)
        self.process.start()
        telling.close()
        self.lines: list[str] = []
        self._collector = threading.Thread(target=self._collect, args=(hearing,))
        self._collector.start()

    def _collect(self, hearing: Connection) -> None:
        with suppress(EOFError):
            while True:
                self.lines.append(hearing.recv())

    def await_lines(self, wanted: int, beginning: str = "") -> None:
        """Wait for this number of lines, or the writer's end."""
        while sum(line.startswith(beginning) for line in self.lines) < wanted and self._collector.is_alive():
            self._collector.join(0.005)

    def end(self) -> None:
        """Wait until the process has ended, and all its lines have arrived."""
        self.process.join()
        self._collector.join()

    def transactions(self) -> dict[int, str]:
        """Return the transactions that `write_from_threads` acknowledged, as a mapping from txid to path."""
        self.end()
        return {int(txid): path for txid, path in map(str.split, self.lines[1:])}

    def kill(self) -> dict[tuple[int, int], str]:
        """Kill the process; return its acknowledged batches with their digests."""
        self.process.kill()
        self.end()
        acknowledged = (line.split() for line in self.lines if line.startswith(ACKNOWLEDGED))
        return {(int(first), int(last)): digest for _, first, last, digest in acknowledged}


def write_from_threads(journals: JournalSet, label: str, tell: Callable[[str], object]) -> None:
    """Write from several threads, roll, and report durable transactions, until the journals fail."""
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


def recover(journal: Journal, namespace: StorageInfo) -> None:
    """Recover, even while servers still process requests of a killed writer, or are not registered yet."""
    for _ in range(5):
        with suppress(JournalError):
            journal.recover(namespace)
            return
    journal.recover(namespace)


def check_transactions(found: Mapping[int, bytes], acknowledged: Mapping[int, str], label: str) -> None:
    """Check that the transactions are consecutive, and contain the acknowledged transactions byte for byte."""
    assert list(found) == list(range(1, len(found) + 1)), label
    for txid, path in acknowledged.items():
        op = DeleteOp(txid=txid, path=path, timestamp=int(path.rpartition("/")[2]))
        assert found.get(txid) == encode_op(op, LAYOUT), f"{label}, txid {txid}"


def check_batches(found: Mapping[int, bytes], batches: Mapping[tuple[int, int], str], label: str) -> None:
    """Check that the transactions are consecutive, and contain the acknowledged batches byte for byte."""
    assert list(found) == list(range(1, len(found) + 1)), label
    for (first, last), digest in batches.items():
        records = b"".join(found.get(txid, b"") for txid in range(first, last + 1))
        assert sha1(records).hexdigest() == digest, f"{label}: txid {first} .. {last}"
