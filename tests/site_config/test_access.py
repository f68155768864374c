"""Callers that our servers accept by default: the hosts and users in Hadoop's keys."""

from __future__ import annotations

import http.client
from dataclasses import replace
from pathlib import Path

import pytest

from hadoop_common.access import LOOPBACK, AccessRules
from hadoop_common.configuration import Configuration
from hadoop_common.process_user import process_user
from hadoop_common.storage_info import JOURNAL_NODE, StorageInfo
from hadoop_rpc.errors import RemoteError
from hadoop_rpc.qjournal_protocol import QJournalClient
from hadoop_rpc.qjournal_values import RequestInfo, SegmentState
from journal_node.config import JournalNodeConfig
from journal_node.server import JournalNodeServer
from site_config.access import access_rules
from site_config.keys import DEFAULTS

NAMESPACE = StorageInfo(-63, 1, 0, "CID", storage_type=JOURNAL_NODE)
HA = {
    "dfs.nameservices": "ns",
    "dfs.ha.namenodes.ns": "nn1,nn2",
    "dfs.namenode.rpc-address.ns.nn1": "master1:8020",
    "dfs.namenode.http-address.ns.nn2": "10.0.0.2:9870",
    "dfs.namenode.shared.edits.dir": "qjournal://jn1:8485;jn2:8485;[fd00::3]:8485/ns",
    "fs.defaultFS": "hdfs://ns",
}


def rules(values: dict[str, str]) -> tuple[set[str], set[str]]:
    settings = Configuration.from_mapping(values, {}).with_defaults(DEFAULTS)
    found = access_rules(settings)
    return set(found.hosts) - set(LOOPBACK), set(found.users)


def test_permitted_hosts_follow_hadoops_keys() -> None:
    assert rules(HA)[0] == {"master1", "10.0.0.2", "jn1", "jn2", "fd00::3"}
    plain = {"fs.defaultFS": "hdfs://master:9000", "dfs.namenode.secondary.http-address": "second:9868"}
    assert rules(plain)[0] == {"master", "second"}
    more = HA | {"checkpointer.access.hosts": "backup,192.168.0.0/16"}
    assert rules(more)[0] == {"master1", "10.0.0.2", "jn1", "jn2", "fd00::3", "backup", "192.168.0.0/16"}


def test_variables_of_other_keys_are_not_read() -> None:
    """Hadoop resolves a variable only when it reads the key."""
    circle = {"my.a": "${my.b}", "my.b": "${my.a}"}
    assert rules(HA | circle) == rules(HA)


def test_without_namenode_addresses_any_host_may_call() -> None:
    assert rules({})[0] == {"*"}
    assert rules({"dfs.namenode.http-address": "0.0.0.0:9870"})[0] == {"*"}


def test_permitted_users() -> None:
    assert rules(HA)[1] == {"hdfs", process_user()}
    assert rules(HA | {"hadoop.user.name": "nn", "checkpointer.access.users": "ops"})[1] == {
        *("hdfs", "nn", "ops", process_user())
    }


def configured(tmp_path: Path, **more: str) -> JournalNodeConfig:
    values = {
        "dfs.journalnode.rpc-address": "127.0.0.1:0",
        "dfs.journalnode.http-address": "127.0.0.1:0",
        "dfs.journalnode.edits.dir": str(tmp_path),
        "dfs.namenode.shared.edits.dir": "qjournal://127.0.0.1:8485/j1",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return JournalNodeConfig.from_configuration(Configuration.from_mapping(values, {}))


def test_an_unknown_user_cannot_change_a_journal(tmp_path: Path) -> None:
    with (
        JournalNodeServer(configured(tmp_path)) as server,
        QJournalClient(*server.rpc_address, user="hdfs") as writer,
        QJournalClient(*server.rpc_address, user="stranger") as stranger,
    ):
        writer.format("j1", NAMESPACE, force=False)
        for call in (
            lambda: stranger.new_epoch("j1", NAMESPACE, 1),
            lambda: stranger.format("j1", NAMESPACE, force=True),
            lambda: stranger.discard_segments("j1", 1),
        ):
            with pytest.raises(RemoteError, match="is not allowed for user 'stranger'"):
                call()
        assert stranger.is_formatted("j1")
        assert writer.new_epoch("j1", NAMESPACE, 1) is None
        assert server.facts().refused == {"may not change": 3}


def test_a_permitted_writer_has_limits(tmp_path: Path) -> None:
    with JournalNodeServer(configured(tmp_path)) as server, QJournalClient(*server.rpc_address, user="hdfs") as writer:
        writer.format("j1", NAMESPACE, force=False)
        with pytest.raises(RemoteError, match="which is impossible"):
            writer.new_epoch("j1", NAMESPACE, (1 << 63) - 1)
        with pytest.raises(RemoteError, match="refuses the journal 'junk'"):
            writer.format("junk", NAMESPACE, force=False)
        writer.new_epoch("j1", NAMESPACE, 1)
        writer.start_log_segment(RequestInfo("j1", 1, 0), 1, -63)
        with pytest.raises(RemoteError, match="2147483647 transactions cannot have a total size of 1 byte"):
            writer.journal(RequestInfo("j1", 1, 1), 1, 1, (1 << 31) - 1, b"x")
        with pytest.raises(RemoteError, match="has 1 segment and is therefore not formatted"):
            writer.format("j1", NAMESPACE, force=True)
        urls = ("http://192.0.2.1:8480/getJournal?jid=j1&segmentTxId=1", "http://127.0.0.1:1/etc/passwd")
        for serial, url in enumerate(urls, 2):
            with pytest.raises(RemoteError, match=r"not one of the JournalNodes|expected http:"):
                writer.accept_recovery(RequestInfo("j1", 1, serial), SegmentState(5, 9, False), url)
    with JournalNodeServer(configured(tmp_path, **{"checkpointer.journalnode.format.not-empty": "true"})) as server:
        with QJournalClient(*server.rpc_address, user="hdfs") as writer:
            writer.format("j1", NAMESPACE, force=True)
        assert list((tmp_path / "j1" / "current").glob("edits_*")) == []


def test_segments_are_sent_only_to_permitted_hosts(tmp_path: Path) -> None:
    config = replace(configured(tmp_path), access=AccessRules(("127.0.0.2",), frozenset()))
    with JournalNodeServer(config) as server:
        host, port = server.url.removeprefix("http://").split(":")
        for source, status in (("127.0.0.1", 403), ("127.0.0.2", 500)):
            connection = http.client.HTTPConnection(host, int(port), source_address=(source, 0), timeout=600)
            connection.request("GET", "/getJournal?jid=j1&segmentTxId=1")
            assert connection.getresponse().status == status
            connection.close()
        refused = pytest.raises(RemoteError, match=r"isFormatted is not allowed from 127\.0\.0\.1")
        with QJournalClient(*server.rpc_address, user="hdfs") as stranger, refused:
            stranger.is_formatted("j1")
