"""Transfers that hang end soon after they are cancelled, and no later than their timeout."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from checkpointer.errors import TransferError
from checkpointer.transfer import TransferCancelledError, download_segment, upload_image
from checkpointer.transfer.common import TransferInterruptedError
from hadoop_common.tls.reloading import use_client
from hadoop_common.tls.settings import TlsConfig
from tests.servlets.support import INFO, OLD_IMAGE, OLD_TXID, names
from tests.socket_peer import read_head, scripted, scripted_web
from tests.tls.certificates import self_signed, tls_folder

# far longer than a test may take
FOREVER = 3600.0
LONG_ENOUGH = 600.0
# a server on a slow machine may need one of the later timeouts to begin its response
TIMEOUTS = (0.4, 4.0, 40.0)

Transfer = Callable[[str, Path, Callable[[], bool], float], object]


def download(url: str, folder: Path, cancel: Callable[[], bool], timeout: float) -> object:
    return download_segment(url, 1, 2, INFO, [folder], timeout=timeout, cancel=cancel)


def upload(url: str, folder: Path, cancel: Callable[[], bool], timeout: float) -> object:
    return upload_image(url, OLD_IMAGE, "0" * 32, OLD_TXID, INFO, timeout=timeout, cancel=cancel)


TRANSFERS = pytest.mark.parametrize("transfer", [download, upload])


@contextmanager
def hanging(answer: bytes) -> Iterator[tuple[str, threading.Event]]:
    """Serve `answer`, then nothing more; yield the server's address, and an event that is set once it has answered."""
    message, ended = threading.Event(), threading.Event()

    def hang(peer: socket.socket) -> None:
        # the client may have disconnected already
        with suppress(OSError):
            peer.sendall(answer)
        message.set()
        ended.wait(LONG_ENOUGH)

    with scripted(hang) as (host, port):
        try:
            yield f"{host}:{port}", message
        finally:
            ended.set()


@contextmanager
def server_with_full_backlog() -> Iterator[str]:
    """Yield an address at which connections are no longer accepted, so that the kernel leaves them waiting."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for each in fillers:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for each in fillers:
                each.close()


def ends(transfer: Transfer, url: str, folder: Path, cancel: Callable[[], bool], timeout: float) -> Exception:
    """Return the error with which a transfer fails before the timeout."""
    faults: list[Exception] = []

    def run() -> None:
        try:
            transfer(url, folder, cancel, timeout)
        except Exception as fault:
            faults.append(fault)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONG_ENOUGH)
    assert not thread.is_alive(), "the transfer still hangs"
    return faults[0]


@TRANSFERS
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_transfer_from_a_silent_server_ends(tmp_path: Path, transfer: Transfer, scheme: str) -> None:
    with hanging(b"") as (address, message):
        fault = ends(transfer, f"{scheme}://{address}", tmp_path, message.is_set, FOREVER)
    assert isinstance(fault, TransferCancelledError)
    with hanging(b"") as (address, _):
        fault = ends(transfer, f"{scheme}://{address}", tmp_path, lambda: False, 0.4)
    assert isinstance(fault, TransferError)
    assert "no progress for 0.4 s" in str(fault)
    assert names(tmp_path) == []


@TRANSFERS
def test_transfer_ends_if_the_server_accepts_no_connection(tmp_path: Path, transfer: Transfer) -> None:
    asked = iter(range(100))
    with server_with_full_backlog() as address:
        fault = ends(transfer, f"http://{address}", tmp_path, lambda: next(asked) > 2, FOREVER)
        assert isinstance(fault, TransferCancelledError)
        fault = ends(transfer, f"http://{address}", tmp_path, lambda: False, 0.4)
    assert "no progress for 0.4 s" in str(fault)


def test_download_ends_if_the_body_stops(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"
    with hanging(answer) as (address, message):
        fault = ends(download, f"http://{address}", tmp_path, message.is_set, FOREVER)
    assert isinstance(fault, TransferCancelledError)
    for timeout in TIMEOUTS:
        with hanging(answer) as (address, _):
            fault = ends(download, f"http://{address}", tmp_path, lambda: False, timeout)
        if "of 100 bytes" in str(fault):
            break
    assert isinstance(fault, TransferInterruptedError)
    assert f"of 100 bytes: no progress for {timeout:g} s" in str(fault)
    assert names(tmp_path) == []


def test_slow_body_causes_no_timeout(tmp_path: Path) -> None:
    """The timeout applies to each wait instead of the whole transfer."""

    def slowly(peer: socket.socket) -> None:
        read_head(peer)
        pause = timeout / 8
        with suppress(BrokenPipeError, ConnectionResetError):
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
            for _ in range(12):
                threading.Event().wait(pause)
                peer.sendall(b"x")

    found: list[bytes] = []
    for timeout in TIMEOUTS:
        # on a slow machine, a single wait may take longer than the first timeouts
        with scripted_web(slowly) as url, suppress(TransferError):
            (path,) = download_segment(url, 1, 2, INFO, [tmp_path], timeout=timeout).paths
            found.append(path.read_bytes())
            break
    assert found == [b"x" * 12]


def test_cancelled_transfer_does_not_start(tmp_path: Path) -> None:
    for transfer in (download, upload):
        with pytest.raises(TransferCancelledError):
            transfer("http://127.0.0.1:1", tmp_path, lambda: True, FOREVER)


# ---- TLS ---------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> Iterator[Path]:
    """A certificate for localhost with its key, which this process trusts."""
    own = self_signed(["localhost"])
    use_client(tls_folder(tmp_path / "conf", None, [own]))
    made = tmp_path / "tls.pem"
    made.write_bytes(own.pem())
    yield made
    use_client(TlsConfig())


@contextmanager
def tls_server(certificate: Path, answer: bytes, *, hang: bool) -> Iterator[tuple[str, threading.Event]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    message, ended = threading.Event(), threading.Event()

    def play(plain: socket.socket) -> None:
        # a client disconnects if it does not trust the certificate, or when it has waited long enough
        with suppress(OSError), context.wrap_socket(plain, server_side=True) as peer:
            peer.recv(4096)
            peer.sendall(answer)
            message.set()
            if hang:
                ended.wait(LONG_ENOUGH)

    with scripted(play) as (_, port):
        try:
            yield f"https://localhost:{port}", message
        finally:
            ended.set()


def test_segment_download_over_tls(certificate: Path, tmp_path: Path) -> None:
    folder = tmp_path / "edits"
    folder.mkdir()
    body = bytes(range(256)) * 4096
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with tls_server(certificate, answer, hang=False) as (url, _):
        (path,) = download_segment(url, 1, 2, INFO, [folder], timeout=600).paths
    assert path.read_bytes() == body


def test_download_over_tls_ends_if_the_body_stops(certificate: Path, tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"
    with tls_server(certificate, answer, hang=True) as (url, message):
        assert isinstance(ends(download, url, tmp_path, message.is_set, FOREVER), TransferCancelledError)
    for timeout in TIMEOUTS:
        with tls_server(certificate, answer, hang=True) as (url, _):
            fault = ends(download, url, tmp_path, lambda: False, timeout)
        if "of 100 bytes" in str(fault):
            break
    assert isinstance(fault, TransferInterruptedError)
    assert f"of 100 bytes: no progress for {timeout:g} s" in str(fault)


def test_untrusted_certificate_is_an_error(certificate: Path, tmp_path: Path) -> None:
    use_client(tls_folder(tmp_path / "other", None, [self_signed()]))
    with (
        tls_server(certificate, b"", hang=False) as (url, _),
        pytest.raises(TransferError, match="is self-signed and not in our trust store"),
    ):
        download_segment(url, 1, 2, INFO, [tmp_path])
