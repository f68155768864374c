"""docs/upgrade.md: an upgrade from an older version with its files, and a downgrade, with real NameNodes under
writes.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from failover.health import NameNodeHealth
from namenode_stub.demo_zookeeper import MISSING
from namenode_stub.ports import free_port
from tests.install.versions import NEWER, Versions, program_in
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import NameNode
from tests.interop.failover_pair import FailoverPair, OurController
from tests.interop.hadoop_conf import NAMESERVICE, HadoopConf
from tests.interop.hadoop_home import SERVER, skip_without
from tests.interop.hadoop_process import wait_until
from tests.interop.journal_trio import JournalTrio, OurJournalNode
from tests.interop.leader_rounds import Beside
from tests.interop.our_commands import cli
from tests.interop.our_daemon import OurDaemon
from tests.interop.recorder import images
from tests.recorded_cases import ALL_CASES

pytestmark = [pytest.mark.deep, pytest.mark.timeout(3600)]

Program = Sequence[str]
PATIENCE = {
    "ha.zookeeper.session-timeout.ms": "60000",
    "ha.health-monitor.rpc-timeout.ms": "60000",
    "ha.failover-controller.graceful-fence.rpc-timeout.ms": "60000",
    "dfs.qjournal.start-segment.timeout.ms": "120000",
    "dfs.qjournal.write-txns.timeout.ms": "120000",
}


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    return Versions(tmp_path_factory.mktemp("versions"))


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientJvm]:
    skip_without(SERVER)
    with ClientJvm(tmp_path_factory.mktemp("client")) as running:
        yield running


class Writer(Beside):
    """A client that makes directories until it is closed; `acknowledged` contains the directories that the NameNode
    acknowledged.
    """

    def __init__(self, client: HdfsClient) -> None:
        super().__init__()
        self.acknowledged: list[str] = []
        self._client = client

    def _run(self) -> None:
        for number in count():
            names = [f"acked{number:05d}-{each}" for each in range(5)]
            self._client.shell("-mkdir", *(f"/{name}" for name in names)).checked()
            self.acknowledged += names
            if self._ended.wait(0.1):
                return

    def reach_image(self, current: Path, attempt: Callable[[], object]) -> list[str]:
        """Request checkpoints until the newest image in `current` contains all edits acknowledged so far; return the
        directories.
        """
        begun = len(self.acknowledged)
        wait_until(lambda: len(self.acknowledged) > begun, "the next acknowledged directories")
        wanted = self.acknowledged[:]

        def reached() -> bool:
            attempt()
            newest = max(path for path in current.glob("fsimage_*") if path.suffix != ".md5")
            content = newest.read_bytes()
            return all(name.encode() in content for name in wanted)

        wait_until(reached, "an image that contains all acknowledged directories")
        return wanted

    def lost(self, client: HdfsClient) -> set[str]:
        return {f"/{name}" for name in self.acknowledged} - client.namespace().keys()


def starts(storage: Path) -> list[bool]:
    """Return, for each start in the history, whether the newer version was started."""
    lines = (storage / "checkpointer-history.jsonl").read_text().splitlines()
    return [f"hdfs-checkpointer {NEWER} " in line for line in lines if " started as " in line]


def wait_for_archive(daemon: OurDaemon, txid: int) -> None:
    wait_until(lambda: daemon.status()["archive"]["restorableTxid"] >= txid, "the archive")


def archive_lacks(archive: Path, wanted: list[str], versions: Versions, folder: Path) -> set[str]:
    """Return the directories that one of the versions does not restore from the archive; both must find no damage."""
    missing: set[str] = set()
    for number, program in enumerate((versions.old, versions.new)):
        cli("archive", "check", "--archive", archive, program=program)
        out = folder / f"restored{number}"
        cli("archive", "restore", "--archive", archive, "--time", "9999999999", "--out", out, program=program)
        content = b"".join(path.read_bytes() for path in (out / "current").iterdir())
        missing |= {name for name in wanted if name.encode() not in content}
    return missing


def set_every_key(conf: HadoopConf, role: str, versions: Versions) -> None:
    """Write every key of the older version with its effective value to the configuration; both versions must read the
    same values.
    """

    def keys(program: Program) -> dict[str, dict[str, str]]:
        listed = cli("config", "--conf", conf.folder, "--role", role, program=program)
        assert (listed["faults"], listed["warnings"]) == ([], [])
        return {each["key"]: each for each in listed["keys"] if each["status"] == "supported"}

    found = {key: each["value"] for key, each in keys(versions.old).items() if each["value"]}
    conf.update({key: value for key, value in found.items() if key not in conf.properties})
    old, new = keys(versions.old), keys(versions.new)
    values = {key: (each["value"], each["source"]) for key, each in old.items()}
    assert {key: (new[key]["value"], new[key]["source"]) for key in values} == values


@pytest.mark.interop
@pytest.mark.parametrize("role", ["secondary", "backup"])
def test_upgrade_with_a_single_namenode(role: str, versions: Versions, jvm: ClientJvm, tmp_path: Path) -> None:
    archive, lake = tmp_path / "archive", tmp_path / "lake"
    with NameNode(HadoopConf(tmp_path / "cluster")) as namenode:
        own = {f"dfs.namenode.{key}.dir": (tmp_path / "ours" / key).as_uri() for key in ("name", "checkpoint")}
        own |= {"checkpointer.archive.dir": str(archive)}
        conf = HadoopConf(tmp_path / "ours", {**namenode.conf.properties, **own})
        set_every_key(conf, role, versions)
        daemon = OurDaemon.backup(conf) if role == "backup" else OurDaemon.secondary(conf)
        ours = conf.name_dir if role == "backup" else conf.checkpoint_dir
        client = jvm.of(namenode.conf)
        with Writer(client) as writer:
            for number, program in enumerate((versions.old, versions.new, versions.old)):
                daemon.program = program
                with daemon:
                    wanted = writer.reach_image(namenode.current, daemon.ask_for_checkpoint)
                    if number == 0:
                        words = ("late", "--conf", conf.folder, "--role", role, "--reason", "an upgrade")
                        cli("silence", *words, program=program)
                    assert "an upgrade" in json.dumps(daemon.status())
                    wait_for_archive(daemon, max(namenode.images))
                    assert [daemon.check(name).code for name in ("storage", "edits", "daemon", "archive")] == [0] * 4
                    assert daemon.stop() == 0
                if role == "secondary":
                    found = ("--image", ours / "current", "--edits", ours / "current")
                    cli("lake", "append", *found, lake, program=program)
        if role == "secondary":
            lists = [cli("lake", "list", lake, program=program) for program in (versions.old, versions.new)]
            assert lists[0] == lists[1]
            assert (len(lists[0]["images"]), len(lists[0]["edits"]), lists[0]["missing"]) == (3, 1, [])
        assert starts(ours) == [False, True, False]
        assert archive_lacks(archive, wanted, versions, tmp_path) == set()
        namenode.restart()
        assert writer.lost(client) == set()


def journal_differences(trio: JournalTrio) -> list[str]:
    """Return the finalized segments that are not the same on all JournalNodes that have them."""
    copies: dict[str, set[bytes]] = {}
    for node in trio.nodes:
        for path in (node.edits_dir / NAMESERVICE / "current").glob("edits_*-*"):
            copies.setdefault(path.name, set()).add(path.read_bytes())
    return [name for name, found in copies.items() if len(found) > 1]


class Nameservice:
    """A pair of real NameNodes with our JournalNodes and failover controllers, and two daemons with one lock."""

    def __init__(self, root: Path, pair: FailoverPair) -> None:
        self.pair = pair
        self.archive = root / "archive"
        conf = {
            **pair.pair.client_conf.properties,
            "dfs.namenode.checkpoint.period": "3600",
            "dfs.namenode.checkpoint.check.period": "1",
            "dfs.ha.standby.checkpoints": "true",
            "dfs.ha.tail-edits.period": "1",
            "dfs.ha.log-roll.period": "1",
            "checkpointer.archive.dir": str(self.archive),
        }
        self.daemons = [
            OurDaemon.standby(
                HadoopConf(
                    root / name,
                    {
                        **conf,
                        "dfs.namenode.name.dir": (root / name / "storage").as_uri(),
                        "dfs.namenode.secondary.http-address": f"127.0.0.1:{free_port()}",
                    },
                ),
                "dfs.namenode.secondary.http-address",
            )
            for name in ("first", "second")
        ]

    def change_journal_nodes(self, program: Program) -> None:
        """Restart the JournalNodes one after the other, each once the previous JournalNode takes part again."""
        for node in self.pair.trio.nodes:
            assert isinstance(node, OurJournalNode)
            node.program = program
            assert node.stop() == 0
            node.start()
            self.pair.client.admin("-rollEdits").checked()
            wait_until(self._all_take_part, "the JournalNode to take part")
            assert self.daemons[0].check("journalnodes").code == 0

    def _all_take_part(self) -> bool:
        folders = (node.edits_dir / NAMESERVICE / "current" for node in self.pair.trio.nodes)
        opened = {max((path.name for path in folder.glob("edits_inprogress_*")), default="") for folder in folders}
        return len(opened) == 1 and opened != {""}

    def change_controllers(self, program: Program) -> None:
        """Restart the controller of the standby NameNode, fail over to it, and then do the same for the other
        controller.
        """
        for _ in range(2):
            active = self.pair.active() or ""
            (standby,) = self.pair.nodes.keys() - {active}
            self.pair.controllers[standby].stop()
            self.start_controller(standby, program)
            assert self.pair.active() == active
            self.pair.client.ha_admin("-failover", active, standby).checked()
            self.pair.wait_for_active(standby)

    def start_controller(self, name: str, program: Program) -> None:
        controller = self.pair.controllers[name]
        assert isinstance(controller, OurController)
        controller.program = program
        logged = len(controller.log_text()) if controller.log.exists() else 0
        controller.start()
        # Before, the controller refuses a requested failover.
        wait_until(
            lambda: f" is {NameNodeHealth.HEALTHY.value}" in controller.log_text()[logged:],
            "a controller that knows its NameNode",
        )

    def restart(self, daemon: OurDaemon, program: Program) -> None:
        assert daemon.stop() == 0
        daemon.program = program
        daemon.start()

    def current(self) -> Path:
        """Return the folder with the images of the active NameNode."""
        return self.pair.nodes[str(self.pair.active())].current

    def wait_until_leads(self, daemon: OurDaemon) -> None:
        wait_until(lambda: daemon.status()["leader"]["claim"] == "leading", "the leader")

    def works(self, writer: Writer, leader: OurDaemon, follower: OurDaemon) -> list[str]:
        """Check that only the leader uploads and each image is accepted once; return the last image's directories."""
        logged = len(leader.log.read_text())
        writer.reach_image(self.current(), leader.ask_for_checkpoint)
        wanted = writer.reach_image(self.current(), leader.ask_for_checkpoint)
        refused = follower.ask_for_checkpoint()
        assert (refused.code, leader.url.removeprefix("http://") in refused.err) == (1, True), refused.err
        uploads = re.findall(r"upload of (fsimage_\d+) to \S+ (\w+)", leader.log.read_text()[logged:])
        accepted = [image for image, result in uploads if result == "SUCCESS"]
        assert len(accepted) >= 2
        assert len(accepted) == len(set(accepted))
        # On a busy machine, the previous leader's newer image may arrive first.
        assert {result for _, result in uploads} <= {"SUCCESS", "OLD_TRANSACTION_ID_FAILURE"}, uploads
        assert leader.status()["alarms"] == follower.status()["alarms"] == []
        assert [daemon.check("leader").code for daemon in (leader, follower)] == [0, 0]
        return wanted


@pytest.mark.interop
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_upgrade_of_a_nameservice_under_writes(versions: Versions, jvm: ClientJvm, tmp_path: Path) -> None:
    """Upgrade and downgrade every program of a nameservice under writes; each version leads while the other version
    follows.
    """
    # NameNodes accept images of any age and make no images; a busy machine may be slow
    settings = {"dfs.namenode.checkpoint.period": "1", "dfs.ha.standby.checkpoints": "false", **PATIENCE}
    with FailoverPair(tmp_path, jvm, ours=("nn1", "nn2"), settings=settings) as pair, ExitStack() as stack:
        site = Nameservice(tmp_path, pair)
        for name in pair.controllers:
            site.start_controller(name, versions.old)
            pair.wait_for_active("nn1")
        leader, follower = site.daemons
        for daemon in site.daemons:
            daemon.program = versions.old
            stack.enter_context(daemon)
            site.wait_until_leads(leader)
        with Writer(pair.client) as writer:
            for program in (versions.new, versions.old):
                site.change_journal_nodes(program)
                site.change_controllers(program)
                site.restart(follower, program)
                site.works(writer, leader, follower)
                assert leader.stop() == 0
                site.wait_until_leads(follower)
                leader.start()
                site.works(writer, follower, leader)
                site.restart(leader, program)
                wanted = site.works(writer, follower, leader)
                leader, follower = follower, leader
        wait_for_archive(leader, max(images(site.current())))
        for daemon in site.daemons:
            assert daemon.stop() == 0
        assert starts(site.daemons[0].conf.root / "storage") == [False, False, True, False]
        assert starts(site.daemons[1].conf.root / "storage") == [False, True, True, False]
        assert journal_differences(pair.trio) == []
        for name, other in (("nn1", "nn2"), ("nn2", "nn1")):
            pair.nodes[name].stop()
            pair.wait_for_active(other)
            pair.start_node(name)
        assert writer.lost(pair.client) == set()
        assert archive_lacks(site.archive, wanted, versions, tmp_path) == set()


def test_upgrade_with_a_shared_kernel_cache(versions: Versions, tmp_path: Path) -> None:
    """Replace the installed version with the same cache of kernels; in the changed version, the sources of all kernels
    differ.
    """
    old, new = versions.folders
    changed, installed, cache = tmp_path / "changed", tmp_path / "installed", tmp_path / "cache"
    shutil.copytree(new, changed)
    with (changed / "image_format/kernels/wire.py").open("a") as source:
        source.write("# another source\n")
    image = ALL_CASES[-1].image("after")
    kept = []
    # the older version comes last, because it may have other kernels
    for folder in (new, changed, new, old, new):
        installed.unlink(missing_ok=True)
        installed.symlink_to(folder)
        assert cli("image", "verify", image, program=program_in(installed, cache))["valid"]
        kept.append({path.name for path in cache.glob("*/*.nbc")})
    assert kept[0] == kept[2]
    assert kept[0]
    assert kept[1]
    assert not kept[0] & kept[1]
