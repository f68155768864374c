"""Settings that a controller reads from the configuration, and the NameNode that a breadcrumb identifies."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.active_node_info import ActiveNodeInfo
from failover.breadcrumb import BreadcrumbError, last_active
from failover.errors import UnresolvedHostsError
from failover.settings import FailoverSettings
from hadoop_common.access import AccessControl, Caller, Right
from hadoop_common.configuration import ConfigurationError
from hadoop_common.exit_codes import ExitCode
from tests.failover.failover_support import HERE, properties, settings, settings_of

PORTS = {"nn1": 8020, "nn2": 8021, "nn3": 8022}


def test_addresses_of_the_namenodes() -> None:
    found = settings(
        PORTS,
        more={
            "dfs.namenode.servicerpc-address.ns1.nn1": f"{HERE}:9020",
            "dfs.namenode.lifeline.rpc-address.ns1.nn1": f"{HERE}:9030",
            "dfs.namenode.rpc-address.ns1.nn2": "NameNode-2.Example.invalid:8021",
            "dfs.ha.zkfc.port.ns1.nn2": "18019",
            "dfs.namenode.rpc-bind-host.ns1.nn1": "0.0.0.0",
        },
    )
    own, second, third = found.targets
    assert (own.host, own.port, own.name, own.health) == (HERE, 9020, "localhost", (HERE, 9030))
    assert (second.host, second.name, second.zkfc_port) == ("NameNode-2.Example.invalid",) * 2 + (18019,)
    assert third.health == (HERE, 8022)
    assert found.bind == ("0.0.0.0", own.zkfc_port)
    assert settings(PORTS, more={"dfs.namenode.servicerpc-bind-host": "::"}).bind[0] == "::"
    assert settings(PORTS).bind[0] == HERE


def test_keys_with_nameservice_and_namenode_suffixes() -> None:
    found = settings(
        PORTS,
        more={
            "dfs.ha.automatic-failover.enabled": "false",
            "dfs.ha.automatic-failover.enabled.ns1": "true",
            "ha.zookeeper.quorum": "wrong:1",
            "ha.zookeeper.quorum.ns1": "right:1/chroot",
            "ha.zookeeper.session-timeout.ms.ns1.nn1": "3000",
            "ha.zookeeper.parent-znode.ns1": "other/",
            "dfs.ha.fencing.methods.ns1.nn2": "shell(off nn2)",
        },
    )
    assert found.automatic
    assert (found.zookeeper.hosts, found.zookeeper.session_timeout) == ("right:1/chroot", 3.0)
    assert found.parent == "/other/ns1"
    fencing = [str((found.methods[name] or [None])[0]) for name in PORTS]
    assert fencing == ["shell(false)", "shell(off nn2)", "shell(false)"]


def test_own_namenode_is_found_by_its_address() -> None:
    values = properties(PORTS, "nn1", {"dfs.namenode.rpc-address.ns1.nn2": "198.51.100.1:1"})
    values["dfs.namenode.rpc-address.ns1.nn3"] = "198.51.100.2:1"
    del values["dfs.ha.namenode.id"]
    assert settings_of(values).own.namenode == "nn1"
    values["dfs.namenode.rpc-address.ns1.nn3"] = f"{HERE}:2"
    with pytest.raises(ConfigurationError, match="nn1 and nn3 of nn1, nn2, nn3 is on this host"):
        settings_of(values)
    for name in PORTS:
        values[f"dfs.namenode.rpc-address.ns1.{name}"] = f"198.51.100.{name[-1]}:1"
    with pytest.raises(ConfigurationError, match="none of nn1, nn2, nn3 is on this host"):
        settings_of(values)
    # DNS may start later than this host, and systemd does not restart a controller with a faulty configuration
    values["dfs.namenode.rpc-address.ns1.nn3"] = "nn3.invalid:1"
    with pytest.raises(UnresolvedHostsError, match=r"nn3\.invalid cannot be resolved") as caught:
        settings_of(values)
    assert caught.value.exit_code == ExitCode.FAILURE


def test_own_nameservice_is_found_by_its_addresses() -> None:
    values = properties(PORTS, "nn1", {"dfs.nameservices": "ns1,ns2", "dfs.ha.namenodes.ns2": "nn1"})
    for name in PORTS:
        values[f"dfs.namenode.rpc-address.ns1.{name}"] = f"{name}.invalid:1"
    values["dfs.namenode.rpc-address.ns2.nn1"] = "198.51.100.1:1"
    with pytest.raises(UnresolvedHostsError, match=r"nn1\.invalid, nn2\.invalid, nn3\.invalid cannot be resolved"):
        settings_of(values)
    assert settings_of({**values, "dfs.nameservice.id": "ns1"}).own.namenode == "nn1"
    for name in PORTS:
        values[f"dfs.namenode.rpc-address.ns1.{name}"] = "198.51.100.2:1"
    with pytest.raises(ConfigurationError, match="for any of ns1, ns2"):
        settings_of(values)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"ha.zookeeper.quorum": ""}, "needs ZooKeeper"),
        ({"dfs.ha.fencing.methods": "powershell(x)"}, "Windows"),
        ({"dfs.ha.namenodes.ns1": ""}, "with HA"),
        ({"ha.health-monitor.rpc-timeout.ms": "soon"}, "ha.health-monitor.rpc-timeout.ms"),
        ({"ha.zookeeper.acl": "me"}, "ha.zookeeper.acl"),
        ({"dfs.ha.namenode.id": "nn9"}, "nn9"),
    ],
)
def test_configuration_errors(more: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        settings_of(properties(PORTS, "nn1") | more)


def test_administrators_and_members_of_their_groups_may_request_failovers() -> None:
    rules = settings(PORTS, more={"dfs.cluster.administrators": "alice,* ops"}).access
    control = AccessControl(rules, groups_of=lambda user: frozenset({"ops"} if user == "oscar" else ()))
    allowed = {
        user: control.check(Caller(HERE, (user,)), Right.CHANGE, "gracefulFailover").allowed
        for user in ("alice", "oscar", "mallory", "ops")
    }
    assert allowed == {"alice": True, "oscar": True, "mallory": False, "ops": False}


def test_empty_fencing_methods_differ_from_missing_ones() -> None:
    values = properties(PORTS, "nn1")
    values["dfs.ha.fencing.methods"] = ""
    assert settings_of(values).fencing_configured
    del values["dfs.ha.fencing.methods"]
    assert not settings_of(values).fencing_configured


SETTINGS = settings(PORTS)

# ---- breadcrumbs -------------------------------------------------------------------------------------------


def crumb(namenode: str, hostname: str, port: int, nameservice: str = "ns1") -> bytes:
    return ActiveNodeInfo(nameservice, namenode, hostname, port, 77).to_bytes()


def same_name(one: str, other: str) -> bool:
    """Compare two names as `same_host` does, but without a name server."""
    return {one, other} <= {"localhost", HERE}


def test_breadcrumb_identifies_the_last_active_namenode() -> None:
    given: FailoverSettings = settings(PORTS)
    own = last_active(crumb("nn1", HERE, 8020), given, same_name)
    assert own.ours
    other = last_active(crumb("nn2", "localhost", 8021), given, same_name)
    assert (other.ours, other.moved, other.target.port, other.target.zkfc_port) == (False, "", 8021, 77)
    moved = last_active(crumb("nn2", "old.invalid", 8021), given, same_name)
    assert (moved.ours, moved.target.address) == (False, "old.invalid:8021")
    assert "clear-breadcrumb" in moved.moved
    # our own id at another address, where the process may still run
    assert not last_active(crumb("nn1", "old.invalid", 8020), given, same_name).ours
    assert not last_active(crumb("nn1", HERE, 8099), given, same_name).ours
    unknown = last_active(crumb("nn7", "old.invalid", 1), given, same_name)
    assert "does not name it" in unknown.moved


@pytest.mark.parametrize("data", [b"\xff\xff", b"", crumb("nn1", HERE, 1, "ns2")])
def test_unreadable_breadcrumbs_are_errors(data: bytes) -> None:
    with pytest.raises(BreadcrumbError) as caught:
        last_active(data, settings(PORTS), same_name)
    assert "clear-breadcrumb" in caught.value.hint


@given(st.builds(ActiveNodeInfo, *(st.text(max_size=9),) * 3, *(st.integers(-(1 << 31), (1 << 31) - 1),) * 2))
def test_breadcrumb_round_trip(info: ActiveNodeInfo) -> None:
    assert ActiveNodeInfo.from_bytes(info.to_bytes()) == info


@given(st.binary(max_size=40))
def test_arbitrary_breadcrumb_bytes_are_read_or_rejected(data: bytes) -> None:
    with suppress(BreadcrumbError):
        last_active(data, SETTINGS, same_name)
