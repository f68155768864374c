"""Real Hadoop servers: NameNode, SecondaryNameNode, BackupNode, JournalNode, an HA pair.

The configuration of a server determines its release.
"""

from __future__ import annotations

import getpass
import json
import shutil
from pathlib import Path
from typing import Any, Self

import pytest

from hadoop_common.names import parse_image, parse_segment
from hadoop_common.storage_info import StorageInfo, parse_version
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import RetriableError, RpcConnectionError, RpcError
from hadoop_rpc.namenode_protocol import NamenodeClient
from namenode_stub.ports import free_port
from tests.interop.clients import HdfsClient
from tests.interop.formatted import provide_storage
from tests.interop.hadoop_conf import HadoopConf, ha_pair_confs
from tests.interop.hadoop_home import SERVER, HadoopRelease
from tests.interop.hadoop_process import CommandResult, HadoopProcess, beans, port_is_open, run_once, wait_until

NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_SECONDARY = "org.apache.hadoop.hdfs.server.namenode.SecondaryNameNode"
_PERIOD = "dfs.namenode.checkpoint.period"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_JOURNALNODE = "org.apache.hadoop.hdfs.qjournal.server.JournalNode"


class _Server:
    """A server with a process and an HTTP address with /jmx; a context manager that stops it."""

    def __init__(self, name: str, main_class: str, conf: HadoopConf, url: str, heap: str = "256m") -> None:
        self.conf = conf
        self.url = url
        self.process = HadoopProcess(name, main_class, conf, self.is_ready, heap=heap)

    def __enter__(self) -> Self:
        if not self.process.running:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *arguments: str) -> Self:
        """Start the server and wait until it is ready.

        Raises:
            HadoopDiedError: the server did not start.
        """
        self.process.start(*arguments)
        return self

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def restart(self, *arguments: str) -> Self:
        self.stop()
        return self.start(*arguments)

    def jmx(self, query: str) -> dict[str, Any]:
        """Return the first bean of /jmx for `query`, or an empty dict if no bean matches."""
        return next(iter(beans(self.url, query)), {})

    def is_ready(self) -> bool:
        """Return whether the HTTP server answers with Hadoop's beans."""
        return bool(beans(self.url, "Hadoop:*"))


class _Storing(_Server):
    """A server with images and edits.

    Attributes:
        current: the folder with VERSION, images and edits; the first folder if there are several.
    """

    def __init__(
        self, name: str, main_class: str, conf: HadoopConf, url: str, storage: Path, heap: str = "256m"
    ) -> None:
        super().__init__(name, main_class, conf, url, heap)
        self.current = storage / "current"

    @property
    def storage_info(self) -> StorageInfo:
        path = self.current / "VERSION"
        return parse_version(path.read_bytes(), str(path))

    @property
    def images(self) -> list[int]:
        """Txids of the images in the first storage directory, ascending, without rollback images."""
        found = map(parse_image, self._names())
        return sorted(image.txid for image in found if image is not None and not image.rollback)

    @property
    def segments(self) -> list[tuple[int, int]]:
        """First and last txid of the finalized segments, ascending."""
        found = map(parse_segment, self._names())
        return sorted((part.first, part.last) for part in found if part is not None and part.last is not None)

    @property
    def last_txid(self) -> int:
        """The last transaction that an active NameNode wrote, or that a standby applied."""
        info = json.loads(self.jmx("Hadoop:service=NameNode,name=NameNodeInfo")["JournalTransactionInfo"])
        return int(info["LastAppliedOrWrittenTxId"])

    def wait_for_image(self, txid: int) -> None:
        """Wait until the image at `txid` has its final name."""
        wait_until(lambda: txid in self.images, f"image at txid {txid} in {self.current}")

    def _names(self) -> list[str]:
        return [path.name for path in self.current.iterdir()]


def _young_images(conf: HadoopConf) -> tuple[str, ...]:
    """Return options of a NameNode that accepts images at any time.

    Only the NameNode's process receives the options, because a checkpointer that reads the same files must not find a
    checkpoint pending.
    """
    if not conf.release.refuses_young_images or _PERIOD in conf.properties:
        return ()
    options = {_PERIOD: "0"}
    if "dfs.nameservices" in conf.properties and "dfs.namenode.checkpoint.txns" not in conf.properties:
        # a standby would make checkpoints without a pause
        options["dfs.ha.standby.checkpoints"] = "false"
    return tuple(word for key, value in options.items() for word in ("-D", f"{key}={value}"))


class NameNode(_Storing):
    """A NameNode; as a context manager, it formats missing storage, starts and stops.

    Attributes:
        conf: its HadoopConf.
        url: `http://host:port` of its HTTP server.
        rpc_address: host and port.
        process: its HadoopProcess (pid, log, log_text(), running).
    """

    def __init__(self, conf: HadoopConf, *, name: str = "namenode", heap: str = "256m") -> None:
        super().__init__(name, NAMENODE, conf, conf.web_url("dfs.namenode.http-address"), conf.name_dir, heap)
        self.rpc_address = conf.rpc_address
        self.name_dir = conf.name_dir

    def __enter__(self) -> Self:
        if not (self.current / "VERSION").exists():
            provide_storage(self.conf, self.format)
        return super().__enter__()

    @property
    def state(self) -> str:
        """`active` or `standby`."""
        return str(self.jmx("Hadoop:service=NameNode,name=NameNodeStatus").get("State", ""))

    def metrics(self) -> dict[str, Any]:
        """Return the FSNamesystem bean, which Hadoop updates only every ten seconds."""
        return self.jmx("Hadoop:service=NameNode,name=FSNamesystem")

    def start(self, *arguments: str) -> Self:
        """Start as `_Server.start` does; the NameNode accepts an image soon after the previous image."""
        return super().start(*_young_images(self.conf), *arguments)

    def format(self, *arguments: str) -> Self:
        """Make an empty namespace, which replaces an existing one; `arguments` as for `namenode -format`."""
        self.name_dir.mkdir(parents=True, exist_ok=True)
        run_once(NAMENODE, "-format", "-force", "-nonInteractive", *arguments, conf=self.conf).checked()
        return self

    def is_ready(self) -> bool:
        return bool(self.metrics()) and self.state in ("active", "standby") and self._is_started()

    def _is_started(self) -> bool:
        """Return whether the NameNode accepts calls; it reports that it is active before it accepts calls."""
        if self.conf.properties.get("hadoop.security.authentication") == "kerberos":
            # Tests of privacy search the bytes of all connections, and a call without a login would contain readable
            # names.
            return port_is_open(self.rpc_address)
        with NamenodeClient(*self.rpc_address, user=getpass.getuser(), timeout=60.0, retry=NO_RETRY) as client:
            try:
                client.transaction_id()
            except (RetriableError, RpcConnectionError):
                return False
            except RpcError:
                # a standby, or a NameNode that requires a login
                return True
        return True


class DataNode(_Server):
    """A DataNode with storage in a separate folder."""

    def __init__(self, conf: HadoopConf) -> None:
        super().__init__("datanode", _DATANODE, conf, conf.web_url("dfs.datanode.http.address"))

    @staticmethod
    def properties(root: Path) -> dict[str, str]:
        """Return the properties that a configuration needs for one DataNode; its NameNode waits for the blocks.

        Skips the test if the release cannot start a DataNode.
        """
        if not SERVER.has_data_nodes:
            pytest.skip(f"the jars of Hadoop {SERVER.version} contain no Netty, which a DataNode needs")
        addresses = ("dfs.datanode.address", "dfs.datanode.http.address", "dfs.datanode.ipc.address")
        return {
            **{key: f"127.0.0.1:{free_port()}" for key in addresses},
            "dfs.datanode.data.dir": f"file://{root}/blocks",
            "dfs.replication": "1",
            "dfs.heartbeat.interval": "1",
        }

    def is_registered(self, namenode: NameNode) -> bool:
        """Return whether `namenode` counts this DataNode as alive."""
        return bool(namenode.jmx("Hadoop:service=NameNode,name=FSNamesystemState").get("NumLiveDataNodes"))


class SecondaryNameNode(_Storing):
    """Hadoop's checkpointer, with the configuration of its NameNode; as a context manager, it is a daemon.

    Its period, number of transactions and check period are `dfs.namenode.checkpoint.period` (seconds), `.txns` and
    `.check.period` of the configuration when it starts.
    """

    def __init__(self, conf: HadoopConf) -> None:
        url = conf.web_url("dfs.namenode.secondary.http-address")
        super().__init__("secondarynamenode", _SECONDARY, conf, url, conf.checkpoint_dir)

    def checkpoint(self) -> CommandResult:
        """Make a forced checkpoint in a separate JVM; a daemon must not run. See `CommandResult.checked`."""
        return run_once(_SECONDARY, "-checkpoint", "force", conf=self.conf)


class BackupNode(_Storing):
    """A BackupNode of the NameNode that `conf` configures, with storage in a separate folder.

    Args:
        conf: configuration of the NameNode.
        name: name of a folder for configuration, storage and log, next to the NameNode's folder.
    """

    def __init__(self, conf: HadoopConf, *, name: str = "backup") -> None:
        root = conf.root / name
        storage = {"dfs.namenode.name.dir": (root / "name").as_uri()}
        own = HadoopConf(root, {**conf.properties, **storage}, conf.release)
        own.name_dir.mkdir(parents=True, exist_ok=True)
        super().__init__(name, NAMENODE, own, own.web_url("dfs.namenode.backup.http-address"), own.name_dir)

    def start(self, *arguments: str) -> Self:
        """Start the node and wait until it has an image and its HTTP server answers."""
        # a BackupNode of Hadoop 3 makes its first image only after the machine has been up for its period
        early = ("-D", f"{_PERIOD}=60") if self.conf.release.is_3 else ()
        return super().start(*early, "-backup", *arguments)

    def is_ready(self) -> bool:
        return bool(self.jmx("Hadoop:service=BackupNode,name=FSNamesystem")) and bool(self.images)


class JournalNode(_Server):
    """A JournalNode, with the `dfs.journalnode.*` keys of the configuration."""

    def __init__(self, conf: HadoopConf, *, name: str = "journalnode") -> None:
        super().__init__(name, _JOURNALNODE, conf, conf.web_url("dfs.journalnode.http-address"))
        host, _, port = conf["dfs.journalnode.rpc-address"].rpartition(":")
        self.rpc_address = (host, int(port))
        self.edits_dir = Path(conf["dfs.journalnode.edits.dir"])

    def is_ready(self) -> bool:
        return super().is_ready() and port_is_open(self.rpc_address)


class HaPair:
    """NameNodes nn1 and nn2 of the nameservice `ns1` with a shared `file:` journal, without ZKFC.

    nn1 is formatted, nn2 receives a copy of its storage; neither runs yet. As a context manager, it stops both at the
    end. A test that replaces nn2 starts only nn1, and uses the configuration `nn2.conf.folder`.
    """

    def __init__(self, root: Path, properties: dict[str, str] | None = None, release: HadoopRelease = SERVER) -> None:
        first, second, self.client_conf = ha_pair_confs(root, properties, release)
        self.shared_dir = first.shared_edits_dir
        self.nn1 = NameNode(first, name="nn1")
        provide_storage(first, self.nn1.format)
        self.nn2 = NameNode(second, name="nn2")
        shutil.copytree(self.nn1.name_dir, self.nn2.name_dir)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in (self.nn1, self.nn2):
            node.stop()

    def activate(self, client: HdfsClient, name: str) -> None:
        """Make `nn1` or `nn2` active; first make the other NameNode a standby if it is active."""
        nodes = {"nn1": self.nn1, "nn2": self.nn2}
        (other,) = nodes.keys() - {name}
        if nodes[other].process.running and nodes[other].state == "active":
            client.ha_admin("-transitionToStandby", other).checked()
        # The client's JVM may keep a connection to an earlier process, which fails at its next use.
        if client.ha_admin("-transitionToActive", "--forceactive", name).code:
            client.ha_admin("-transitionToActive", "--forceactive", name).checked()
        wait_until(lambda: nodes[name].state == "active", f"{name} active")
