"""Shadow mode with real NameNodes and Hadoop's own checkpointers, with which it must not interfere."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import pytest

from hadoop_common.names import image_name, md5_name
from namenode_stub.ports import free_port
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import HaPair, NameNode, SecondaryNameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import wait_until
from tests.interop.our_daemon import OurDaemon

pytestmark = [pytest.mark.interop, pytest.mark.deep]

SETTINGS = {
    "checkpointer.shadow": "true",
    "dfs.namenode.checkpoint.check.period": "1",
    "dfs.namenode.checkpoint.period": "2",
    "dfs.ha.tail-edits.period": "1",
}
HOURS = 24
"""A day of checkpoints, one per hour, without the waits between them."""
_ADDRESS = "dfs.namenode.secondary.http-address"


def conf_beside(conf: HadoopConf, root: Path, directory_key: str) -> HadoopConf:
    """Return the configuration of a daemon in shadow mode for the same cluster, with its own directory and address."""
    own = {directory_key: (root / "ours").as_uri(), _ADDRESS: f"127.0.0.1:{free_port()}"}
    return HadoopConf(root / "shadow", {**conf.properties, **SETTINGS, **own})


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def damage(image: Path, old: bytes, new: bytes) -> None:
    """Rename an inode in an uncompressed image, with a matching digest."""
    content = image.read_bytes()
    assert len(old) == len(new)
    assert content.count(old) == 1
    content = content.replace(old, new)
    image.write_bytes(content)
    image.with_name(md5_name(image.name)).write_text(f"{hashlib.md5(content).hexdigest()} *{image.name}\n")


def comparisons(daemon: OurDaemon) -> tuple[int, int]:
    shadow = daemon.status()["shadow"]
    return shadow["equal"], shadow["compared"]


def has_compared(daemon: OurDaemon, count: int) -> bool:
    return comparisons(daemon)[1] >= count


def test_a_shadow_secondary_compares_images_of_hadoops_secondary(
    namenode: NameNode, client: HdfsClient, tmp_path: Path
) -> None:
    conf = namenode.conf
    ours = conf_beside(conf, tmp_path, "dfs.namenode.checkpoint.dir")
    theirs = SecondaryNameNode(conf)
    with OurDaemon.secondary(ours) as daemon:
        client.load(200, seed=1)
        client.admin("-rollEdits").checked()
        wait_until(lambda: daemon.status()["imageTxid"] > 0, "one of our images")
        for hour in range(HOURS):
            client.load(40, seed=2 + hour, path=f"/hour{hour}")
            theirs.checkpoint().checked()
            before = contents(namenode.current)
            wait_until(partial(has_compared, daemon, hour + 1), "a comparison")
            assert comparisons(daemon) == (hour + 1, hour + 1), daemon.status()["shadow"]
            assert contents(namenode.current) == before
            assert daemon.status()["alarms"] == []
        assert daemon.ask_for_checkpoint().code == 0
        assert contents(namenode.current) == before
    client.shell("-mkdir", "/marker-a").checked()
    theirs.checkpoint().checked()
    damage(namenode.current / image_name(namenode.images[-1]), b"marker-a", b"marker-b")
    before = contents(namenode.current)
    with daemon:
        wait_until(partial(has_compared, daemon, HOURS + 1), "the next comparison")
        status = daemon.status()
        assert comparisons(daemon) == (HOURS, HOURS + 1)
        assert "/marker-a -> /marker-b" in status["shadow"]["difference"]
        (alarm,) = status["alarms"]
        assert "/marker-b" in alarm
        assert "image diff" in status["nextSteps"][alarm]
        assert status["targets"][0]["result"] == "never"
        assert contents(namenode.current) == before


def test_a_shadow_standby_compares_images_of_the_standby_namenode(tmp_path: Path, client_jvm: ClientJvm) -> None:
    properties = {"dfs.namenode.checkpoint.check.period": "1", "dfs.ha.tail-edits.period": "1"}
    with HaPair(tmp_path, {**properties, "dfs.namenode.checkpoint.txns": "150"}) as pair:
        client = client_jvm.of(pair.client_conf)
        pair.nn1.start()
        pair.activate(client, "nn1")
        client.shell("-mkdir", "/marker-a").checked()
        ours = conf_beside(pair.client_conf, tmp_path, "dfs.namenode.name.dir")
        with OurDaemon.standby(ours, _ADDRESS) as daemon:
            client.load(50, seed=1)
            client.admin("-rollEdits").checked()
            wait_until(lambda: daemon.status()["imageTxid"] > 0, "one of our images")
            pair.nn2.start()
            newest = pair.nn1.images[-1]
            client.load(300, seed=2, path="/more")
            client.admin("-rollEdits").checked()
            wait_until(lambda: pair.nn1.images[-1] > newest, "an image of the standby NameNode")
            pair.nn2.stop()
            before = contents(pair.nn1.current)
            wait_until(partial(has_compared, daemon, 1), "a comparison")
            assert comparisons(daemon) == (1, 1), daemon.status()["shadow"]
            assert contents(pair.nn1.current) == before
            assert [each["result"] for each in daemon.status()["targets"]] == ["never", "never"]
