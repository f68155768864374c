"""Our daemons fill an archive for real NameNodes; the archive restores the data that both hosts lose."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.clients import ClientJvm, HdfsClient
from tests.interop.cluster import HaPair, NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import wait_until
from tests.interop.journal_trio import JournalTrio
from tests.interop.our_daemon import OurDaemon

pytestmark = [pytest.mark.interop, pytest.mark.deep]

SETTINGS = {"dfs.namenode.checkpoint.check.period": "1", "dfs.ha.tail-edits.period": "1", "dfs.ha.log-roll.period": "3"}


def restorable(daemon: OurDaemon) -> int:
    return int(daemon.status()["archive"]["restorableTxid"])


def in_step(daemon: OurDaemon, node: NameNode) -> None:
    """Wait for all transactions; JournalNodes show the beginning of a segment only once another transaction follows."""
    wait_until(lambda: restorable(daemon) >= node.last_txid - 1, "the archive has every transaction")
    assert daemon.status()["archive"]["error"] == ""


def listing(client: HdfsClient) -> list[str]:
    """Return the lines of all paths, without times that Hadoop 2 takes from its clock when it replays snapshots."""
    lines = client.shell("-ls", "-R", "/").checked().out.splitlines()
    times = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    return sorted(lines if SERVER.is_3 else (re.sub(times, "TIME", line) for line in lines))


def restored(archive: Path, client_jvm: ClientJvm, folder: Path) -> tuple[int, list[str]]:
    """Restore the newest state from the archive, and start a NameNode from this state; return the state's txid and the
    list of files.
    """
    words = ("archive", "restore", "--archive", archive, "--time", "9999999999", "--out", folder / "restored", "--json")
    done = subprocess.run([sys.executable, "-m", "checkpointer", *map(str, words)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    node = NameNode(HadoopConf(folder / "single"))
    shutil.copytree(folder / "restored", node.name_dir)
    with node:
        return int(json.loads(done.stdout)["txid"]), listing(client_jvm.of(node.conf))


@pytest.fixture(params=["directory", "quorum"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HaPair]:
    with ExitStack() as resources:
        settings = dict(SETTINGS)
        if request.param == "quorum":
            trio = resources.enter_context(JournalTrio(tmp_path / "nodes", ours=False))
            settings["dfs.namenode.shared.edits.dir"] = trio.uri
        yield resources.enter_context(HaPair(tmp_path / "pair", settings))


def test_a_standby_archives_each_second_and_continues_after_kills(
    pair: HaPair, client_jvm: ClientJvm, tmp_path: Path
) -> None:
    client, archive = client_jvm.of(pair.client_conf), tmp_path / "archive"
    shutil.rmtree(pair.nn2.name_dir)
    pair.nn1.start()
    pair.activate(client, "nn1")
    pair.nn2.conf.update({"checkpointer.archive.dir": str(archive)})
    daemon = OurDaemon.standby(pair.nn2.conf, "dfs.namenode.http-address.ns1.nn2")
    with daemon:
        client.load(100, seed=1)
        in_step(daemon, pair.nn1)
        daemon.checkpoint()
        client.load(100, seed=2, path="/more")
        daemon.kill()
        client.load(100, seed=3, path="/while-away")
        client.admin("-rollEdits").checked()
        daemon.start()
        client.load(50, seed=4, path="/open")
        in_step(daemon, pair.nn1)
        assert daemon.status()["archive"]["missingTransactions"] == 0
        assert daemon.check("archive").code == 0
        before, last = listing(client), pair.nn1.last_txid
        # both hosts are lost
        daemon.kill()
        pair.nn1.stop()
    txid, files = restored(archive, client_jvm, tmp_path)
    assert txid >= last - 1
    assert files == before


@pytest.mark.parametrize("role", ["secondary", "backup"])
def test_roles_without_ha_fill_an_archive(
    role: str, namenode: NameNode, client: HdfsClient, client_jvm: ClientJvm, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    own = HadoopConf(tmp_path / "own", {**namenode.conf.properties, **SETTINGS})
    own.update({"checkpointer.archive.dir": str(archive), "dfs.namenode.name.dir": (tmp_path / "ours").as_uri()})
    daemon = OurDaemon.backup(own) if role == "backup" else OurDaemon.secondary(own)
    with daemon:
        client.load(100, seed=1)
        daemon.checkpoint()
        client.load(50, seed=2, path="/more")
        if role == "secondary":
            # archived up to the last roll
            txid = daemon.checkpoint()["txid"]
            wait_until(lambda: restorable(daemon) >= txid, "the archive has the rolled edits")
        else:
            in_step(daemon, namenode)
        before = listing(client)
        daemon.kill()
    assert restored(archive, client_jvm, tmp_path)[1] == before
