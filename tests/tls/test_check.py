"""`check --only tls` names each failing step with the next action."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.checks.ask_namenode import ask_http
from checkpointer.checks.ask_tls import ask_files, ask_peer, peers
from checkpointer.checks.facts import Facts, TlsStep
from checkpointer.checks.thresholds import Thresholds, parse_thresholds
from checkpointer.checks.tls_checks import check_tls
from checkpointer.checks.verdict import CheckVerdict, State
from checkpointer.errors import TLS_HINT as TRANSFER_TLS_HINT
from checkpointer.errors import TransferError
from hadoop_common.configuration import Configuration
from hadoop_common.tls.reloading import ServerTls, use_client
from hadoop_common.tls.settings import TlsConfig, WebAddresses
from journal.quorum.errors import TLS_HINT, SegmentFetchError
from journal.quorum.http_source import http_source
from journal.quorum.node_answers import NodeAnswer, _of_namespace
from journal.quorum.settings import QuorumSettings
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.cli_runner import run_cli
from tests.servlets.support import INFO, OLD_IMAGE, make_store, serve
from tests.tls.certificates import STORE_PASSWORD, Identity, authority, self_signed, tls_folder, write_xml


@pytest.fixture(scope="module")
def ca() -> Identity:
    return authority()


def config_of(tls: TlsConfig, policy: str = "HTTPS_ONLY") -> CheckpointConfig:
    values = {"fs.defaultFS": "hdfs://localhost:1", "dfs.http.policy": policy}
    values["dfs.namenode.https-address"] = "localhost:2"
    found = CheckpointConfig.from_configuration(Configuration.from_mapping(values, {"USER": "hdfs"}), Role.SECONDARY)
    return replace(found, web=WebAddresses(None, ("localhost", 0), tls))


def verdict(steps: tuple[TlsStep, ...] | None, **thresholds: str) -> CheckVerdict:
    facts = Facts(now=time.time(), period=1, transactions=1, reserved=0, tls=steps)
    given = {name: parse_thresholds([value]) for name, value in thresholds.items()}
    return check_tls(facts, Thresholds(**given))


def private(tls: TlsConfig) -> TlsConfig:
    assert tls.folder is not None
    for path in tls.folder.iterdir():
        path.chmod(0o600)
    return tls


def judged(tls: TlsConfig) -> CheckVerdict:
    return verdict(ask_files(config_of(private(tls)), time.time()))


def test_a_valid_setup_is_ok(tmp_path: Path, ca: Identity) -> None:
    found = judged(tls_folder(tmp_path, ca.issue(), [ca]))
    assert found.state is State.OK, found
    assert "our certificate is valid for 30 days" in found.summary
    assert found.details[-1] == "a client with our trust store accepts our certificate for localhost: ok"
    assert verdict(None).summary == "HTTPS is not used: dfs.http.policy is HTTP_ONLY"


@pytest.mark.parametrize(
    ("own", "state", "message", "hint"),
    [
        (
            lambda ca: ca.issue(begin=-9, end=-1),
            State.CRITICAL,
            "server: our certificate of CN=localhost expired on",
            "Renew",
        ),
        (lambda ca: ca.issue(begin=1), State.CRITICAL, "certificate of CN=localhost is not valid before", "clock"),
        (lambda ca: ca.issue(end=9), State.WARNING, "our certificate is valid for", ""),
        (lambda ca: ca.issue(["else.example"]), State.CRITICAL, "rejects our certificate for localhost", "names"),
        (lambda ca: authority("Other").issue(), State.CRITICAL, "is not in our trust store", "chain"),
        (lambda ca: self_signed(), State.CRITICAL, "is self-signed", "trust store"),
    ],
)
def test_a_failed_step_is_named(tmp_path: Path, ca: Identity, own, state: State, message: str, hint: str) -> None:
    tls = tls_folder(tmp_path, ca.issue(), [ca])
    made = own(ca)
    (tmp_path / "own.p12").write_bytes(made.pem() if state is State.CRITICAL else made.pkcs12())
    found = judged(tls)
    assert (found.state, message in found.summary, hint in found.hint) == (state, True, True), found


def test_missing_files_and_wrong_passwords_are_named(tmp_path: Path, ca: Identity) -> None:
    tls = tls_folder(tmp_path, ca.issue(), [ca])
    (tmp_path / "own.p12").unlink()
    assert "own.p12 cannot be read: No such file" in judged(tls).summary
    (tmp_path / "own.p12").write_bytes(ca.issue().pkcs12("another"))
    assert "the password of the store is wrong" in judged(tls).summary
    properties = {"ssl.server.keystore.location": str(tmp_path / "own.p12")}
    write_xml(tls.server_file, properties)
    assert "ssl.server.keystore.password of" in judged(tls).summary
    properties["hadoop.security.credential.provider.path"] = "jceks://hdfs@nn/x.jceks"
    write_xml(tls.server_file, properties)
    assert "jceks://hdfs@nn, which is not supported" in judged(tls).summary
    properties["hadoop.security.credential.provider.path"] = f"localjceks://file{tmp_path}/own.p12"
    write_xml(tls.server_file, properties)
    assert "the credential provider" in judged(tls).summary
    tls.server_file.write_text("<configuration>")
    assert "as the daemon's user" in judged(tls).hint
    tls.server_file.unlink()
    assert "ssl-server.xml is missing" in judged(tls).summary


def test_a_key_that_others_can_read_is_reported(tmp_path: Path, ca: Identity) -> None:
    tls, store = tls_folder(tmp_path, ca.issue(), [ca]), tmp_path / "own.p12"
    store.chmod(0o640)
    assert verdict(ask_files(config_of(tls), time.time())).state is State.OK
    store.chmod(0o644)
    found = verdict(ask_files(config_of(tls), time.time()))
    assert found.state is State.WARNING
    # the other daemons of the host must still be able to read the store
    assert found.hint.startswith(f"Run chgrp GROUP {store} && chmod 640 {store}")


def test_thresholds_of_the_certificates_end() -> None:
    step = TlsStep("our certificate", ends=time.time() + 86400.0 * 20)
    assert verdict((step,)).state is State.OK
    assert verdict((step,), warning="tls=30d").state is State.WARNING
    assert verdict((step,), critical="tls=30d").state is State.CRITICAL


def test_peers_are_checked_over_tls(tmp_path: Path, ca: Identity) -> None:
    tls = tls_folder(tmp_path / "conf", ca.issue(), [ca])
    assert peers(config_of(tls)) == ["https://localhost:2"]
    use_client(tls)
    with serve(make_store(tmp_path / "store"), tls=ServerTls(tls)) as served:
        port = served.address[1]
        assert ask_peer(f"https://localhost:{port}", timeout=600).error == ""
        # segments of JournalNodes are fetched in the same way
        query = f"getimage=1&txid=51&imageFile=IMAGE&storageInfo={INFO.colon_string()}"
        fetched = http_source(QuorumSettings())(f"https://localhost:{port}/imagetransfer?{query}")
        assert bytes(fetched) == OLD_IMAGE.read_bytes()
    stopped = ask_peer(f"https://localhost:{port}", timeout=600)
    assert ("Connection refused" in stopped.error, "dfs.http.policy" in stopped.hint) == (True, True)
    with serve(make_store(tmp_path / "plain")) as served:
        plain = ask_peer(url := f"https://localhost:{served.address[1]}", timeout=600)
        with pytest.raises(TransferError) as unread:
            ask_http(url, timeout=600)
        assert unread.value.hint == TRANSFER_TLS_HINT
        with pytest.raises(SegmentFetchError) as caught:
            http_source(QuorumSettings())(f"{url}/getJournal")
        assert caught.value.hint == TLS_HINT
        found = _of_namespace(NodeAnswer("jn1:8485"), f"{url}/getJournal", 600)
        assert ("uses HTTP without TLS" in found.http_fault, found.hint) == (True, TLS_HINT)
    assert ("uses HTTP without TLS" in plain.error, "certificate" in plain.hint) == (True, True)


def test_check_command_reports_invalid_stores(tmp_path: Path, ca: Identity) -> None:
    private(tls_folder(tmp_path, ca.issue(), [ca]))
    write_xml(
        tmp_path / "hdfs-site.xml",
        {
            "fs.defaultFS": "hdfs://localhost:1",
            "dfs.http.policy": "HTTPS_ONLY",
            "dfs.namenode.https-address": "localhost:1",
            "dfs.namenode.secondary.https-address": "localhost:2",
        },
    )
    done = run_cli("check", "--conf", tmp_path, "--only", "tls")
    assert done.code == State.CRITICAL
    assert "handshake with localhost:1 fails: Connection refused" in done.out
    assert STORE_PASSWORD not in done.out
    # a daemon with unusable stores does not start
    (tmp_path / "own.p12").write_bytes(b"no store")
    done = run_cli("run", "--conf", tmp_path)
    assert (done.code, "neither a JKS, JCEKS or PKCS12 store" in done.err) == (2, True), done.err


def test_a_missing_client_certificate_is_critical(tmp_path: Path, ca: Identity) -> None:
    tls = replace(tls_folder(tmp_path, ca.issue(), [ca]), need_client_certificate=True)
    found = judged(tls)
    assert found.state is State.CRITICAL
    assert found.summary.startswith("our server refuses a client with our configuration: it sent no certificate")
    assert found.hint.startswith("Set hadoop.ssl.require.client.cert to true")
    assert judged(replace(tls, offer_certificate=True)).state is State.OK
