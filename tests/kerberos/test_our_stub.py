"""Hadoop's clients and SecondaryNameNode log in to the stub, which refuses strangers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.errors import AccessControlError, AuthenticationRequiredError
from hadoop_rpc.kerberos import log_in
from hadoop_rpc.namenode_protocol import NamenodeClient
from hadoop_rpc.security import Protection
from namenode_stub.node import NameNodeStub
from tests.interop.client_stub import HADOOP_3, stub_of
from tests.interop.clients import ClientJvm
from tests.interop.cluster import SecondaryNameNode
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import CLIENT, skip_without
from tests.interop.hadoop_process import wait_until
from tests.interop.our_daemon import OurDaemon
from tests.kerberos.callers import SERVERS, USERS, Tap, get, login, tickets
from tests.kerberos.kdc import Kdc
from tests.kerberos.secure_conf import secure_conf

pytestmark = [pytest.mark.interop]

EVERYBODY = ("", *SERVERS, *USERS)


@contextmanager
def stub(conf: HadoopConf) -> Iterator[NameNodeStub]:
    with stub_of(conf) as running:
        yield running


@pytest.mark.deep
@pytest.mark.parametrize("protection", Protection)
def test_the_hdfs_shell_works_with_each_protection(
    hadoop_here: None, realm: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protection: Protection
) -> None:
    """List a directory in several responses, each of which consists of several tokens."""
    work_in_the_shell(realm, tmp_path, monkeypatch, protection, 1200)


def work_in_the_shell(
    realm: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protection: Protection, many: int
) -> None:
    conf = secure_conf(
        realm, tmp_path, {"hadoop.rpc.protection": protection.name.lower(), "dfs.cluster.administrators": "hdfs"}
    )
    monkeypatch.setenv("KRB5CCNAME", str(tickets(realm, "hdfs")))
    with stub(conf) as node:
        assert node.rpc_address is not None
        tap = Tap(node.rpc_address[1])
        clients = HadoopConf(tmp_path / "clients", conf.properties)
        clients.update({"fs.defaultFS": f"hdfs://localhost:{tap.port}"})
        with ClientJvm(tmp_path, conf=clients) as jvm:
            shell = jvm.of(clients)
            shell.shell("-mkdir", "-p", *(f"/secret/d{number:04}" for number in range(many))).checked()
            listed = shell.shell("-ls", "/secret").checked().out
            assert listed.count("/secret/d") == many
            assert "hdfs" in listed
            shell.admin("-rollEdits").checked()
            image = tmp_path / "image"
            image.mkdir()
            shell.admin("-fetchImage", str(image)).checked()
            assert list(image.iterdir())
        tap.close()
    for name in (b"secret", b"d0001", b"ClientProtocol"):
        assert (name in tap.seen) == (protection is not Protection.PRIVACY), name


def test_the_hadoop_3_shell_works_and_privacy_hides_names(
    realm: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_in_the_shell_of_hadoop_3(realm, tmp_path, monkeypatch, Protection.PRIVACY, 60)


@pytest.mark.deep
@pytest.mark.parametrize("protection", Protection)
def test_the_hadoop_3_shell_works_with_each_protection(
    realm: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protection: Protection
) -> None:
    work_in_the_shell_of_hadoop_3(realm, tmp_path, monkeypatch, protection, 1200)


def work_in_the_shell_of_hadoop_3(
    realm: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protection: Protection, many: int
) -> None:
    """Check that two principals own their files by their short names."""
    skip_without(CLIENT)
    conf = secure_conf(realm, tmp_path, {"hadoop.rpc.protection": protection.name.lower()})
    with stub_of(conf, HADOOP_3) as node:
        assert node.rpc_address is not None
        tap = Tap(node.rpc_address[1])
        clients = HadoopConf(tmp_path / "clients", conf.properties)
        clients.update({"fs.defaultFS": f"hdfs://localhost:{tap.port}"})
        monkeypatch.setenv("KRB5CCNAME", str(tickets(realm, "hdfs")))
        with ClientJvm(tmp_path, CLIENT, conf=clients) as jvm:
            shell = jvm.of(clients).shell
            shell("-mkdir", "-p", *(f"/secret/d{number:04}" for number in range(many))).checked()
            shell("-touchz", "/secret/f").checked()
            shell("-mv", "/secret/f", "/secret/d0000/g").checked()
            shell("-rm", "-r", "-skipTrash", "/secret/d0001").checked()
            listed = shell("-ls", "-R", "/secret").checked().out
            assert (listed.count("/secret/d"), "/secret/d0000/g" in listed, "d0001" in listed) == (many, True, False)
            assert shell("-stat", "%u", "/secret").checked().out == "hdfs\n"
        monkeypatch.setenv("KRB5CCNAME", str(tickets(realm, "alice")))
        with ClientJvm(tmp_path, CLIENT, conf=clients) as jvm:
            shell = jvm.of(clients).shell
            shell("-mkdir", "/secret/of-alice").checked()
            assert shell("-stat", "%u", "/secret/of-alice").checked().out == "alice\n"
        tap.close()
    for name in (b"secret", b"d0002", b"ClientProtocol"):
        assert (name in tap.seen) == (protection is not Protection.PRIVACY), name


@pytest.mark.deep
def test_hadoops_secondary_checkpoints_the_stub(hadoop_here: None, realm: Kdc, tmp_path: Path) -> None:
    due = {"dfs.namenode.checkpoint.period": "1", "dfs.namenode.checkpoint.check.period": "1"}
    conf = secure_conf(realm, tmp_path, {"hadoop.rpc.protection": "privacy", **due})
    with stub(conf) as node:
        before = node.images.checkpoint_txid
        node.namespace.mkdirs("/made")
        # Hadoop's secondary runs as a daemon, because `-checkpoint force` of Hadoop 2.7 uploads without the keytab
        with SecondaryNameNode(conf):
            wait_until(lambda: node.images.checkpoint_txid > before, "the image of Hadoop's secondary")


@pytest.mark.deep
def test_a_backup_node_receives_the_stream(realm: Kdc, tmp_path: Path) -> None:
    """The stub logs in to the backup node, as a NameNode does."""
    conf = secure_conf(realm, tmp_path, {"hadoop.rpc.protection": "privacy"})
    own = HadoopConf(tmp_path / "own", {**conf.properties, "dfs.namenode.name.dir": (tmp_path / "backup").as_uri()})
    # the stub with a namespace of Hadoop 3 refuses recent images, as Hadoop 3 does
    conf.update({"dfs.namenode.checkpoint.period": "1"})
    with stub(conf) as node:
        log_in(login(realm, "nn"))
        with OurDaemon.backup(own) as daemon:
            wait_until(lambda: daemon.status()["state"] == "inSync", "the stream")
            node.namespace.mkdirs("/made")
            last = node.namespace.transactions.last_txid
            wait_until(lambda: daemon.status()["streamTxid"] >= last, "the transaction in the stream")
            assert list(daemon.checkpoint()["uploads"].values()) == ["SUCCESS"]
            assert daemon.stop() == 0


@pytest.mark.deep
def test_access_lists_of_a_daemon_are_reloaded(realm: Kdc, tmp_path: Path) -> None:
    """SIGHUP reloads lists; the login does not change, and unusable lists have no effect."""
    conf = secure_conf(realm, tmp_path, {"dfs.namenode.checkpoint.txns": "1"})
    with stub(conf), OurDaemon.secondary(conf) as daemon:
        daemon.checkpoint()
        assert get(realm, "alice", daemon.url, IMAGE)[0] == 403
        conf.update({"dfs.cluster.administrators": "alice"})
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: get(realm, "alice", daemon.url, IMAGE)[0] == 200, "alice's access")
        assert "configuration reloaded: dfs.cluster.administrators (nobody) → (alice)" in daemon.log.read_text()
        # the mapping of principals, open pages and the secret of cookies change too
        opened, whitelist = "/status,/jmx,/metrics", "hadoop.http.authentication.kerberos.endpoint.whitelist"
        secret_file = "hadoop.http.authentication.signature.secret.file"
        secret = tmp_path / "secret"
        secret.write_text("of all servers")
        conf.update(
            {
                "dfs.cluster.administrators": "lewis",
                "hadoop.security.auth_to_local": "RULE:[1:$1](alice)s/alice/lewis/\nDEFAULT",
                whitelist: "/status,/jmx",
                secret_file: str(secret),
            }
        )
        assert get(realm, "", daemon.url, "/metrics")[0] == 200
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: get(realm, "", daemon.url, "/metrics")[0] == 401, "the closed page")
        assert get(realm, "alice", daemon.url, IMAGE)[0] == 200
        assert f"hadoop.security.auth_to_local, {whitelist}, the secret of cookies" in daemon.log.read_text()
        secret.write_text("")
        conf.update({whitelist: opened})
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "it is empty" in daemon.log.read_text(), "the refusal")
        assert get(realm, "", daemon.url, "/metrics")[0] == 401
        conf.update({secret_file: ""})
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: get(realm, "", daemon.url, "/metrics")[0] == 200, "the reopened page")
        assert "take effect only after a restart" not in daemon.log.read_text()
        assert list(daemon.checkpoint()["uploads"].values()) == ["SUCCESS"]
        assert daemon.stop() == 0


IMAGE = "/imagetransfer?getimage=1&txid=latest"
PATHS = {
    IMAGE: (401, 200, 200, 403, 403, 403),
    "/getimage?getimage=1&txid=latest": (401, 200, 200, 403, 403, 403),
    "/jmx": (401, 200, 200, 200, 200, 200),
    "/namespace/tree": (401, 200, 200, 403, 200, 403),
    "/health/live": (404,) * 6,
}


@pytest.fixture(scope="module")
def node(realm: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameNodeStub]:
    conf = secure_conf(
        realm, tmp_path_factory.mktemp("stub"), {"hadoop.http.authentication.kerberos.endpoint.whitelist": ""}
    )
    with stub(conf) as running:
        yield running


def test_permissions_of_each_caller_to_read(realm: Kdc, node: NameNodeStub) -> None:
    """`hdfs` has the stub's own short name, as nn and sn do, and is not an administrator."""
    found = {path: tuple(get(realm, who, node.server.url, path)[0] for who in EVERYBODY) for path in PATHS}
    assert found == PATHS
    assert '"SecurityEnabled" : true' in get(realm, "nn", node.server.url, "/jmx")[1]


def test_permissions_of_each_caller_to_make_changes(realm: Kdc, node: NameNodeStub) -> None:
    url = node.server.url
    verdicts = [get(realm, who, url, "/namespace/mkdirs", "POST", b'{"path": "/x"}')[0] for who in EVERYBODY]
    assert verdicts == [401, 200, 200, 403, 200, 403]
    puts = [
        get(realm, who, url, "/imagetransfer?txid=1&File-Length=1&storageInfo=x", "PUT", b"x")[0] for who in EVERYBODY
    ]
    assert puts == [401, 403, 403, 403, 403, 403]
    message = get(realm, "nn", url, "/imagetransfer?txid=1&File-Length=1&storageInfo=x", "PUT", b"x")[1]
    assert "Only Namenode" not in message


def test_permissions_of_each_caller_over_rpc(realm: Kdc, node: NameNodeStub) -> None:
    assert node.rpc_address is not None
    for who in ("nn", "sn"):
        log_in(login(realm, who))
        with NamenodeClient(*node.rpc_address, user="", retry=NO_RETRY) as client:
            assert client.version_request().storage_info.cluster_id
    for who in ("jn", "alice"):
        log_in(login(realm, who))
        with (
            NamenodeClient(*node.rpc_address, user="", retry=NO_RETRY) as client,
            pytest.raises(AccessControlError, match=f"Access denied for user {who}"),
        ):
            client.roll_edit_log()
    log_in(None)
    with (
        NamenodeClient(*node.rpc_address, user="hdfs", retry=NO_RETRY) as client,
        pytest.raises(AuthenticationRequiredError, match="SIMPLE authentication is not enabled"),
    ):
        client.version_request()
