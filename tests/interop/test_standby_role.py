"""Our standby in place of one NameNode of a real Hadoop HA pair, and in addition to both."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.transfer.image_acceptance import ask_acceptance
from hadoop_common.names import image_name, parse_image
from image_format.md5_file import md5_path
from image_tools.verify.checker import verify_image
from namenode_stub.ports import free_port
from tests.interop.clients import ClientJvm, HdfsClient, without_clock_times
from tests.interop.cluster import NAMENODE, HaPair
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import run_once, wait_until
from tests.interop.our_daemon import STANDBY_SETTINGS, OurDaemon

pytestmark = [pytest.mark.interop]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[HaPair]:
    with HaPair(tmp_path, STANDBY_SETTINGS) as both:
        yield both


@pytest.fixture
def active(pair: HaPair, client_jvm: ClientJvm) -> HdfsClient:
    """Return a client of the pair, whose nn1 runs and is active."""
    client = client_jvm.of(pair.client_conf)
    pair.nn1.start()
    pair.activate(client, "nn1")
    return client


def second(pair: HaPair) -> OurDaemon:
    """Run our standby in nn2's place."""
    return OurDaemon.standby(pair.nn2.conf, "dfs.namenode.http-address.ns1.nn2")


def third(pair: HaPair, folder: Path) -> OurDaemon:
    """Run our standby in addition to both NameNodes."""
    conf = HadoopConf(
        folder / "third", {**pair.client_conf.properties, "dfs.namenode.name.dir": (folder / "ours").as_uri()}
    )
    conf.update({"dfs.namenode.secondary.http-address": f"127.0.0.1:{free_port()}"})
    return OurDaemon.standby(conf, "dfs.namenode.secondary.http-address")


@pytest.mark.deep
def test_our_standby_replaces_the_second_namenode(pair: HaPair, active: HdfsClient) -> None:
    current = pair.nn2.current
    with second(pair) as daemon:
        active.load(300, seed=1)
        txid = daemon.checkpoint()["txid"]
        assert pair.nn1.images == [txid]
        newest = image_name(txid)
        assert (pair.nn1.current / newest).read_bytes() == (current / newest).read_bytes()
        assert verify_image(current / newest).valid
        # the active NameNode purged edits that our image covers, including edits in the shared directory
        assert all(first > txid for first, _ in pair.nn1.segments)
        assert daemon.stop() == 0
    before = active.namespace()
    pair.nn1.restart()
    pair.activate(active, "nn1")
    assert f"fsimage_{txid:019d}" in pair.nn1.process.log_text()
    assert without_clock_times(active.namespace()) == without_clock_times(before)


@pytest.mark.deep
def test_commands_of_hadoop_with_our_standby(pair: HaPair, active: HdfsClient) -> None:
    """The table in docs/operations.md; our standby is the last NameNode in the list."""
    one = ("-fs", "hdfs://{}:{}".format(*pair.nn1.rpc_address))
    with second(pair):
        entered = active.admin("-safemode", "enter")
        assert (entered.code, "Safe mode is ON" in entered.out) == (-1, True)
        saved = active.admin("-saveNamespace")
        assert (saved.code, "Save namespace successful" in saved.out) == (-1, True)
        for words in (("leave",), ("enter",), ("leave",)):
            active.admin(*one, "-safemode", *words).checked()
        assert "Safe mode is OFF" in active.admin(*one, "-safemode", "get").checked().out
        restored = active.admin("-restoreFailedStorage", "true")
        assert (restored.code, "is set to true for" in restored.out) == (-1, True)
        active.admin("-rollEdits").checked()
        active.ha_admin("-transitionToStandby", "nn1").checked()
        assert active.ha_admin("-transitionToActive", "nn1").code
        active.ha_admin("-transitionToActive", "--forceactive", "nn1").checked()


@pytest.mark.deep
def test_our_standby_requests_rolls_and_checkpoints_by_transactions(pair: HaPair, active: HdfsClient) -> None:
    pair.nn2.conf.update({"dfs.namenode.checkpoint.txns": "200"})
    with second(pair) as daemon:
        first = pair.nn1.images[-1]
        active.load(300, seed=2)
        # in this test, only the daemon rolls the active NameNode's log
        wait_until(lambda: pair.nn1.images[-1] > first, "an image triggered by transactions")
        assert daemon.status()["lastReason"] == "txns"


@pytest.mark.deep
def test_a_namenode_starts_from_the_memory_of_our_standby(pair: HaPair, active: HdfsClient) -> None:
    """The active NameNode's directories and the shared edits are lost; see docs/runbook.md, "Gap in the edits"."""
    nn1 = pair.nn1
    with second(pair) as daemon:
        active.load(100, seed=4)
        image = daemon.checkpoint()["txid"]
        active.load(60, seed=5, path="/since")
        active.admin("-rollEdits").checked()
        last = nn1.segments[-1][1]
        wait_until(lambda: daemon.status()["appliedTxid"] >= last, "the edits to be applied")
        before = active.namespace()
        nn1.kill()
        for lost in (nn1.name_dir, pair.shared_dir):
            lost.rename(lost.with_name("lost"))
        assert daemon.ask_for_checkpoint().code
        saved = daemon.save_aside()
        assert parse_image(saved.name).txid >= last > image
    nn1.current.mkdir(mode=0o700, parents=True)
    for path in (saved, md5_path(saved), pair.nn2.current / "VERSION"):
        shutil.copy(path, nn1.current)
    (nn1.current / "seen_txid").write_text(f"{last}\n")
    run_once(NAMENODE, "-initializeSharedEdits", "-force", "-nonInteractive", conf=nn1.conf).checked()
    nn1.start()
    pair.activate(active, "nn1")
    assert without_clock_times(active.namespace()) == without_clock_times(before)


@pytest.mark.deep
def test_images_are_uploaded_to_the_current_active_namenode(pair: HaPair, active: HdfsClient, tmp_path: Path) -> None:
    pair.nn2.start()
    with third(pair, tmp_path) as daemon:
        active.load(100, seed=3)
        txid = daemon.checkpoint()["txid"]
        assert txid in pair.nn1.images
        assert txid not in pair.nn2.images
        pair.activate(active, "nn2")
        active.shell("-mkdir", "/after-the-failover").checked()
        txid = daemon.checkpoint()["txid"]
        assert txid in pair.nn2.images
        assert txid not in pair.nn1.images


@pytest.mark.deep
@pytest.mark.skipif(not SERVER.refuses_young_images, reason="the server accepts recent images")
def test_image_that_only_an_observer_accepts(pair: HaPair, client_jvm: ClientJvm, tmp_path: Path) -> None:
    """The active NameNode refuses the image, because its last image is recent, and cannot purge its edits."""
    pair.nn1.conf.update({"dfs.namenode.checkpoint.period": "3600"})
    client = client_jvm.of(pair.client_conf)
    pair.nn1.start()
    pair.activate(client, "nn1")
    pair.nn2.start()
    client.ha_admin("-transitionToObserver", "nn2").checked()
    with third(pair, tmp_path) as daemon:
        client.load(100, seed=6)
        wait_until(lambda: daemon.status()["appliedTxid"] > 100, "the edits to be applied")
        done = daemon.ask_for_checkpoint()
        answer = json.loads(done.out)
        assert (done.code, answer["outcome"]) == (8, "too recent"), done
        assert answer["txid"] in pair.nn2.images
        assert answer["txid"] not in pair.nn1.images
        found = ask_acceptance(pair.nn2.url, timeout=600)
        assert (found.state, found.last_txid) == ("observer", answer["txid"])


@pytest.mark.deep
def test_a_rolling_upgrade_receives_its_rollback_image(pair: HaPair, active: HdfsClient) -> None:
    with second(pair) as daemon:
        active.load(50, seed=4)
        active.admin("-rollingUpgrade", "prepare").checked()
        rollback = pair.nn1.current
        wait_until(lambda: any(rollback.glob("fsimage_rollback_*.md5")), "the rollback image at the active")
        wait_until(
            lambda: "Proceed with rolling upgrade" in active.admin("-rollingUpgrade", "query").checked().out,
            "the active NameNode to notice the image",
        )
        active.load(50, seed=5, path="/during")
        txid = daemon.checkpoint()["txid"]
        assert txid in pair.nn1.images
        made = next(rollback.glob("fsimage_rollback_*[0-9]"))
        assert verify_image(made).valid
        active.admin("-rollingUpgrade", "finalize").checked()
        before = active.namespace()
    pair.nn1.restart()
    pair.activate(active, "nn1")
    assert without_clock_times(active.namespace()) == without_clock_times(before)


@pytest.mark.deep
def test_the_active_rolls_back_to_our_rollback_image(pair: HaPair, active: HdfsClient) -> None:
    with second(pair):
        active.load(50, seed=6)
        before = active.namespace()
        active.admin("-rollingUpgrade", "prepare").checked()
        wait_until(lambda: any(pair.nn1.current.glob("fsimage_rollback_*.md5")), "the rollback image at the active")
        active.load(50, seed=7, path="/during")
    pair.nn1.stop()
    pair.nn1.start("-rollingUpgrade", "rollback")
    pair.activate(active, "nn1")
    assert without_clock_times(active.namespace()) == without_clock_times(before)
