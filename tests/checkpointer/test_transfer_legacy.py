"""Legacy uploads over loopback: our client, our server that serves the image, our server that is asked to fetch it."""

from __future__ import annotations

import hashlib
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from checkpointer.errors import TransferError
from checkpointer.transfer.common import TransferCancelledError
from checkpointer.transfer.legacy_upload import fetch_legacy_image, legacy_upload
from checkpointer.transfer.upload import UploadResult
from image_format.md5_file import format_md5, md5_path, read_md5_file
from servlets.throttle import Throttle
from servlets.transfer_counter import TransferCounter
from tests.servlets.support import INFO, NEW_IMAGE, NEW_TXID, OTHER_INFO, Served, leftovers, make_store, serve

IMAGE = NEW_IMAGE.read_bytes()


@contextmanager
def two_sides(root: Path) -> Iterator[tuple[Served, Served]]:
    """A NameNode that fetches when asked, and a checkpointer that has the new image."""
    ours = make_store(root / "secondary", count=1)
    image = Path(shutil.copy(NEW_IMAGE, ours.directories[0]))
    md5_path(image).write_bytes(format_md5(hashlib.md5(IMAGE).digest(), image.name))
    with serve(make_store(root / "namenode"), fetch=fetch_legacy_image) as namenode, serve(ours) as secondary:
        yield namenode, secondary


def upload(namenode: Served, secondary: Served, **change) -> UploadResult:
    settings = {"port": secondary.address[1], "timeout": 10.0, "answer_timeout": 20.0, **change}
    return legacy_upload(namenode.url, NEW_TXID, INFO, **settings)


@pytest.mark.parametrize("machine", [None, "127.0.0.1", "localhost"])
def test_the_namenode_fetches_the_image(tmp_path, machine):
    with two_sides(tmp_path) as (namenode, secondary):
        assert upload(namenode, secondary, machine=machine) is UploadResult.SUCCESS
        for directory in namenode.store.directories:
            assert (directory / NEW_IMAGE.name).read_bytes() == IMAGE
            assert read_md5_file(directory / NEW_IMAGE.name) == hashlib.md5(IMAGE).digest()
        assert namenode.store.received[0][:2] == (NEW_TXID, "IMAGE")
        assert leftovers(namenode.store) == []
        assert upload(namenode, secondary) is UploadResult.OLD_TRANSACTION_ID_FAILURE


def test_not_active(tmp_path):
    with two_sides(tmp_path) as (namenode, secondary):
        namenode.store.active = False
        assert upload(namenode, secondary) is UploadResult.NOT_ACTIVE_NAMENODE_FAILURE


def test_other_cluster(tmp_path):
    with two_sides(tmp_path) as (namenode, secondary), pytest.raises(TransferError) as caught:
        legacy_upload(namenode.url, NEW_TXID, OTHER_INFO, port=secondary.address[1])
    assert caught.value.status == 403


def test_image_damaged_on_our_disk(tmp_path):
    with two_sides(tmp_path) as (namenode, secondary):
        image = secondary.store.directories[0] / NEW_IMAGE.name
        image.write_bytes(IMAGE[:100] + b"?" + IMAGE[101:])
        with pytest.raises(TransferError) as caught:
            upload(namenode, secondary)
        assert caught.value.status == 410
        assert "MD5" in str(caught.value)
        assert leftovers(namenode.store) == []
        assert namenode.reservations.held == ()
        image.write_bytes(IMAGE)
        assert upload(namenode, secondary) is UploadResult.SUCCESS


def test_image_without_a_digest_is_not_taken(tmp_path):
    with two_sides(tmp_path) as (namenode, secondary):
        (secondary.store.directories[0] / (NEW_IMAGE.name + ".md5")).unlink()
        with pytest.raises(TransferError, match="X-MD5-Digest"):
            upload(namenode, secondary)


def test_call_back_to_nobody(tmp_path):
    with two_sides(tmp_path) as (namenode, secondary):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            with pytest.raises(TransferError) as caught:
                upload(namenode, secondary, port=unused.getsockname()[1])
        assert caught.value.status == 410
        assert namenode.reservations.held == ()


def test_namenode_that_is_down():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(TransferError) as caught:
            legacy_upload(url, 1, INFO, port=1)
    assert caught.value.hint


@contextmanager
def peer(answer: bytes | None) -> Iterator[tuple[str, list[str], threading.Event]]:
    """A server that notes one request line and answers with `answer`, or never when that is None."""
    seen: list[str] = []
    asked, over = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as stream:
                seen.append(stream.readline().decode())
                while stream.readline().strip():
                    pass
                asked.set()
                if answer is None:
                    over.wait(20)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", seen, asked
        finally:
            over.set()
            thread.join()


def test_the_request_is_as_hadoop_sends_it():
    with peer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (url, seen, _):
        assert legacy_upload(url, 7, INFO, port=50090, machine="snn") is UploadResult.SUCCESS
    method, target, _ = seen[0].split()
    assert method == "GET"
    assert urlsplit(target).path == "/getimage"
    assert parse_qsl(urlsplit(target).query) == [
        ("putimage", "1"),
        ("txid", "7"),
        ("port", "50090"),
        ("machine", "snn"),
        ("storageInfo", INFO.colon_string()),
    ]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n", b""])
def test_answers_that_are_none(answer):
    with peer(answer) as (url, _, _), pytest.raises(TransferError):
        legacy_upload(url, 7, INFO, port=1)


def test_it_is_cancelled_while_the_namenode_fetches():
    with peer(None) as (url, _, asked), pytest.raises(TransferCancelledError):
        legacy_upload(url, 7, INFO, port=1, cancel=asked.is_set)


def test_cancelled_before_it_began():
    with pytest.raises(TransferCancelledError):
        legacy_upload("http://127.0.0.1:1", 7, INFO, port=1, cancel=lambda: True)


def test_namenode_that_never_answers():
    with peer(None) as (url, _, _), pytest.raises(TransferError, match="no progress"):
        legacy_upload(url, 7, INFO, port=1, answer_timeout=0.3)


def fetch(url: str, directory: Path, **change) -> object:
    settings = {"max_size": 1 << 40, "require_digest": False, "throttle": Throttle(0), **change}
    return fetch_legacy_image(url, NEW_TXID, INFO, [directory], **settings)


def test_call_back_follows_no_redirect(tmp_path):
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with peer(moved) as (url, seen, _), pytest.raises(TransferError) as caught:
        fetch(url, tmp_path)
    assert caught.value.status == 302
    target = seen[0].split()[1]
    assert parse_qsl(urlsplit(target).query) == [
        ("getimage", "1"),
        ("txid", str(NEW_TXID)),
        ("storageInfo", INFO.colon_string()),
    ]
    assert list(tmp_path.iterdir()) == []


def test_image_larger_than_the_free_space(tmp_path):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"
    with peer(head) as (url, _, _), pytest.raises(TransferError, match="1001 bytes, there is room for 1000"):
        fetch(url, tmp_path, max_size=1000)
    assert list(tmp_path.iterdir()) == []


def test_fetched_bytes_are_counted(tmp_path):
    counter = TransferCounter()
    with peer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(IMAGE), IMAGE)) as (url, _, _):
        fetch(url, tmp_path, throttle=Throttle(0, count=counter.add_received))
    assert counter.received == len(IMAGE)
