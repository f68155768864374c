"""The daemon's identity on a kerberized cluster according to Hadoop's keys, and whether the NameNodes accept its
images.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from hadoop_common.access import AccessControlList, AccessPolicy, MachineList, Resource
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_rpc.errors import KerberosSetupError
from hadoop_rpc.keytab import KeytabEntry
from hadoop_rpc.namenode_protocol import NAMENODE_PROTOCOL
from hadoop_rpc.qjournal_protocol import INTER_QJOURNAL_PROTOCOL, QJOURNAL_PROTOCOL
from hadoop_rpc.security import Protection
from hadoop_rpc.server_kerberos import ServerKerberos, ServiceKey
from journal_node.config import JournalNodeConfig
from site_config.addresses import Identity
from site_config.checkpoint_config import CheckpointConfig, Role
from site_config.kerberos import KerberosSettings, ProcessKind, for_operator, kerberos_settings
from tests.hadoop_rpc.keytabs import keytab_of

ACL, DEFAULT_ACL = "security.qjournal.service.protocol.acl", "security.service.authorization.default.acl"
SINGLE = {
    "hadoop.security.authentication": "Kerberos",
    "fs.defaultFS": "hdfs://nn1.example:8020",
    "dfs.namenode.rpc-address": "nn1.example:8020",
    "dfs.namenode.http-address": "nn1.example:9870",
    "dfs.namenode.checkpoint.dir": "/data",
    "dfs.namenode.name.dir": "/data/name",
    "dfs.namenode.secondary.http-address": "SNN.example:9868",
    "dfs.namenode.kerberos.principal": "nn/_HOST@R",
    "dfs.namenode.keytab.file": "/keys/nn",
    "dfs.secondary.namenode.kerberos.principal": "sn/_HOST@R",
    "dfs.secondary.namenode.keytab.file": "/keys/sn",
}
PAIR = {
    **SINGLE,
    "fs.defaultFS": "hdfs://ns",
    "dfs.nameservices": "ns",
    "dfs.ha.namenodes.ns": "a,b",
    "dfs.ha.namenode.id": "b",
    "dfs.namenode.shared.edits.dir": "file:///shared",
    "dfs.namenode.rpc-address.ns.a": "nna.example:8020",
    "dfs.namenode.rpc-address.ns.b": "nnb.example:8020",
    "dfs.namenode.http-address.ns.a": "nna.example:9870",
    "dfs.namenode.http-address.ns.b": "nnb.example:9870",
    "dfs.journalnode.kerberos.principal": "jn/_HOST@R",
}


def read(values: dict[str, str], role: Role = Role.SECONDARY) -> KerberosSettings:
    config = CheckpointConfig.from_configuration(Configuration.from_mapping(values, {}), role)
    assert config.kerberos is not None
    return config.kerberos


def faults(values: dict[str, str], role: Role = Role.SECONDARY) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as caught:
        read(values, role)
    return {fault.key: fault.problem for fault in caught.value.faults}


def test_login_of_a_secondary() -> None:
    found = read(SINGLE)
    assert found.login.principal == "sn/snn.example@R"
    assert found.login.keytab == Path("/keys/sn")
    assert found.login.namenode.principal == "nn/_HOST@R"
    assert found.login.namenode.pattern == "*"
    assert (found.login.protections, found.login.fallback) == ((Protection.AUTHENTICATION,), False)
    assert found.upload_principals == {
        "nn/nn1.example@R": "dfs.namenode.kerberos.principal",
        "sn/snn.example@R": "dfs.secondary.namenode.kerberos.principal",
    }
    assert found.refusal("hdfs") == ""


def test_a_standby_uses_the_login_of_its_namenode() -> None:
    found = read(PAIR, Role.STANDBY)
    assert found.login.principal == "nn/nnb.example@R"
    assert found.login.keytab == Path("/keys/nn")
    assert found.login.journalnode.principal == "jn/_HOST@R"
    assert list(found.upload_principals) == ["nn/nna.example@R", "nn/nnb.example@R", "sn/snn.example@R"]
    assert found.refusal("hdfs") == ""


def test_keys_of_a_single_namenode_take_precedence() -> None:
    own = {"dfs.namenode.kerberos.principal.ns.b": "hdfs/_HOST@R", "dfs.namenode.keytab.file.ns.b": "/keys/b"}
    login = read({**PAIR, **own}, Role.STANDBY).login
    assert (login.principal, login.keytab) == ("hdfs/nnb.example@R", Path("/keys/b"))


def test_each_namenode_may_have_its_own_principal() -> None:
    key = "dfs.namenode.kerberos.principal"
    own = {f"{key}.ns.a": "hdfs-a/one@R", f"{key}.ns.b": "hdfs-b/two@R"}
    expected = {"hdfs-a/one@R": f"{key}.ns.a", "hdfs-b/two@R": f"{key}.ns.b"}
    found = read({**PAIR, **own}, Role.STANDBY)
    assert found.login.principal == "hdfs-b/two@R"
    assert found.upload_principals.items() >= expected.items()
    assert found.require_server().policies[Resource.IMAGES].principals == found.upload_principals
    assert "nn/nna.example@R" not in found.upload_principals
    of_secondary = {"sn/snn.example@R": "dfs.secondary.namenode.kerberos.principal"}
    for general in ("nn/_HOST@R", ""):
        policies = node({**own, key: general}).policies
        assert policies[Resource.JOURNAL].principals == {**expected, **of_secondary}
        assert policies[QJOURNAL_PROTOCOL.name].principals == expected | ({general: key} if general else {})


def test_namenodes_of_another_cluster_do_not_write_to_our_journals() -> None:
    """dfs.nameservices may also list the clusters that clients use."""
    key = "dfs.namenode.kerberos.principal"
    other = {
        "dfs.nameservices": "ns,dr",
        "dfs.internal.nameservices": "ns",
        "dfs.ha.namenodes.dr": "d",
        "dfs.namenode.rpc-address.dr.d": "dr.example:8020",
        f"{key}.dr.d": "nn/_HOST@DR",
        f"{key}.ns.a": "hdfs-a/one@R",
    }
    assert node(other).policies[QJOURNAL_PROTOCOL.name].principals == {"nn/_HOST@R": key, "hdfs-a/one@R": f"{key}.ns.a"}


def test_only_a_common_value_of_single_namenodes_replaces_the_general_principal() -> None:
    key = "dfs.namenode.kerberos.principal"
    common = {**PAIR, key: "", f"{key}.ns.a": "nn/_HOST@R", f"{key}.ns.b": "nn/_HOST@R"}

    def settings(values: dict[str, str]) -> KerberosSettings | None:
        return kerberos_settings(
            Configuration.from_mapping(values, {}), Identity("ns", ("a", "b")), ProcessKind.SECONDARY
        )

    found = settings(common)
    assert found is not None
    # each server is then expected to have the principal of its own host
    assert found.login.namenode.principal == "nn/_HOST@R"
    with pytest.raises(ConfigurationError, match="is required"):
        settings({**common, f"{key}.ns.b": "hdfs/_HOST@R"})


def test_every_principal_of_a_namenode_needs_a_realm() -> None:
    of_a, of_b = (f"dfs.namenode.kerberos.principal.ns.{name}" for name in ("a", "b"))
    without = {of_a: "nn/nna.example", of_b: "nn/nnb.example"}
    assert faults({**PAIR, of_a: without[of_a]}, Role.STANDBY) == {of_a: "lacks a realm"}
    assert faults({**PAIR, **without}, Role.STANDBY) == {of_a: "lacks a realm", of_b: "lacks a realm"}
    with pytest.raises(ConfigurationError) as caught:
        node(without)
    assert {fault.key for fault in caught.value.faults} == {of_a, of_b}


def test_a_standby_on_a_third_host_must_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "Third.example")
    third = {key: value for key, value in PAIR.items() if key != "dfs.ha.namenode.id"}
    found = read(third, Role.STANDBY)
    assert found.login.principal == "nn/third.example@R"
    assert found.refusal("nn") == (
        "NameNodes accept images from nn/nna.example@R (dfs.namenode.kerberos.principal), "
        "nn/nnb.example@R (dfs.namenode.kerberos.principal), "
        "sn/snn.example@R (dfs.secondary.namenode.kerberos.principal) and from dfs.cluster.administrators (not set), "
        "but not from nn/third.example@R"
    )


def test_an_administrator_need_not_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "Third.example")
    third = {key: value for key, value in PAIR.items() if key != "dfs.ha.namenode.id"}
    found = read({**third, "dfs.cluster.administrators": "hdfs"}, Role.STANDBY)
    assert (found.refusal("hdfs"), bool(found.refusal("nn"))) == ("", True)


@pytest.mark.parametrize(("host", "is_accepted"), [("NN1.example", True), ("third.example", False)])
def test_without_an_address_a_namenode_expects_the_secondary_on_its_own_host(
    monkeypatch: pytest.MonkeyPatch, host: str, is_accepted: bool
) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: host)
    found = read({**SINGLE, "dfs.namenode.secondary.http-address": "0.0.0.0:9868"})
    assert found.login.principal == f"sn/{host.lower()}@R"
    assert list(found.upload_principals) == ["nn/nn1.example@R", "sn/nn1.example@R"]
    assert (found.refusal("sn") == "") is is_accepted


def test_a_standby_serves_namenode_protocol() -> None:
    assert NAMENODE_PROTOCOL.name in read(PAIR, Role.STANDBY).require_server().policies


def test_without_a_keytab_the_users_tickets_are_used() -> None:
    login = read({**SINGLE, "dfs.secondary.namenode.keytab.file": ""}).login
    assert (login.principal, login.keytab) == ("", None)


def test_an_unreadable_keytab_means_that_own_tickets_are_used(tmp_path: Path) -> None:
    login = read(SINGLE).login
    assert for_operator(login) == replace(login, principal="", keytab=None)
    (tmp_path / "keytab").touch()
    readable = replace(login, keytab=tmp_path / "keytab")
    assert for_operator(readable) == readable


def test_protections_and_fallback_follow_hadoops_keys() -> None:
    more = {"hadoop.rpc.protection": "privacy, integrity", "ipc.client.fallback-to-simple-auth-allowed": "true"}
    login = read({**SINGLE, **more}).login
    assert (login.protections, login.fallback) == ((Protection.PRIVACY, Protection.INTEGRITY), True)


def test_all_faults_are_reported_at_once() -> None:
    lacking = {
        **SINGLE,
        "dfs.namenode.kerberos.principal": "",
        "dfs.secondary.namenode.kerberos.principal": "sn/_HOST",
        "hadoop.rpc.protection": "secrecy",
    }
    found = faults(lacking)
    assert found["dfs.namenode.kerberos.principal"].startswith("is required")
    assert found["dfs.secondary.namenode.kerberos.principal"] == "lacks a realm"
    assert found["hadoop.rpc.protection"] == "is not a list of the levels authentication, integrity and privacy"


def test_another_authentication_method_is_a_fault() -> None:
    assert (
        "simple or kerberos"
        in faults({**SINGLE, "hadoop.security.authentication": "x"})["hadoop.security.authentication"]
    )


def test_a_simple_cluster_has_no_login() -> None:
    config = CheckpointConfig.from_configuration(
        Configuration.from_mapping({**SINGLE, "hadoop.security.authentication": "simple"}, {}), Role.SECONDARY
    )
    assert config.kerberos is None


# ---- our own servers ----

OF_A_NODE = {
    **PAIR,
    "dfs.journalnode.keytab.file": "/keys/jn",
    "dfs.journalnode.rpc-address": "JN1.example:8485",
    "dfs.journalnode.http-address": "web1.example:8480",
    "dfs.journalnode.edits.dir": "/data",
}


def node(values: dict[str, str]) -> ServerKerberos:
    config = JournalNodeConfig.from_configuration(Configuration.from_mapping({**OF_A_NODE, **values}, {}))
    assert config.kerberos is not None
    return config.kerberos.require_server()


def test_keys_of_a_server() -> None:
    found = node({})
    assert found.rpc == ServiceKey("jn/jn1.example@R", Path("/keys/jn"))
    assert found.http == ServiceKey("HTTP/web1.example@R", Path("/keys/jn"))
    assert (found.secret_file, found.validity, found.open_paths) == (None, 36000.0, frozenset())
    of_all_pages = {"hadoop.http.authentication.kerberos.keytab": "/h"}
    assert node(of_all_pages).http == ServiceKey("HTTP/web1.example@R", Path("/h"))
    web = {"dfs.web.authentication.kerberos.principal": "HTTP/_HOST@W", "dfs.web.authentication.kerberos.keytab": "/w"}
    assert node({**of_all_pages, **web}).http == ServiceKey("HTTP/web1.example@W", Path("/w"))
    own = {**web, "dfs.journalnode.kerberos.internal.spnego.principal": "*"}
    assert node(own).http == ServiceKey("HTTP/*", Path("/w"))


def test_key_of_a_web_server_in_the_keytab_of_the_process(tmp_path: Path) -> None:
    """The file of hadoop.http.authentication.kerberos.keytab may be for other servers, or a default of Hadoop."""
    own = tmp_path / "own"
    own.write_bytes(keytab_of(KeytabEntry("HTTP/web1.example@R", 1, 18)))
    values = {"dfs.journalnode.keytab.file": str(own)}
    others = "hadoop.http.authentication.kerberos.keytab"
    assert node({**values, others: "/h"}).http.keytab == own
    own.write_bytes(keytab_of(KeytabEntry("jn/jn1.example@R", 1, 18)))
    assert node({**values, others: "/h"}).http.keytab == Path("/h")
    assert node({**values, others: "${user.home}/hadoop.keytab"}).http.keytab == own


def test_access_policies_of_a_journal_node() -> None:
    policies = node({"dfs.cluster.administrators": "hdfs ops"}).policies
    assert policies[QJOURNAL_PROTOCOL.name].principals == {"nn/_HOST@R": "dfs.namenode.kerberos.principal"}
    assert policies[INTER_QJOURNAL_PROTOCOL.name].principals == {"jn/_HOST@R": "dfs.journalnode.kerberos.principal"}
    assert set(policies[Resource.JOURNAL].principals) == {"nn/nna.example@R", "nn/nnb.example@R", "sn/snn.example@R"}
    assert policies[Resource.JOURNAL].own
    assert policies[Resource.STATE] == AccessPolicy()
    assert policies[Resource.CONTROL].lists == (AccessControlList.parse("dfs.cluster.administrators", "hdfs ops"),)
    admin = node({"hadoop.security.instrumentation.requires.admin": "true"}).policies[Resource.STATE]
    assert (admin.own, len(admin.lists)) == (False, 1)


def test_settings_can_be_sent_to_another_process() -> None:
    """The process that fills the archive receives them."""
    rules = "RULE:[2:$1@$0]([jn]n@R)s/(.*)@R/hdfs-$1/\nDEFAULT"
    settings = read({**PAIR, "hadoop.security.auth_to_local": rules}, Role.STANDBY)
    sent = pickle.loads(pickle.dumps(settings))
    assert sent == settings
    assert sent.require_server().rules.short_name("nn/h@R") == "hdfs-nn"


def test_acls_of_hadoop_policy_apply_only_with_authorization() -> None:
    policy = {
        "security.qjournal.service.protocol.acl": "nn",
        "security.qjournal.service.protocol.acl.blocked": "x",
        "security.qjournal.service.protocol.hosts": "10.0.0.1",
        "security.service.authorization.default.hosts.blocked": "10.0.0.2",
    }
    assert node(policy).policies[QJOURNAL_PROTOCOL.name].needed == ()
    journal_policy = node({**policy, "hadoop.security.authorization": "true"}).policies[QJOURNAL_PROTOCOL.name]
    assert journal_policy.principals
    assert journal_policy.needed == (
        AccessControlList.parse("security.qjournal.service.protocol.acl", "nn"),
        MachineList.parse("security.qjournal.service.protocol.hosts", "10.0.0.1"),
    )
    assert journal_policy.blocked == (
        AccessControlList.parse("security.qjournal.service.protocol.acl.blocked", "x"),
        MachineList.parse("security.service.authorization.default.hosts.blocked", "10.0.0.2"),
    )


def test_access_lists_with_only_groups_and_without_members() -> None:
    """In Hadoop, only groups follow a leading blank."""
    acl, administrators = "security.qjournal.service.protocol.acl", "dfs.cluster.administrators"
    values = {acl: " hadoop", administrators: " ops", "hadoop.security.authorization": "true"}
    policies = node(values).policies
    assert policies[QJOURNAL_PROTOCOL.name].needed == (AccessControlList(acl, groups=frozenset({"hadoop"})),)
    assert policies[Resource.CONTROL].lists == (AccessControlList(administrators, groups=frozenset({"ops"})),)


@pytest.mark.parametrize(("value", "list_of"), [(" ", ACL), ("", DEFAULT_ACL)])
def test_access_list_of_blanks_allows_nobody(tmp_path: Path, value: str, list_of: str) -> None:
    """Without any text, Hadoop's default list applies."""
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    (tmp_path / "hadoop-policy.xml").write_text(
        f"<configuration><property><name>{ACL}</name><value>{value}</value></property>"
        f"<property><name>{DEFAULT_ACL}</name><value>alice</value></property></configuration>"
    )
    loaded = Configuration.load(tmp_path, {})
    policy = {key: loaded.get_untrimmed(key) for key in (ACL, DEFAULT_ACL) if key in loaded}
    (needed,) = node({**policy, "hadoop.security.authorization": "true"}).policies[QJOURNAL_PROTOCOL.name].needed
    assert isinstance(needed, AccessControlList)
    assert (needed.key, needed.users) == (list_of, frozenset({"alice"} if list_of == DEFAULT_ACL else ()))


def test_administrators_after_a_blank_are_groups_for_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "Third.example")
    third = {key: value for key, value in PAIR.items() if key != "dfs.ha.namenode.id"}
    found = read({**third, "dfs.cluster.administrators": " hdfs-group"}, Role.STANDBY)
    assert found.refusal("hdfs-group")
    monkeypatch.setattr("site_config.kerberos.system_groups", lambda user: frozenset({"hdfs-group"}))
    assert found.refusal("carl") == ""


@pytest.mark.parametrize(
    ("values", "key", "problem"),
    [
        ({"dfs.journalnode.keytab.file": ""}, "dfs.journalnode.keytab.file", "is required"),
        ({"hadoop.security.auth_to_local": "RULE:"}, "hadoop.security.auth_to_local", "Invalid rule"),
        (
            {"hadoop.security.saslproperties.resolver.class": "org.example.Mine"},
            "hadoop.security.saslproperties.resolver.class",
            "a Java class",
        ),
    ],
)
def test_invalid_server_keys_are_faults(values: dict[str, str], key: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        node(values)
    assert {fault.key: problem in fault.problem for fault in caught.value.faults} == {key: True}


def test_a_server_requires_a_keytab() -> None:
    found = read({**SINGLE, "dfs.secondary.namenode.keytab.file": ""})
    with pytest.raises(KerberosSetupError, match="require a keytab"):
        found.require_server()
