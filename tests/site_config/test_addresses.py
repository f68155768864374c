"""Addresses of NameNodes and of the daemon, with one or several nameservices."""

from dataclasses import replace
from pathlib import Path

import pytest

from hadoop_common.configuration import Configuration
from site_config import addresses
from site_config.checkpoint_config import NamespaceRpc, Role
from site_config.report import likely_role
from tests.site_config.config_support import HA, config, faults

FEDERATION = {
    "fs.defaultFS": "hdfs://ns1",
    "dfs.nameservices": "ns1, ns2",
    "dfs.namenode.rpc-address.ns1": "one:8020",
    "dfs.namenode.http-address.ns1": "one:9870",
    "dfs.namenode.rpc-address.ns2": "two:8020",
    "dfs.namenode.http-address.ns2": "two:9870",
    "dfs.namenode.secondary.http-address.ns1": "two:9868",
    "dfs.namenode.secondary.http-address.ns2": "three:9868",
}
HA_FEDERATION = {
    "dfs.nameservices": "ns1,ns2",
    "dfs.namenode.shared.edits.dir.ns1": "/shared/ns1",
    "dfs.namenode.shared.edits.dir.ns2": "/shared/ns2",
    "dfs.ha.namenodes.ns1": "a,b",
    "dfs.ha.namenodes.ns2": "a,b",
    **{
        f"dfs.namenode.{kind}-address.{service}.{node}": f"{service}{node}:{port}"
        for service in ("ns1", "ns2")
        for node in ("a", "b")
        for kind, port in (("rpc", 8020), ("http", 9870))
    },
}


@pytest.fixture
def this_host(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of this host, to be filled in by the test."""
    names: list[str] = []
    monkeypatch.setattr(addresses, "is_local", names.__contains__)
    return names


@pytest.mark.parametrize(
    ("host", "role", "service"),
    [
        ("one", Role.SECONDARY, "ns1"),
        ("two", Role.SECONDARY, "ns1"),  # the secondary's address takes precedence over the NameNode's, as in Hadoop
        ("two", Role.BACKUP, "ns2"),
        ("three", Role.SECONDARY, "ns2"),
    ],
)
def test_the_nameservice_has_an_address_of_this_host(this_host: list[str], host: str, role: Role, service: str) -> None:
    this_host.append(host)
    assert config(FEDERATION, role).nameservice == service
    assert likely_role(Configuration.from_mapping(FEDERATION, {})) is Role.SECONDARY


@pytest.mark.parametrize("host", ["ns2a", "ns2b"])
def test_nameservice_of_an_ha_federation(this_host: list[str], host: str) -> None:
    this_host.append(host)
    found = config(HA_FEDERATION)
    assert (found.nameservice, found.shared_edits) == ("ns2", "file:///shared/ns2")
    assert found.namenode_http_addresses == ("http://ns2a:9870", "http://ns2b:9870")
    assert likely_role(Configuration.from_mapping(HA_FEDERATION, {})) is Role.STANDBY


def test_a_namenode_id_selects_among_nameservices_of_this_host(this_host: list[str]) -> None:
    this_host += ["ns1a", "ns2b"]
    assert config({**HA_FEDERATION, "dfs.ha.namenode.id": "b"}).nameservice == "ns2"
    assert "ns1 and ns2 is an address of this host" in faults(HA_FEDERATION)["dfs.nameservice.id"]


def test_without_an_address_of_this_host_the_nameservice_is_required(this_host: list[str]) -> None:
    assert "for any of ns1, ns2" in faults(FEDERATION, Role.SECONDARY)["dfs.nameservice.id"]
    assert config({**FEDERATION, "dfs.nameservice.id": "ns2"}, Role.SECONDARY).nameservice == "ns2"
    assert likely_role(Configuration.from_mapping(FEDERATION, {})) is Role.SECONDARY
    assert likely_role(Configuration.from_mapping(HA_FEDERATION, {})) is Role.STANDBY
    assert this_host == []


def test_a_malformed_address_of_another_nameservice_does_not_matter(this_host: list[str]) -> None:
    this_host.append("two")
    assert config({**FEDERATION, "dfs.namenode.rpc-address.ns1": "a:b:c"}, Role.BACKUP).nameservice == "ns2"


SERVED = {**HA, "checkpointer.namespace.serve": "true", "dfs.namenode.rpc-address.mycluster.nn3": "host3:8020"}
RPC = "checkpointer.namespace.rpc-address"
OWN = NamespaceRpc(("host3", 8020), is_namenode=True)
OTHER = NamespaceRpc(("host3", 9020), is_namenode=False)


@pytest.mark.parametrize(
    ("more", "role", "served"),
    [
        # without the key, no reads are served, because DataNodes and applications would use the address of a NameNode
        ({}, Role.STANDBY, ()),
        ({RPC: "host3:9020", "checkpointer.namespace.serve": "false"}, Role.STANDBY, ()),
        ({RPC: "host3:9020"}, Role.STANDBY, (OTHER,)),
        ({RPC: "host3:8020, host3:9020"}, Role.STANDBY, (OWN, OTHER)),
        # the address of a NameNode is recognised under any name, so that applications never read an older state there
        ({RPC: "0.0.0.0:8020"}, Role.STANDBY, (replace(OWN, address=("0.0.0.0", 8020)),)),
        (
            {RPC: "host3:8020", "dfs.namenode.rpc-bind-host": "0.0.0.0"},
            Role.STANDBY,
            (replace(OWN, address=("0.0.0.0", 8020)),),
        ),
        # next to a NameNode, the NameNode's address is not ours
        (
            {RPC: "host4:8020", "dfs.ha.namenode.id": ""},
            Role.STANDBY,
            (NamespaceRpc(("host4", 8020), is_namenode=False),),
        ),
    ],
)
def test_addresses_of_reads_over_rpc(more: dict[str, str], role: Role, served: tuple[NamespaceRpc, ...]) -> None:
    assert config({**SERVED, **more}, role).namespace_rpc == served


def test_a_malformed_address_of_reads_is_a_fault() -> None:
    assert RPC in faults({**SERVED, RPC: "a:b:c"})


SINGLE = {"fs.defaultFS": "hdfs://nn.example.org:8020", "dfs.namenode.shared.edits.dir": "/shared"}


def test_addresses_of_an_ha_nameservice() -> None:
    found = config(HA)
    assert found.namenode_http_addresses == ("http://host1:9870", "http://host2:9870")
    assert (found.web.http, found.web.https) == (("host3", 19870), None)
    assert found.image_directories == (Path("/a"), Path("/b"))
    assert (found.shared_edits, found.shared_edits_directory) == ("file:///shared", Path("/shared"))


def test_a_standby_that_is_not_a_namenode_serves_all_namenodes() -> None:
    values = {key: value for key, value in HA.items() if key != "dfs.ha.namenode.id"}
    found = config(values)
    assert len(found.namenode_http_addresses) == 3
    assert found.web.first == ("0.0.0.0", 9868)


def test_address_of_a_single_namenode() -> None:
    assert config(SINGLE).namenode_http_addresses == ("http://nn.example.org:9870",)
    given_address = config({**SINGLE, "dfs.http.address": "other:50070"})
    assert given_address.namenode_http_addresses == ("http://other:50070",)


@pytest.mark.parametrize(("name", "port"), [("nn.example.org", 8020), ("nn.example.org:9000", 9000)])
def test_a_default_file_system_without_a_scheme_is_a_namenode(name: str, port: int) -> None:
    # `FileSystem.getDefaultUri` and `DFSUtilClient.getNNAddress` of 3.3.6 and 3.5.0 return this address
    found = config({"fs.defaultFS": name}, Role.SECONDARY)
    assert found.namenode_http_addresses == ("http://nn.example.org:9870",)
    assert found.namenode_rpc_addresses == (("nn.example.org", port),)


@pytest.mark.parametrize("name", ["local", "file:///", "//nn:8020", "s3a://bucket"])
def test_a_default_file_system_that_is_no_namenode(name: str) -> None:
    assert "dfs.namenode.http-address" in faults({"fs.defaultFS": name}, Role.SECONDARY)


def test_addresses_with_https_only() -> None:
    found = config({**HA, "dfs.http.policy": "HTTPS_ONLY", "dfs.namenode.https-address.mycluster.nn1": "host1:1"})
    assert found.namenode_http_addresses == ("https://host1:1", "https://host2:9871")
    assert (found.web.http, found.web.https) == (None, ("0.0.0.0", 9871))


def test_addresses_with_http_and_https() -> None:
    found = config({**HA, "dfs.http.policy": "http_and_https", "dfs.namenode.https-bind-host": "::1"})
    assert found.namenode_http_addresses == ("http://host1:9870", "http://host2:9870")
    assert (found.web.http, found.web.https) == (("host3", 19870), ("::1", 9871))


def test_a_backup_node_has_one_address() -> None:
    found = config({"fs.defaultFS": "hdfs://nn", "dfs.http.policy": "HTTPS_ONLY"}, Role.BACKUP)
    assert (found.web.http, found.web.https) == (None, ("0.0.0.0", 50105))


def test_ipv6_addresses() -> None:
    found = config({**SINGLE, "dfs.namenode.http-address": "[::1]:9870"})
    assert found.namenode_http_addresses == ("http://[::1]:9870",)


def test_the_nameservice_that_contains_our_id_is_ours() -> None:
    values = {**HA, "dfs.nameservices": "other,mycluster", "dfs.ha.namenodes.other": "x1,x2"}
    assert config(values).namenode_http_addresses == ("http://host1:9870", "http://host2:9870")


def test_the_server_binds_to_the_bind_host() -> None:
    found = config({**HA, "dfs.namenode.http-bind-host": "0.0.0.0"})
    assert found.web.first == ("0.0.0.0", 19870)
