"""`python -m bench.edit_log`: transactions per second through the edit log, and with one fsync for each transaction.

Every caller waits until its transaction is durable. The variants take turns in each round, so that other load on the
machine affects all of them. The quorum uses three of our JournalNodes, and BookKeeper uses three of our bookies, all on
this machine. BookKeeper needs ZooKeeper, which needs a JVM and PySpark's jars; without these, BookKeeper is skipped.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hadoop_common.storage_info import StorageInfo
from hadoop_common.zookeeper.session import ZooKeeperAddress
from hadoop_rpc.qjournal_protocol import qjournal_service
from hadoop_rpc.server import RpcServer
from image_format.layout import NEWEST_LAYOUT
from journal.binary_codec import encode_op
from journal.bookie.bookie import Bookie
from journal.bookie.registration import BookieRegistration, format_ledgers
from journal.bookie.server import BookieServer
from journal.bookkeeper.ledger_paths import LedgerManager
from journal.bookkeeper.zookeeper import JournalZNodes
from journal.edit_log_writer import EditLogWriter
from journal.file_journal import FileJournal
from journal.journal import Journal
from journal.journal_set import JournalMember, JournalSet
from journal.json_journal import JsonJournal
from journal.open_journal import open_journal
from journal.ops import MkdirOp, PermissionStatus
from journal_node.file_disk import below
from journal_node.get_journal import get_journal_blueprint
from journal_node.node import JournalNode
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from servlets.application import create_application
from servlets.http_server import HttpServer

_NAMESPACE = StorageInfo(NEWEST_LAYOUT, 1, 0, "CID-bench", "BP-bench")
_OWNER = PermissionStatus("hdfs", "supergroup", 0o755)
_FLOOR = "one fsync each"
_SPAWN = multiprocessing.get_context("spawn")
_MARKERS = 2  # START_LOG_SEGMENT and END_LOG_SEGMENT

Caller = Callable[[MkdirOp], object]


class BenchError(Exception):
    """A log that lacks a written transaction; the message names the log."""


@dataclass(frozen=True, slots=True)
class Run:
    """Result of one variant in one round."""

    transactions: int
    seconds: float
    syncs: int

    @property
    def rate(self) -> float:
        return self.transactions / self.seconds


def _mkdir(thread: int, number: int) -> MkdirOp:
    path = f"/user/worker-{thread:03d}/2024-01-01/part-{number:09d}"
    return MkdirOp(inode_id=16386 + number, path=path, timestamp=1_700_000_000_000 + number, permissions=_OWNER)


def _call(call: Caller, threads: int, seconds: float) -> tuple[int, float]:
    """Call repeatedly from several threads, at least once from each; return the number of calls and the seconds."""
    ready = threading.Barrier(threads + 1)
    counts = [0] * threads
    faults: list[BaseException] = []
    deadline = float("inf")

    def work(thread: int) -> None:
        ready.wait()
        try:
            while not counts[thread] or time.perf_counter() < deadline:
                call(_mkdir(thread, counts[thread]))
                counts[thread] += 1
        except BaseException as fault:
            faults.append(fault)

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    deadline = time.perf_counter() + seconds
    ready.wait()
    started = time.perf_counter()
    for worker in workers:
        worker.join()
    took = time.perf_counter() - started
    if faults:
        raise faults[0]
    return sum(counts), took


def _floor(root: Path, threads: int, seconds: float) -> Run:
    """Measure a log without a buffer: each caller writes and syncs its record while the other callers wait."""
    descriptor = os.open(root / "records", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    lock = threading.Lock()
    last = 0

    def call(op: MkdirOp) -> None:
        nonlocal last
        with lock:
            last = op.txid = last + 1
            os.write(descriptor, encode_op(op, NEWEST_LAYOUT))
            os.fsync(descriptor)

    try:
        transactions, took = _call(call, threads, seconds)
    finally:
        os.close(descriptor)
    return Run(transactions, took, transactions)


def _logged(journal: Journal, threads: int, seconds: float) -> Run:
    journal.format(_NAMESPACE)
    journal.recover(_NAMESPACE)
    try:
        with EditLogWriter(journal, NEWEST_LAYOUT, 1) as log:
            before = log.metrics().syncs
            transactions, took = _call(lambda op: log.sync(log.write(op)), threads, seconds)
            syncs = log.metrics().syncs - before
        found = journal.segments(1)
        count = found[-1].last if found else 0
        if count != transactions + _MARKERS:
            raise BenchError(f"{journal.location} has {count} of {transactions + _MARKERS} transactions")
    finally:
        journal.close()
    return Run(transactions, took, syncs)


def _directory(root: Path, name: str = "a") -> FileJournal:
    return FileJournal(root / name / "current")


def _quorum(root: Path, threads: int, seconds: float) -> Run:
    """Run three JournalNodes, each in its own process."""
    with _processes([_serve_journal_node] * 3, root) as ports:
        nodes = ";".join(f"127.0.0.1:{port}" for port in ports)
        return _logged(open_journal(f"qjournal://{nodes}/bench"), threads, seconds)


def _bookkeeper(root: Path, threads: int, seconds: float) -> Run:
    """Run three bookies, each in its own process, and a ZooKeeper."""
    with ZooKeeperServer(root / "zookeeper") as zookeeper:
        served = [partial(_serve_bookie, zookeeper.hosts)] * 3
        with _processes(served, root):
            return _logged(open_journal(f"bookkeeper://{zookeeper.hosts}/bench"), threads, seconds)


def _serve_journal_node(root: Path, port: Connection) -> None:
    node = JournalNode(below(root))
    with RpcServer([qjournal_service(node)], "127.0.0.1", 0) as server:
        http = HttpServer(create_application(get_journal_blueprint(node)), "127.0.0.1", 0)
        with http:
            node.announce(int(http.url.rpartition(":")[2]), http.url)
            port.send(server.address[1])
            threading.Event().wait()


def _serve_bookie(hosts: str, root: Path, port: Connection) -> None:
    znodes = JournalZNodes(ZooKeeperAddress(hosts, 10.0))
    format_ledgers(znodes, "/ledgers", LedgerManager.FLAT)
    server = BookieServer(Bookie(root))
    host, number = server.listen("127.0.0.1", 0)
    server.start()
    BookieRegistration(znodes, "/ledgers", f"{host}:{number}", (host, number)).start()
    port.send(number)
    threading.Event().wait()


@contextmanager
def _processes(served: Sequence[Callable[[Path, Connection], None]], root: Path) -> Iterator[list[int]]:
    """Start a process for each of `served`, with a folder below `root`; yield the ports on which they serve."""
    started = []
    try:
        for number, serve in enumerate(served):
            folder = root / f"server{number}"
            folder.mkdir()
            hearing, telling = _SPAWN.Pipe(duplex=False)
            process = _SPAWN.Process(target=serve, args=(folder, telling), daemon=True)
            process.start()
            started.append((process, hearing))
        yield [hearing.recv() for _, hearing in started]
    finally:
        for process, _ in started:
            process.kill()
            process.join()


_WAYS: dict[str, Callable[[Path, int, float], Run]] = {
    _FLOOR: _floor,
    "file": lambda root, threads, seconds: _logged(_directory(root), threads, seconds),
    "set of two": lambda root, threads, seconds: _logged(
        JournalSet([JournalMember(_directory(root, name)) for name in "ab"]), threads, seconds
    ),
    "json": lambda root, threads, seconds: _logged(JsonJournal(root / "log"), threads, seconds),
    "quorum": _quorum,
    "bookkeeper": _bookkeeper,
}


def measure(
    directory: Path | None, threads: int, seconds: float, rounds: int, chosen: Sequence[str] | None = None
) -> dict[str, list[Run]]:
    """Run all variants with the given threads, each for about `seconds`.

    Raises:
        BenchError: a log lacks a transaction that was written.
    """
    runs: dict[str, list[Run]] = {name: [] for name in _WAYS if name in (_FLOOR, *(chosen or _WAYS))}
    if MISSING:
        runs.pop("bookkeeper", None)
    for _ in range(rounds):
        for name, done in runs.items():
            with tempfile.TemporaryDirectory(dir=directory, prefix="bench-") as scratch:
                done.append(_WAYS[name](Path(scratch), threads, seconds))
    return runs


def _summary(runs: dict[str, list[Run]]) -> dict[str, dict[str, float]]:
    """Return the medians of the rounds; `ratio` compares with the floor of the same round."""
    found = {}
    for name, each in runs.items():
        ratios = [run.rate / floor.rate for run, floor in zip(each, runs[_FLOOR], strict=True)]
        found[name] = {
            "transactionsPerSecond": statistics.median(run.rate for run in each),
            "ratio": statistics.median(ratios),
            "transactionsPerSync": sum(run.transactions for run in each) / sum(run.syncs for run in each),
        }
    return found


def _print(threads: int, found: dict[str, dict[str, float]]) -> None:
    print(f"{threads} writer thread{'s' if threads > 1 else ''}")
    print(f"  {'':<16}{'txns/s':>12}{'x fsync each':>14}{'txns/sync':>13}")
    for name, each in found.items():
        rate, ratio, batch = each["transactionsPerSecond"], each["ratio"], each["transactionsPerSync"]
        print(f"  {name:<16}{rate:>12,.0f}{ratio:>14.1f}{batch:>13.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.edit_log", description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each variant in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=None, help="working directory (default: a temporary one)")
    parser.add_argument("--ways", nargs="+", choices=list(_WAYS), help="in addition to the floor (default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    # This benchmark causes warnings about servers that have not started or have stopped.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    if not arguments.json:
        print(f"{machine}; median of {arguments.rounds} rounds of {arguments.seconds:g} s")
    results: dict[int, Any] = {}
    for threads in arguments.threads:
        results[threads] = _summary(
            measure(arguments.dir, threads, arguments.seconds, arguments.rounds, arguments.ways)
        )
        if not arguments.json:
            _print(threads, results[threads])
    if arguments.json:
        print(json.dumps({"machine": machine, "rounds": arguments.rounds, "threads": results}))


if __name__ == "__main__":
    main()
