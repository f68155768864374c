"""`python -m bench.abuse`: the effect of hostile clients on every port of a cluster on all other clients.

A stub writes its edits to three JournalNodes, and a standby daemon reads them and makes checkpoints. Clients create
directories over RPC, query health and request checkpoints, in turn. They first run alone, then for a few minutes during
attacks of every kind (`bench.abuse_client`), and again a minute after the last attack.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests

from bench.load import _free_ports, _site
from hadoop_rpc.client import RpcClient
from hadoop_rpc.proto import client_namenode_pb2 as pb

_HERE = "127.0.0.1"
_PROTOCOL = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
_START_SECONDS = 90.0
_SETTLE_SECONDS = 60.0
_PAUSE_SECONDS = 0.02


@dataclass
class Measured:
    """Seconds of each kind of work, and the number of failures."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True)
class Usage:
    """Resources of one process; memory in bytes, without shared memory."""

    memory: int
    descriptors: int
    threads: int

    @classmethod
    def of(cls, process: psutil.Process) -> Usage:
        memory = process.memory_info()
        return cls(memory.rss - memory.shared, process.num_fds(), process.num_threads())


class Cluster:
    """A stub, a standby daemon and three JournalNodes on loopback; a context manager."""

    def __init__(self, root: Path) -> None:
        self._root = root
        ports = _free_ports(9)
        self.stub_http, self.stub_rpc, self.daemon_http = ports[:3]
        self.nodes = list(zip(ports[3:6], ports[6:9], strict=True))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._closing = ExitStack()

    @property
    def ports(self) -> list[tuple[str, int]]:
        """Protocol and number of each port."""
        rpc = [self.stub_rpc, *(rpc for rpc, _ in self.nodes)]
        http = [self.stub_http, self.daemon_http, *(http for _, http in self.nodes)]
        return [("rpc", port) for port in rpc] + [("http", port) for port in http]

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _start(self) -> None:
        for number in range(3):
            self._run(f"journalnode{number}", "checkpointer", "journalnode", "run")
        for _, port in self.nodes:
            self._wait(f"http://{_HERE}:{port}/health/live")
        command = [sys.executable, "-m", "namenode_stub", "format", "--conf", str(self._configure("nn1"))]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self._run("nn1", "namenode_stub", "run")
        self._wait(f"http://{_HERE}:{self.stub_http}/status")
        self._run("nn2", "checkpointer", "run", "--role", "standby")
        self._wait(f"http://{_HERE}:{self.daemon_http}/health/live")

    def _run(self, name: str, *command: str) -> None:
        with (self._root / f"{name}.log").open("ab") as log:
            words = [sys.executable, "-m", *command, "--conf", str(self._configure(name))]
            process = subprocess.Popen(words, stdout=log, stderr=log)
        self.processes[name] = process
        self._closing.callback(process.wait)
        self._closing.callback(process.terminate)

    def _configure(self, name: str) -> Path:
        conf = self._root / f"conf-{name}"
        conf.mkdir(exist_ok=True)
        values = {
            "dfs.nameservices": "abuse",
            "dfs.ha.namenodes.abuse": "nn1,nn2",
            "dfs.namenode.http-address.abuse.nn1": f"{_HERE}:{self.stub_http}",
            "dfs.namenode.rpc-address.abuse.nn1": f"{_HERE}:{self.stub_rpc}",
            "dfs.namenode.http-address.abuse.nn2": f"{_HERE}:{self.daemon_http}",
            "dfs.namenode.shared.edits.dir": f"qjournal://{';'.join(f'{_HERE}:{rpc}' for rpc, _ in self.nodes)}/abuse",
            "dfs.namenode.name.dir": (self._root / name).as_uri(),
            "dfs.ha.namenode.id": name,
            "dfs.namenode.checkpoint.check.period": "1s",
            "dfs.ha.log-roll.period": "5s",
            "dfs.ha.tail-edits.period": "1s",
        }
        if name.startswith("journalnode"):
            rpc, http = self.nodes[int(name[-1])]
            del values["dfs.ha.namenode.id"]
            values |= {
                "dfs.journalnode.rpc-address": f"{_HERE}:{rpc}",
                "dfs.journalnode.http-address": f"{_HERE}:{http}",
                "dfs.journalnode.edits.dir": str(self._root / name),
            }
        (conf / "hdfs-site.xml").write_text(_site(values))
        (conf / "core-site.xml").write_text(_site({"fs.defaultFS": "hdfs://abuse"}))
        return conf

    def _wait(self, url: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                if requests.get(url, timeout=5).ok:
                    return
            except requests.RequestException:
                pass
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                name = (ended or list(self.processes))[-1]
                raise RuntimeError(f"{url} does not answer: {(self._root / f'{name}.log').read_text()[-2000:]}")
            time.sleep(0.2)

    def usage(self) -> dict[str, Usage]:
        return {name: Usage.of(psutil.Process(process.pid)) for name, process in self.processes.items()}


def measure(cluster: Cluster, seconds: float) -> Measured:
    """Perform all kinds of work in turn for the given time."""
    measured, end = Measured(), time.monotonic() + seconds
    health = [port for kind, port in cluster.ports if kind == "http" and port != cluster.stub_http]

    def ask_health() -> None:
        for port in health:
            requests.get(f"http://{_HERE}:{port}/health/live", timeout=60).raise_for_status()

    def checkpoint() -> None:
        answer = requests.post(f"http://{_HERE}:{cluster.daemon_http}/checkpoint?force=true", timeout=120)
        answer.raise_for_status()

    with RpcClient(_HERE, cluster.stub_rpc, _PROTOCOL, user="hdfs", timeout=60.0) as rpc:
        masked, serial = pb.FsPermissionProto(perm=0o755), iter(range(1 << 30))

        def make_directory() -> None:
            path = f"/{time.time_ns()}-{next(serial)}"
            rpc.call("mkdirs", pb.MkdirsRequestProto(src=path, masked=masked, createParent=True), pb.EmptyProto)

        works: dict[str, tuple[Callable[[], Any], float]] = {
            "edit": (make_directory, _PAUSE_SECONDS),
            "health": (ask_health, _PAUSE_SECONDS),
            "checkpoint": (checkpoint, 1.0),
        }
        threads = [
            threading.Thread(target=_repeat, args=(name, work, pause, end, measured))
            for name, (work, pause) in works.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return measured


def _repeat(name: str, work: Callable[[], Any], pause: float, end: float, measured: Measured) -> None:
    while time.monotonic() < end:
        begun = time.monotonic()
        try:
            work()
        except Exception as fault:
            measured.failures[name].append(str(fault))
        else:
            measured.seconds[name].append(time.monotonic() - begun)
        time.sleep(pause)


def attack(cluster: Cluster, *, sources: int, count: int, seconds: float) -> list[subprocess.Popen[bytes]]:
    """Start an attacking process for each port at idle priority; the processes use `sources` addresses in turn."""
    return [
        subprocess.Popen(
            [
                *("nice", "-n", "19", sys.executable, "-m", "bench.abuse_client", kind, _HERE, str(port)),
                *(f"127.0.0.{2 + number % sources}" if sources else _HERE, str(count), str(seconds)),
            ]
        )
        for number, (kind, port) in enumerate(cluster.ports)
    ]


def _print(title: str, measured: Measured, usage: dict[str, Usage]) -> None:
    print(title, flush=True)
    for name in sorted({*measured.seconds, *measured.failures}):
        times, failures = len(measured.seconds[name]), measured.failures[name]
        taken = [1000 * each for each in sorted(measured.seconds[name])] or [float("nan")]
        print(
            f"  {name:<11} {times:>6} times, median {statistics.median(taken):>7.1f} ms, "
            f"95 % {taken[int(len(taken) * 0.95)]:>7.1f} ms, most {taken[-1]:>7.1f} ms, "
            f"{len(failures)} failed {failures[-1][:200] if failures else ''}"
        )
    for name, each in sorted(usage.items()):
        print(f"  {name:<13} {each.memory >> 20:>5} MiB, {each.descriptors:>4} descriptors, {each.threads:>3} threads")
    print(flush=True)


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(prog="python -m bench.abuse", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=20, help="of each kind on each port")
    parser.add_argument("--sources", type=int, default=8, help="hostile addresses; 0: the address of the other clients")
    parser.add_argument("--quiet", type=float, default=20.0, help="seconds to measure without hostile clients")
    parser.add_argument("--keep", type=Path, help="directory in which to keep the logs")
    arguments = parser.parse_args()
    with ExitStack() as closing:
        root = arguments.keep or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="checkpointer-abuse-")))
        cluster = closing.enter_context(Cluster(root))
        measure(cluster, 5.0)
        _print("alone", measure(cluster, arguments.quiet), cluster.usage())
        seconds = 60 * arguments.minutes
        attackers = attack(cluster, sources=arguments.sources, count=arguments.connections, seconds=seconds + 5)
        time.sleep(5)
        title = f"with {arguments.connections} hostile connections of each kind on each of {len(cluster.ports)} ports"
        _print(title, measure(cluster, seconds - 5), cluster.usage())
        for attacker in attackers:
            attacker.wait()
        time.sleep(_SETTLE_SECONDS)
        _print("a minute later", measure(cluster, arguments.quiet), cluster.usage())
        logs = sum(path.stat().st_size for path in root.glob("*.log"))
        print(f"{logs >> 10} KiB of logs on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
