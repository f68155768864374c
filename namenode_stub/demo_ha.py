"""`make demo-ha`: two NameNode stubs fail over automatically while clients write.

ZooKeeper, three JournalNodes, two stubs and their failover controllers run as processes of this machine. Clients create
directories by RPC as HDFS clients do: if a NameNode is not active or has stopped, they call the other NameNode. They
record the acknowledged directories. In four steps, the active NameNode is killed, hangs, is lost with its controller,
and receives a request to hand over. After each step, all acknowledged directories must exist in the new active
NameNode, and only one NameNode may be active.

On a busy machine, a NameNode may miss the deadline of a response, or a controller may lose its session. The pair then
fails over automatically, and the fenced NameNode ends. Therefore, the demo restarts fenced processes, and every step
first waits for one active and one standby NameNode.
"""

from __future__ import annotations

import itertools
import logging
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from rich.table import Table

from hadoop_common.process_user import process_user
from hadoop_common.quantities import counted
from hadoop_rpc.client import NO_RETRY, RpcClient
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.errors import RpcError
from hadoop_rpc.ha_protocol import HAServiceClient, HAState
from hadoop_rpc.proto import client_namenode_pb2 as pb
from namenode_stub.demo_conf import HaSite
from namenode_stub.demo_stage import DemoError, DemoStage, kill, run_demo, tree
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer

_HERE = "127.0.0.1"
_CLIENTS = 4
_ENOUGH = 200
# pause of a client that found no active NameNode; HDFS clients begin with 500 ms
_CLIENT_PAUSE = 0.05
_CALL_SECONDS = 30.0
# exit codes: the znodes already exist; ZooKeeper did not answer in time; the other NameNode did not become active
_EXISTS = 2
_ZOOKEEPER_AWAY = 6
_NOT_ACTIVE = 7


@dataclass(frozen=True, slots=True)
class FailoverGap:
    """Result of a failover: the longest time without an acknowledgement, and the number of acknowledged directories."""

    what: str
    active: str
    milliseconds: int
    acknowledged: int


class Clients:
    """Threads that create directories at the active NameNode until they are stopped.

    Attributes:
        acknowledged: time (monotonic seconds) and path of each acknowledged directory, in order.
    """

    def __init__(self, ports: list[int]) -> None:
        self.acknowledged: list[tuple[float, str]] = []
        self._ports = ports
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(_CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def longest_gap(self, since: int) -> float:
        """Return the longest time in seconds between consecutive acknowledgements, starting at number `since`."""
        times = sorted(when for when, _ in self.acknowledged[max(0, since - 1) :])
        return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)

    def _work(self, client: int) -> None:
        nodes = [
            RpcClient(
                _HERE,
                port,
                CLIENT_PROTOCOL.name,
                user=process_user(),
                timeout=_CALL_SECONDS,
                connect_timeout=1.0,
                retry=NO_RETRY,
            )
            for port in self._ports
        ]
        at = 0
        for number in itertools.count():
            path = f"/client{client}/{number}"
            request = pb.MkdirsRequestProto(src=path, masked=pb.FsPermissionProto(perm=0o755), createParent=True)
            while not self._stop.is_set():
                try:
                    nodes[at].call("mkdirs", request, pb.ResultProto)
                except RpcError:
                    # a standby, or a NameNode that does not respond: the other NameNode may be active
                    at = 1 - at
                    self._stop.wait(_CLIENT_PAUSE)
                else:
                    self.acknowledged.append((time.monotonic(), path))
                    break
            if self._stop.is_set():
                break
        for node in nodes:
            node.close()


@dataclass
class HaDemo(DemoStage):
    """The two NameNodes with their processes.

    Attributes:
        gaps: the measurements.
        down: the NameNode that was stopped on purpose and must not be restarted yet.
    """

    site: HaSite = field(init=False)
    clients: Clients = field(init=False)
    gaps: list[FailoverGap] = field(default_factory=list)
    down: str = ""
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    controllers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.site = HaSite.below(self.scratch)
        self.clients = Clients(list(self.site.rpc.values()))

    # ---- processes -------------------------------------------------------------------------------------------

    def start_journal_nodes(self) -> None:
        started = [
            self.start_process(name, "checkpointer", "journalnode", "run", "--conf", str(self.site.conf(name)))
            for name in (f"jn{number}" for number in range(len(self.site.journal_rpc)))
        ]
        for process, port in zip(started, self.site.journal_rpc, strict=True):
            self.wait("a JournalNode", lambda port=port: _listens(port), process)  # type: ignore[misc]

    def format_election(self, node: str) -> None:
        """Create the election's znodes; on a busy machine, ZooKeeper may respond late."""
        arguments = ("zkfc", "format", "--non-interactive", "--conf", str(self.site.conf(node)))
        while self.run_process("checkpointer", *arguments, accept=(0, _EXISTS, _ZOOKEEPER_AWAY))[0] == _ZOOKEEPER_AWAY:
            pass

    def start_node(self, node: str) -> None:
        """Start a NameNode without waiting for it."""
        process = self.start_process(node, "namenode_stub", "run", "--conf", str(self.site.conf(node)))
        self.nodes[node] = process
        self.site.pid_file(node).write_text(str(process.pid))

    def start_controller(self, node: str) -> None:
        """Start a failover controller without waiting for it."""
        conf = str(self.site.conf(node))
        self.controllers[node] = self.start_process(f"zkfc-{node}", "checkpointer", "zkfc", "run", "--conf", conf)

    def tend(self) -> None:
        """Restart processes that ended because the machine was busy.

        Raises:
            DemoError: a process failed on its own.
        """
        for node, process in list(self.nodes.items()):
            if node != self.down and process.poll() is not None:
                if process.returncode != -signal.SIGKILL:
                    raise DemoError(f"{node} exited with code {process.returncode}")
                self.console.print(f"  {node} was fenced and is restarted")
                self.start_node(node)
        for node, process in list(self.controllers.items()):
            if node != self.down and process.poll() is not None:
                if process.returncode != _ZOOKEEPER_AWAY:
                    raise DemoError(f"the controller of {node} exited with code {process.returncode}")
                self.start_controller(node)

    def wait_tending(self, what: str, reached: Callable[[], bool]) -> None:
        """Wait for a state of the pair; raise the same errors as `wait` and `tend`."""

        def tended() -> bool:
            self.tend()
            return reached()

        self.wait(what, tended)

    def state(self, node: str) -> HAState | None:
        """Return the state that a NameNode reports, or None if it does not answer."""
        limits = {"timeout": 1.0, "connect_timeout": 1.0}
        with HAServiceClient(_HERE, self.site.rpc[node], user=process_user(), retry=NO_RETRY, **limits) as client:
            try:
                return client.service_status().state
            except RpcError:
                return None

    def settled(self) -> str:
        """Wait for one active NameNode, one standby and listening controllers; return the active NameNode.

        Raises:
            DemoError: the pair does not reach that state.
        """
        found: list[str] = []

        def is_settled() -> bool:
            states = {node: self.state(node) for node in self.site.nodes}
            found[:] = [node for node, state in states.items() if state is HAState.ACTIVE]
            standbys = sum(state is HAState.STANDBY for state in states.values())
            return len(found) == 1 and standbys == 1 and all(map(_listens, self.site.controllers.values()))

        self.wait_tending("one active NameNode and one standby with their controllers", is_settled)
        return found[0]

    def present(self) -> set[str]:
        """Return all directories of the active NameNode."""
        found: set[str] = set()

        def read() -> bool:
            for node in self.site.nodes:
                if self.state(node) is HAState.ACTIVE:
                    with suppress(OSError):
                        found.update(inode["path"] for inode in tree(self.site.web_url(node)))
            return bool(found)

        self.wait_tending("the namespace of the active NameNode", read)
        return found

    # ---- failures ------------------------------------------------------------------------------------------------

    def reach_more(self) -> None:
        """Wait until `_ENOUGH` further directories have been acknowledged."""
        wanted = len(self.clients.acknowledged) + _ENOUGH
        self.wait_tending(counted(wanted, "acknowledged directory"), lambda: len(self.clients.acknowledged) >= wanted)

    def fail_over(self, what: str, failure: Callable[[str], None]) -> None:
        """Make the active NameNode fail during writes, and check that the other NameNode takes over.

        Raises:
            DemoError: the other NameNode does not take over, or an acknowledged directory is lost.
        """
        self.reach_more()
        before = self.settled()
        (other,) = set(self.site.nodes) - {before}
        since = len(self.clients.acknowledged)
        self.down = before
        failure(before)
        self.wait_tending(f"{other} to be active", lambda: self.state(other) is HAState.ACTIVE)
        self.reach_more()
        # directories acknowledged from now on may not be in the tree yet
        promised = {path for _, path in self.clients.acknowledged.copy()}
        missing = promised - self.present()
        if missing:
            raise DemoError(f"{other} lost {len(missing)} of {len(promised)} directories, such as {min(missing)}")
        gap = FailoverGap(what, other, round(self.clients.longest_gap(since) * 1000), len(promised))
        self.gaps.append(gap)
        self.console.print(
            f"  {other} is active; {gap.milliseconds} ms without an acknowledgement; all {gap.acknowledged} exist"
        )
        self.restart(before)

    def lose_host(self, node: str) -> None:
        kill(self.controllers[node])
        kill(self.nodes[node])

    def hang(self, node: str) -> None:
        self.nodes[node].send_signal(signal.SIGSTOP)

    def ask(self, node: str) -> None:
        """Request a failover until it succeeds: the controller refuses while its NameNode's state is unknown."""
        (other,) = set(self.site.nodes) - {node}
        arguments = ("zkfc", "failover", other, "--conf", str(self.site.conf(node)))
        while self.run_process("checkpointer", *arguments, accept=(0, _NOT_ACTIVE))[0] != 0:
            if self.state(other) is HAState.ACTIVE:
                return

    def restart(self, node: str) -> None:
        """Restart the ended processes of a NameNode, and wait for a settled pair."""
        self.down = ""
        # a NameNode that was a standby when it was stopped still hangs, because a controller does not fence a standby
        self.nodes[node].send_signal(signal.SIGCONT)
        if self.nodes[node].poll() is not None:
            self.start_node(node)
        if self.controllers[node].poll() is not None:
            self.start_controller(node)
        self.settled()


Failure = tuple[str, str, Callable[[HaDemo, str], None]]

FAILURES: tuple[Failure, ...] = (
    ("killed", "The active NameNode is killed[/] with SIGKILL", lambda demo, node: kill(demo.nodes[node])),
    ("hangs", "It hangs[/] (SIGSTOP): its controller reports this, and the other controller fences it", HaDemo.hang),
    (
        "host lost",
        "Its host is lost,[/] NameNode and controller: the session in ZooKeeper must expire",
        HaDemo.lose_host,
    ),
    ("asked", "It is asked to hand over[/] (checkpointer zkfc failover)", HaDemo.ask),
)
"""Failures of the active NameNode: a word for the report, a sentence, and the action."""


def run(demo: HaDemo, happenings: Sequence[Failure] = FAILURES) -> None:
    """Run all steps of the demo.

    Raises:
        DemoError: a step failed.
    """
    if MISSING:
        raise DemoError(MISSING)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    say, site = demo.console.print, demo.site
    with ZooKeeperServer(demo.scratch / "zookeeper") as zookeeper:
        say("[bold]1. ZooKeeper and three JournalNodes[/]")
        site.write(zookeeper.hosts)
        demo.start_journal_nodes()
        say("[bold]2. Two NameNode stubs[/] that use them, each with a failover controller")
        first, second = site.nodes
        demo.run_process("namenode_stub", "format", "--conf", str(site.conf(first)))
        demo.format_election(first)
        demo.start_node(first)
        demo.start_controller(first)
        demo.wait_tending(f"{first} to be active", lambda: demo.state(first) is HAState.ACTIVE)
        demo.run_process("namenode_stub", "bootstrap-standby", "--conf", str(site.conf(second)))
        demo.start_node(second)
        demo.start_controller(second)
        demo.settled()
        demo.clients.start()
        try:
            for number, (word, sentence, failure) in enumerate(happenings, 3):
                say(f"[bold]{number}. {sentence}")
                demo.fail_over(word, partial(failure, demo))
        finally:
            demo.clients.stop()
    _report(demo)


def _report(demo: HaDemo) -> None:
    site = demo.site
    table = Table(title="Failovers: the longest time without an acknowledgement to any client")
    for column in ("active NameNode", "then active", "gap in ms", "acknowledged, none lost"):
        table.add_column(column, justify="left" if "active" in column else "right")
    for gap in demo.gaps:
        table.add_row(gap.what, gap.active, str(gap.milliseconds), str(gap.acknowledged))
    demo.console.print(table)
    demo.console.print(
        f"  Controllers check their NameNode every {site.health_seconds:g} s and allow it {site.hang_seconds:g} s to "
        f"answer; a NameNode\n"
        f"  to be fenced is first asked for {site.ask_seconds:g} s; a session in ZooKeeper ends after "
        f"{site.session_seconds:g} s."
    )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HERE, port)) == 0


def main() -> None:
    """Run the demo; exit with code 1 on failure."""
    run_demo(HaDemo, run, "four automatic failovers; no acknowledged directory was lost")


if __name__ == "__main__":
    main()
