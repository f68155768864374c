"""BookKeeper's current servers and client together with ours: each reads and recovers ledgers of the other."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from journal.bookkeeper.connections import BookieConnections
from journal.bookkeeper.errors import LedgerFencedError
from journal.bookkeeper.ledger_client import LedgerClient, LedgerHandle, ReadLedger
from journal.bookkeeper.ledger_options import LedgerLimits, LedgerShape
from journal.bookkeeper.ledger_store import LedgerStore
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions, open_bookkeeper_journal
from journal.bookkeeper.settings import BookKeeperSettings
from journal.bookkeeper.zookeeper import JournalZNodes
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from tests.interop.bookkeeper_server import (
    BOOKKEEPER,
    BookieProcess,
    JavaClient,
    bookkeeper_ready,
    format_ledgers_as_java,
    java_bookie,
    our_bookie,
)
from tests.interop.hadoop_jars import MissingHadoopError
from tests.interop.hadoop_process import wait_until
from tests.journal.quorum_model import NAMESPACE
from tests.journal.quorum_ops import read_all, write_segment
from tests.required import skip

pytestmark = [
    pytest.mark.interop,
    pytest.mark.deep,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
    pytest.mark.xdist_group("bookkeeper"),
]

BOOKIES, COUNT = 3, 200
LINES = [f"entry {number}" for number in range(COUNT)]
PAYLOADS = [line.encode() for line in LINES]


@dataclass(frozen=True)
class Cluster:
    """A ZooKeeper, three bookies that are all Java's or all ours, and both clients."""

    hosts: str
    bookies: list[BookieProcess]
    java: JavaClient
    ours: LedgerClient

    def write(self) -> LedgerHandle:
        """Write a ledger with our client, and leave it open."""
        handle = self.ours.create(LedgerShape(), lambda ledger_id: None)
        handle.append(PAYLOADS)
        return handle


def payloads(ledger: ReadLedger) -> list[bytes]:
    return [entry.payload for entry in ledger.entries(0)]


@pytest.fixture(scope="module", params=[java_bookie, our_bookie])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        bookkeeper_ready()
    except MissingHadoopError as error:
        skip(BOOKKEEPER.name, str(error))
    root = tmp_path_factory.mktemp("bookkeeper")
    make: Callable[[str, Path], BookieProcess] = request.param
    with ExitStack() as stack:
        hosts = stack.enter_context(ZooKeeperServer(root / "zookeeper")).hosts
        if make is java_bookie:
            format_ledgers_as_java(hosts, root / "shell")
        bookies = [stack.enter_context(make(hosts, root / f"bookie{number}")) for number in range(BOOKIES)]
        znodes = JournalZNodes(BookKeeperSettings().ensemble(hosts))
        stack.callback(znodes.close)
        store = LedgerStore(znodes, "/ledgers/available")
        ours = LedgerClient(store, BookieConnections(store.address), LedgerLimits(), b"")
        stack.callback(ours.close)
        wait_until(lambda: len(store.bookies()) == BOOKIES, "bookies that accept writes")
        yield Cluster(hosts, bookies, JavaClient(hosts, root), ours)


def test_java_reads_ledgers_that_ours_wrote(cluster: Cluster) -> None:
    handle = cluster.write()
    handle.close()
    assert cluster.java.read(handle.ledger_id) == LINES


def test_ours_reads_ledgers_that_java_wrote(cluster: Cluster) -> None:
    assert payloads(cluster.ours.open(cluster.java.write(COUNT))) == PAYLOADS


def test_java_recovers_open_ledgers_of_ours(cluster: Cluster) -> None:
    handle = cluster.write()
    assert cluster.java.read(handle.ledger_id) == LINES
    with pytest.raises(LedgerFencedError):
        handle.append([b"too late"])
    assert payloads(cluster.ours.open(handle.ledger_id)) == PAYLOADS


def test_ours_recovers_open_ledgers_of_java(cluster: Cluster) -> None:
    ledger_id = cluster.java.write(COUNT, close=False)
    # the last entry of an open ledger becomes visible with the next entry
    assert payloads(cluster.ours.open(ledger_id)) == PAYLOADS[:-1]
    assert payloads(cluster.ours.recover(ledger_id)) == PAYLOADS
    assert cluster.java.read(ledger_id) == LINES


def test_a_journal_works_with_a_frozen_bookie(cluster: Cluster) -> None:
    """Hadoop's journal on these bookies is written, recovered, and read while one of them hangs."""
    uri = f"bookkeeper://{cluster.hosts}/journal"
    settings = BookKeeperOptions(BookKeeperSettings(speculative_timeout=0.5))
    first = open_bookkeeper_journal(uri, settings)
    first.format(NAMESPACE)
    first.recover(NAMESPACE)
    write_segment(first, 1, 50)
    write_segment(first, 51, 80, finalize=False)
    second = open_bookkeeper_journal(uri, settings)
    second.recover(NAMESPACE)
    whole = read_all(second.segments(1))
    assert list(whole) == list(range(1, 81))
    reader = open_bookkeeper_journal(uri, settings)
    cluster.bookies[1].signal(signal.SIGSTOP)
    try:
        assert read_all(reader.segments(1)) == whole
    finally:
        cluster.bookies[1].signal(signal.SIGCONT)
        for journal in (first, second, reader):
            journal.close()
