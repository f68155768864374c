"""Our standby on a quorum of JournalNodes, Hadoop's and ours, to which a real active NameNode writes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hadoop_common.names import image_name
from image_tools.verify.checker import verify_image
from tests.depth import deep
from tests.interop.clients import ClientJvm, HdfsClient, without_clock_times
from tests.interop.cluster import HaPair
from tests.interop.hadoop_process import wait_until
from tests.interop.journal_trio import JournalTrio
from tests.interop.our_commands import check
from tests.interop.our_daemon import STANDBY_SETTINGS, OurDaemon

pytestmark = [pytest.mark.interop]


@dataclass
class Site:
    """An active nn1 that writes to the nodes, and our standby in place of nn2."""

    trio: JournalTrio
    pair: HaPair
    active: HdfsClient

    def standby(self, **changes: str) -> OurDaemon:
        self.pair.nn2.conf.update(changes)
        return OurDaemon.standby(self.pair.nn2.conf, "dfs.namenode.http-address.ns1.nn2")


@pytest.fixture(params=["Hadoop's nodes", "our nodes"])
def site(request: pytest.FixtureRequest, client_jvm: ClientJvm, tmp_path: Path) -> Iterator[Site]:
    with (
        JournalTrio(tmp_path / "nodes", ours=request.param == "our nodes") as trio,
        HaPair(tmp_path / "pair", {**STANDBY_SETTINGS, "dfs.namenode.shared.edits.dir": trio.uri}) as pair,
    ):
        client = client_jvm.of(pair.client_conf)
        # the first image comes from the active NameNode
        shutil.rmtree(pair.nn2.name_dir)
        pair.nn1.start()
        pair.activate(client, "nn1")
        yield Site(trio, pair, client)


def checkpointed(site: Site, daemon: OurDaemon) -> int:
    """Make a checkpoint that the active NameNode accepts; return its txid."""
    txid: int = daemon.checkpoint()["txid"]
    newest = image_name(txid)
    assert site.pair.nn1.images == [txid]
    assert (site.pair.nn1.current / newest).read_bytes() == (site.pair.nn2.current / newest).read_bytes()
    assert verify_image(site.pair.nn2.current / newest).valid
    return txid


def answers(daemon: OurDaemon) -> list[bool]:
    return [node["answers"] for node in daemon.status()["journalNodes"]]


def same_after_a_restart(site: Site, txid: int) -> None:
    before = site.active.namespace()
    site.pair.nn1.restart()
    site.pair.activate(site.active, "nn1")
    assert f"fsimage_{txid:019d}" in site.pair.nn1.process.log_text()
    assert without_clock_times(site.active.namespace()) == without_clock_times(before)


@pytest.mark.both_generations
def test_a_standby_tails_and_checkpoints_and_the_active_purges(site: Site) -> None:
    trio, nodes = site.trio, range(3)
    with site.standby() as daemon:
        promised = [trio.promised(number) for number in nodes]
        site.active.load(300, seed=1)
        txid = checkpointed(site, daemon)
        # the active NameNode purged edits that our image covers, including edits on the JournalNodes
        wait_until(lambda: all(first > txid for each in nodes for first, _ in trio.segments(each)), "the purge")
        assert check(site.pair.nn2.conf, "--only", "journalnodes") == {"journalnodes": "OK"}
        trio.nodes[0].kill()
        site.active.load(300, seed=2, path="/while-one-is-dead")
        txid = checkpointed(site, daemon)
        wait_until(lambda: answers(daemon) == [False, True, True], "the dead node to be noticed")
        assert daemon.status()["alarms"] == []
        assert check(site.pair.nn2.conf, "--only", "journalnodes", code=1) == {"journalnodes": "WARNING"}
        trio.nodes[0].start()
        wait_until(lambda: all(answers(daemon)), "all nodes to answer")
        if deep():
            site.active.load(100, seed=3, path="/when-it-is-back")
            txid = checkpointed(site, daemon)
        # a reader does not fence
        assert [trio.promised(number) for number in nodes] == promised
        assert daemon.stop() == 0
    if deep():
        same_after_a_restart(site, txid)


@pytest.mark.deep
def test_a_standby_reads_the_open_segment(site: Site) -> None:
    """Hadoop 2.7 JournalNodes do not keep transactions in memory, so the client fetches and compares their open
    segments.
    """
    quiet = {"dfs.ha.tail-edits.in-progress": "true", "dfs.ha.log-roll.period": "0"}
    with site.standby(**quiet) as daemon:
        site.active.load(200, seed=4)
        last = site.pair.nn1.last_txid
        assert site.trio.segments(1) == []
        # Hadoop 2.7 JournalNodes do not report the committed txid; two copies of a transaction are enough
        wait_until(lambda: daemon.status()["appliedTxid"] == last, f"txid {last} of the open segment")
        txid = checkpointed(site, daemon)
        assert txid == last
        assert daemon.status()["alarms"] == []
        assert daemon.stop() == 0
    same_after_a_restart(site, txid)


@pytest.mark.deep
def test_a_rolling_upgrade_receives_its_rollback_image(site: Site) -> None:
    with site.standby() as daemon:
        site.active.load(50, seed=5)
        site.active.admin("-rollingUpgrade", "prepare").checked()
        current = site.pair.nn1.current
        wait_until(lambda: any(current.glob("fsimage_rollback_*.md5")), "the rollback image at the active")
        site.active.load(50, seed=6, path="/during")
        txid = daemon.checkpoint()["txid"]
        assert txid in site.pair.nn1.images
        assert verify_image(next(current.glob("fsimage_rollback_*[0-9]"))).valid
        site.active.admin("-rollingUpgrade", "finalize").checked()
        wait_until(lambda: not daemon.status()["rollingUpgrade"], "the end of the upgrade in the edits")
        assert daemon.status()["alarms"] == []
        assert daemon.stop() == 0
