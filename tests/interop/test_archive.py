"""A deleted directory comes back on a real NameNode with a real DataNode, with the bytes of its files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import open_archive
from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import DataNode, NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import wait_until

pytestmark = [pytest.mark.interop]

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def cluster(client_jvm: ClientJvm, tmp_path: Path) -> Iterator[tuple[NameNode, HdfsClient]]:
    """A NameNode that delays the deletion of blocks after its start, and a DataNode."""
    conf = HadoopConf(tmp_path / "cluster", {"dfs.namenode.startup.delay.block.deletion.sec": "3600"})
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


@pytest.mark.deep
@pytest.mark.parametrize("way", ["archive", "undelete"])
def test_a_deleted_file_is_read_back(way: str, cluster: tuple[NameNode, HdfsClient], tmp_path: Path) -> None:
    """The steps of docs/runbook-deleted.md for a NameNode without HA."""
    namenode, client = cluster
    local = tmp_path / "file"
    local.write_bytes(CONTENT)
    client.shell("-mkdir", "-p", "/data/warehouse").checked()
    client.shell("-put", str(local), "/data/warehouse/file").checked()
    client.shell("-rm", "-r", "-skipTrash", "/data/warehouse").checked()
    client.shell("-put", str(local), "/data/later").checked()
    # 1: nothing is written any more, and no block is deleted
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
    wait_until(lambda: client.shell("-cat", "/data/warehouse/file").code == 0, "the blocks are reported")
    for path in ("/data/warehouse/file", "/data/later"):
        back = tmp_path / path.replace("/", "_")
        client.shell("-get", path, str(back)).checked()
        assert back.read_bytes() == CONTENT


@pytest.mark.deep
def test_a_namenode_starts_from_any_moment(namenode: NameNode, client: HdfsClient, tmp_path: Path) -> None:
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
