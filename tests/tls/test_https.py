"""Our HTTPS server with trusting, distrusting and silent clients."""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import socket
import ssl
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from checkpointer import transfer
from checkpointer.errors import TLS_HINT, TransferError
from checkpointer.transfer import UploadResult
from hadoop_common.cluster_http import send_request
from hadoop_common.paced_socket import PacedSocket
from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.tls.errors import TlsSetupError
from hadoop_common.tls.reloading import HANDSHAKES, ServerTls, store_states, use_client
from hadoop_common.tls.settings import TlsConfig
from hadoop_common.tls.sockets import TlsSocket
from image_format.md5_file import read_md5_file
from servlets.metrics import server_families
from tests.namenode_stub.stub_support import wait_until
from tests.servlets.support import INFO, NEW_TXID, OLD_IMAGE, OLD_TXID, PATIENT, Served, make_store, padded_image, serve
from tests.tls.certificates import Identity, authority, self_signed, tls_folder

WAIT = 600.0
download_image = partial(transfer.download_image, timeout=WAIT)
upload_image = partial(transfer.upload_image, timeout=WAIT)


@pytest.fixture(scope="module")
def ca() -> Identity:
    return authority()


@contextmanager
def https(tmp_path: Path, config: TlsConfig, **limits: float) -> Iterator[Served]:
    patient = replace(PATIENT, **limits)
    with serve(make_store(tmp_path / "store"), tls=ServerTls(config), limits=patient) as served:
        yield served


def at(served: Served, host: str) -> str:
    return f"https://{host}:{served.address[1]}"


def context_of(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "trusted.pem"))


@contextmanager
def greeted(served: Served, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with context.wrap_socket(socket.create_connection(served.address, WAIT), server_hostname="localhost") as tls:
        yield tls


def test_images_and_small_responses_are_sent_over_tls(tmp_path: Path, ca: Identity) -> None:
    config = tls_folder(tmp_path / "conf", ca.issue(), [ca])
    use_client(config)
    with https(tmp_path, config) as served:
        url = at(served, "localhost")
        assert served.url.startswith("https://")
        got = download_image(url, OLD_TXID, INFO, [tmp_path])
        assert got.paths[0].read_bytes() == OLD_IMAGE.read_bytes()
        md5 = padded_image(tmp_path / "large", 5_000_000)
        assert upload_image(url, tmp_path / "large", md5, NEW_TXID, INFO) is UploadResult.SUCCESS
        assert served.store.received[0][3] == 5_000_000
        assert send_request("GET", f"{url}/imagetransfer?getimage=1", timeout=WAIT).status == 410


def test_metrics_contain_the_seconds_until_certificates_expire(tmp_path: Path, ca: Identity) -> None:
    own, sooner = ca.issue(end=20), ca.issue(end=10)
    config = tls_folder(tmp_path / "conf", own, [ca, sooner], need_client_certificate=True)
    use_client(tls_folder(tmp_path / "client", None, [ca]), at_once=True)
    now = 1_700_000_000.0
    with https(tmp_path, config):
        families = {family.name: family.samples for family in server_families("hdfs_test", {}, now)}
    ends = {
        name: {each.labels["side"]: each.value + now for each in families[f"hdfs_test_tls_{name}_end_seconds"]}
        for name in ("certificate", "trust")
    }
    trusted = {"server": expiry(sooner), "client": expiry(ca)}
    assert ends == {"certificate": {"server": expiry(own)}, "trust": trusted}


def expiry(identity: Identity) -> float:
    return identity.chain[0].not_valid_after_utc.timestamp()


def test_a_file_is_sent_over_tls_with_little_memory(tmp_path: Path, ca: Identity) -> None:
    config = tls_folder(tmp_path / "conf", ca.issue(), [ca])
    (tmp_path / "file").write_bytes(content := bytes(range(251)) * 16_000)
    ours, theirs = socket.socketpair()
    received = hashlib.sha256()

    def receive() -> None:
        with context_of(tmp_path / "conf").wrap_socket(theirs, server_hostname="localhost") as tls:
            while data := tls.recv(1 << 16):
                received.update(data)

    receiver = threading.Thread(target=receive)
    receiver.start()
    with ServerTls(config).context.wrap_socket(ours, server_side=True) as tls, (tmp_path / "file").open("rb") as file:
        tls.setblocking(False)
        paced = PacedSocket(tls, PortLimits(), Refusals(), lambda: False)
        tracemalloc.start()
        # the file is shorter than requested
        assert paced.sendfile(file, 7, len(content)) == len(content) - 7
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        tracemalloc.stop()
        tls.shutdown(socket.SHUT_WR)
    receiver.join()
    assert received.digest() == hashlib.sha256(content[7:]).digest()


def test_a_client_receives_an_early_refusal(tmp_path: Path, ca: Identity) -> None:
    """The response arrives while the client still sends the body; TLS 1.3 tickets are not a response."""
    config = tls_folder(tmp_path / "conf", ca.issue(), [ca])
    use_client(config)
    with https(tmp_path, config) as served:
        served.store.active = False
        md5 = padded_image(tmp_path / "large", 60_000_000)
        sent: list[int] = []
        result = upload_image(at(served, "localhost"), tmp_path / "large", md5, NEW_TXID, INFO, sent=sent.append)
        assert result is UploadResult.NOT_ACTIVE_NAMENODE_FAILURE
        assert sum(sent) < 60_000_000


def test_connections_are_kept_and_requests_pipelined(tmp_path: Path, ca: Identity) -> None:
    config = tls_folder(tmp_path / "conf", ca.issue(), [ca])
    with https(tmp_path, config) as served, greeted(served, context_of(tmp_path / "conf")) as tls:
        request = b"GET /imagetransfer?getimage=1 HTTP/1.1\r\nHost: x\r\n\r\n"
        tls.sendall(request * 3)
        received = b""
        while received.count(b"HTTP/1.1 410") < 3:
            received += tls.recv(65536)
        tls.sendall(request)
        assert tls.recv(65536).startswith(b"HTTP/1.1 410")


@pytest.mark.parametrize(
    ("make", "expected_message"),
    [
        (lambda ca: ca.issue(begin=-5, end=-1), "its certificate has expired: renew it on that host"),
        (lambda ca: ca.issue(begin=2), "is not valid yet: compare the clocks"),
        (lambda ca: self_signed(), "is self-signed and not in our trust store: import it with keytool"),
        (lambda ca: authority("Other").issue(), "is not in our trust store: import it with keytool"),
        (lambda ca: ca.issue(["else.example"]), "is not valid for localhost: subjectAltName must contain the name"),
    ],
    ids=["expired", "early", "self-signed", "unknown", "another-host"],
)
def test_an_untrusted_server_is_reported_in_one_sentence(
    tmp_path: Path, ca: Identity, make, expected_message: str
) -> None:
    use_client(tls_folder(tmp_path / "conf", None, [ca]))
    with https(tmp_path, tls_folder(tmp_path / "server", make(ca))) as served:
        for call in (
            lambda url: download_image(url, OLD_TXID, INFO, [tmp_path]),
            lambda url: upload_image(url, OLD_IMAGE, read_md5_file(OLD_IMAGE).hex(), OLD_TXID, INFO),
        ):
            with pytest.raises(TransferError) as caught:
                call(at(served, "localhost"))
            assert expected_message in caught.value.message
            assert "_ssl.c" not in caught.value.message
            # the server answers, and its address is correct
            assert caught.value.hint == TLS_HINT


@pytest.mark.parametrize(("end", "level", "verb"), [(-1, "ERROR", "expired on"), (9, "INFO", "expires on")])
def test_an_expired_certificate_is_an_error_in_the_log(
    tmp_path: Path, ca: Identity, caplog: pytest.LogCaptureFixture, end: int, level: str, verb: str
) -> None:
    with caplog.at_level("INFO"):
        ServerTls(tls_folder(tmp_path, ca.issue(begin=-9, end=end), [ca]))
    assert [(each.levelname, verb in each.message) for each in caplog.records] == [(level, True)]


def test_a_self_signed_certificate_in_the_trust_store_is_accepted(tmp_path: Path) -> None:
    own = self_signed()
    config = tls_folder(tmp_path / "conf", own, [own])
    use_client(config)
    with https(tmp_path, config) as served:
        assert download_image(at(served, "localhost"), OLD_TXID, INFO, [tmp_path]).paths


def test_the_common_name_is_used_if_no_alternative_name_exists(tmp_path: Path, ca: Identity) -> None:
    use_client(tls_folder(tmp_path / "conf", None, [ca]))
    with https(tmp_path, tls_folder(tmp_path / "server", ca.issue([], common_name="localhost"))) as served:
        assert download_image(at(served, "localhost"), OLD_TXID, INFO, [tmp_path]).paths


def test_plain_http_on_either_side_is_reported(tmp_path: Path, ca: Identity) -> None:
    config = tls_folder(tmp_path / "conf", ca.issue(), [ca])
    use_client(config)
    with https(tmp_path, config) as served:
        with pytest.raises(TransferError):
            download_image(f"http://localhost:{served.address[1]}", OLD_TXID, INFO, [tmp_path])
        with socket.create_connection(served.address, WAIT) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"this port speaks HTTPS" in plain.recv(4096)
    with serve(make_store(tmp_path / "plain")) as served, pytest.raises(TransferError, match="uses HTTP without TLS"):
        download_image(at(served, "localhost"), OLD_TXID, INFO, [tmp_path])


def test_clients_present_their_certificate_on_request(tmp_path: Path, ca: Identity) -> None:
    config = tls_folder(tmp_path / "conf", ca.issue(), [ca], need_client_certificate=True, offer_certificate=True)
    before = HANDSHAKES.counts()
    with https(tmp_path, config) as served:
        url = at(served, "localhost")
        use_client(config)
        assert download_image(url, OLD_TXID, INFO, [tmp_path]).paths
        use_client(tls_folder(tmp_path / "none", None, [ca]))
        with pytest.raises(TransferError, match="requires our certificate"):
            download_image(url, OLD_TXID, INFO, [tmp_path / "none"])
        strange = authority("Strange").issue()
        use_client(tls_folder(tmp_path / "strange", strange, [ca], offer_certificate=True))
        with pytest.raises(TransferError, match="does not trust the certificate of this side"):
            download_image(url, OLD_TXID, INFO, [tmp_path / "strange"])
        refused = ("server", "certificate")
        wait_until("both refusals", lambda: HANDSHAKES.counts().get(refused, 0) - before.get(refused, 0) == 2)


def test_a_hundred_silent_clients_do_not_disturb_others(tmp_path: Path, ca: Identity) -> None:
    config = tls_folder(tmp_path / "conf", ca.issue(), [ca])
    use_client(config)
    with https(tmp_path, config, peer_connections=100, opening=3600) as served, ExitStack() as strangers:
        for number in range(100):
            peer = strangers.enter_context(socket.create_connection(served.address, WAIT))
            # nothing, or the beginning of a ClientHello
            peer.sendall(b"\x16\x03\x01\x02\x00"[: number % 6])
        for _ in range(3):
            assert download_image(at(served, "localhost"), OLD_TXID, INFO, [tmp_path]).paths


def test_a_slow_handshake_does_not_block_others(tmp_path: Path, ca: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handshakes with another address run one at a time; open connections continue, and new connections are
    accepted.
    """
    config = tls_folder(tmp_path / "conf", ca.issue(), [ca])
    use_client(config)
    entered, release, shake_hands = threading.Event(), threading.Event(), TlsSocket.do_handshake

    def slow(self: TlsSocket, block: bool = False) -> None:
        if self.server_side and self.getpeername()[0] == "127.0.0.2":
            entered.set()
            assert release.wait(WAIT)
        shake_hands(self, block)

    monkeypatch.setattr(TlsSocket, "do_handshake", slow)
    with https(tmp_path, config) as served, ExitStack() as strangers:
        standing = strangers.enter_context(greeted(served, context_of(tmp_path / "conf")))
        for _ in range(5):
            strange = socket.create_connection(served.address, WAIT, source_address=("127.0.0.2", 0))
            strangers.enter_context(strange).sendall(b"\x16\x03")
        assert entered.wait(WAIT)
        try:
            assert download_image(at(served, "localhost"), OLD_TXID, INFO, [tmp_path]).paths
            standing.sendall(b"GET /imagetransfer?getimage=1 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert standing.recv(65536).startswith(b"HTTP/1.1 410")
        finally:
            release.set()


def test_a_silent_client_is_disconnected_after_the_time_limit(tmp_path: Path, ca: Identity) -> None:
    with https(tmp_path, tls_folder(tmp_path / "conf", ca.issue()), opening=0.2) as served:
        with socket.create_connection(served.address, WAIT) as peer, suppress(ConnectionResetError):
            assert peer.recv(1) == b""
        assert served.server.refusals.counts() == {"slow handshake": 1}


def subject_seen(served: Served) -> bytes | None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(served.address, WAIT) as plain, context.wrap_socket(plain) as tls:
        return tls.getpeercert(binary_form=True)


def replaced(path: Path, data: bytes) -> None:
    aside = path.with_suffix(".new")
    aside.write_bytes(data)
    aside.replace(path)


def test_a_certificate_can_be_replaced_during_transfers(
    tmp_path: Path, ca: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    conf = tmp_path / "conf"
    first, second = ca.issue(), ca.issue()
    config = tls_folder(conf, first, [ca])
    use_client(config)
    with https(tmp_path, config) as served:
        context = context_of(conf)
        running = http.client.HTTPSConnection("localhost", served.address[1], timeout=WAIT, context=context)
        running.request("GET", "/imagetransfer?getimage=1")
        assert running.getresponse().read()
        seen = subject_seen(served)
        replaced(conf / "own.p12", second.pkcs12())
        wait_until("the change", lambda: subject_seen(served) != seen)
        # the old connection continues
        running.request("GET", "/imagetransfer?getimage=1")
        assert running.getresponse().read()
        running.close()
        replaced(conf / "own.p12", second.pkcs12()[:300])
        wait_until("the change", lambda: any(each.fault for each in store_states()))
        assert "the previous files stay active" in caplog.text
        assert download_image(at(served, "localhost"), OLD_TXID, INFO, [tmp_path]).paths
        replaced(conf / "own.p12", first.pkcs12())
        wait_until("the change", lambda: subject_seen(served) == seen)
        assert not any(each.fault for each in store_states())


def test_a_temporarily_unusable_store_is_tried_again(
    tmp_path: Path, ca: Identity, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_descriptor(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    conf = tmp_path / "conf"
    first, second = ca.issue(), ca.issue()
    server = ServerTls(tls_folder(conf, first, [ca]))
    before = server.context
    replaced(conf / "own.p12", second.pkcs12())
    with monkeypatch.context() as exhausted:
        exhausted.setattr(os, "memfd_create", no_descriptor)
        for _ in range(2):
            server.reload_if_changed(now=True)
    assert (server.context, server.fault) == (before, "Too many open files")
    (line,) = [each for each in caplog.messages if "previous files stay active" in each]
    assert "next: Raise the limit on open files" in line
    server.reload_if_changed(now=True)
    assert (server.context is before, server.fault) == (False, "")


def test_a_replaced_trust_store_is_used(tmp_path: Path, ca: Identity) -> None:
    conf = tmp_path / "conf"
    other = authority("Other")
    with https(tmp_path, tls_folder(tmp_path / "server", ca.issue())) as served:
        use_client(tls_folder(conf, None, [other]))
        with pytest.raises(TransferError):
            download_image(at(served, "localhost"), OLD_TXID, INFO, [tmp_path])
        replaced(conf / "trusted.pem", ca.certificate)

        def trusted() -> bool:
            with suppress(TransferError):
                return bool(download_image(at(served, "localhost"), OLD_TXID, INFO, [tmp_path]).paths)
            return False

        wait_until("the change", trusted)


def test_excluded_cipher_suites_are_not_used(tmp_path: Path, ca: Identity) -> None:
    conf = tmp_path / "conf"
    config = tls_folder(conf, ca.issue(), [ca])
    xml = conf / "ssl-server.xml"
    given = xml.read_text()

    def exclude(value: str) -> None:
        row = f"<property><name>ssl.server.exclude.cipher.list</name><value>{value}</value></property>"
        xml.write_text(given.replace("</configuration>", f"{row}</configuration>"))

    exclude("TLS_AES_128_GCM_SHA256,.*_CBC_.*")
    with https(tmp_path, config) as served, greeted(served, context_of(conf)) as tls:
        assert (tls.version(), "CBC" in tls.cipher()[0]) == ("TLSv1.2", False)
    exclude(".*")
    with pytest.raises(TlsSetupError, match="leaves no cipher suite"):
        ServerTls(config)


def test_a_key_must_match_its_certificate(tmp_path: Path, ca: Identity) -> None:
    conf = tmp_path / "conf"
    config = tls_folder(conf, ca.issue(), [ca])
    one, other = ca.issue(), ca.issue()
    (conf / "own.p12").write_bytes(Identity(one.key, other.chain).pem())
    with pytest.raises(TlsSetupError, match="does not match its certificate"):
        ServerTls(config)
