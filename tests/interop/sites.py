"""Hadoop clusters that one of our daemons follows, with methods to build, write and inspect them.

A `Role` describes the daemon's command, and the field that shows its position.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hadoop_common.names import image_name, parse_image
from image_format.reader import ImageFile
from image_tools.dump.delimited import dump_delimited
from image_tools.dump.records import ImageRecords
from tests.interop.clients import ClientJvm, HdfsClient, Namespace, without_clock_times
from tests.interop.cluster import NAMENODE, HaPair, NameNode
from tests.interop.hadoop_conf import NAMESERVICE, HadoopConf, ha_pair_confs
from tests.interop.hadoop_home import SERVER, HadoopRelease
from tests.interop.hadoop_process import run_once, wait_until
from tests.interop.journal_trio import JournalTrio
from tests.interop.our_daemon import OurDaemon

_OF_A_BACKUP_NODE = "dfs.namenode.backup.http-address"
_OF_A_SECONDARY = "dfs.namenode.secondary.http-address"
_OF_NN2 = "dfs.namenode.http-address.ns1.nn2"

_SETTINGS = {
    # the test inspects every image that the NameNode accepted
    "dfs.namenode.num.checkpoints.retained": "50",
    "dfs.namenode.checkpoint.check.period": "1",
    "dfs.ha.tail-edits.period": "1",
    # only the test ends segments, so that lost and new segments may have the same bounds
    "dfs.ha.log-roll.period": "0",
    "dfs.namenode.accesstime.precision": "0",
}
_BASE = 20
LOST = 40
"""Number of transactions that each event loses."""


# ---- a cluster and our daemon next to it ------------------------------------------------------------------


class Site(ABC):
    """A writable NameNode, and the configuration of our daemon; a context manager that stops all processes.

    Attributes:
        nn: the NameNode; after a cloning, the clone.
        client: writes to the NameNode.
        ours: the daemon's configuration, with separate directories.
        daemon: the daemon, which the test starts.
    """

    nn: NameNode
    client: HdfsClient
    ours: HadoopConf
    daemon: OurDaemon

    def __init__(self, client_jvm: ClientJvm, root: Path) -> None:
        self.root = root
        self._jvm = client_jvm
        self._resources = ExitStack()
        self._written = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    # ---- the NameNode --------------------------------------------------------------------------------------

    @abstractmethod
    def start(self, *arguments: str) -> None:
        """Start the NameNode and wait until it accepts writes."""

    def kill(self) -> None:
        """Kill the writers of the stores, so that they cannot clean up."""
        self.nn.kill()

    def install(self, release: HadoopRelease) -> None:
        """Install another release on the servers' hosts; each server runs that release from its next start on."""
        self.nn.conf.release = release

    def start_journal(self) -> None:  # noqa: B027 - most have none
        """Start the servers that the NameNode needs at its start."""

    @abstractmethod
    def stores(self) -> list[Path]:
        """Return the cluster's directories with images and edits; the NameNode's directory is the first."""

    def adopt_image(self) -> None:  # noqa: B027 - where there is no other
        """Make the journals start over after the image in the storage of the stopped NameNode."""

    @abstractmethod
    def become(self, copies: list[Path]) -> None:
        """Replace the cluster, for the client and the daemon, with a second cluster that has `copies` of the stores."""

    def save_image(self) -> int:
        """Make the NameNode save its namespace; return the image's txid."""
        # addressed directly, because only one NameNode of a pair runs
        one = "hdfs://{}:{}".format(*self.nn.rpc_address)
        for words in (("-safemode", "enter"), ("-saveNamespace",), ("-safemode", "leave")):
            self.client.admin("-fs", one, *words).checked()
        return self.nn.images[-1]

    def roll(self) -> None:
        self.client.admin("-rollEdits").checked()

    # ---- writes --------------------------------------------------------------------------------------------

    def write_base(self) -> None:
        """Write directories and files that are kept and changed later."""
        self._shell("-mkdir", "/kept", "/base", *(f"/base/d{number}" for number in range(_BASE)))
        self._shell("-touchz", *(f"/base/f{number}" for number in range(_BASE)))

    def lose(self) -> None:
        """Write `LOST` transactions: new directories, and changes of existing inodes."""
        half = LOST // 2
        self._shell("-mkdir", "/lost", *(f"/lost/d{number}" for number in range(half - 1)))
        self._shell("-chmod", "701", *(f"/base/d{number}" for number in range(half - 4)))
        self._shell("-rm", "-r", "-skipTrash", "/base/d18", "/base/d19")
        self._shell("-mv", "/base/f18", "/lost/f18")
        self._shell("-setrep", "7", "/base/f19")

    def write(self, count: int) -> None:
        """Write `count` transactions that are kept, and that are also possible in the lost namespace."""
        numbers = range(self._written, self._written + count)
        self._written += count
        self._shell("-mkdir", *(f"/kept/d{number}" for number in numbers))

    def _shell(self, *words: str) -> None:
        self.client.shell(*words).checked()

    # ---- contents ------------------------------------------------------------------------------------------

    def namespace(self) -> Namespace:
        return without_clock_times(self.client.namespace())

    def rollback_images(self) -> list[int]:
        """Return the txids of the complete rollback images in the NameNode's storage."""
        names = (path.name.removesuffix(".md5") for path in self.nn.current.glob("*.md5"))
        return sorted(image.txid for image in map(parse_image, names) if image is not None and image.rollback)

    def lost_in_images(self) -> dict[int, list[str]]:
        """Return lost inodes that are in the NameNode's images, by the image's txid."""
        found = {txid: _traces(self.nn.current / image_name(txid)) for txid in self.nn.images}
        return {txid: traces for txid, traces in found.items() if traces}


def _traces(image: Path) -> list[str]:
    with ImageFile.open(image, verify_md5=True) as opened:
        rows = [line.split("\t") for line in b"".join(dump_delimited(ImageRecords(opened), "\t")).decode().splitlines()]
    return [row[0] for row in rows if row[0].startswith("/lost") or "drwx-----x" in row]


class SingleSite(Site):
    """A NameNode without HA, for a secondary or a backup node."""

    def __init__(self, client_jvm: ClientJvm, root: Path, role: Role, release: HadoopRelease = SERVER) -> None:
        super().__init__(client_jvm, root)
        self.nn = NameNode(HadoopConf(root / "cluster", _SETTINGS, release))
        own = {key: (root / "ours" / key).as_uri() for key in ("dfs.namenode.name.dir", "dfs.namenode.checkpoint.dir")}
        self.ours = HadoopConf(root / "ours", {**self.nn.conf.properties, **own})
        self.daemon = _daemon(self.ours, role)
        self.client = client_jvm.of(self.nn.conf)
        self._resources.enter_context(self.nn)

    def start(self, *arguments: str) -> None:
        self.nn.start(*arguments)

    def stores(self) -> list[Path]:
        return [self.nn.name_dir]

    def become(self, copies: list[Path]) -> None:
        other = HadoopConf(self.root / "clone", _SETTINGS)
        copies[0].rename(other.name_dir)
        self.nn = NameNode(other)
        self._resources.callback(self.nn.stop)
        addresses = ("fs.defaultFS", "dfs.namenode.rpc-address", "dfs.namenode.http-address")
        self.ours.update({key: other[key] for key in addresses})
        self.client = self._jvm.of(other)


class SharedSite(Site):
    """The first NameNode of an HA pair with shared edits in a directory; our standby replaces the second NameNode."""

    def __init__(self, client_jvm: ClientJvm, root: Path, role: Role, release: HadoopRelease = SERVER) -> None:
        super().__init__(client_jvm, root)
        settings = {**_SETTINGS, **self._journal(release)}
        self._pair = self._resources.enter_context(HaPair(root / "pair", settings, release))
        self.nn, self.ours = self._pair.nn1, self._pair.nn2.conf
        self.client = client_jvm.of(self._pair.client_conf)
        self.daemon = _daemon(self.ours, role)
        self.start()

    def _journal(self, release: HadoopRelease) -> dict[str, str]:
        """Return the properties of a separate journal; none for the pair's shared directory."""
        return {}

    def start(self, *arguments: str) -> None:
        self.nn.start(*arguments)
        self._pair.activate(self.client, "nn1")

    def stores(self) -> list[Path]:
        return [self.nn.name_dir, self._pair.shared_dir]

    def adopt_image(self) -> None:
        shutil.rmtree(self._pair.shared_dir)
        self._initialize_journal()

    def _initialize_journal(self) -> None:
        run_once(NAMENODE, "-initializeSharedEdits", "-force", "-nonInteractive", conf=self.nn.conf).checked()

    def become(self, copies: list[Path]) -> None:
        journal = self._clone_journal(self.root / "clone", copies[1:])
        first, second, client = ha_pair_confs(self.root / "clone", {**_SETTINGS, **journal})
        shutil.copytree(copies[0], first.name_dir, dirs_exist_ok=True)
        self.nn = self._pair.nn1 = NameNode(first, name="nn1")
        self._pair.shared_dir = first.shared_edits_dir
        self._resources.callback(self.nn.stop)
        own = "dfs.namenode.name.dir.ns1.nn2"
        kept = {own: self.ours[own]}
        self.ours.update({**second.properties, **kept})
        self.daemon.url = f"http://{self.ours[_OF_NN2]}"
        self.client = self._jvm.of(client)

    def _clone_journal(self, root: Path, copies: list[Path]) -> dict[str, str]:
        """Make a second journal of `copies` in the folder of a second pair; return the pair's properties for this
        journal.
        """
        shutil.copytree(copies[0], root / "shared")
        return {}


class QuorumSite(SharedSite):
    """An HA pair with shared edits on three JournalNodes, by default Hadoop's.

    Attributes:
        own_nodes: whether each node is ours.
    """

    own_nodes: tuple[bool, bool, bool] = (False, False, False)

    def _journal(self, release: HadoopRelease) -> dict[str, str]:
        trio = JournalTrio(self.root / "nodes", ours=self.own_nodes, release=release)
        self._trio = self._resources.enter_context(trio)
        self._nodes_run = True
        return {"dfs.namenode.shared.edits.dir": self._trio.uri}

    def start(self, *arguments: str) -> None:
        self.start_journal()
        super().start(*arguments)

    def kill(self) -> None:
        super().kill()
        for node in self._trio.nodes:
            node.kill()
        self._nodes_run = False

    def start_journal(self) -> None:
        if not self._nodes_run:
            for node in self._trio.nodes:
                node.start()
        self._nodes_run = True

    def stores(self) -> list[Path]:
        return [self.nn.name_dir, *(node.edits_dir / NAMESERVICE for node in self._trio.nodes)]

    def install(self, release: HadoopRelease) -> None:
        super().install(release)
        for conf in self._trio.confs:
            conf.release = release

    def adopt_image(self) -> None:
        self.start_journal()
        self._initialize_journal()

    def _clone_journal(self, root: Path, copies: list[Path]) -> dict[str, str]:
        trio = JournalTrio(root / "nodes", ours=self.own_nodes)
        for node, copied in zip(trio.nodes, copies, strict=True):
            shutil.copytree(copied, node.edits_dir / NAMESERVICE)
        self._trio = self._resources.enter_context(trio)
        self._nodes_run = True
        return {"dfs.namenode.shared.edits.dir": trio.uri}


class MixedQuorumSite(QuorumSite):
    """An HA pair with shared edits on two of our JournalNodes and one of Hadoop's."""

    own_nodes = (True, False, True)


def _daemon(conf: HadoopConf, role: Role) -> OurDaemon:
    return OurDaemon(conf, role.command, role.http_key)


# ---- roles -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Role:
    """A role of our daemon in a cluster.

    Attributes:
        command: the role's name.
        reads_open: whether the role reads transactions before their segment ends.
        applied: the field of /status with the daemon's position; "" if the role reads edits only for a checkpoint.
    """

    name: str
    site: Callable[..., Site]
    command: str
    http_key: str
    reads_open: bool = False
    applied: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    def follow(self, site: Site) -> None:
        """Wait until the daemon has all written transactions."""
        if not self.applied:
            site.daemon.checkpoint()
            return
        if self.reads_open:
            wait_until(
                lambda: site.daemon.status()[self.applied] == site.nn.last_txid, "all transactions in the daemon"
            )
            return
        site.roll()
        # the daemon does not have the first transaction of the segment that the roll began
        last = site.nn.last_txid - 1
        wait_until(lambda: site.daemon.status()[self.applied] >= last, f"txid {last} in the daemon")


_OPEN = (("dfs.ha.tail-edits.in-progress", "true"),)
ROLES = {
    role.name: role
    for role in (
        Role("secondary", SingleSite, "secondary", _OF_A_SECONDARY),
        Role("backup", SingleSite, "backup", _OF_A_BACKUP_NODE, True, "streamTxid"),
        Role("standby", SharedSite, "standby", _OF_NN2, False, "appliedTxid"),
        Role("standby-open", SharedSite, "standby", _OF_NN2, True, "appliedTxid", _OPEN),
        Role("quorum", QuorumSite, "standby", _OF_NN2, False, "appliedTxid"),
        Role("quorum-open", QuorumSite, "standby", _OF_NN2, True, "appliedTxid", _OPEN),
    )
}
