"""Two failover controllers in this process, with NameNodes that a test can make fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from failover.active_node_info import ActiveNodeInfo
from failover.election import BREADCRUMB, LOCK
from failover.health import NameNodeHealth
from failover.server import FailoverServer
from failover.settings import FailoverSettings
from failover.watching import watching
from hadoop_rpc.ha_protocol import HAState
from hadoop_rpc.zkfc_protocol import ZKFCClient
from namenode_stub.demo_zookeeper import ZooKeeperServer, await_service
from namenode_stub.ports import free_port
from tests.failover.cutting_proxy import end_session
from tests.failover.failover_support import LONG_SESSIONS, NAMESERVICE, FakeNameNode, properties, settings_of
from tests.interop.hadoop_process import wait_until

ACTIVE, STANDBY, OBSERVER = HAState.ACTIVE, HAState.STANDBY, HAState.OBSERVER


class ZooKeeperEnsemble:
    """An ensemble of servers, each of which can be stopped and restarted. The ensemble works while a majority of its
    servers runs.

    Attributes:
        hosts: addresses of all servers, for clients.
    """

    def __init__(self, folder: Path, size: int = 3) -> None:
        numbers = range(1, size + 1)
        peers = {f"server.{number}": f"127.0.0.1:{free_port()}:{free_port()}" for number in numbers}
        settings = {"initLimit": "10", "syncLimit": "4", **peers}
        self.servers = [ZooKeeperServer(folder / str(number), settings) for number in numbers]
        for number, server in zip(numbers, self.servers, strict=True):
            (server.folder / "myid").write_text(f"{number}\n")
        self.hosts = ",".join(server.hosts for server in self.servers)

    def __enter__(self) -> Self:
        for server in self.servers:
            server.launch()
        for server in self.servers:
            await_service(server.hosts)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.stop()


class Pair:
    """Running NameNodes, and their controllers, which a test starts one by one."""

    def __init__(
        self,
        stack: ExitStack,
        zookeeper: ZooKeeperServer | ZooKeeperEnsemble,
        parent: str,
        names: tuple[str, ...] = ("nn1", "nn2"),
    ) -> None:
        self._stack = stack
        self.nodes = {name: FakeNameNode() for name in names}
        for node in self.nodes.values():
            node.start()
            stack.callback(node.stop)
        self._values = properties(
            {name: node.port for name, node in self.nodes.items()},
            "",
            {
                "ha.zookeeper.quorum": zookeeper.hosts,
                "ha.zookeeper.parent-znode": f"/{parent}",
                "ha.zookeeper.session-timeout.ms": LONG_SESSIONS["maxSessionTimeout"],
            },
        )
        self.znode = f"/{parent}/{NAMESERVICE}"
        self.servers: dict[str, FailoverServer] = {}
        endless = {"max_tries": -1, "max_delay": 0.5}
        self.zk = KazooClient(zookeeper.hosts, connection_retry=endless, command_retry=endless)
        self.zk.start(timeout=600)
        stack.callback(self.zk.stop)
        with watching(self.settings("nn1")) as election:
            election.format()

    def settings(self, name: str) -> FailoverSettings:
        return settings_of(self._values | {"dfs.ha.namenode.id": name})

    def start(self, *names: str) -> None:
        for name in names:
            server = FailoverServer(self.settings(name))
            server.start()
            self.servers[name] = server
            self._stack.callback(server.stop)

    def both(self) -> None:
        """Wait until nn1 is active and nn2 is a standby."""
        self.start("nn1")
        self.becomes("nn1", ACTIVE)
        self.start("nn2")
        self.until(lambda: self.election("nn2") == "standby", "nn2 to stand by")

    def election(self, name: str) -> str:
        return self.servers[name].election.state.name.lower()

    def becomes(self, name: str, state: HAState) -> None:
        self.until(lambda: self.nodes[name].state is state, f"{name} to be {state.name.lower()}")

    def has_lock(self, name: str) -> None:
        self.until(lambda: self.named(LOCK) == self.named(BREADCRUMB) == name, f"the lock of {name}")

    def named(self, znode: str) -> str:
        """Return the NameNode that a znode names, or "" if the znode is missing."""
        try:
            return ActiveNodeInfo.from_bytes(self.zk.retry(self.zk.get, f"{self.znode}/{znode}")[0]).namenode
        except NoNodeError:
            return ""

    def until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what)

    def active(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.state is ACTIVE]

    def unwell(self, name: str, why: str) -> None:
        """Make a NameNode unhealthy for the reason `why`, or healthy again; wait until its controller has noticed."""
        self.nodes[name].unwell = why
        health = NameNodeHealth.UNHEALTHY if why else NameNodeHealth.HEALTHY
        self.until(lambda: self.facts(name)["health"] == health.name.lower(), f"{name} to be {health.value}")

    def facts(self, name: str) -> dict[str, object]:
        return self.servers[name].controller.facts()

    def expire(self, name: str) -> bool:
        """End the controller's session: a second client with its id closes it. Return False if there is no session."""
        found = self.servers[name].election._session
        session = None if found is None else found._client.client_id
        if session is not None:
            end_session(self._values["ha.zookeeper.quorum"], session)
        return session is not None

    def client(self, name: str, user: str = "hdfs") -> ZKFCClient:
        own = self.settings(name).own
        return ZKFCClient(own.host, own.zkfc_port, user=user)
