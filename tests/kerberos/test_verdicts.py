"""Permissions of the stub and of our JournalNode, compared with Hadoop's own servers for the same requests.

In these tests, Hadoop requires Kerberos on all of its pages, as our servers always do, and serves only HTTPS.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.proto import qjournal_protocol_pb2 as pb
from hadoop_rpc.qjournal_protocol import QJOURNAL_PROTOCOL, QJournalClient
from hadoop_rpc.rpc_protocol import ServerKind
from tests.interop.client_stub import stub_of
from tests.interop.cluster import JournalNode, NameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.interop.hadoop_process import port_is_open
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer
from tests.kerberos.callers import login
from tests.kerberos.kdc import Kdc
from tests.kerberos.secure_conf import private, short_names
from tests.kerberos.secure_journal_node import running
from tests.kerberos.verdicts import EVERYBODY, Asked, login_on_all_pages, of_calls, of_pages

pytestmark = [pytest.mark.interop, pytest.mark.deep]

# TRACE exists only in Hadoop's web servers
METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "POST", "DELETE")
# Hadoop 3 servers have no /metrics
STATE = ("/jmx",) if SERVER.is_3 else ("/jmx", "/metrics")
IMAGE = "/imagetransfer?getimage=1&txid=latest"
# a Hadoop 3.3 JournalNode formats with its own layout, and refuses other layouts in requests
STORAGE = replace(NAMESPACE, layout_version=SERVER.layout)
SEGMENT = f"/getJournal?jid={JOURNAL}&segmentTxId=1&storageInfo={STORAGE.colon_string()}"
OTHERS = ("/stacks", "/logs/", "/logLevel", "/fsck", "/isActive", "/startupProgress", "/nothing")
ADMINISTRATORS = {"hadoop.security.instrumentation.requires.admin": "true", "dfs.cluster.administrators": "alice"}
NAMES = {
    "dfs.nameservices": "ns1",
    "dfs.ha.namenodes.ns1": "nn1",
    "dfs.namenode.rpc-address.ns1.nn1": "localhost:1",
    "dfs.namenode.http-address.ns1.nn1": "localhost:3",
}


class _NameNode(NameNode):
    """A NameNode that is ready once its ports accept connections, because its pages require a login."""

    def is_ready(self) -> bool:
        return _listens(self.url, self.rpc_address)


class _JournalNode(JournalNode):
    """A JournalNode that is ready once its ports accept connections."""

    def is_ready(self) -> bool:
        return _listens(self.url, self.rpc_address)


def _listens(url: str, rpc: tuple[str, int]) -> bool:
    parts = urlsplit(url)
    return port_is_open(rpc) and port_is_open((parts.hostname or "", parts.port or 0))


def assert_same(theirs: dict[Asked, int], ours: dict[Asked, int]) -> None:
    """Check that pages have the same status on both servers, and that pages missing on ours return an error to every
    caller.
    """
    of_both = {each: status for each, status in theirs.items() if each[2] not in OTHERS}
    assert {each: (status, ours[each]) for each, status in of_both.items() if status != ours[each]} == {}
    stranger = {each: status for each, status in ours.items() if each[2] in OTHERS and not each[0]}
    assert set(stranger.values()) == {401}
    assert {status for each, status in ours.items() if each[2] in OTHERS and each[0]} <= {200, 404}
    assert {each[1] for each, status in ours.items() if each[2] in OTHERS and status == 200} <= {"OPTIONS"}


@pytest.mark.parametrize("limited", [False, True])
def test_permissions_on_pages_of_the_stub(hadoop_here: None, realm: Kdc, tmp_path: Path, limited: bool) -> None:
    settings = login_on_all_pages(realm, tmp_path) | (ADMINISTRATORS if limited else {})
    requests = [each for each in product(METHODS, (*STATE, "/conf", IMAGE, *OTHERS)) if each != ("PUT", IMAGE)]
    with _NameNode(private(realm, HadoopConf(tmp_path / "theirs"), settings)) as hadoops:
        theirs = of_pages(realm, hadoops.url, requests)
    with stub_of(private(realm, HadoopConf(tmp_path / "ours"), settings)) as stub:
        assert_same(theirs, of_pages(realm, stub.server.url, requests))
    state = [theirs[who, "GET", "/jmx"] for who in EVERYBODY]
    assert state == ([401, 403, 403, 403, 403, 200] if limited else [401, 200, 200, 200, 200, 200])


@pytest.mark.parametrize("limited", [False, True])
def test_permissions_on_pages_and_calls_of_the_journal_node(
    hadoop_here: None, realm: Kdc, tmp_path: Path, limited: bool
) -> None:
    """Compare both servers after a journal with a segment was written to each server."""
    names = short_names()
    settings = {**login_on_all_pages(realm, tmp_path), **NAMES, **names} | (ADMINISTRATORS if limited else {})
    requests = list(product(METHODS, (*STATE, SEGMENT, *OTHERS)))
    journal = pb.GetJournalStateRequestProto(jid=pb.JournalIdProto(identifier=JOURNAL))
    calls = (
        (QJOURNAL_PROTOCOL, "getJournalState", journal),
        # for another server's protocol, Hadoop reports a missing method, and our server a missing protocol
        (replace(CLIENT_PROTOCOL, name="org.example.Unknown"), "getServerDefaults", None),
    )

    def verdicts(url: str, rpc: tuple[str, int]) -> tuple[dict[Asked, int], dict[Asked, str]]:
        log_in(login(realm, "nn"))
        with QJournalClient(*rpc, user="") as client:
            client.format(JOURNAL, STORAGE, force=True)
            writer = Writer(client)
            writer.begin()
            writer.segment(1, 3)
        return of_pages(realm, url, requests), of_calls(realm, ServerKind.JOURNALNODE, rpc, calls)

    hadoops = private(realm, HadoopConf(tmp_path / "theirs"), settings)
    with _JournalNode(hadoops) as node:
        pages, their_calls = verdicts(node.url, node.rpc_address)
    own = {"dfs.journalnode.edits.dir": str(tmp_path / "journals")}
    with running(private(realm, HadoopConf(tmp_path / "ours", {**hadoops.properties, **own}), settings)) as server:
        our_pages, our_calls = verdicts(server.url, server.rpc_address)
    assert_same(pages, our_pages)
    assert our_calls == their_calls
    assert [pages[who, "GET", SEGMENT] for who in EVERYBODY] == [401, 200, 200, 200, 200 if names else 403, 403]
    assert their_calls["nn", QJOURNAL_PROTOCOL.name, "getJournalState"] == "let in"
