"""HTTPS only, with the stores that keytool and Hadoop made, between real Hadoop servers and ours."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.interop.clients import ClientJvm
from tests.interop.cluster import NameNode, SecondaryNameNode
from tests.interop.hadoop_conf import HadoopConf, ha_pair_confs
from tests.interop.hadoop_home import SERVER, skip_without
from tests.interop.hadoop_process import wait_until
from tests.interop.journal_trio import JournalTrio
from tests.interop.our_daemon import OurDaemon
from tests.interop.our_namenode import OurNameNode
from tests.tls.hadoop_tls import https_only

pytestmark = [pytest.mark.interop]


@pytest.fixture(autouse=True, scope="module")
def hadoop_here() -> None:
    skip_without(SERVER)


def run(name: str, conf: HadoopConf, *words: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "checkpointer", name, "--conf", str(conf.folder), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.deep
def test_our_secondary_checkpoints_a_namenode(tmp_path: Path) -> None:
    """A hundred silent clients of the daemon's port do not disturb other clients; `tests/kerberos` has a fast
    variant.
    """
    with NameNode(https_only(HadoopConf(tmp_path / "nn"))) as namenode:
        ours = HadoopConf(tmp_path / "ours", namenode.conf.properties)
        ours.update({"dfs.namenode.checkpoint.dir": (tmp_path / "checkpoint").as_uri()})
        https_only(ours)
        with OurDaemon.secondary(ours) as daemon, ExitStack() as strangers:
            assert daemon.url.startswith("https://")
            parts = urlsplit(daemon.url)
            for _ in range(100):
                strangers.enter_context(socket.create_connection((parts.hostname, parts.port), 30))
            made = daemon.checkpoint()
            assert made["uploads"] == {namenode.url: "SUCCESS"}
            assert namenode.images[-1] == made["txid"]
            code, fetched = run("fetch-image", ours, str(tmp_path / "backup"))
            assert (code, fetched["txid"]) == (0, made["txid"]), fetched
            code, checked = run("check", ours, "--only", "namenode", "--only", "daemon", "--only", "tls")
            assert (code, checked["state"]) == (0, "OK"), checked
            assert daemon.stop() == 0
            message = daemon.log.read_text()
            assert not any(secret in message for secret in ("store-secret", "key-secret"))


@pytest.mark.deep
def test_a_secondary_of_hadoop_checkpoints_our_stub(tmp_path: Path) -> None:
    # the stub with a namespace of Hadoop 3 refuses recent images, as Hadoop 3 does
    conf = https_only(HadoopConf(tmp_path / "nn", {"dfs.namenode.checkpoint.period": "1"}))
    with OurNameNode(conf) as stub:
        stub.command("format", "--layout", str(SERVER.layout)).checked()
        stub.start()
        assert all(stub.mkdirs(f"/made/{number}") for number in range(5))
        SecondaryNameNode(conf).checkpoint().checked()
        newest = max(path.name for path in stub.current.glob("fsimage_*.md5"))
        assert newest > "fsimage_0000000000000000005"


@pytest.mark.deep
def test_a_namenode_reads_edits_from_our_journalnodes(tmp_path: Path) -> None:
    with JournalTrio(tmp_path / "nodes", ours=True, prepare=https_only) as trio, ClientJvm(tmp_path) as client_jvm:
        properties = {"dfs.namenode.shared.edits.dir": trio.uri}
        first, _, client_conf = ha_pair_confs(tmp_path / "pair", properties)
        namenode = NameNode(https_only(first), name="nn1").format()
        with namenode:
            client = client_jvm.of(client_conf)
            client.ha_admin("-transitionToActive", "--forceactive", "nn1").checked()
            client.shell("-mkdir", "/a", "/b").checked()
            last = namenode.last_txid
            namenode.kill()
            for image in namenode.current.glob("edits_*"):
                # without its own copy, the NameNode reads everything from the JournalNodes
                image.unlink()
            namenode.start()
            client.ha_admin("-transitionToActive", "--forceactive", "nn1").checked()
            wait_until(lambda: namenode.last_txid >= last, "the edits in the JournalNodes")
            client.shell("-test", "-d", "/b").checked()
            assert "getJournal" in namenode.process.log_text() or "https" in namenode.process.log_text()
