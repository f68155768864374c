"""Logins at a real ZooKeeper, and their configuration."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.security import make_digest_acl_credential

from failover.election import Election
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.tls import passwords
from hadoop_common.tls.errors import TlsSetupError
from hadoop_common.tls.settings import ClientStores
from hadoop_common.zookeeper import client as zookeeper_client
from hadoop_common.zookeeper.errors import NodeExistsError, ZooKeeperError
from hadoop_common.zookeeper.kazoo_znodes import KazooZNodes
from hadoop_common.zookeeper.session import DIGEST_MD5, SaslLogin, ZooKeeperAddress, parse_acl, parse_auth
from hadoop_common.zookeeper.settings import zookeeper_address
from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from namenode_stub.ports import free_port
from tests.namenode_stub.stub_support import wait_until
from tests.tls.certificates import STORE_PASSWORD, authority


def test_connection_timeout_is_shorter_than_the_session_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a longer timeout, kazoo would wait for one dead server until the session expires, although the other servers
    work.
    """
    waited: list[float] = []

    def create_connection(*_: object, timeout: float, **__: object) -> None:
        waited.append(timeout)

    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", create_connection)
    for hosts, seconds in (("a", 9.0), ("a,b,c", 9.0), ("a,b,c,d,e", 2.0)):
        client = zookeeper_client.new_client(ZooKeeperAddress(hosts, seconds))
        client.handler.create_connection(("a", 2181), timeout=seconds)
    assert waited == [3.0, 1.0, 0.5]


SERVER_AUTH = "org.apache.zookeeper.server.auth"


class Secured:
    """A server with TLS on another port, and one DIGEST-MD5 user."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        ca = authority()
        (folder / "own.p12").write_bytes(ca.issue().pkcs12())
        (folder / "ca.pem").write_bytes(ca.certificate)
        (folder / "jaas.conf").write_text(f'Server {{ {SERVER_AUTH}.DigestLoginModule required user_zkfc="secret"; }};')
        port = free_port()
        self.secure_hosts = f"127.0.0.1:{port}"
        self.stores = ClientStores(
            key_store=folder / "own.p12",
            key_password=STORE_PASSWORD,
            trust_store=folder / "ca.pem",
            keys="hadoop.zk.ssl",
        )
        self.server = ZooKeeperServer(
            folder,
            {
                "secureClientPort": str(port),
                "secureClientPortAddress": "127.0.0.1",
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": str(folder / "own.p12"),
                "ssl.keyStore.password": STORE_PASSWORD,
                "ssl.trustStore.location": str(folder / "ca.pem"),
                "authProvider.sasl": f"{SERVER_AUTH}.SASLAuthenticationProvider",
            },
            [f"-Djava.security.auth.login.config={folder / 'jaas.conf'}"],
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if MISSING:
        pytest.skip(MISSING)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    found = Secured(tmp_path_factory.mktemp("zookeeper") / "server")
    with found.server:
        yield found


def znodes(address: ZooKeeperAddress) -> closing[KazooZNodes]:
    return closing(KazooZNodes(address))


def error_that_names(found: KazooZNodes, wanted: str) -> ZooKeeperError:
    """Return the error of a call whose message contains `wanted`; on a busy machine, earlier calls may time out before
    the server responds.
    """
    errors: list[ZooKeeperError] = []

    def is_named() -> bool:
        with pytest.raises(ZooKeeperError) as caught:
            found.exists("/")
        errors.append(caught.value)
        return wanted in caught.value.message

    found._patience = 3.0
    wait_until(wanted, is_named)
    return errors[-1]


def test_znode_with_a_digest_acl_cannot_be_deleted_by_others(secured: Secured) -> None:
    open_to_all = ZooKeeperAddress(secured.server.hosts, 20.0, auth_key="ha.zookeeper.auth.ns1")
    acl = parse_acl(f"digest:{make_digest_acl_credential('zkfc', 'secret')}:rwcda")
    ours = replace(open_to_all, acl=acl, auth=parse_auth("digest:zkfc:secret"))
    with znodes(ours) as owner, znodes(open_to_all) as stranger:
        owner.create("/digest/child", b"1", parents=True)
        with pytest.raises(ZooKeeperError, match="/digest/child: ZooKeeper refuses this operation") as caught:
            stranger.delete("/digest/child")
        assert "ha.zookeeper.auth.ns1" in caught.value.hint
        assert owner.get("/digest/child")[0] == b"1"
        owner.delete("/digest/child")


def test_creator_acl_grants_access_only_to_the_creator(secured: Secured) -> None:
    address = ZooKeeperAddress(secured.server.hosts, 20.0)
    creator = replace(address, acl=(("auth", "", "cdrwa"),), auth=parse_auth("digest:zkfc:secret"))
    with znodes(creator) as owner, znodes(address) as stranger:
        owner.create("/creator", b"1")
        with pytest.raises(ZooKeeperError, match="refuses"):
            stranger.get("/creator")
        owner.delete("/creator")


def test_parents_with_the_own_acl_are_not_changed(secured: Secured) -> None:
    """Setting an ACL needs a separate right, which the user who formats a second nameservice may lack."""
    address = ZooKeeperAddress(secured.server.hosts, 20.0, acl=parse_acl("world:anyone:rwcd"))
    with znodes(address) as found:
        for nameservice in ("ns1", "ns2"):
            found.make_parents(f"/parents/{nameservice}")
        assert sorted(found.children("/parents")) == ["ns1", "ns2"]


def test_chroot_applies_to_all_paths_and_must_exist(secured: Secured) -> None:
    address = ZooKeeperAddress(secured.server.hosts, 20.0)
    with znodes(address) as plain, znodes(replace(address, hosts=f"{address.hosts}/a/b")) as below:
        with pytest.raises(ZooKeeperError, match=r"the chroot /a/b of ha\.zookeeper\.quorum does not exist"):
            below.create("/hadoop-ha/ns1", b"x", parents=True, ephemeral=True)
        plain.create("/a/b", b"", parents=True)
        below.create("/hadoop-ha/ns1", b"x", parents=True, ephemeral=True)
        assert plain.get("/a/b/hadoop-ha/ns1")[0] == b"x"
        assert below.owned("/hadoop-ha/ns1")
        with pytest.raises(NodeExistsError, match=r"^/hadoop-ha/ns1: "):
            below.create("/hadoop-ha/ns1", b"y")


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Faults that the next connections raise; like faults of a SASL mechanism, they end kazoo's thread."""
    faults: list[Exception] = []
    connect = SequentialThreadingHandler.create_connection

    def create_connection(*given: object, **more: object) -> object:
        if faults:
            raise faults.pop()
        return connect(*given, **more)

    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", create_connection)
    return faults


def test_waiting_call_continues_on_a_new_client(secured: Secured, faulty: list[Exception]) -> None:
    faulty += [ValueError("there is no credential")] * 2
    with znodes(ZooKeeperAddress(secured.server.hosts, 20.0)) as found:
        found._patience = 600
        assert found.exists("/")
    assert not faulty


def test_error_names_the_cause_of_failed_clients(secured: Secured, faulty: list[Exception]) -> None:
    faulty += [ValueError("there is no credential")] * 1000
    with znodes(ZooKeeperAddress(secured.server.hosts, 20.0)) as found:
        why = error_that_names(found, "(ValueError: there is no credential)")
        assert "did not answer within" in why.message
        assert why.hint == "The log contains the cause; the connection is retried."


def test_election_continues_after_a_client_failure(secured: Secured, faulty: list[Exception]) -> None:
    reported: list[str] = []
    callbacks = SimpleNamespace(
        become_active=lambda: reported.append("active"), enter_neutral=lambda: None, fatal=reported.append
    )
    address = ZooKeeperAddress(secured.server.hosts, 20.0)
    with closing(Election(address, "/hadoop-ha/died", callbacks)) as election:
        election.format()
        faulty.append(ValueError("there is no credential"))
        election.join(b"nn1")
        wait_until("it", lambda: "active" in reported)
    assert reported == ["the session with ZooKeeper ended before an answer arrived", "active"]


def test_tls_uses_the_stores_and_refuses_untrusted_servers(secured: Secured, tmp_path: Path) -> None:
    address = ZooKeeperAddress(secured.secure_hosts, 20.0, tls=secured.stores)
    with znodes(address) as found:
        found.create("/tls", b"1", ephemeral=True)
        assert found.owned("/tls")
    (tmp_path / "other.pem").write_bytes(authority("Other").certificate)
    stranger = replace(address, tls=replace(secured.stores, trust_store=tmp_path / "other.pem"))
    with znodes(stranger) as found:
        assert "hadoop.zk.ssl" in error_that_names(found, "CERTIFICATE_VERIFY_FAILED").hint
    with znodes(replace(address, tls=replace(secured.stores, key_password="wrong"))) as found:
        with pytest.raises(TlsSetupError, match=r"own\.p12") as refused:
            found.exists("/")
        assert "hadoop.zk.ssl.keystore.password" in refused.value.hint


def test_login_by_sasl_digest_md5(secured: Secured) -> None:
    pytest.importorskip("puresasl")
    login = SaslLogin(DIGEST_MD5, "zkfc", "secret")
    ours = ZooKeeperAddress(secured.server.hosts, 20.0, acl=(("sasl", "zkfc", "cdrwa"),), sasl=login)
    with znodes(ours) as owner, znodes(replace(ours, sasl=None)) as stranger:
        owner.create("/sasl/child", b"1", parents=True)
        with pytest.raises(ZooKeeperError, match="refuses this operation"):
            stranger.delete("/sasl/child")
        assert owner.get("/sasl/child")[0] == b"1"
    with znodes(replace(ours, sasl=replace(login, password="wrong"))) as found:
        assert "checkpointer.zookeeper.sasl" in error_that_names(found, "refuses this operation").hint


def test_missing_sasl_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_client.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ZooKeeperError, match="package puresasl") as caught:
        zookeeper_client.new_client(ZooKeeperAddress("127.0.0.1:1", sasl=SaslLogin(DIGEST_MD5, "u", "p")))
    assert "hdfs-checkpointer[sasl]" in caught.value.hint


# ---- configuration -----------------------------------------------------------------------------------------


def read(**values: str) -> ZooKeeperAddress | None:
    names = {name.replace("__", "-").replace("_", "."): value for name, value in values.items()}
    return zookeeper_address(
        Configuration.from_mapping(names, {}), lambda key: f"{key.name}.ns1" if f"{key.name}.ns1" in names else key.name
    )


def test_address_is_read_from_the_configuration(tmp_path: Path) -> None:
    assert read() is None
    (tmp_path / "auth").write_text("digest:a:b\n")
    (tmp_path / "acl").write_text("sasl:nn/host@REALM:rwcda,world:anyone:r")
    found = read(
        ha_zookeeper_quorum="zk0",
        ha_zookeeper_quorum_ns1="zk1:2181,zk2:2181/chroot",
        ha_zookeeper_auth=f"@{tmp_path}/auth",
        ha_zookeeper_acl=f"@{tmp_path}/acl",
        hadoop_zk_ssl_enabled="true",
        hadoop_zk_ssl_truststore_location="/etc/trust.jks",
        hadoop_zk_ssl_truststore_password="secret",
        checkpointer_zookeeper_sasl_mechanism="digest-md5",
        checkpointer_zookeeper_sasl_user="u",
        checkpointer_zookeeper_sasl_password=f"@{tmp_path}/auth",
    )
    assert found is not None
    assert (found.hosts, found.named_by) == ("zk1:2181,zk2:2181/chroot", "ha.zookeeper.quorum.ns1")
    assert (found.auth, found.session_timeout) == ((("digest", "a:b"),), 10.0)
    assert found.acl == (("sasl", "nn/host@REALM", "rwcda"), ("world", "anyone", "r"))
    assert found.tls is not None
    assert (found.tls.trust_store, found.tls.trust_password) == (Path("/etc/trust.jks"), "secret")
    assert found.sasl == SaslLogin(DIGEST_MD5, "u", "digest:a:b")
    assert not {"secret", "a:b"} & set(repr(found).split("'"))


def test_credentials_are_read_from_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "zk.jceks"
    store.write_bytes(b"of a@b")
    stored = {"ha.zookeeper.auth": "digest:a:b"}
    monkeypatch.setattr(passwords, "find_credential", lambda data, password, alias: stored.get(alias))
    provider = {"hadoop.security.credential.provider.path": f"localjceks://file{store}"}
    given = {"ha.zookeeper.quorum": "zk", "ha.zookeeper.auth.ns1": "digest:c:d"}

    def auth(values: dict[str, str]) -> tuple[tuple[str, str], ...]:
        settings = Configuration.from_mapping(values, {})
        warned.extend(settings.warnings)
        settings.on_warning = warned.append
        found = zookeeper_address(settings, lambda key: f"{key.name}.ns1" if f"{key.name}.ns1" in values else key.name)
        assert found is not None
        return found.auth

    warned: list[str] = []
    assert auth(given | provider) == (("digest", "a:b"),)
    stored.clear()
    assert auth(given | provider) == (("digest", "c:d"),)
    # a provider in HDFS, for example with keys for S3, which this process cannot read
    provider["hadoop.security.credential.provider.path"] = "jceks://hdfs@nn/s3.jceks"
    assert auth(given | provider) == (("digest", "c:d"),)
    assert warned == []
    del given["ha.zookeeper.auth.ns1"]
    assert auth(given | provider) == ()
    assert "cannot be searched for ha.zookeeper.auth" in warned[0]
    provider["hadoop.security.credential.provider.path"] = f"localjceks://file{store}"
    stored["ha.zookeeper.auth"] = "secret"
    with pytest.raises(ConfigurationError, match="a part is not scheme:credential") as caught:
        auth(given | provider)
    assert "secret" not in str(caught.value)


def test_newer_tls_key_overrides_the_older_one() -> None:
    asked = {"ha_zookeeper_quorum": "zk", "dfs_ha_zkfc_client_ssl_enabled": "true"}
    assert read(**asked).tls is not None  # type: ignore[union-attr]
    assert read(**asked, hadoop_zk_ssl_enabled="false").tls is None  # type: ignore[union-attr]


def test_empty_acl_means_the_creator_acl() -> None:
    assert read(ha_zookeeper_quorum="zk", ha_zookeeper_acl="").acl == (("auth", "", "cdrwa"),)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ha_zookeeper_acl", "world:anyone"),
        ("ha_zookeeper_acl", "world:anyone:x"),
        ("ha_zookeeper_auth", "digest"),
        ("ha_zookeeper_auth", "@/nowhere/at/all"),
        ("checkpointer_zookeeper_sasl_mechanism", "PLAIN"),
        ("checkpointer_zookeeper_sasl_mechanism", "DIGEST-MD5"),
    ],
)
def test_invalid_value_is_an_error(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"(ha|checkpointer)\.zookeeper\."):
        read(ha_zookeeper_quorum="zk", **{key: value})
