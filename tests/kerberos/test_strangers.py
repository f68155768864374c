"""A hundred clients that are silent, slow or send huge messages: kerberized servers disconnect these clients, and serve
clients that log in.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hadoop_common.configuration import Configuration
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.namenode_protocol import NamenodeClient
from hadoop_rpc.qjournal_protocol import QJOURNAL_PROTOCOL, QJournalClient
from hadoop_rpc.rpc_protocol import ServerKind
from hadoop_rpc.security import Protection
from journal_node.config import JournalNodeConfig
from journal_node.server import JournalNodeServer
from tests.interop.client_stub import stub_of
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import wait_until
from tests.interop.our_daemon import OurDaemon
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer, batch
from tests.kerberos.callers import get, login
from tests.kerberos.kdc import Kdc
from tests.kerberos.secure_conf import HOST, private
from tests.kerberos.secure_site import mkdirs
from tests.kerberos.strangers import Address, Strangers

pytestmark = [pytest.mark.interop]

MANY = 100
SHORT = {
    "dfs.http.policy": "HTTP_AND_HTTPS",
    "checkpointer.port.opening-timeout": "10s",
    "checkpointer.port.idle-timeout": "10s",
    "checkpointer.port.stall-timeout": "10s",
}


def address(text: str) -> Address:
    parts = urlsplit(text if "//" in text else f"//{text}")
    return parts.hostname or "", parts.port or 0


def test_a_writer_is_served_despite_hostile_clients(realm: Kdc, tmp_path: Path) -> None:
    conf = HadoopConf(tmp_path)
    private(realm, conf, {"dfs.namenode.secondary.http-address": f"{HOST}:1", **SHORT})
    log_in(login(realm, "nn", Protection.PRIVACY))
    config = JournalNodeConfig.from_configuration(Configuration.load(conf.folder, {}))
    with JournalNodeServer(config) as node, Strangers(ServerKind.JOURNALNODE, QJOURNAL_PROTOCOL.name) as strangers:
        http, https = node._http.urls
        strangers.come({"rpc": node.rpc_address, "http": address(http), "https": address(https)}, MANY)
        assert len(strangers.peers) == MANY
        with QJournalClient(*node.rpc_address, user="", timeout=600) as client:
            client.format(JOURNAL, NAMESPACE, force=True)
            writer = Writer(client)
            writer.begin()
            writer.segment(1, 3)
        query = f"/getJournal?jid={JOURNAL}&segmentTxId=1&storageInfo={NAMESPACE.colon_string()}"
        for url in (http, https):
            status, message, _ = get(realm, "nn", url, query)
            assert (status, len(message) >= len(batch(1, 3)) - 3) == (200, True)
        strangers.assert_gone()
        log_in(None)
        wait_until(lambda: not node._rpc.loop.channels(), "the end of all connections of RPC")
        assert node._rpc._held == 0


@pytest.mark.deep
def test_checkpoints_are_made_despite_hostile_clients(realm: Kdc, tmp_path: Path) -> None:
    """Our secondary checkpoints a stub while hostile clients occupy each port of the secondary and of the stub."""
    conf = private(realm, HadoopConf(tmp_path / "stub"), SHORT)
    own = {"dfs.namenode.checkpoint.dir": (tmp_path / "checkpoint").as_uri()}
    ours = private(realm, HadoopConf(tmp_path / "ours", {**conf.properties, **own}), SHORT)
    # the stub accepts recent images
    conf.update({"dfs.namenode.checkpoint.txns": "1"})
    with ExitStack() as stack:
        stub = stack.enter_context(stub_of(conf))
        daemon = stack.enter_context(OurDaemon.secondary(ours))
        log_in(login(realm, "nn", Protection.PRIVACY))
        strangers = stack.enter_context(Strangers(ServerKind.NAMENODE, CLIENT_PROTOCOL.name))
        assert stub.rpc_address is not None
        places = {"rpc": stub.rpc_address}
        for name, key in (("stub", "dfs.namenode"), ("daemon", "dfs.namenode.secondary")):
            for speaks in ("http", "https"):
                places[f"{speaks} of the {name}"] = address(ours[f"{key}.{speaks}-address"])
        for number in range(3):
            strangers.come(places, 95 * len(places))
            mkdirs(conf, f"/d{number}")
            made = daemon.checkpoint()
            assert list(made["uploads"].values()) == ["SUCCESS"]
            assert stub.images.checkpoint_txid == made["txid"]
            with NamenodeClient(*stub.rpc_address, user="") as client:
                assert isinstance(client.version_request().storage_info, StorageInfo)
        strangers.assert_gone()
        assert daemon.status()["alarms"] == []
        assert daemon.stop() == 0
