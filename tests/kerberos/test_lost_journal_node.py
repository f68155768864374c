"""The runbook for a JournalNode that lost its disk, in a realm with authorization, with two of our JournalNodes.

With authorization, only NameNodes may use QJournalProtocol, so JournalNodes read promises from metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hadoop_common.configuration import Configuration
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.qjournal_protocol import QJournalClient
from journal_node import peers
from journal_node.config import JournalNodeConfig
from journal_node.server import JournalNodeServer
from namenode_stub.ports import free_port
from tests.cli_runner import run_cli
from tests.interop.cluster import JournalNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import release_of, skip_without
from tests.interop.hadoop_process import wait_until
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer
from tests.kerberos.callers import login
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.secure_conf import secure
from tests.site_files import write_site

pytestmark = [pytest.mark.interop]

HADOOP = release_of("3.5.0")
ACL = "security.interqjournal.service.protocol.acl"


@pytest.fixture(autouse=True)
def fresh_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat metrics as never stale."""
    monkeypatch.setattr(peers, "METRICS_AGE", 0.0)


@pytest.fixture
def confs(kdc: Kdc, tmp_path: Path) -> list[HadoopConf]:
    """Three JournalNodes of one journal; the third is lost."""
    ports = [free_port() for _ in range(3)]
    uri = f"qjournal://{';'.join(f'localhost:{port}' for port in ports)}/{JOURNAL}"
    found = []
    for number, port in enumerate(ports, 1):
        root = tmp_path / f"jn{number}"
        given = {
            "dfs.namenode.shared.edits.dir": uri,
            "dfs.journalnode.rpc-address": f"localhost:{port}",
            "dfs.journalnode.http-address": f"localhost:{free_port()}",
            "dfs.journalnode.edits.dir": str(root / "journal"),
            "dfs.journalnode.sync.interval": "200",
            "dfs.journalnode.enable.sync.format": "true",
            "hadoop.http.authentication.kerberos.endpoint.whitelist": "",
        }
        found.append(secure(kdc, HadoopConf(root, given), given))
    return found


def policy(conf: HadoopConf, users: str) -> None:
    write_site(conf.folder, {ACL: users}, "hadoop-policy.xml")


def server_of(conf: HadoopConf) -> JournalNodeServer:
    return JournalNodeServer(JournalNodeConfig.from_configuration(Configuration.load(conf.folder, {})))


@pytest.fixture
def written(kdc: Kdc, confs: list[HadoopConf]) -> Iterator[list[JournalNodeServer]]:
    """Run the first two JournalNodes, with a segment of epoch 1."""
    with ExitStack() as stack:
        servers = [stack.enter_context(server_of(conf)) for conf in confs[:2]]
        log_in(login(kdc, "nn"))
        for server in servers:
            with QJournalClient(*server.rpc_address, user="") as client:
                client.format(JOURNAL, NAMESPACE, force=False)
                Writer(client).segment(1, 3)
        yield servers


def lost(conf: HadoopConf) -> Path:
    return Path(conf["dfs.journalnode.edits.dir"]) / JOURNAL / "current"


def begin_segment(kdc: Kdc, servers: list[JournalNodeServer], txid: int) -> None:
    log_in(login(kdc, "nn"))
    for server in servers:
        with QJournalClient(*server.rpc_address, user="") as client:
            writer = Writer(client)
            writer.epoch, writer.committed = 1, txid - 1
            writer.serial = 1000
            writer.start(txid)


def test_format_from_peers_as_in_the_runbook(
    kdc: Kdc, confs: list[HadoopConf], written: list[JournalNodeServer]
) -> None:
    done = run_cli("journalnode", "format", "--conf", confs[2].folder, "--from-peers")
    assert (done.code, done.out) == (0, f"{JOURNAL}: formatted\n"), done.err
    assert (lost(confs[2]) / "last-promised-epoch").read_bytes() == b"1\n"
    log_in(login(kdc, "jn"))
    with server_of(confs[2]) as server:
        begin_segment(kdc, [*written, server], 4)
        log_in(login(kdc, "jn"))
        wait_until((lost(confs[2]) / "edits_0000000000000000001-0000000000000000003").exists, "the missed segment")
        assert server.facts().journals[0].promised_epoch == 1


def test_a_lost_journal_node_formats_itself(
    kdc: Kdc, confs: list[HadoopConf], written: list[JournalNodeServer]
) -> None:
    log_in(login(kdc, "jn"))
    with server_of(confs[2]):
        wait_until((lost(confs[2]) / "last-promised-epoch").exists, "the format of the journal")
        assert (lost(confs[2]) / "last-promised-epoch").read_bytes() == b"1\n"


def test_a_refusal_of_peers_is_reported_unlike_silence(kdc: Kdc, confs: list[HadoopConf]) -> None:
    """The advice names the access list, and does not suggest restarting a running service."""
    for conf in confs[:2]:
        policy(conf, "nobody")
    with ExitStack() as stack:
        servers = [stack.enter_context(server_of(conf)) for conf in confs[:2]]
        log_in(login(kdc, "nn"))
        for server in servers:
            with QJournalClient(*server.rpc_address, user="") as client:
                client.format(JOURNAL, NAMESPACE, force=False)
        refused = run_cli("journalnode", "format", "--conf", confs[2].folder, "--from-peers")
    assert (refused.code, refused.err.count(" refuses (")) == (7, 2), refused.err
    assert ACL in refused.err
    assert "Start the other" not in refused.err
    silent = run_cli("journalnode", "format", "--conf", confs[2].folder, "--from-peers")
    assert (silent.code, "Start the other JournalNodes" in silent.err, "refuses" in silent.err) == (7, True, False)
    assert not lost(confs[2]).exists()


@pytest.mark.deep
def test_format_from_hadoops_journal_nodes(kdc: Kdc, confs: list[HadoopConf], monkeypatch: pytest.MonkeyPatch) -> None:
    """The metrics of Hadoop's JournalNodes show no promise at first."""
    skip_without(HADOOP)
    # two periods, 10 s by default, and a margin
    monkeypatch.setattr(peers, "METRICS_AGE", 25.0)
    web = {
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": f"HTTP/_HOST@{REALM}",
        "hadoop.http.authentication.kerberos.keytab": str(kdc.root / "jn.keytab"),
        "hadoop.http.authentication.kerberos.endpoint.whitelist": "/jmx",
        # otherwise, one of the JournalNodes formats itself, and empties the file at that moment
        "dfs.journalnode.enable.sync.format": "false",
    }
    with ExitStack() as stack:
        nodes = []
        for conf in confs[:2]:
            theirs = HadoopConf(conf.root, {**conf.properties, **web}, release=HADOOP)
            nodes.append(stack.enter_context(JournalNode(theirs)))
        log_in(login(kdc, "nn"))
        for node in nodes:
            with QJournalClient(*node.rpc_address, user="") as client:
                client.format(JOURNAL, NAMESPACE, force=False)
                writer = Writer(client, epoch=3)
                writer.begin()
                writer.segment(1, 3)
        done = run_cli("journalnode", "format", "--conf", confs[2].folder, "--from-peers")
    assert done.code == 0, done.err
    assert (lost(confs[2]) / "last-promised-epoch").read_bytes() == b"3\n"
