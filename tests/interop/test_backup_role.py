"""Our backup role with a real NameNode: its stream, its checkpoints, its restarts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from hadoop_common.names import image_name
from image_tools.verify.checker import verify_image
from journal.segment_file import list_segments
from namenode_stub.ports import free_port
from tests.depth import deep, scaled
from tests.interop.clients import ClientJvm, HdfsClient, without_clock_times
from tests.interop.cluster import NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import run_once, wait_until
from tests.interop.our_daemon import OurDaemon
from tests.interop.sites import NAMENODE

pytestmark = [pytest.mark.interop]

STEPS = 8000
KILLED_AMID = scaled(3000, quick=1000)
PURGE = {"dfs.namenode.num.extra.edits.retained": "0", "dfs.namenode.num.checkpoints.retained": "1"}


@pytest.fixture
def node(conf: HadoopConf) -> Iterator[NameNode]:
    """Run a NameNode that keeps one image and only the edits that follow it."""
    conf.update(PURGE)
    with NameNode(conf) as running:
        yield running


@pytest.fixture
def own(node: NameNode) -> HadoopConf:
    """Return the cluster's configuration with a storage directory for the backup node."""
    root = node.conf.root.parent / "backup"
    return HadoopConf(root, {**node.conf.properties, "dfs.namenode.name.dir": (root / "name").as_uri()})


class Backup(OurDaemon):
    """Our daemon in the backup role, and its position."""

    def __init__(self, conf: HadoopConf) -> None:
        super().__init__(conf, "backup", "dfs.namenode.backup.http-address")
        self.current = conf.name_dir / "current"

    def wait_in_step(self, node: NameNode) -> None:
        """Wait until the daemon has every transaction of the NameNode."""

        def in_step() -> bool:
            status = self.status()
            return status["state"] == "inSync" and not status["alarms"] and bool(status["streamTxid"] == node.last_txid)

        wait_until(in_step, f"backup in step, now {self.status()}")


@pytest.fixture
def backup(own: HadoopConf, node: NameNode) -> Iterator[Backup]:
    daemon = Backup(own)
    with daemon:
        daemon.wait_in_step(node)
        yield daemon


@pytest.fixture
def client(client_jvm: ClientJvm, node: NameNode) -> HdfsClient:
    return client_jvm.of(node.conf)


def assert_same_segments(node: NameNode, current: Path) -> int:
    """Compare our finalized segments with the segments that the NameNode still has; return their number of
    transactions.
    """
    compared = 0
    for segment in list_segments(current):
        theirs = node.current / segment.path.name
        if segment.last is not None and theirs.exists():
            # a killed NameNode leaves preallocated space
            assert segment.path.read_bytes() == theirs.read_bytes().rstrip(b"\xff"), segment.path.name
            compared += segment.last - segment.first + 1
    return compared


@pytest.mark.deep
def test_ten_thousand_streamed_transactions_become_an_image(node: NameNode, backup: Backup, client: HdfsClient) -> None:
    first = backup.status()["streamed"]
    client.load(STEPS)
    client.admin("-rollEdits").checked()
    backup.wait_in_step(node)
    assert backup.status()["streamed"] - first > 10_000
    assert assert_same_segments(node, backup.current) > 10_000
    before = client.namespace()

    txid = backup.checkpoint()["txid"]
    assert node.images == [txid]
    assert all(start > txid for start, _ in node.segments)
    assert (node.current / image_name(txid)).read_bytes() == (backup.current / image_name(txid)).read_bytes()
    assert verify_image(backup.current / image_name(txid)).valid
    assert "End checkpoint for" in node.process.log_text()

    node.restart()
    assert without_clock_times(client.namespace()) == without_clock_times(before)
    backup.wait_in_step(node)
    client.load(100, seed=2, path="/more")
    backup.wait_in_step(node)
    later = backup.checkpoint()["txid"]
    assert (later > txid, node.images) == (True, [later])
    assert_same_segments(node, backup.current)


@pytest.mark.both_generations
def test_a_backup_killed_under_load_misses_no_transaction(node: NameNode, backup: Backup, client: HdfsClient) -> None:
    begun = backup.status()["streamTxid"]
    load = Thread(target=client.load, args=(KILLED_AMID,))
    load.start()
    wait_until(lambda: backup.status()["streamTxid"] > begun + KILLED_AMID // 6, "some of the load")
    backup.kill()
    backup.start()
    load.join()
    backup.wait_in_step(node)
    client.admin("-rollEdits").checked()
    backup.wait_in_step(node)
    assert assert_same_segments(node, backup.current) > KILLED_AMID
    txid = backup.checkpoint()["txid"]
    assert verify_image(backup.current / image_name(txid)).valid
    if deep():
        before = client.namespace()
        node.restart()
        assert f"fsimage_{txid:019d}" in node.process.log_text()
        assert without_clock_times(client.namespace()) == without_clock_times(before)


@pytest.mark.deep
def test_a_backup_follows_a_restarted_namenode(node: NameNode, backup: Backup, client: HdfsClient) -> None:
    client.load(200)
    backup.wait_in_step(node)
    node.kill()
    wait_until(lambda: bool(backup.status()["alarms"]), "the alarm that the NameNode is down")
    # the NameNode saves an image at its start
    node.conf.update({"dfs.namenode.num.extra.edits.retained": "10000"})
    node.start()
    client.load(200, seed=2, path="/again")
    backup.wait_in_step(node)
    assert backup.status()["alarms"] == []
    client.admin("-rollEdits").checked()
    backup.wait_in_step(node)
    assert assert_same_segments(node, backup.current) > 400


@pytest.mark.deep
def test_a_backup_continues_from_the_image_of_a_recovery(node: NameNode, backup: Backup, client: HdfsClient) -> None:
    client.load(100)
    backup.checkpoint()
    client.shell("-mkdir", "/before", "/left-out", "/after").checked()
    backup.wait_in_step(node)
    node.kill()
    (segment,) = node.current.glob("edits_inprogress_*")
    segment.write_bytes(segment.read_bytes().replace(b"/left-out", b"/left-oux"))
    run_once(NAMENODE, "-recover", "-force", conf=node.conf, typed="Y\n").checked()
    node.start()
    backup.wait_in_step(node)
    client.load(100, seed=2, path="/again")
    txid = backup.checkpoint()["txid"]
    namespace = client.namespace()
    assert {"/before", "/left-out", "/after"} & namespace.keys() == {"/before", "/after"}
    node.restart()
    assert f"fsimage_{txid:019d}" in node.process.log_text()
    assert without_clock_times(client.namespace()) == without_clock_times(namespace)


@pytest.mark.deep
def test_a_stopped_backup_unregisters_from_the_namenode(node: NameNode, backup: Backup, client: HdfsClient) -> None:
    client.shell("-mkdir", "/a").checked()
    assert backup.stop() == 0
    wait_until(lambda: "Removing backup journal" in node.process.log_text(), "the end of the stream")
    client.shell("-mkdir", "/b").checked()
    assert "Disabling journal" not in node.process.log_text()
    with Backup(backup.conf) as second:
        second.wait_in_step(node)
        txid = second.checkpoint()["txid"]
        node.wait_for_image(txid)


@pytest.mark.deep
def test_a_namenode_starts_from_the_storage_of_the_backup(
    node: NameNode, backup: Backup, client: HdfsClient, client_jvm: ClientJvm, tmp_path: Path
) -> None:
    client.load(500)
    backup.checkpoint()
    client.load(300, seed=2, path="/since")
    backup.wait_in_step(node)
    before = client.namespace()
    node.kill()
    backup.kill()
    rpc, http = (f"127.0.0.1:{free_port()}" for _ in range(2))
    promoted = HadoopConf(
        tmp_path / "promoted",
        {
            **node.conf.properties,
            "fs.defaultFS": f"hdfs://{rpc}",
            "dfs.namenode.rpc-address": rpc,
            "dfs.namenode.http-address": http,
            "dfs.namenode.name.dir": (tmp_path / "promoted" / "name").as_uri(),
        },
    )
    shutil.copytree(backup.current, promoted.name_dir / "current")
    with NameNode(promoted, name="promoted"):
        after = client_jvm.of(promoted).namespace()
    assert without_clock_times(after) == without_clock_times(before)


@pytest.mark.deep
def test_two_backups_follow_one_namenode(node: NameNode, backup: Backup, client: HdfsClient) -> None:
    root = node.conf.root.parent / "other"
    addresses = {f"dfs.namenode.backup.{key}": f"127.0.0.1:{free_port()}" for key in ("address", "http-address")}
    conf = HadoopConf(root, {**node.conf.properties, **addresses, "dfs.namenode.name.dir": (root / "name").as_uri()})
    with Backup(conf) as other:
        other.wait_in_step(node)
        client.load(200)
        client.admin("-rollEdits").checked()
        for each in (backup, other):
            each.wait_in_step(node)
            assert assert_same_segments(node, each.current) > 200
        txids = [each.checkpoint()["txid"] for each in (backup, other)]
        assert node.images == txids[1:]
