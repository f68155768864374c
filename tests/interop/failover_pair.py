"""Two NameNodes on our JournalNodes, each with a failover controller; each JournalNode or controller may be Hadoop's or
ours.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from failover.active_node_info import ActiveNodeInfo
from failover.election import BREADCRUMB, LOCK
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import RpcError
from hadoop_rpc.ha_protocol import HAServiceClient, HAState
from namenode_stub.demo_zookeeper import ZooKeeperServer
from namenode_stub.ports import free_port
from tests.depth import deep
from tests.failover.failover_support import LONG_SESSIONS
from tests.interop.clients import ClientJvm
from tests.interop.cluster import HaPair, NameNode
from tests.interop.hadoop_conf import NAMESERVICE, HadoopConf
from tests.interop.hadoop_process import HadoopProcess, port_is_open, run_once, wait_until
from tests.interop.journal_trio import JournalTrio
from tests.interop.our_commands import CHECKOUT
from tests.interop.our_process import OurProcess
from tests.interop.stub_pair import StubNode, StubPair

ZKFC = "org.apache.hadoop.hdfs.tools.DFSZKFailoverController"
PARENT = f"/hadoop-ha/{NAMESERVICE}"
# the deep tier measures the promised times; the quick tier also passes on a machine that stalls for a while
SESSION_SECONDS = 3 if deep() else 30
_ANSWER_MILLISECONDS = 2000 if deep() else 60_000
_STATE_SECONDS = 1.0 if deep() else 60.0
_LOGGED = 6000
_HERE = "127.0.0.1"
# acts as a power switch does: kills the process with the given id and waits until it has ended
_FENCE = """\
#!/bin/bash
echo "$target_namenodeid $target_host $target_port $target_address" >> {log}
pid=$(cat {root}/$target_namenodeid.pid) || exit 1
kill -9 "$pid" 2> /dev/null
while [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; do sleep 0.05; done
"""


class ControllerProcess(Protocol):
    """A failover controller in a separate process."""

    @property
    def running(self) -> bool: ...

    @property
    def crashed(self) -> bool: ...

    def start(self) -> object: ...

    def stop(self) -> object: ...

    def kill(self) -> None: ...

    def signal(self, number: int) -> None: ...

    def log_text(self) -> str: ...


class HadoopController:
    """Hadoop's controller for the NameNode of a configuration."""

    def __init__(self, conf: HadoopConf, port: int) -> None:
        self._process = HadoopProcess("zkfc", ZKFC, conf, lambda: port_is_open((_HERE, port)))
        self.start, self.stop, self.kill = self._process.start, self._process.stop, self._process.kill
        self.log_text, self.signal = self._process.log_text, self._process.signal

    @property
    def running(self) -> bool:
        return self._process.running

    @property
    def crashed(self) -> bool:
        return self._process.crashed


class OurController(OurProcess):
    """`checkpointer zkfc run` for the NameNode of a configuration."""

    program: Sequence[str] = CHECKOUT

    def __init__(self, conf: HadoopConf, port: int) -> None:
        super().__init__("our controller", conf.root / "our-zkfc.log")
        self.conf = conf
        self._port = port

    def start(self) -> None:
        self.spawn([*self.program, "zkfc", "run", "--conf", self.conf.folder])
        self.await_ready(lambda: port_is_open((_HERE, self._port)))

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")


class FailoverPair:
    """nn1 and nn2 with their controllers; a context manager that starts and stops everything.

    Args:
        ours: the NameNodes whose controller is ours.
        of: real NameNodes, or stubs.
        fencing: the method for a NameNode that does not answer; "" kills it.
        settings: more properties of the NameNodes, their controllers and clients.

    Attributes:
        took: seconds that each change of the active NameNode took.
    """

    def __init__(
        self,
        root: Path,
        jvm: ClientJvm,
        *,
        ours: tuple[str, ...] = ("nn1",),
        of: type[HaPair] | type[StubPair] = HaPair,
        fencing: str = "",
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.root = root
        self._of = of
        self._fencing = fencing
        self._settings = settings
        self.fenced = root / "fenced.log"
        self.took: list[float] = []
        self._jvm = jvm
        self._ours = ours
        self._stack = ExitStack()
        self._made = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        self.zookeeper = ZooKeeperServer(self.root / "zookeeper", LONG_SESSIONS)
        self.trio = JournalTrio(self.root / "nodes", ours=True)
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(stack.enter_context, each) for each in (self.zookeeper, self.trio)]
            for each in both:
                each.result()
        ports = {name: free_port() for name in ("nn1", "nn2")}
        self.pair = self._of(self.root / "pair", self._properties(self.trio.uri, ports))
        stack.enter_context(self.pair)
        self.nodes: dict[str, NameNode | StubNode] = {"nn1": self.pair.nn1, "nn2": self.pair.nn2}
        self.client = self._jvm.of(self.pair.client_conf)
        self.zk = KazooClient(self.zookeeper.hosts, connection_retry={"max_tries": -1, "max_delay": 0.5})
        self.zk.start(timeout=600)
        stack.callback(self.zk.stop)
        with ThreadPoolExecutor(3) as pool:
            for done in [*(pool.submit(self.start_node, name) for name in self.nodes), pool.submit(self._format)]:
                done.result()
        self._ports = ports
        self.controllers: dict[str, ControllerProcess] = {
            name: self.controller(name, OurController if name in self._ours else HadoopController)
            for name in self.nodes
        }
        stack.callback(self._end)

    def controller(self, name: str, kind: type[OurController] | type[HadoopController]) -> ControllerProcess:
        """Return a controller that is not running yet."""
        return kind(self.nodes[name].conf, self._ports[name])

    def _end(self) -> None:
        """Stop the controllers.

        Raises:
            AssertionError: a controller that a test did not end had ended.
        """
        crashed = [each.log_text()[-_LOGGED:] for each in self.controllers.values() if each.crashed]
        for controller in self.controllers.values():
            if controller.running:
                controller.signal(signal.SIGCONT)
                controller.stop()
        assert not crashed, "\n".join(crashed)

    def _properties(self, shared: str, ports: dict[str, int]) -> dict[str, str]:
        script = self.root / "fence.sh"
        script.write_text(_FENCE.format(root=self.root, log=self.fenced))
        script.chmod(0o755)
        return {
            "dfs.namenode.shared.edits.dir": shared,
            "dfs.ha.automatic-failover.enabled": "true",
            "dfs.ha.fencing.methods": self._fencing or f"shell({script})",
            "dfs.ha.tail-edits.period": "1",
            "ha.zookeeper.quorum": self.zookeeper.hosts,
            "ha.zookeeper.session-timeout.ms": str(SESSION_SECONDS * 1000),
            "ha.health-monitor.rpc-timeout.ms": str(_ANSWER_MILLISECONDS),
            "ha.health-monitor.check-interval.ms": "200",
            "ha.health-monitor.sleep-after-disconnect.ms": "200",
            "ha.failover-controller.graceful-fence.rpc-timeout.ms": str(_ANSWER_MILLISECONDS),
            "dfs.client.failover.sleep.base.millis": "50",
            "dfs.client.failover.sleep.max.millis": "200",
            "dfs.client.failover.max.attempts": "100",
            **{f"checkpointer.zkfc.http-address.{NAMESERVICE}.{name}": f"{_HERE}:{free_port()}" for name in ports},
            **{f"dfs.ha.zkfc.port.{NAMESERVICE}.{name}": str(port) for name, port in ports.items()},
            **self._settings,
        }

    def _format(self) -> None:
        """Send the request to the controller of this NameNode."""
        conf = self.nodes[self._ours[0] if self._ours else "nn1"].conf
        if self._ours:
            command = [*CHECKOUT, "zkfc", "-formatZK", "-nonInteractive"]
            subprocess.run([*command, "--conf", str(conf.folder)], check=True, capture_output=True)
        else:
            run_once(ZKFC, "-formatZK", "-nonInteractive", conf=conf).checked()

    # ---- starts and states -----------------------------------------------------------------------------------

    def start_node(self, name: str) -> None:
        """Start a NameNode, and write its process id where the fencing script finds it."""
        node = self.nodes[name]
        node.process.launch()
        (self.root / f"{name}.pid").write_text(str(node.process.pid))
        wait_until(lambda: self._state(node) is not None, name)

    def states(self) -> dict[str, HAState | None]:
        """Return each NameNode's state; None for a NameNode that does not answer."""
        with ThreadPoolExecutor(2) as pool:
            return dict(zip(self.nodes, pool.map(self._state, self.nodes.values()), strict=True))

    def _state(self, node: NameNode | StubNode) -> HAState | None:
        host, port = node.rpc_address
        try:
            limits = {"timeout": _STATE_SECONDS, "connect_timeout": _STATE_SECONDS}
            with HAServiceClient(host, port, user="root", retry=NO_RETRY, **limits) as client:
                return client.service_status().state
        except RpcError:
            return None

    def active(self) -> str | None:
        """Return the only active NameNode.

        Raises:
            AssertionError: two NameNodes are active.
        """
        found = [name for name, state in self.states().items() if state is HAState.ACTIVE]
        assert len(found) < 2, found
        return found[0] if found else None

    def wait_for_active(self, name: str) -> None:
        """Wait until `name` is the only active NameNode, with the lock and breadcrumb; record the time in `took`."""
        began = time.monotonic()
        wait_until(lambda: self.states()[name] is HAState.ACTIVE, f"{name} to be active")
        self.took.append(time.monotonic() - began)
        self.has_lock(name)
        assert self.active() == name

    def has_lock(self, name: str) -> None:
        """Wait until `name` has the lock and the breadcrumb."""
        wait_until(lambda: self.named(LOCK) == self.named(BREADCRUMB) == name, "the lock")

    def breadcrumb(self) -> bytes:
        found: bytes = self.zk.get(f"{PARENT}/{BREADCRUMB}")[0]
        return found

    def owner(self) -> int:
        """Return the session that holds the lock, or 0 if it is free."""
        found = self.zk.exists(f"{PARENT}/{LOCK}")
        return 0 if found is None else int(found.ephemeralOwner)

    def named(self, znode: str) -> str:
        """Return the NameNode in a znode, or "" if the znode is missing."""
        try:
            data, _ = self.zk.retry(self.zk.get, f"{PARENT}/{znode}")
        except NoNodeError:
            return ""
        return ActiveNodeInfo.from_bytes(data).namenode

    def write(self) -> None:
        """Write an edit that both NameNodes must keep, and assert that all earlier edits exist."""
        self._made += 1
        self.client.shell("-mkdir", "-p", f"/w/{self._made}").checked()
        found = self.client.shell("-ls", "/w").checked().out
        assert f"Found {self._made} items" in found, found
