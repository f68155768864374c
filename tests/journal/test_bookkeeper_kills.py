"""Writers, bookies and takeovers are killed at random moments, on a real ZooKeeper: no acknowledged entry is lost."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from unittest import mock

import pytest
from kazoo.security import make_digest_acl_credential

from hadoop_common.zookeeper.session import ZooKeeperAddress, parse_acl, parse_auth
from journal.bookie.cli import RUNNING
from journal.bookie.cli import run as run_bookie
from journal.bookkeeper.bookkeeper_journal import BookKeeperJournal
from journal.bookkeeper.errors import LedgerFencedError, MetadataStoreError
from journal.bookkeeper.open_bookkeeper import BookKeeperOptions, open_bookkeeper_journal
from journal.bookkeeper.settings import BookKeeperSettings
from journal.bookkeeper.zookeeper import JournalZNodes
from journal.errors import JournalError
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from namenode_stub.ports import free_port
from tests.depth import SEED, scaled
from tests.failover.cutting_proxy import end_session
from tests.journal.journal_support import count_of
from tests.journal.killed_processes import (
    ACKNOWLEDGED,
    FORKS,
    Server,
    Writing,
    check_batches,
    disturb,
    recover,
    restart,
)
from tests.journal.quorum_model import LAYOUT, NAMESPACE
from tests.journal.quorum_ops import batch_of, end_op, mark, read_all, start_op
from tests.journal.quorum_writer import write_to

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING), pytest.mark.xdist_group("zookeeper")]

ROUNDS = scaled(500, quick=2)
ROUNDS_OF_ONE_JOURNAL = 25
PATIENT = 60.0
"""Timeout in seconds of calls to working servers; killed servers refuse connections immediately."""
SETTINGS = BookKeeperSettings(
    read_timeout=PATIENT, add_timeout=PATIENT, speculative_timeout=0.5, session_timeout=PATIENT
)

FORKS.set_forkserver_preload([__name__])


def serve(directory: Path, hosts: str, port: int, root: str, ready: Connection) -> None:
    """Run a bookie; the line that it prints once it is registered goes to `ready`."""
    assert run_bookie.callback is not None
    with mock.patch("journal.bookie.cli.echo", ready.send):
        run_bookie.callback(
            directory=directory,
            hosts=hosts,
            host="127.0.0.1",
            port=port,
            root=root,
            layout="flat",
            session_timeout=10.0,
            reserve=0,
        )


def opened(uri: str, settings: BookKeeperSettings = SETTINGS) -> BookKeeperJournal:
    return open_bookkeeper_journal(uri, BookKeeperOptions(settings))


def write_until_killed(uri: str, value: int, reported: Connection) -> None:
    with suppress(JournalError):
        write_to(opened(uri), value, reported.send)


class Process(Server):
    """A bookie that can be killed and restarted."""

    def __init__(self, directory: Path, hosts: str, root: str = "/ledgers") -> None:
        self.arguments = directory, hosts, free_port(), root
        self._ready: Connection

    def launch(self) -> None:
        """Start the bookie without waiting."""
        self._ready, telling = FORKS.Pipe(duplex=False)
        self.process = FORKS.Process(target=serve, args=(*self.arguments, telling), daemon=True)
        self.process.start()
        telling.close()

    def await_registration(self) -> None:
        """Wait until clients find the bookie in ZooKeeper; the bookie listens earlier."""
        with self._ready:
            assert RUNNING in self._ready.recv()

    def start(self) -> None:
        self.launch()
        self.await_registration()


def start_all(bookies: list[Process]) -> None:
    for bookie in bookies:
        bookie.launch()
    for bookie in bookies:
        bookie.await_registration()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="module")
def bookies(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Process]]:
    running = [Process(tmp_path_factory.mktemp("bookie"), zookeeper.hosts) for _ in range(4)]
    start_all(running)
    yield running
    for bookie in running:
        bookie.kill()


def round_of_kills(
    uri: str, number: int, bookies: list[Process], chance: random.Random, least: int
) -> list[dict[tuple[int, int], str]]:
    """Run a writer while bookies are killed, and make another writer take over; return the acknowledged batches of
    each.

    Args:
        least: minimum number of batches acknowledged before the first kill.
    """
    writers = [Writing(write_until_killed, uri, 2 * number)]
    writers[0].await_lines(max(least, chance.choice([0, 0, 1, chance.randrange(20)])), ACKNOWLEDGED)
    disturb(bookies, chance, 0.3)
    reported = []
    if chance.random() < 0.5:
        writers.append(Writing(write_until_killed, uri, 2 * number + 1))
        time.sleep(chance.random() * 0.4)
    for writer in chance.sample(writers, len(writers)):
        reported.append(writer.kill())
    restart(bookies)
    return reported


@pytest.mark.timeout(1800 + 60 * ROUNDS)
def test_acknowledged_transactions_are_recovered(zookeeper: ZooKeeperServer, bookies: list[Process]) -> None:
    chance = random.Random(SEED)
    total = 0
    for begin in range(0, ROUNDS, ROUNDS_OF_ONE_JOURNAL):
        uri = f"bookkeeper://{zookeeper.hosts}/from-round-{begin}"
        journal = opened(uri)
        journal.format(NAMESPACE)
        journal.close()
        batches: dict[tuple[int, int], str] = {}
        for number in range(begin, min(ROUNDS, begin + ROUNDS_OF_ONE_JOURNAL)):
            label = f"seed {SEED}, round {number}"
            least = 1 + min(ROUNDS, ROUNDS_OF_ONE_JOURNAL) if number == begin else 0
            for reported in round_of_kills(uri, number, bookies, chance, least):
                assert not batches.keys() & reported.keys(), f"{label}: acknowledged twice"
                batches |= reported
            check(uri, batches, label)
        total += len(batches)
    assert total > ROUNDS


def check(uri: str, batches: dict[tuple[int, int], str], label: str) -> None:
    """Recover the journal, and check that every acknowledged batch is intact, byte for byte."""
    journal = opened(uri)
    recover(journal, NAMESPACE)
    found = read_all(journal.segments(1))
    names = journal._znodes.children(journal._paths.root)
    journal.close()
    assert not [name for name in names if name.startswith("unnamed")], label
    check_batches(found, batches, label)


# ---- sessions and ACLs -------------------------------------------------------------------------------------


def written(uri: str, settings: BookKeeperSettings = SETTINGS) -> BookKeeperJournal:
    journal = opened(uri, settings)
    journal.format(NAMESPACE)
    journal.recover(NAMESPACE)
    return journal


def test_expired_session_is_replaced_during_a_segment(zookeeper: ZooKeeperServer, bookies: list[Process]) -> None:
    journal = written(f"bookkeeper://{zookeeper.hosts}/expires")
    writer = journal.start_segment(1, LAYOUT)
    writer.append(batch_of(1, [start_op(1)]))
    znodes = journal._znodes
    assert isinstance(znodes, JournalZNodes)
    before = znodes._client.client_id
    end_session(zookeeper.hosts, before)
    for txid in range(2, 10):
        writer.append(batch_of(txid, [mark(txid, 1)]))
    writer.append(batch_of(10, [end_op(10)]))
    writer.finalize(10)
    assert znodes._client.client_id != before
    second = journal.start_segment(11, LAYOUT)
    second.append(batch_of(11, [start_op(11)]))
    assert count_of(journal, 1, in_progress=True) == 11
    journal.close()


FREEZE_SECONDS = 10.0


@pytest.mark.deep
@pytest.mark.parametrize("ack_quorum", [1, 2])
def test_bookie_frozen_for_10_seconds_without_a_spare(
    zookeeper: ZooKeeperServer, tmp_path: Path, ack_quorum: int
) -> None:
    """Entries are acknowledged without the bookie if possible; other entries, and a new segment, wait for the
    bookie.
    """
    root = f"/frozen{ack_quorum}"
    three = [Process(tmp_path / str(number), zookeeper.hosts, root) for number in range(3)]
    start_all(three)
    settings = replace(SETTINGS, add_timeout=5.0, ack_quorum=ack_quorum, available=f"{root}/available")
    journal = written(f"bookkeeper://{zookeeper.hosts}/frozen-journal{ack_quorum}", settings)
    try:
        txid = 1
        for victim in three[:2]:
            writer = journal.start_segment(txid, LAYOUT)
            writer.append(batch_of(txid, [start_op(txid)]))
            os.kill(victim.process.pid, signal.SIGSTOP)
            thaw = threading.Timer(FREEZE_SECONDS, os.kill, (victim.process.pid, signal.SIGCONT))
            thaw.start()
            while thaw.is_alive():
                txid += 1
                writer.append(batch_of(txid, [mark(txid, 1)]))
                time.sleep(0.01)  # limits the number of transactions
            txid += 1
            writer.append(batch_of(txid, [end_op(txid)]))
            writer.finalize(txid)
            txid += 1
        assert count_of(journal, 1) == txid - 1
        assert len(list(read_all(journal.segments(1)))) == txid - 1
    finally:
        journal.close()
        for bookie in three:
            bookie.kill()


def test_takeover_fences_the_old_writer(zookeeper: ZooKeeperServer, bookies: list[Process]) -> None:
    uri = f"bookkeeper://{zookeeper.hosts}/takeover"
    journal = written(uri)
    writer = journal.start_segment(1, LAYOUT)
    writer.append(batch_of(1, [start_op(1), mark(2, 1)]))
    other = opened(uri)
    other.recover(NAMESPACE)
    with pytest.raises(LedgerFencedError):
        writer.append(batch_of(3, [mark(3, 1)]))
    assert count_of(other, 1) == 2
    journal.close()
    other.close()


def test_znodes_are_accessible_only_to_the_acl_user(zookeeper: ZooKeeperServer, bookies: list[Process]) -> None:
    uri = f"bookkeeper://{zookeeper.hosts}/guarded"
    acl = parse_acl(f"digest:{make_digest_acl_credential('nn', 'secret')}:rwcda")
    guarded = BookKeeperSettings(acl=acl, auth=parse_auth("digest:nn:secret"), session_timeout=PATIENT)
    journal = written(uri, guarded)
    writer = journal.start_segment(1, LAYOUT)
    writer.append(batch_of(1, [start_op(1), end_op(2)]))
    writer.finalize(2)
    assert count_of(journal, 1) == 2
    stranger = opened(uri)
    with pytest.raises(MetadataStoreError, match="refuses this operation") as caught:
        stranger.segments(1)
    assert "zk.auth" in caught.value.hint
    stranger.close()
    journal.close()


def test_unreachable_zookeeper_is_reported_within_the_timeout() -> None:
    journal = opened(f"bookkeeper://127.0.0.1:{free_port()}/x")
    assert isinstance(journal._znodes, JournalZNodes)
    journal._znodes._patience = 0.3
    with pytest.raises(MetadataStoreError, match="did not answer within"):
        journal.is_formatted()
    journal.close()


def test_a_bookie_registers_again_in_a_new_session(zookeeper: ZooKeeperServer, bookies: list[Process]) -> None:
    znodes = JournalZNodes(ZooKeeperAddress(zookeeper.hosts, PATIENT))
    name = f"127.0.0.1:{bookies[0].arguments[2]}"
    path = f"/ledgers/available/{name}"
    znodes.delete(path)
    deadline = time.monotonic() + 600
    while not znodes.exists(path):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert znodes.get(f"/ledgers/cookies/{name}")[0] == (bookies[0].arguments[0] / "VERSION").read_bytes()
    znodes.close()
