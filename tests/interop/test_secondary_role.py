"""Our secondary with a real NameNode, also alternating with Hadoop's own SecondaryNameNode."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.errors import TransferError
from checkpointer.storage.inspector import read_storage_info
from checkpointer.transfer import download_image, download_segment
from hadoop_common.configuration import Configuration
from hadoop_common.names import image_name
from image_tools.verify.checker import verify_image
from namenode_stub.ports import free_port
from servlets.status import TriggerState
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.checkpointer.secondary_support import Secondary, image_txids, leftovers, segment_names, sound
from tests.depth import scaled
from tests.interop.clients import ClientJvm, HdfsClient, without_clock_times
from tests.interop.cluster import NameNode, SecondaryNameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import wait_until
from tests.interop.our_daemon import OurDaemon

pytestmark = [pytest.mark.interop]

PURGE = {"dfs.namenode.num.extra.edits.retained": "0", "dfs.namenode.num.checkpoints.retained": "1"}


@pytest.fixture
def purging(conf: HadoopConf) -> Iterator[NameNode]:
    """Run a NameNode that keeps one image and only the edits that follow it."""
    conf.update(PURGE)
    with NameNode(conf) as running:
        yield running


def ours(conf: HadoopConf) -> Secondary:
    """Run our secondary in this process."""
    configuration = Configuration.load(conf.folder, os.environ)
    return Secondary(CheckpointConfig.from_configuration(configuration, Role.SECONDARY))


def checkpoint_of_ours(conf: HadoopConf) -> int:
    with ours(conf) as secondary:
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result
        assert list(result.details["uploads"].values()) == ["SUCCESS"]
        txid = int(result.details["txid"])
        assert verify_image(secondary.folder / image_name(txid)).valid
        assert leftovers(secondary.folder) == []
        return txid


def checkpoint_of_theirs(conf: HadoopConf) -> None:
    SecondaryNameNode(conf).checkpoint().checked()


def changed_by_a_restart(node: NameNode, client: HdfsClient) -> list[str]:
    """Return the paths that differ after the NameNode was restarted from our image."""
    before = without_clock_times(client.namespace())
    node.restart()
    after = without_clock_times(client.namespace())
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


# ---- ours alone --------------------------------------------------------------------------------------------


@(pytest.mark.deep if SERVER.is_3 else pytest.mark.both_generations)
def test_the_daemon_checkpoints_with_hadoops_configuration_files(purging: NameNode, client_jvm: ClientJvm) -> None:
    client = client_jvm.of(purging.conf)
    current = purging.conf.checkpoint_dir / "current"
    with OurDaemon.secondary(purging.conf) as daemon:
        txids = []
        for seed in range(2):
            client.load(200, seed=seed, path=f"/load{seed}")
            txids.append(daemon.checkpoint()["txid"])
            assert purging.images[-1] == txids[-1]
        newest = image_name(txids[-1])
        assert (purging.current / newest).read_bytes() == (current / newest).read_bytes()
        # the NameNode purged edits that our image covers
        assert purging.images == [txids[-1]]
        assert all(first > txids[-1] for first, _ in purging.segments)
        assert daemon.status()["targets"][0]["result"] == "SUCCESS"
        assert image_txids(current) == [txids[-1]]
        assert daemon.stop() == 0
    assert changed_by_a_restart(purging, client) == []
    assert f"fsimage_{txids[-1]:019d}" in purging.process.log_text()


@pytest.mark.deep
def test_the_daemon_checkpoints_by_period_and_transactions(conf: HadoopConf, client_jvm: ClientJvm) -> None:
    conf.update({"dfs.namenode.checkpoint.txns": "100", "dfs.namenode.checkpoint.check.period": "1"})
    with NameNode(conf) as node, OurDaemon.secondary(conf) as daemon:
        client_jvm.of(conf).load(150)
        # the first checkpoint was due immediately, for another reason
        wait_until(lambda: daemon.status()["lastReason"] == "txns", "an image triggered by transactions")
        # the reason is reported before the image exists
        wait_until(lambda: len(node.images) > 1, "the image at the NameNode")
    conf.update({"dfs.namenode.checkpoint.txns": "100000", "dfs.namenode.checkpoint.period": "2"})
    with NameNode(conf) as node, OurDaemon.secondary(conf) as daemon:
        newest = node.images[-1]
        wait_until(lambda: node.images[-1] > newest, "an image triggered by the period")
        assert daemon.status()["lastReason"] == "period"


@pytest.mark.deep
def test_safe_mode_is_reported_in_the_namenodes_words(shared_namenode: NameNode, shared_client: HdfsClient) -> None:
    client = shared_client
    with ours(shared_namenode.conf) as secondary:
        client.admin("-safemode", "enter").checked()
        result = secondary.checkpoint()
        assert result.state is TriggerState.FAILED
        assert "Log not rolled. Name node is in safe mode" in result.message
        client.admin("-safemode", "leave").checked()
        client.shell("-mkdir", "/after-safe-mode").checked()
        assert secondary.checkpoint().state is TriggerState.DONE


@pytest.mark.deep
def test_checkpoints_continue_after_a_namenode_restart(namenode: NameNode, client: HdfsClient) -> None:
    with ours(namenode.conf) as secondary:
        client.load(50)
        namenode.kill()
        assert secondary.checkpoint().state is TriggerState.FAILED
        assert not secondary.service.ready().ok
        namenode.start()
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE
        assert namenode.images[-1] == result.details["txid"]
    assert changed_by_a_restart(namenode, client) == []


# ---- in turn with Hadoop's ---------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("shared", [False, True], ids=["own-directories", "one-directory"])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_our_secondary_and_hadoops_alternate(namenode: NameNode, client: HdfsClient, first: str, shared: bool) -> None:
    conf = namenode.conf
    turns = ["ours", "theirs"] if first == "ours" else ["theirs", "ours"]
    for number, who in enumerate(turns * scaled(2, quick=1)):
        client.load(60, seed=number, path=f"/turn{number}")
        if not shared:
            conf.update({"dfs.namenode.checkpoint.dir": (conf.root / f"checkpoint-{who}").as_uri()})
        before = namenode.images[-1]
        if who == "ours":
            assert checkpoint_of_ours(conf) == namenode.images[-1]
        else:
            checkpoint_of_theirs(conf)
        assert namenode.images[-1] > before
        assert sound(conf.checkpoint_dir / "current")
    assert changed_by_a_restart(namenode, client) == []


# ---- each other's servers ----------------------------------------------------------------------------------


@pytest.mark.deep
def test_our_fetcher_downloads_from_hadoops_secondary(namenode: NameNode, client: HdfsClient, tmp_path: Path) -> None:
    namenode.conf.update({"dfs.namenode.checkpoint.txns": "20", "dfs.namenode.checkpoint.check.period": "1"})
    client.load(40)
    with SecondaryNameNode(namenode.conf) as theirs:
        wait_until(lambda: len(namenode.images) > 1, "an image of Hadoop's secondary")
        info = read_storage_info(namenode.conf.checkpoint_dir)
        latest = download_image(theirs.url, None, info, [tmp_path])
        assert latest.txid in namenode.images
        for name in segment_names(theirs.current)[:2]:
            first, last = map(int, name.removeprefix("edits_").split("-"))
            download_segment(theirs.url, first, last, info, [tmp_path])
            assert (tmp_path / name).read_bytes() == (theirs.current / name).read_bytes()
    assert verify_image(latest.paths[0]).valid


def test_hadoop_fetches_an_image_from_our_daemon(
    shared_namenode: NameNode, shared_client: HdfsClient, client_jvm: ClientJvm, tmp_path: Path
) -> None:
    shared_client.load(40, path="/to-fetch")
    conf = shared_namenode.conf
    with OurDaemon.secondary(conf) as daemon:
        txid = daemon.checkpoint()["txid"]
        # with this address, the client sends requests for the NameNode's HTTP server to our daemon's HTTP server
        other = HadoopConf(
            tmp_path / "other", {**conf.properties, "dfs.namenode.http-address": daemon.url.removeprefix("http://")}
        )
        client_jvm.of(other).admin("-fetchImage", str(tmp_path / "fetched")).checked()
    assert (tmp_path / "fetched").read_bytes() == (shared_namenode.current / image_name(txid)).read_bytes()


@pytest.mark.deep
def test_a_namenode_imports_our_checkpoint(namenode: NameNode, client: HdfsClient, client_jvm: ClientJvm) -> None:
    client.load(60)
    checkpoint_of_ours(namenode.conf)
    before = without_clock_times(client.namespace())
    namenode.stop()
    conf = namenode.conf
    other = HadoopConf(
        conf.root / "imported",
        {
            **conf.properties,
            "dfs.namenode.name.dir": (conf.root / "imported" / "name").as_uri(),
            "dfs.namenode.http-address": f"127.0.0.1:{free_port()}",
        },
    )
    other.name_dir.mkdir(parents=True)
    imported = NameNode(other, name="imported")
    try:
        imported.start("-importCheckpoint")
        assert without_clock_times(client_jvm.of(other).namespace()) == before
    finally:
        imported.stop()


@pytest.mark.deep
def test_a_dropped_storage_directory_is_restored_as_the_hint_states(
    namenode: NameNode, client: HdfsClient, tmp_path: Path
) -> None:
    url = namenode.url
    with ours(namenode.conf) as secondary:
        client.load(20)
        newest = namenode.images[-1]
        following = range(namenode.last_txid, namenode.last_txid + 200)
        obstacles = [namenode.current / f"{image_name(txid)}.md5" for txid in following]
        for obstacle in obstacles:
            # the NameNode cannot write the digest of the image that it receives
            (obstacle / "file").mkdir(parents=True)
        secondary.checkpoint()
        assert "Error reported on storage directory" in namenode.process.log_text()
        for obstacle in obstacles:
            shutil.rmtree(obstacle, ignore_errors=True)
        with pytest.raises(TransferError, match="Could not find image with txid") as refused:
            download_image(url, newest, namenode.storage_info, [tmp_path])
        assert "-restoreFailedStorage true" in refused.value.hint
        client.admin("-restoreFailedStorage", "true").checked()
        client.admin("-rollEdits").checked()
        assert download_image(url, newest, namenode.storage_info, [tmp_path]).txid == newest
        client.load(20, path="/later")
        assert secondary.checkpoint().state is TriggerState.DONE
        assert namenode.images[-1] > newest
