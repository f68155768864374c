"""One upload of an image: the request, its answers and its faults."""

from __future__ import annotations

import hashlib
import os
import socket
import threading

import pytest

from checkpointer.errors import TransferError
from checkpointer.transfer import TransferCancelledError, UploadResult, upload_image
from hadoop_common.names import image_name
from hadoop_common.throttle import Throttle
from servlets.image_transfer_servlet import TransferOptions
from tests.namenode_stub.stub_support import wait_until
from tests.servlets.support import (
    INFO,
    NEW_IMAGE,
    NEW_TXID,
    OLD_IMAGE,
    OLD_TXID,
    OTHER_INFO,
    leftovers,
    make_store,
    padded_image,
    serve,
)
from tests.socket_peer import Script, read_head, scripted_web

MD5 = hashlib.md5(NEW_IMAGE.read_bytes()).hexdigest()
BIG = 256 << 20


@pytest.fixture
def served(tmp_path):
    with serve(make_store(tmp_path)) as running:
        yield running


@pytest.fixture
def sparse(tmp_path):
    """A file that takes no space but is far larger than all socket buffers."""
    path = tmp_path / "big"
    path.touch()
    os.truncate(path, BIG)
    return path


def drain(connection: socket.socket, count: int = 0) -> int:
    try:
        while piece := connection.recv(1 << 20):
            count += len(piece)
    except ConnectionResetError:
        pass
    return count


@pytest.mark.parametrize("chunk_size", [1000, 65536])
def test_round_trip(served, chunk_size):
    result = upload_image(served.url, NEW_IMAGE, MD5, NEW_TXID, INFO, chunk_size=chunk_size)
    assert result is UploadResult.SUCCESS
    assert (served.store.directories[0] / NEW_IMAGE.name).read_bytes() == NEW_IMAGE.read_bytes()
    assert served.store.received == [(NEW_TXID, "IMAGE", MD5, NEW_IMAGE.stat().st_size)]


def test_rollback_image(served):
    upload_image(served.url, NEW_IMAGE, MD5, NEW_TXID, INFO, kind="IMAGE_ROLLBACK")
    assert (served.store.directories[0] / image_name(NEW_TXID, rollback=True)).exists()


def test_unknown_kind(served):
    with pytest.raises(ValueError):
        upload_image(served.url, NEW_IMAGE, MD5, NEW_TXID, INFO, kind="EDITS")


@pytest.mark.parametrize("chunked", [False, True])
def test_request_equals_that_of_hadoop(chunked):
    seen = []

    def handle(connection: socket.socket) -> None:
        head, body = read_head(connection)
        expected = NEW_IMAGE.stat().st_size
        while not (body.endswith(b"0\r\n\r\n") if chunked else len(body) == expected):
            body += connection.recv(65536)
        seen.append((head, body))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with scripted_web(handle) as url:
        size = 1000 if chunked else 65536
        assert upload_image(url, NEW_IMAGE, MD5, NEW_TXID, INFO, chunk_size=size) is UploadResult.SUCCESS
    head, body = seen[0]
    lines = head.decode().split("\r\n")
    length = NEW_IMAGE.stat().st_size
    assert lines[0] == (
        f"PUT /imagetransfer?txid={NEW_TXID}&storageInfo={INFO.colon_string().replace(':', '%3A')}"
        f"&File-Length={length}&imageFile=IMAGE HTTP/1.1"
    )
    headers = dict(line.split(": ", 1) for line in lines[1:])
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Transfer-Encoding"] == "binary"
    assert headers["X-MD5-Digest"] == MD5
    if chunked:
        assert headers["Transfer-Encoding"] == "chunked"
        assert "Content-Length" not in headers
        assert body.startswith(b"3e8\r\n" + NEW_IMAGE.read_bytes()[:1000] + b"\r\n3e8\r\n")
    else:
        assert headers["Content-Length"] == str(length)
        assert body == NEW_IMAGE.read_bytes()


def test_known_image_is_refused(served):
    md5 = hashlib.md5(OLD_IMAGE.read_bytes()).hexdigest()
    result = upload_image(served.url, OLD_IMAGE, md5, OLD_TXID, INFO)
    assert result is UploadResult.OLD_TRANSACTION_ID_FAILURE


def test_error_403_quotes_the_server(served):
    with pytest.raises(TransferError, match="is not the namespace of this side") as caught:
        upload_image(served.url, NEW_IMAGE, MD5, NEW_TXID, OTHER_INFO)
    assert caught.value.status == 403
    assert served.url in caught.value.target
    assert "same cluster" in caught.value.hint or "one cluster" in caught.value.hint


def test_wrong_digest(served):
    with pytest.raises(TransferError, match=MD5) as caught:
        upload_image(served.url, NEW_IMAGE, "0" * 32, NEW_TXID, INFO)
    assert caught.value.status == 410
    assert leftovers(served.store) == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [(409, UploadResult.OLD_TRANSACTION_ID_FAILURE), (417, UploadResult.NOT_ACTIVE_NAMENODE_FAILURE)],
)
@pytest.mark.parametrize("keeps_reading", [False, True])
def test_early_answer_ends_the_upload(sparse, status, expected, keeps_reading):
    """The server answers after the headers, and then reads nothing until the client has stopped by itself."""
    returned = threading.Event()
    received = []

    def handle(connection: socket.socket) -> None:
        _, body = read_head(connection)
        connection.sendall(b"HTTP/1.1 %d Refused\r\nContent-Length: 4\r\n\r\nno!\n" % status)
        if not keeps_reading:
            assert returned.wait(600)
        received.append(drain(connection, len(body)))

    with scripted_web(handle) as url:
        assert upload_image(url, sparse, MD5, NEW_TXID, INFO, timeout=600) is expected
        returned.set()
    assert received[0] < BIG


def test_early_answer_of_our_own_server_ends_the_upload(served, sparse):
    served.store.active = False
    result = upload_image(served.url, sparse, MD5, NEW_TXID, INFO)
    assert result is UploadResult.NOT_ACTIVE_NAMENODE_FAILURE


def answering(answer: bytes, *, closes: bool = False) -> Script:
    """Return a script that responds after the headers, and then reads the body."""

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        connection.sendall(answer)
        if closes:
            connection.shutdown(socket.SHUT_WR)
        drain(connection)

    return handle


def test_server_that_answers_and_closes(sparse):
    handle = answering(b"HTTP/1.1 410 Gone\r\nConnection: close\r\n\r\nthe disk is full", closes=True)
    with scripted_web(handle) as url, pytest.raises(TransferError, match="the disk is full") as caught:
        upload_image(url, sparse, MD5, NEW_TXID, INFO)
    assert caught.value.status == 410


def test_server_that_dies(sparse):
    def handle(connection: socket.socket) -> None:
        read_head(connection)

    with scripted_web(handle) as url, pytest.raises(TransferError, match=f"of {BIG} bytes") as caught:
        upload_image(url, sparse, MD5, NEW_TXID, INFO)
    assert caught.value.status is None
    assert caught.value.hint


def test_success_before_the_end_of_the_body_is_an_error(sparse):
    handle = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    with scripted_web(handle) as url, pytest.raises(TransferError, match="the server reported success after"):
        upload_image(url, sparse, MD5, NEW_TXID, INFO)


@pytest.mark.parametrize("large", [False, True], ids=["never answers", "stops reading"])
def test_server_without_progress(sparse, large):
    done = threading.Event()

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        assert done.wait(600)

    with scripted_web(handle) as url:
        with pytest.raises(TransferError, match=r"no progress for 0\.2 s"):
            upload_image(url, sparse if large else NEW_IMAGE, MD5, NEW_TXID, INFO, timeout=0.2)
        done.set()


def test_html_error_page_is_reduced_to_one_sentence():
    page = (
        b"<html><head><title>Error 410</title><style>p{}</style></head><body><h2>HTTP ERROR 410</h2>"
        b"<p>PutImage failed. java.io.IOException: No space left &amp; none coming\n"
        b"\tat org.apache.hadoop.hdfs.server.namenode.ImageServlet.doPut(ImageServlet.java:1)\n"
        b"\tat java.lang.Thread.run(Thread.java:748)\n</p></body></html>"
    )

    handle = answering(b"HTTP/1.1 410 Gone\r\nContent-Length: %d\r\n\r\n%b" % (len(page), page))
    with scripted_web(handle) as url, pytest.raises(TransferError) as caught:
        upload_image(url, NEW_IMAGE, MD5, NEW_TXID, INFO)
    assert "java.io.IOException: No space left & none coming" in str(caught.value)
    assert "Thread" not in str(caught.value)
    assert "<" not in str(caught.value)


def test_response_that_is_not_http():
    with (
        scripted_web(answering(b"SSH-2.0-OpenSSH_9.2\r\n")) as url,
        pytest.raises(TransferError, match="was interrupted"),
    ):
        upload_image(url, NEW_IMAGE, MD5, NEW_TXID, INFO)


def test_refused_connection_is_an_error(closed_port):
    with pytest.raises(TransferError, match="cannot connect") as caught:
        upload_image(f"http://127.0.0.1:{closed_port}", NEW_IMAGE, MD5, NEW_TXID, INFO)
    assert caught.value.hint


@pytest.mark.parametrize(
    "url", ["", "namenode:9870", "hdfs://namenode:8020", "http://", "http://h:99999", "http://[::1"]
)
def test_bad_address(url):
    with pytest.raises(TransferError, match="not an HTTP address"):
        upload_image(url, NEW_IMAGE, MD5, NEW_TXID, INFO)


def test_missing_and_empty_image(served, tmp_path):
    with pytest.raises(FileNotFoundError):
        upload_image(served.url, tmp_path / "nothing", MD5, 1, INFO)
    (tmp_path / "empty").touch()
    with pytest.raises(TransferError, match="is empty"):
        upload_image(served.url, tmp_path / "empty", MD5, 1, INFO)


def test_cancel_before_anything_is_sent(served):
    with pytest.raises(TransferCancelledError):
        upload_image(served.url, NEW_IMAGE, MD5, NEW_TXID, INFO, cancel=lambda: True)
    assert (served.store.received, leftovers(served.store)) == ([], [])


def test_cancel_between_chunks(served):
    asked = iter(range(100))
    with pytest.raises(TransferCancelledError, match=r"cancelled after \d+ of"):
        upload_image(served.url, NEW_IMAGE, MD5, NEW_TXID, INFO, chunk_size=100, cancel=lambda: next(asked) >= 10)
    # the server received an incomplete body; the same txid may be uploaded again
    results = [UploadResult.OLD_TRANSACTION_ID_FAILURE]

    def accepted() -> bool:
        results.append(upload_image(served.url, NEW_IMAGE, MD5, NEW_TXID, INFO))
        return results[-1] is not UploadResult.OLD_TRANSACTION_ID_FAILURE

    wait_until("the end of the first upload", accepted)
    assert results[-1] is UploadResult.SUCCESS
    assert leftovers(served.store) == []


def test_cancel_while_the_server_does_not_read(sparse):
    done, blocked = threading.Event(), threading.Event()

    def handle(connection: socket.socket) -> None:
        read_head(connection)
        blocked.set()
        assert done.wait(600)

    with scripted_web(handle) as url:
        with pytest.raises(TransferCancelledError):
            upload_image(url, sparse, MD5, NEW_TXID, INFO, timeout=600, cancel=blocked.is_set)
        done.set()


def test_throttle_counts_every_byte(served):
    slept = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    throttle = Throttle(1000, clock=lambda: now[0], sleep=sleep)
    upload_image(served.url, NEW_IMAGE, MD5, NEW_TXID, INFO, chunk_size=500, throttle=throttle)
    assert now[0] == pytest.approx(NEW_IMAGE.stat().st_size / 1000, abs=0.3)


def test_server_side_throttle_does_not_break_the_upload(tmp_path):
    with serve(make_store(tmp_path), TransferOptions(bandwidth=1 << 20)) as served:
        assert upload_image(served.url, NEW_IMAGE, MD5, NEW_TXID, INFO) is UploadResult.SUCCESS


def test_parallel_uploads_to_several_targets(tmp_path):
    image = tmp_path / "image"
    md5 = padded_image(image, 8 << 20)
    with serve(make_store(tmp_path / "1")) as first, serve(make_store(tmp_path / "2")) as second:
        results = []
        threads = [
            threading.Thread(target=lambda url=url: results.append(upload_image(url, image, md5, NEW_TXID, INFO)))
            for url in (first.url, second.url)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [UploadResult.SUCCESS] * 2
        assert first.store.received == second.store.received == [(NEW_TXID, "IMAGE", md5, 8 << 20)]


def test_image_that_shrinks_during_the_upload(served, tmp_path):
    image = tmp_path / "image"
    md5 = padded_image(image, 1 << 20)

    class Shrinking(Throttle):
        def acquire(self, count, cancelled=None):
            os.truncate(image, 1000)

    with pytest.raises(TransferError, match="ended at byte"):
        upload_image(served.url, image, md5, NEW_TXID, INFO, throttle=Shrinking(0))
    assert served.store.received == []
