"""The JournalNode's settings: Hadoop's keys and defaults, and all faults together."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.access import AccessRules
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.port_limits import PortLimits
from hadoop_common.process_user import process_user
from hadoop_common.tls.settings import WebAddresses
from journal.quorum.address import NodeAddress
from journal_node.config import ConfiguredJournal, JournalNodeConfig
from journal_node.peers import others
from journal_node.places import JournalPlaces
from site_config.catalogue import PREFIXES, entry_of
from site_config.journal_node_keys import JOURNALNODE_KEYS
from tests.site_config.junk import JUNK

SHARED = "dfs.namenode.shared.edits.dir"
NODES = tuple(NodeAddress(f"jn{number}", 8485) for number in (1, 2, 3))


def read(values: dict[str, str]) -> JournalNodeConfig:
    return JournalNodeConfig.from_configuration(Configuration.from_mapping({"hadoop.user.name": "x", **values}, {}))


def test_defaults_equal_hadoops() -> None:
    assert read({}) == JournalNodeConfig(
        rpc_address=("0.0.0.0", 8485),
        rpc_port=8485,
        web=WebAddresses(("0.0.0.0", 8480)),
        edits_directory=Path("/tmp/hadoop/dfs/journalnode"),
        edits_directories={},
        directory_permission=0o700,
        handlers=5,
        sync_interval=120.0,
        sync_format=False,
        cache_bytes=None,
        transfer_timeout=30.0,
        transfer_bandwidth=0,
        rpc_user="x",
        port_limits=PortLimits(),
        stop_timeout=240.0,
        journals=(),
        access=AccessRules(("*", "127.0.0.0/8", "::1"), frozenset({"hdfs", process_user(), "x"})),
        kerberos=None,
        format_not_empty=False,
        max_others=32,
    )


def test_every_key_is_read() -> None:
    config = read(
        {
            "dfs.journalnode.rpc-address": "jn1:18485",
            "dfs.journalnode.rpc-bind-host": "0.0.0.0",
            "dfs.journalnode.http-address": "jn1:18480",
            "dfs.journalnode.http-bind-host": "::",
            "dfs.journalnode.edits.dir": "file:///data/jn",
            "dfs.journalnode.edits.dir.perm": "750",
            "dfs.journalnode.handler.count": "9",
            "dfs.journalnode.enable.sync": "true",
            "dfs.journalnode.sync.interval": "5000",
            "dfs.journalnode.enable.sync.format": "true",
            "dfs.ha.tail-edits.in-progress": "true",
            "dfs.journalnode.edit-cache-size.bytes": "1m",
            "dfs.edit.log.transfer.timeout": "2s",
            "dfs.edit.log.transfer.bandwidthPerSec": "100k",
            SHARED: "qjournal://jn1;jn2:8485;jn3:8485/j1",
        }
    )
    assert (config.rpc_address, config.web.http, config.rpc_port) == (("0.0.0.0", 18485), ("::", 18480), 18485)
    assert (config.edits_directory, config.directory_permission, config.handlers) == (Path("/data/jn"), 0o750, 9)
    assert (config.sync_interval, config.sync_format, config.cache_bytes) == (5.0, True, 1 << 20)
    assert (config.transfer_timeout, config.transfer_bandwidth) == (2.0, 102400)
    assert config.journals == (ConfiguredJournal("j1", NODES),)


def test_sync_can_be_switched_off() -> None:
    assert read({"dfs.journalnode.enable.sync": "false", "dfs.journalnode.sync.interval": "0"}).sync_interval is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 524288000),
        ({"dfs.journalnode.edit-cache-size.fraction": "0.25"}, 262144000),
        ({"dfs.journalnode.edit-cache-size.bytes": "1000"}, 1000),
    ],
)
def test_edits_cache_exists_if_in_progress_tailing_is_enabled(values: dict[str, str], expected: int) -> None:
    assert read({"dfs.ha.tail-edits.in-progress": "true", **values}).cache_bytes == expected
    assert read(values).cache_bytes is None


def test_journals_of_every_nameservice_are_found() -> None:
    services = {"dfs.nameservices": "ns1,ns2,ns3", "dfs.ha.namenodes.ns2": "a,b"}
    config = read(
        {
            **services,
            f"{SHARED}.ns1": "qjournal://jn1;jn2;jn3/j1",
            f"{SHARED}.ns2.a": "qjournal://jn1;jn2;jn3/j2",
            f"{SHARED}.ns2.b": "qjournal://jn3;jn2;jn1/j2",
            f"{SHARED}.ns3": "file:///shared",
            "dfs.journalnode.edits.dir": "/data/jn",
            "dfs.journalnode.edits.dir.ns2": "/data/jn2",
        }
    )
    assert config.journals == (ConfiguredJournal("j1", NODES, "ns1"), ConfiguredJournal("j2", NODES, "ns2"))
    places = JournalPlaces(config)
    places.record_nameservice("j3", "ns2")
    places.record_nameservice("j2", "ns1")
    locations = {journal_id: places(journal_id).location for journal_id in ("j1", "j2", "j3", "j4")}
    assert locations == {"j1": "/data/jn/j1", "j2": "/data/jn2/j2", "j3": "/data/jn2/j3", "j4": "/data/jn/j4"}


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(
            {
                "dfs.journalnode.rpc-address": "a:b:c",
                "dfs.journalnode.edits.dir": "relative",
                "dfs.journalnode.edits.dir.perm": "rwx",
                "dfs.journalnode.handler.count": "0",
                "dfs.journalnode.sync.interval": "-1",
                "dfs.ha.tail-edits.in-progress": "true",
                "dfs.journalnode.edit-cache-size.fraction": "1.5",
                "dfs.edit.log.transfer.timeout": "0",
                "hadoop.security.authentication": "token",
                SHARED: "qjournal://jn1;jn1/j1",
            }
        )
    assert {fault.key for fault in caught.value.faults} == {
        "dfs.journalnode.rpc-address",
        "dfs.journalnode.edits.dir",
        "dfs.journalnode.edits.dir.perm",
        "dfs.journalnode.handler.count",
        "dfs.journalnode.sync.interval",
        "dfs.journalnode.edit-cache-size.fraction",
        "dfs.edit.log.transfer.timeout",
        "hadoop.security.authentication",
        SHARED,
    }


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"dfs.journalnode.edits.dir": "/a,/b"}, "several directories"),
        ({"dfs.journalnode.edits.dir": ""}, "is not set"),
        ({"dfs.http.policy": "HTTPS"}, "is not one of HTTP_ONLY"),
        ({"dfs.journalnode.edits.dir.perm": "1777"}, "is not a mode"),
        ({"dfs.ha.tail-edits.in-progress": "true", "dfs.journalnode.edit-cache-size.fraction": "x"}, "between 0 and 1"),
        (
            {"dfs.nameservices": "n", f"{SHARED}.n": "qjournal://a/j", SHARED: "qjournal://b/j"},
            "names different JournalNodes for j",
        ),
    ],
)
def test_invalid_values_are_refused(values: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read(values)


def test_every_key_is_in_the_catalogue() -> None:
    for key in JOURNALNODE_KEYS:
        assert entry_of(key.name) is key
        assert key.name.startswith(PREFIXES)


def test_other_nodes_exclude_this_node(caplog: pytest.LogCaptureFixture) -> None:
    assert others(NODES, 8485, lambda host: host == "jn2") == (NODES[0], NODES[2])
    assert others(NODES, 9999, lambda host: True) == NODES
    assert (
        "this node, which listens on port 9999, is not one of the JournalNodes jn1:8485, jn2:8485, jn3:8485"
        in caplog.text
    )


@pytest.mark.parametrize("key", [SHARED, "dfs.nameservices", "fs.defaultFS", *(key.name for key in JOURNALNODE_KEYS)])
def test_invalid_value_is_reported_in_one_line_with_its_key(key: str) -> None:
    for junk in JUNK:
        try:
            read({key: junk})
        except ConfigurationError as error:
            found = [str(fault) for fault in error.faults]
            assert not any("\n" in line for line in found)
            assert any(key in line for line in found), (junk, found)
