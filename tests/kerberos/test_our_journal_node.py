"""Our JournalNode in a realm: permitted writers and readers, and the view of an observer."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from hadoop_common.configuration import Configuration
from hadoop_common.process_control import Control
from hadoop_rpc.errors import AuthenticationRequiredError, KerberosSetupError, NotAuthorizedError, RpcError
from hadoop_rpc.kerberos import log_in, security_for
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.qjournal_protocol import InterQJournalClient, QJournalClient
from hadoop_rpc.rpc_protocol import ServerKind
from hadoop_rpc.security import Protection
from hadoop_rpc.server_counts import LOGINS
from hadoop_rpc.spnego import Spnego
from hadoop_rpc.wire import AuthProtocol, connection_header, sasl_request_frame
from journal_node.config import JournalNodeConfig
from journal_node.process import run_journal_node
from journal_node.server import JournalNodeServer
from namenode_stub.ports import free_port
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_process import port_is_open, wait_until
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer
from tests.kerberos.callers import SERVERS, USERS, Tap, get, login
from tests.kerberos.kdc import REALM, Kdc
from tests.kerberos.secure_conf import secure
from tests.kerberos.secure_journal_node import running
from tests.site_files import site_xml, write_site

pytestmark = [pytest.mark.interop]

EVERYBODY = ("", *SERVERS, *USERS)


def conf(kdc: Kdc, root: Path, **properties: str) -> HadoopConf:
    given = {
        "dfs.journalnode.rpc-address": "localhost:0",
        "dfs.journalnode.http-address": "localhost:0",
        "dfs.journalnode.edits.dir": str(root / "jn"),
        "hadoop.http.authentication.kerberos.endpoint.whitelist": "/metrics",
        "fs.defaultFS": "hdfs://localhost:1",
        "dfs.namenode.rpc-address": "localhost:1",
        "dfs.namenode.secondary.http-address": "localhost:2",
        "dfs.namenode.http-address": "localhost:3",
        **{key.replace("_", "."): value for key, value in properties.items()},
    }
    return secure(kdc, HadoopConf(root, given), given)


@pytest.fixture(scope="module")
def node(realm: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JournalNodeServer]:
    with running(conf(realm, tmp_path_factory.mktemp("node"))) as server:
        yield server


@pytest.mark.parametrize("protection", Protection)
def test_a_namenode_can_write_with_each_protection(realm: Kdc, tmp_path: Path, protection: Protection) -> None:
    with running(conf(realm, tmp_path)) as server:
        log_in(login(realm, "nn", protection))
        tap = Tap(server.rpc_address[1])
        with QJournalClient("localhost", tap.port, user="", timeout=600) as client:
            writer = Writer(client)
            client.format(JOURNAL, NAMESPACE, force=True)
            writer.segment(1, 3)
            before = LOGINS.now().connections[protection.name.lower()]
            assert before >= 1
        for name in (b"startLogSegment", b"finalizeLogSegment"):
            assert (name in tap.seen) == (protection is not Protection.PRIVACY), name
        # the handshake itself stays readable
        assert b"KERBEROS" in tap.seen


def test_logins_are_counted(realm: Kdc, node: JournalNodeServer) -> None:
    get(realm, "alice", node.url, "/status")
    log_in(login(realm, "nn", Protection.PRIVACY))
    with QJournalClient(*node.rpc_address, user="") as client, pytest.raises(RpcError, match="not formatted"):
        client.get_edit_log_manifest("none", 1, in_progress_ok=False)
    with QJournalClient(*node.rpc_address, user="") as client:
        with pytest.raises(RpcError):
            client.get_edit_log_manifest("none", 1, in_progress_ok=False)
        reported = get(realm, "", node.url, "/metrics")[1]
    for line in (
        r'hdfs_journalnode_logins_total{result="accepted",server="http"} [1-9]',
        r'hdfs_journalnode_logins_total{result="accepted",server="rpc"} [1-9]',
        r'hdfs_journalnode_rpc_connections{protection="privacy"} [1-9]',
        "hdfs_journalnode_ticket_end_timestamp_seconds 1",
    ):
        assert re.search(line, reported), (line, reported)


def test_callers_other_than_namenodes_are_refused(realm: Kdc, node: JournalNodeServer) -> None:
    for who in ("sn", "jn", *USERS):
        log_in(login(realm, who))
        with (
            QJournalClient(*node.rpc_address, user="") as client,
            pytest.raises(NotAuthorizedError, match=r"nn/_HOST@TEST.REALM \(dfs.namenode.kerberos.principal\)"),
        ):
            client.get_journal_state(JOURNAL)
    log_in(None)
    with (
        QJournalClient(*node.rpc_address, user="hdfs") as client,
        pytest.raises(AuthenticationRequiredError, match="SIMPLE authentication is not enabled"),
    ):
        client.get_journal_state(JOURNAL)


def test_each_protocol_accepts_only_its_own_callers(realm: Kdc, node: JournalNodeServer) -> None:
    log_in(login(realm, "jn"))
    with InterQJournalClient(*node.rpc_address, user="") as client, pytest.raises(RpcError, match="not formatted"):
        client.get_storage_info("none")
    log_in(login(realm, "nn"))
    with InterQJournalClient(*node.rpc_address, user="") as client, pytest.raises(NotAuthorizedError):
        client.get_storage_info("none")


def test_acls_of_hadoop_policy_apply(realm: Kdc, tmp_path: Path) -> None:
    settings = conf(realm, tmp_path)
    write_site(settings.folder, {"security.qjournal.service.protocol.acl": "somebody admins"}, "hadoop-policy.xml")
    log_in(login(realm, "nn"))
    with (
        running(settings) as server,
        QJournalClient(*server.rpc_address, user="") as client,
        pytest.raises(NotAuthorizedError, match=r"denied by security.qjournal.service.protocol.acl \(somebody, group"),
    ):
        client.get_journal_state(JOURNAL)


def test_access_lists_are_reloaded(realm: Kdc, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Reload lists as `hdfs dfsadmin -refreshServiceAcl` does; the old lists stay in effect if a new list is broken."""
    caplog.set_level("INFO")
    places = {f"dfs.journalnode.{each}-address": f"localhost:{free_port()}" for each in ("rpc", "http")}
    settings = conf(realm, tmp_path)
    settings.update(places)
    policy = settings.folder / "hadoop-policy.xml"
    control, key = Control(stop_within=30.0), "security.qjournal.service.protocol.acl"
    answers: list[str] = []

    def read() -> JournalNodeConfig:
        return JournalNodeConfig.from_configuration(Configuration.load(settings.folder, {}))

    def reload(text: str, reported: str) -> str:
        """Return the response to the NameNode after the reload."""
        policy.write_text(text)
        seen = caplog.text.count(reported)
        control.reload()
        wait_until(lambda: caplog.text.count(reported) > seen, reported)
        with QJournalClient(*settings_rpc, user="") as client:
            try:
                client.get_journal_state("none")
            except RpcError as error:
                return type(error).__name__
        return ""

    settings_rpc = ("localhost", int(places["dfs.journalnode.rpc-address"].rpartition(":")[2]))
    log_in(login(realm, "nn"))
    running = threading.Thread(target=run_journal_node, args=(read(), control), kwargs={"reload": read})
    running.start()
    try:
        wait_until(lambda: port_is_open(settings_rpc), "the JournalNode")
        answers.append(reload("<configuration/>", "the access lists were reloaded: nothing changed"))
        answers.append(reload(site_xml({key: "somebody"}), f"reloaded: {key} (unset) → (somebody)"))
        answers.append(reload("<configuration><", "is invalid; the previous configuration still applies"))
        answers.append(reload(site_xml({key: "somebody,hdfs"}), f"{key} (somebody) → (hdfs, somebody)"))
        assert "take effect only after a restart" not in caplog.text
        settings.update({"dfs.journalnode.handler.count": "3"})
        answers.append(reload(site_xml({key: "*"}), "other changed settings take effect only after a restart"))
    finally:
        control.stop()
        running.join(600)
    refused, served = "NotAuthorizedError", "JournalNotFormattedError"
    assert answers == [served, refused, refused, served, served]


STATE = (401, 200, 200, 200, 200, 200)
PATHS = {
    # the node is not formatted, and permitted callers receive that error
    f"/getJournal?jid={JOURNAL}&segmentTxId=1": (401, 500, 500, 500, 403, 403),
    "/jmx": STATE,
    "/status": STATE,
    "/nothing": (401, 404, 404, 404, 404, 404),
    "/health/live": (200,) * 6,
    "/metrics": (200,) * 6,
}


@pytest.mark.parametrize("path", PATHS)
def test_permissions_of_each_caller(realm: Kdc, node: JournalNodeServer, path: str) -> None:
    """nn, sn and jn map to the node's user or are listed; the superuser's own principal is refused."""
    assert tuple(get(realm, who, node.url, path)[0] for who in EVERYBODY) == PATHS[path]


def test_a_refusal_names_the_actual_and_the_expected_callers(realm: Kdc, node: JournalNodeServer) -> None:
    status, message, headers = get(realm, "alice", node.url, f"/getJournal?jid={JOURNAL}&segmentTxId=1")
    assert status == 403
    assert message.startswith(
        "Only Namenode and another JournalNode may access this servlet; alice@TEST.REALM (user al"
    )
    for expected in (f"nn/localhost@{REALM} (dfs.namenode.kerberos.principal)", f"sn/localhost@{REALM}", "user jn"):
        assert expected in message
    # a known caller that is refused still receives a token and a cookie, as in Hadoop
    assert headers["WWW-Authenticate"].startswith("Negotiate ")
    assert headers["Set-Cookie"].startswith('hadoop.auth="u=alice&p=alice@TEST.REALM&t=kerberos&e=')


def test_many_simultaneous_logins(realm: Kdc, node: JournalNodeServer) -> None:
    """Tokens of one principal at the same moment are not replays."""
    log_in(login(realm, "nn", Protection.INTEGRITY))

    def ask(number: int) -> str:
        with QJournalClient(*node.rpc_address, user="", timeout=600) as client:
            try:
                client.get_journal_state(f"none{number}")
            except RpcError as error:
                return type(error).__name__
        return ""

    with ThreadPoolExecutor(50) as pool:
        assert set(pool.map(ask, range(50))) == {"JournalNotFormattedError"}


def test_a_replayed_token_is_refused(realm: Kdc, node: JournalNodeServer) -> None:
    log_in(login(realm, "nn"))
    headers = Spnego("localhost").headers
    answers = [requests.get(f"{node.url}/status", headers=headers, timeout=600) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 403]
    assert "replay" in answers[1].text
    security = security_for(ServerKind.JOURNALNODE, "localhost")
    assert security is not None
    token = security.context("jn", "localhost").step(None)
    auth = pb.RpcSaslProto.SaslAuth(method="KERBEROS", mechanism="GSSAPI", protocol="jn", serverId="localhost")
    step = pb.RpcSaslProto(state=pb.RpcSaslProto.INITIATE, token=token, auths=[auth])
    first = connection_header(AuthProtocol.SASL) + sasl_request_frame(step)
    message = []
    for _ in range(2):
        with socket.create_connection(node.rpc_address, timeout=600) as connection:
            connection.sendall(first)
            message.append(connection.recv(4096))
    assert b"SaslException" not in message[0]
    assert b"GSS initiate failed: Request is a replay" in message[1]


@pytest.mark.parametrize("what", ["web", "own", "secret", "name"])
def test_unusable_login_settings_prevent_a_start(realm: Kdc, tmp_path: Path, what: str) -> None:
    secret = tmp_path / "secret"
    secret.touch()
    settings, message = {
        "web": (
            {"dfs.web.authentication.kerberos.keytab": str(realm.root / "hdfs.keytab")},
            "no key of HTTP/localhost",
        ),
        "own": ({"dfs.journalnode.keytab.file": str(realm.root / "hdfs.keytab")}, "no key of jn/localhost"),
        "secret": ({"hadoop.http.authentication.signature.secret.file": str(secret)}, "it is empty"),
        "name": ({"hadoop.security.auth_to_local": "RULE:[1:$1]"}, "has no short name: No rules applied to jn/"),
    }[what]
    broken = conf(realm, tmp_path)
    broken.update(settings)
    config = JournalNodeConfig.from_configuration(Configuration.load(broken.folder, {}))
    with pytest.raises(KerberosSetupError, match=message) as caught:
        JournalNodeServer(config)
    assert caught.value.exit_code == 2
