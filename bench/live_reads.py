"""`python -m bench.live_reads`: clients that list and count at full speed during tailing and a checkpoint.

The namespace of a generated image is served over RPC. Client processes list its directories and count its subtrees. At
the same time, batches of transactions are applied at a steady rate, as a standby applies them, and then a checkpoint is
made. In each round, both steps are first measured without clients. The result is the median of the rounds, except for
the largest lag.

With `--turns`, two namespaces of the image apply the same batches alternately; one of them maintains sums.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import cast

import psutil

from bench.edits import write_edits
from bench.scene import machine, make_image, read_all
from checkpointer.roles.role import CheckpointRole
from checkpointer.serving.client_protocol import namespace_services
from checkpointer.serving.live_namespace import LiveNamespace
from engine.warm_namespace import WarmNamespace
from engine.warm_up import warm_up
from hadoop_common.configuration import Configuration
from hadoop_common.names import image_name
from hadoop_common.port_limits import PortLimits
from hadoop_common.process_tuning import collect_garbage_rarely
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.errors import RpcError
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.protocol_client import ProtocolClient
from hadoop_rpc.server import RpcServer
from image_format.md5_file import md5_path
from journal.segment_file import EditLogSegment, SegmentTransactions, list_segments
from site_config.checkpoint_config import CheckpointConfig, Role

_BATCH = 1_000
_READ_EVERY = 5
"""Batches between two counts, so that mostly the thread that applies edits updates the sums."""
_PROCESSES = 2
_USER = "bench"


class _Reader(ProtocolClient):
    protocol = CLIENT_PROTOCOL

    def list(self, path: str) -> list[str]:
        """Return the directories in a directory."""
        answer = self._call("getListing", pb.GetListingRequestProto(src=path, startAfter=b"", needLocation=False))
        found = [each for each in answer.dirList.partialListing if each.fileType == pb.HdfsFileStatusProto.IS_DIR]
        return [f"{path.rstrip('/')}/{each.path.decode()}" for each in found]

    def count(self, path: str) -> None:
        self._call("getContentSummary", pb.PathRequestProto(src=path))


def _clients(
    address: tuple[str, int], threads: int, ended: Event, answers: multiprocessing.Queue[tuple[int, int]]
) -> None:
    """Read with `threads` clients until the end; report the numbers of responses and refusals."""
    done, refused = [0] * threads, [0] * threads

    def read(number: int) -> None:
        chance, known = random.Random(number), ["/"]
        with _Reader(*address, user=_USER) as reader:
            while not ended.is_set():
                path = chance.choice(known)
                try:
                    if chance.random() < 0.8:
                        known = [*known, *reader.list(path)][-5_000:] or ["/"]
                    else:
                        reader.count(path)
                    done[number] += 1
                except RpcError:
                    refused[number] += 1

    workers = [threading.Thread(target=read, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    answers.put((sum(done), sum(refused)))


@dataclass(frozen=True)
class Measured:
    """Measurements of applied edits and a checkpoint: seconds, and bytes of anonymous memory.

    Attributes:
        lags: seconds from the arrival of each batch until it is applied.
    """

    lags: Sequence[float]
    checkpoint: float
    memory: int


def _follow(namespace: WarmNamespace, current: Path, segments: Sequence[EditLogSegment], interval: float) -> Measured:
    lags, begun = [], time.monotonic()
    for number, segment in enumerate(segments):
        due = begun + number * interval
        time.sleep(max(0.0, due - time.monotonic()))
        namespace.apply(SegmentTransactions([segment], namespace.last_txid + 1), expected=_BATCH)
        lags.append(time.monotonic() - due)
    base, begun = namespace.base_txid, time.monotonic()
    namespace.save([current])
    taken = time.monotonic() - begun
    old = current / image_name(base)
    old.unlink()
    md5_path(old).unlink()
    memory = psutil.Process().memory_info()
    return Measured(lags, taken, memory.rss - memory.shared)


class _NoRole:
    """A placeholder for the role, which these reads never call."""


def _served(namespace: WarmNamespace) -> LiveNamespace:
    values = {"fs.defaultFS": "hdfs://localhost:8020", "dfs.namenode.shared.edits.dir": "/nowhere"}
    config = CheckpointConfig.from_configuration(Configuration.from_mapping(values, {"USER": _USER}), Role.STANDBY)
    return LiveNamespace(cast(CheckpointRole, _NoRole()), namespace, config, owner=_USER, authenticated=False)


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(prog="python -m bench.live_reads", description=__doc__)
    parser.add_argument("--inodes", type=int, default=10_000_000)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=20, help="batches of 1,000 transactions per measurement")
    parser.add_argument("--interval", type=float, default=0.5, help="seconds between two batches")
    parser.add_argument("--sums", action="store_true", help="keep the sums of every directory")
    parser.add_argument("--turns", action="store_true", help="measure only what sums add to the application of edits")
    arguments = parser.parse_args()
    collect_garbage_rarely()
    warm_up()
    if arguments.turns:
        _take_turns(arguments.inodes, 2 * arguments.rounds * arguments.batches)
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, WarmNamespace(keeps_sums=arguments.sums) as namespace:
        base = make_image(Path(folder), arguments.inodes, snapshots=False, seed=1)
        write_edits(base, 2 * arguments.rounds * arguments.batches * _BATCH, "jobs", segment=_BATCH)
        current = base.path.parent
        segments = list_segments(current)
        read_all(current)
        begun = time.monotonic()
        namespace.load(base.path)
        print(f"{machine()}: {arguments.inodes:,} inodes, loaded in {time.monotonic() - begun:.1f} s", flush=True)
        speed, taken = _count_root(namespace)
        print(f"count of /: {1000 * taken:.2f} ms, {speed / 1e6:.2f} million inodes per second", flush=True)
        slower, more, lag = list[float](), list[int](), 0.0
        for _ in range(arguments.rounds):
            alone = _follow(namespace, current, segments[: arguments.batches], arguments.interval)
            _show("alone", alone)
            del segments[: arguments.batches]
            with _reading(_served(namespace), arguments.clients):
                beside = _follow(namespace, current, segments[: arguments.batches], arguments.interval)
            _show(f"with {arguments.clients} clients", beside)
            del segments[: arguments.batches]
            slower.append(beside.checkpoint / alone.checkpoint)
            more.append(beside.memory - alone.memory >> 20)
            lag = max(lag, *beside.lags)
        ratio, memory = statistics.median(slower), statistics.median(more)
        print(f"lag of {lag:.2f} s at most; a checkpoint takes {ratio:.2f} times as long; {memory:+.0f} MiB")


@contextmanager
def _reading(live: LiveNamespace, clients: int) -> Iterator[None]:
    """Run clients that read, and print the number of their responses."""
    spawn = multiprocessing.get_context("spawn")
    ended, answers = spawn.Event(), spawn.Queue()
    # all clients of this benchmark have the same address
    limits = PortLimits(connections=2 * clients, peer_connections=2 * clients)
    with RpcServer(namespace_services(live, needs_state_id=False), "127.0.0.1", 0, limits=limits) as server:
        given = (server.address, clients // _PROCESSES, ended, answers)
        readers = [spawn.Process(target=_clients, args=given) for _ in range(_PROCESSES)]
        for reader in readers:
            reader.start()
        begun = time.monotonic()
        yield
        ended.set()
        found = [answers.get() for _ in readers]
        seconds = time.monotonic() - begun
        for reader in readers:
            reader.join()
    done, refused = (sum(each) for each in zip(*found, strict=True))
    print(f"{done / seconds:.0f} answers per second, {refused} refusals")


def _take_turns(inodes: int, batches: int) -> None:
    """Apply each batch to a namespace with sums and to a namespace without sums; print the CPU time of both, and of
    counts of /.
    """
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        WarmNamespace(keeps_sums=True) as summed,
        WarmNamespace() as plain,
    ):
        base = make_image(Path(folder), inodes, snapshots=False, seed=1)
        write_edits(base, batches * _BATCH, "jobs", segment=_BATCH)
        segments = list_segments(base.path.parent)
        read_all(base.path.parent)
        taken = {}
        for namespace in (summed, plain):
            namespace.load(base.path)
            taken[namespace] = list[float]()
        counts = []
        for number, segment in enumerate(segments):
            for namespace in (summed, plain) if number % 2 else (plain, summed):
                begun = time.thread_time()
                namespace.apply(SegmentTransactions([segment], namespace.last_txid + 1), expected=_BATCH)
                taken[namespace].append(time.thread_time() - begun)
            if number % _READ_EVERY == 0:
                counts.append(_count_root(summed)[1])
        with_sums, without = (1000 * sum(taken[each]) / len(segments) for each in (summed, plain))
        print(f"{machine()}: {inodes:,} inodes, {len(segments)} batches of {_BATCH:,} transactions; CPU time:")
        print(f"a batch {without:.2f} ms, with sums {with_sums:.2f} ms ({with_sums / without - 1:+.1%})")
        print(f"count of /: {1000 * statistics.median(counts):.2f} ms (median), {1000 * max(counts):.2f} ms at most")
        print(f"without sums: {_count_root(plain)[0] / 1e6:.2f} million inodes per second")


def _count_root(namespace: WarmNamespace) -> tuple[float, float]:
    """Return inodes per second of CPU time, and the CPU time, of a count of /."""
    with namespace.reading(0, 0) as browser:
        root = browser.root()
        assert root is not None
        begun = time.thread_time()
        totals = browser.content(root).totals
        taken = time.thread_time() - begun
    return (totals.files + totals.directories) / taken, taken


def _show(what: str, found: Measured) -> None:
    print(
        f"{what}: a batch is applied after {1000 * statistics.median(found.lags):.0f} ms (median), "
        f"{max(found.lags):.2f} s at most; checkpoint {found.checkpoint:.2f} s; {found.memory >> 20} MiB",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
