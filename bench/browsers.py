"""`python -m bench.browsers`: checkpoints of a daemon, alone and while browsers show its console.

A secondary daemon makes checkpoints of a stub's generated namespace. Each round makes one checkpoint alone, and another
checkpoint while clients in another process poll the page as the console's script does. Times are durations of the
request; CPU seconds are the daemon's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

import psutil
import requests

from bench.load import LOOPBACK, StubAndDaemon
from bench.scene import machine, make_image
from hadoop_rpc.client import RpcClient
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.proto import client_namenode_pb2 as pb

_POLL_SECONDS = 2.0
_NEVER_SECONDS = 86_400.0
_TIMEOUT = 900.0


@dataclass(frozen=True)
class TimedCheckpoint:
    """Seconds of a request for a checkpoint, and the daemon's CPU seconds during that time."""

    seconds: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.browsers", description=__doc__)
    parser.add_argument("--inodes", type=int, default=1_000_000)
    parser.add_argument("--browsers", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkpointer-browsers-") as scratch:
        run = StubAndDaemon.configured(Path(scratch), _NEVER_SECONDS)
        print(f"{machine()}: {arguments.inodes:,} inodes", flush=True)
        make_image(run.scratch / "name", arguments.inodes, snapshots=False, seed=1)
        try:
            run.start_stub()
            run.start_daemon()
            _measure(run, arguments.browsers, arguments.rounds)
        finally:
            run.stop()


def _measure(run: StubAndDaemon, browsers: int, rounds: int) -> None:
    alone, beside = [], []
    with RpcClient(LOOPBACK, run.stub_rpc, CLIENT_PROTOCOL.name, user="bench") as rpc:
        # the first checkpoint fetches the image and loads the kernels
        _checkpoint(run, rpc, "first")
        for number in range(rounds):
            alone.append(_checkpoint(run, rpc, f"alone-{number}"))
            with _browsing(f"http://{LOOPBACK}:{run.daemon_http}/", browsers):
                beside.append(_checkpoint(run, rpc, f"loaded-{number}"))
    _show("alone", alone)
    _show(f"with {browsers} browsers", beside)
    ratio = statistics.median(each.seconds for each in beside) / statistics.median(each.seconds for each in alone)
    print(f"ratio of the medians: {ratio:.3f}")


def _checkpoint(run: StubAndDaemon, rpc: RpcClient, name: str) -> TimedCheckpoint:
    permission = pb.FsPermissionProto(perm=0o755)
    asked = pb.MkdirsRequestProto(src=f"/bench-{name}", masked=permission, createParent=True)
    rpc.call("mkdirs", asked, pb.EmptyProto, idempotent=False)
    daemon = psutil.Process(run.processes["daemon"].pid)
    begun, before = time.monotonic(), daemon.cpu_times()
    answer = requests.post(f"http://{LOOPBACK}:{run.daemon_http}/checkpoint?force=true", timeout=_TIMEOUT)
    seconds, after = time.monotonic() - begun, daemon.cpu_times()
    answer.raise_for_status()
    return TimedCheckpoint(seconds, after.user + after.system - before.user - before.system)


@contextmanager
def _browsing(url: str, browsers: int) -> Iterator[None]:
    """Poll `url` from another process; on entry, every browser has loaded the page."""
    spawn = multiprocessing.get_context("spawn")
    began, ended, answers = spawn.Event(), spawn.Event(), spawn.Queue()
    process = spawn.Process(target=_browse, args=(url, browsers, began, ended, answers))
    process.start()
    began.wait()
    begun = time.monotonic()
    try:
        yield
    finally:
        seconds = time.monotonic() - begun
        ended.set()
        count = answers.get()
        process.join()
        print(f"{count} pages in {seconds:.1f} s", flush=True)


def _browse(url: str, browsers: int, began: Event, ended: Event, answers: multiprocessing.Queue[int]) -> None:
    counts, barrier = [0] * browsers, threading.Barrier(browsers, began.set)

    def browser(number: int) -> None:
        with requests.Session() as session:
            time.sleep(number * _POLL_SECONDS / browsers)
            session.get(url, timeout=_TIMEOUT)
            barrier.wait()
            time.sleep(number * _POLL_SECONDS / browsers)
            while not ended.is_set():
                counts[number] += session.get(url, timeout=_TIMEOUT).ok
                ended.wait(_POLL_SECONDS)

    threads = [threading.Thread(target=browser, args=(number,)) for number in range(browsers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(sum(counts))


def _show(what: str, found: list[TimedCheckpoint]) -> None:
    seconds, cpu = [each.seconds for each in found], [each.cpu for each in found]
    print(
        f"{what}: {statistics.median(seconds):.2f} s (median; {min(seconds):.2f} to {max(seconds):.2f}), "
        f"{statistics.median(cpu):.2f} CPU seconds",
        flush=True,
    )


if __name__ == "__main__":
    main()
