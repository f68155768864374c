"""`python -m bench.load`: the secondary daemon with a busy NameNode stub, and a checkpoint every few seconds.

Clients call the stub over RPC at a given rate while the daemon checkpoints. Then the stub is killed and restarted from
the daemon's last image and the edits that follow the image. The restarted stub must have exactly the acknowledged
files.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests

LOOPBACK = "127.0.0.1"
_DEADLINE_SECONDS = 60.0
_SAMPLE_SECONDS = 0.5
_CLIENTS, _THREADS = 2, 8


class LoadError(Exception):
    """A requirement that was not met; the message names it."""


@dataclass
class LoadResult:
    """Results of one run; memory is anonymous memory in bytes, sampled every half second."""

    calls: int = 0
    seconds: float = 0.0
    late: int = 0
    transactions: int = 0
    checkpoints: int = 0
    failures: int = 0
    files: int = 0
    memory: dict[str, list[int]] = field(default_factory=lambda: {"stub": [], "daemon": []})

    def growth(self, process: str) -> float:
        """Return the peak memory of the last third relative to the preceding third."""
        samples = self.memory[process]
        third = len(samples) // 3
        return max(samples[2 * third :]) / max(samples[third : 2 * third])


@dataclass
class StubAndDaemon:
    """A stub with its name directory in `scratch`/name, and a secondary daemon, as processes."""

    scratch: Path
    checkpoint_period: float
    stub_http: int
    stub_rpc: int
    daemon_http: int
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @classmethod
    def configured(cls, scratch: Path, checkpoint_period: float) -> StubAndDaemon:
        """Return both, configured for free ports and not started."""
        stub_http, stub_rpc, daemon_http = _free_ports(3)
        made = cls(scratch, checkpoint_period, stub_http, stub_rpc, daemon_http)
        made._configure()
        return made

    def _configure(self) -> None:
        conf = self.scratch / "conf"
        conf.mkdir()
        values = {
            "dfs.namenode.name.dir": (self.scratch / "name").as_uri(),
            "dfs.namenode.http-address": f"{LOOPBACK}:{self.stub_http}",
            "dfs.namenode.secondary.http-address": f"{LOOPBACK}:{self.daemon_http}",
            "dfs.namenode.checkpoint.dir": (self.scratch / "secondary").as_uri(),
            "dfs.namenode.checkpoint.period": f"{self.checkpoint_period:g}s",
            "dfs.namenode.checkpoint.check.period": "1s",
            "dfs.namenode.num.extra.edits.retained": "0",
        }
        (conf / "hdfs-site.xml").write_text(_site(values))
        (conf / "core-site.xml").write_text(_site({"fs.defaultFS": f"hdfs://{LOOPBACK}:{self.stub_rpc}"}))

    def start(self, name: str, *command: str) -> None:
        with (self.scratch / f"{name}.log").open("a") as log:
            arguments = [sys.executable, "-m", *command, "--conf", str(self.scratch / "conf")]
            self.processes[name] = subprocess.Popen(arguments, stdout=log, stderr=log, text=True)
        url = f"http://{LOOPBACK}:{self.stub_http if name == 'stub' else self.daemon_http}/status"
        self.wait(f"the {name} to answer", lambda: _get(url) is not None, name)

    def start_stub(self) -> None:
        self.start("stub", "namenode_stub", "run")

    def start_daemon(self) -> None:
        self.start("daemon", "checkpointer", "run", "--role", "secondary")

    def wait(self, what: str, reached: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not reached():
            if self.processes[name].poll() is not None or time.monotonic() > deadline:
                raise LoadError(f"waited in vain for {what}: {(self.scratch / f'{name}.log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stub_status(self) -> Any:
        return _get(f"http://{LOOPBACK}:{self.stub_http}/status")

    def daemon_status(self) -> Any:
        return _get(f"http://{LOOPBACK}:{self.daemon_http}/status")

    def files(self) -> list[str]:
        """Return every file of the stub, sorted."""
        with requests.get(f"http://{LOOPBACK}:{self.stub_http}/namespace/tree", timeout=60, stream=True) as answer:
            found = (json.loads(line) for line in answer.iter_lines())
            return sorted(each["path"] for each in found if each["type"] == "FILE")

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_load(*, seconds: float, rate: float, checkpoint_period: float) -> LoadResult:
    """Run for `seconds` at `rate` calls per second.

    Raises:
        LoadError: an acknowledged operation was lost, no checkpoint was made, or a process ended.
    """
    with tempfile.TemporaryDirectory(prefix="checkpointer-load-") as scratch, ExitStack() as stack:
        run = StubAndDaemon.configured(Path(scratch), checkpoint_period)
        stack.callback(run.stop)
        conf = ["--conf", str(run.scratch / "conf")]
        subprocess.run([sys.executable, "-m", "namenode_stub", "format", *conf], check=True, stdout=subprocess.DEVNULL)
        run.start_stub()
        run.start_daemon()
        result = LoadResult()
        clients = [_client(run, f"c{number}", rate / _CLIENTS, seconds, stack) for number in range(_CLIENTS)]
        _sample_until_done(run, clients, result)
        names = sorted(name for client in clients for name in _collect(client, result))
        _check(run, names, result)
    return result


def _client(run: StubAndDaemon, name: str, rate: float, seconds: float, stack: ExitStack) -> subprocess.Popen[str]:
    words = [LOOPBACK, str(run.stub_rpc), name, str(_THREADS), str(rate), str(seconds)]
    client = subprocess.Popen([sys.executable, "-m", "bench.load_client", *words], stdout=subprocess.PIPE, text=True)
    stack.callback(client.wait)
    stack.callback(client.kill)
    return client


def _sample_until_done(run: StubAndDaemon, clients: list[subprocess.Popen[str]], result: LoadResult) -> None:
    watched = {name: psutil.Process(process.pid) for name, process in run.processes.items()}
    while any(client.poll() is None for client in clients):
        for name, process in watched.items():
            if run.processes[name].poll() is not None:
                raise LoadError(f"the {name} ended: {(run.scratch / f'{name}.log').read_text()[-2000:]}")
            memory = process.memory_info()
            result.memory[name].append(memory.rss - memory.shared)
        time.sleep(_SAMPLE_SECONDS)


def _collect(client: subprocess.Popen[str], result: LoadResult) -> list[str]:
    assert client.stdout is not None
    if client.returncode:
        raise LoadError(f"a client exited with code {client.returncode}")
    answer_text = json.loads(client.stdout.read())
    result.calls += answer_text["calls"]
    result.late += answer_text["late"]
    result.seconds = max(result.seconds, answer_text["seconds"])
    names: list[str] = answer_text["names"]
    return names


def _check(run: StubAndDaemon, names: list[str], result: LoadResult) -> None:
    if run.files() != names:
        raise LoadError("the files of the stub differ from the acknowledged files")
    answer = requests.post(f"http://{LOOPBACK}:{run.daemon_http}/checkpoint?force=true", timeout=60)
    if not answer.ok:
        raise LoadError(f"the last checkpoint failed: {answer.text}")
    status, stub = run.daemon_status(), run.stub_status()
    result.checkpoints, result.failures = status["checkpoints"], status["failures"]
    result.transactions, result.files = stub["lastTxid"], len(names)
    if not result.checkpoints or not stub["checkpointTxid"]:
        raise LoadError(f"no checkpoint reached the stub: {status}")
    run.processes["stub"].send_signal(signal.SIGKILL)
    run.processes["stub"].wait()
    run.start_stub()
    if run.files() != names:
        raise LoadError("after a restart from the daemon's image, the files differ from the acknowledged files")


def _get(url: str) -> Any:
    try:
        response = requests.get(url, timeout=30)
    except requests.ConnectionError:
        return None
    return response.json() if response.ok else None


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]


def _site(values: dict[str, str]) -> str:
    rows = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in values.items())
    return f'<?xml version="1.0"?><configuration>{rows}</configuration>\n'


def main() -> None:
    """Run the load and print the results; the exit code is 1 if a requirement was not met."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--rate", type=float, default=1000.0, help="calls per second")
    parser.add_argument("--checkpoint-period", type=float, default=10.0, help="seconds")
    arguments = parser.parse_args()
    try:
        result = run_load(seconds=arguments.seconds, rate=arguments.rate, checkpoint_period=arguments.checkpoint_period)
    except LoadError as error:
        print(f"failed: {error}", file=sys.stderr)
        sys.exit(1)
    print(f"{result.calls} calls in {result.seconds:.0f} s ({result.calls / result.seconds:.0f}/s), {result.late} late")
    print(f"{result.transactions} transactions, {result.checkpoints} checkpoints, {result.failures} failed")
    print(f"{result.files} files, all of which exist after a kill and a restart from the daemon's image")
    for name in ("stub", "daemon"):
        samples = result.memory[name]
        print(
            f"{name}: {samples[len(samples) // 3] >> 20} MB after a third, {samples[-1] >> 20} MB at the end, "
            f"growth of the highest {result.growth(name):.2f}"
        )


if __name__ == "__main__":
    main()
