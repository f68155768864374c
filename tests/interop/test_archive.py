"""A deleted directory is restored on a real NameNode with a real DataNode, with the bytes of its files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import open_archive
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import NAMENODE, DataNode, HaPair, NameNode
from tests.interop.hadoop_conf import NAMESERVICE, HadoopConf
from tests.interop.hadoop_process import run_once, wait_until
from tests.interop.journal_trio import JournalTrio

pytestmark = [pytest.mark.interop]

CONTENT = bytes(range(256)) * 1000
DELAYED = {"dfs.namenode.startup.delay.block.deletion.sec": "3600"}


@pytest.fixture
def cluster(client_jvm: ClientJvm, tmp_path: Path) -> Iterator[tuple[NameNode, HdfsClient]]:
    """A NameNode that delays the deletion of blocks after its start, and one DataNode."""
    conf = HadoopConf(tmp_path / "cluster", DELAYED)
    conf.update(DataNode.properties(tmp_path / "cluster"))
    with NameNode(conf) as namenode, DataNode(conf) as datanode:
        wait_until(lambda: datanode.is_registered(namenode), "the DataNode is registered")
        yield namenode, client_jvm.of(conf)


def cli(*words: str | Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "checkpointer", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def delete_and_write(client: HdfsClient, folder: Path) -> None:
    """Write a file and delete its directory, then write another file."""
    local = folder / "file"
    local.write_bytes(CONTENT)
    client.shell("-mkdir", "-p", "/data/warehouse").checked()
    client.shell("-put", str(local), "/data/warehouse/file").checked()
    client.shell("-rm", "-r", "-skipTrash", "/data/warehouse").checked()
    client.shell("-put", str(local), "/data/later").checked()


def assert_read_back(client: HdfsClient, folder: Path) -> None:
    wait_until(lambda: client.shell("-cat", "/data/warehouse/file").code == 0, "the blocks are reported")
    for path in ("/data/warehouse/file", "/data/later"):
        back = folder / path.replace("/", "_")
        client.shell("-get", path, str(back)).checked()
        assert back.read_bytes() == CONTENT


@pytest.mark.deep
@pytest.mark.parametrize("way", ["archive", "undelete"])
def test_a_deleted_file_is_restored(way: str, cluster: tuple[NameNode, HdfsClient], tmp_path: Path) -> None:
    """Perform the steps of docs/runbook-deleted.md for a NameNode without HA."""
    namenode, client = cluster
    delete_and_write(client, tmp_path)
    # 1: nothing is written from now on, and no block is deleted
    client.admin("-safemode", "enter").checked()
    namenode.stop()
    restored = tmp_path / "restored"
    if way == "archive":
        with open_archive(str(tmp_path / "archive")) as archive:
            add_directory(archive, namenode.name_dir, AddOptions(in_progress=True))
        found = cli("archive", "log", "--archive", tmp_path / "archive", "--path", "/data/warehouse", "--op", "delete")
        txid = found["entries"][-1]["txid"]
        cli("archive", "restore", "--archive", tmp_path / "archive", "--without", str(txid), "--out", restored)
    else:
        answer = cli("undelete", namenode.name_dir, "--path", "/data/warehouse", "--out", restored)
        assert answer["changes"][0]["path"] == "/data/warehouse"
    namenode.name_dir.rename(namenode.name_dir.with_name("before"))
    shutil.copytree(restored, namenode.name_dir)
    namenode.start()
    assert_read_back(client, tmp_path)


@dataclass
class HaCluster:
    """An HA pair, a DataNode, and JournalNodes unless the NameNodes share a directory."""

    pair: HaPair
    datanode: DataNode
    client: HdfsClient
    trio: JournalTrio | None

    def edits(self, folder: Path) -> Path:
        """Return a directory that contains the shared edits in `current`."""
        if self.trio is None:
            return self.pair.shared_dir
        version = self.pair.nn1.name_dir / "current" / "VERSION"
        target = (folder / "edits").as_uri()
        cli("edits", "convert", self.trio.uri, target, "--in-progress", "--version-file", version)
        return folder / "edits"

    def empty_journal(self) -> None:
        """Move the shared edits away."""
        if self.trio is None:
            self.pair.shared_dir.rename(self.pair.shared_dir.with_name("shared.before"))
            self.pair.shared_dir.mkdir()
            return
        for node in self.trio.nodes:
            node.stop()
            journal = node.edits_dir / NAMESERVICE
            journal.rename(journal.with_name("before"))
            node.start()


@pytest.fixture(params=["directory", "quorum"])
def ha_cluster(request: pytest.FixtureRequest, client_jvm: ClientJvm, tmp_path: Path) -> Iterator[HaCluster]:
    with ExitStack() as resources:
        settings, trio = {**DELAYED, **DataNode.properties(tmp_path / "blocks")}, None
        if request.param == "quorum":
            trio = resources.enter_context(JournalTrio(tmp_path / "nodes", ours=False))
            settings["dfs.namenode.shared.edits.dir"] = trio.uri
        pair = resources.enter_context(HaPair(tmp_path / "pair", settings))
        pair.nn1.start()
        pair.nn2.start()
        client = client_jvm.of(pair.client_conf)
        pair.activate(client, "nn1")
        datanode = resources.enter_context(DataNode(pair.client_conf))
        wait_until(lambda: datanode.is_registered(pair.nn1), "the DataNode is registered")
        yield HaCluster(pair, datanode, client, trio)


@pytest.mark.deep
@pytest.mark.parametrize("way", ["archive", "undelete"])
def test_a_deleted_file_is_restored_with_ha(way: str, ha_cluster: HaCluster, tmp_path: Path) -> None:
    """Perform the steps of docs/runbook-deleted.md for a shared directory and for JournalNodes."""
    pair, client = ha_cluster.pair, ha_cluster.client
    delete_and_write(client, tmp_path)
    client.admin("-safemode", "enter").checked()
    for node in (pair.nn2, pair.nn1):
        node.stop()
        node.conf.update({"dfs.namenode.safemode.threshold-pct": "1.5"})
    edits, restored, name_dir = ha_cluster.edits(tmp_path), tmp_path / "restored", pair.nn1.name_dir
    if way == "archive":
        archive = tmp_path / "archive"
        cli("archive", "add", name_dir, "--edits", edits, "--archive", archive, "--in-progress")
        found = cli("archive", "log", "--archive", archive, "--path", "/data/warehouse", "--op", "delete")
        txid = found["entries"][-1]["txid"]
        cli("archive", "restore", "--archive", archive, "--without", str(txid), "--out", restored)
    else:
        copied = tmp_path / "copied"
        shutil.copytree(name_dir, copied)
        for segment in (edits / "current").glob("edits_*"):
            if not (copied / "current" / segment.name).exists():
                shutil.copy(segment, copied / "current")
        cli("undelete", copied, "--path", "/data/warehouse", "--out", restored)
    name_dir.rename(name_dir.with_name("before"))
    shutil.copytree(restored, name_dir)
    ha_cluster.empty_journal()
    run_once(NAMENODE, "-initializeSharedEdits", "-nonInteractive", conf=pair.nn1.conf).checked()
    pair.nn1.start()
    pair.activate(client, "nn1")
    pair.nn2.name_dir.rename(pair.nn2.name_dir.with_name("before"))
    run_once(NAMENODE, "-bootstrapStandby", "-nonInteractive", conf=pair.nn2.conf).checked()
    pair.nn2.start()
    assert_read_back(client, tmp_path)
    client.admin("-safemode", "leave").checked()
    client.shell("-rm", "-skipTrash", "/data/later").checked()
    pair.activate(client, "nn2")
    client.shell("-ls", "/data/warehouse/file").checked()
    assert client.shell("-ls", "/data/later").code


@pytest.mark.deep
def test_a_namenode_starts_from_any_archived_moment(namenode: NameNode, client: HdfsClient, tmp_path: Path) -> None:
    client.load(200, seed=7)
    client.admin("-safemode", "enter").checked()
    client.admin("-saveNamespace").checked()
    client.admin("-safemode", "leave").checked()
    client.load(100, seed=8, path="/more")
    namenode.stop()
    with open_archive(str(tmp_path / "archive")) as archive:
        added = add_directory(archive, namenode.name_dir, AddOptions(in_progress=True))
    namenode.name_dir.rename(namenode.name_dir.with_name("before"))
    first = min(each.txid for each in added.images)
    for number in range(4):
        txid = first + (added.last_txid - first) * number // 3
        restored = tmp_path / f"restored-{number}"
        cli("archive", "restore", "--archive", tmp_path / "archive", "--txid", str(txid), "--out", restored)
        shutil.rmtree(namenode.name_dir, ignore_errors=True)
        shutil.copytree(restored, namenode.name_dir)
        namenode.start()
        assert namenode.last_txid > txid
        client.shell("-ls", "-R", "/").checked()
        namenode.stop()
