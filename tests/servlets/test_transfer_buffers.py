"""The memory of a transfer does not grow with the image: buffers are counted, and read sizes are recorded."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import socket
import threading

import pytest

from checkpointer.transfer import UploadResult, download_image, upload_image
from hadoop_common.paced_socket import PacedSocket
from hadoop_common.port_limits import PortLimits, Refusals
from hadoop_common.throttle import Throttle
from image_format.array_allocator import BufferPool
from servlets import received_files
from servlets.file_body import FileBody
from servlets.http_request import BufferedConnection
from servlets.received_files import FileReceiver
from tests.servlets.support import INFO, NEW_IMAGE, NEW_TXID, fill, make_store, padded_image, put, serve

# the writing threads' queue, the buffer of each thread, and the buffer that is being filled
MOST_SLICES = 16 + 4
SIZE = 64 << 20


@pytest.fixture
def pools(monkeypatch):
    """Record the buffer pools of all receivers."""
    made = []

    class Watched(BufferPool):
        def __init__(self, size: int) -> None:
            super().__init__(size)
            assert size == 1 << 20
            made.append(self)

    monkeypatch.setattr(received_files, "BufferPool", Watched)
    return made


@pytest.fixture
def reads(monkeypatch):
    """Record the sizes of all reads of upload bodies."""
    sizes = []
    real = BufferedConnection.readinto

    def readinto(self, buffer):
        sizes.append(len(buffer))
        return real(self, buffer)

    monkeypatch.setattr(BufferedConnection, "readinto", readinto, raising=False)
    return sizes


def test_a_buffer_is_reused_when_its_last_view_is_released():
    pool = BufferPool(1000)
    first = pool.take()
    part = first[10:20].toreadonly()
    second = pool.take()
    del first
    third = pool.take()
    assert pool.made == 3
    third[10:20] = second[10:20] = b"x" * 10
    assert bytes(part) == bytes(10), "a view keeps its buffer"
    del part
    gc.collect()
    fourth = pool.take()
    assert (pool.made, len(fourth), fourth.readonly) == (3, 1000, False)


def test_receiving_needs_few_buffers(tmp_path, pools):
    chunk = os.urandom(100_000)
    digest = hashlib.md5()
    with FileReceiver([tmp_path], "part", "whole") as receiver:
        while receiver.size < SIZE:
            fill(receiver, chunk)
            digest.update(chunk)
        received = receiver.commit(size=receiver.size, md5=digest.hexdigest())
    assert received.size >= SIZE
    assert 1 <= pools[0].made <= MOST_SLICES


@pytest.mark.parametrize("chunked", [False, True])
def test_an_upload_needs_few_buffers(tmp_path, pools, reads, chunked):
    image = tmp_path / "image"
    md5 = padded_image(image, SIZE)
    with serve(make_store(tmp_path)) as served:
        chunk_size = 65536 if chunked else SIZE
        sent = upload_image(served.url, image, md5, NEW_TXID, INFO, chunk_size=chunk_size)
        assert sent is UploadResult.SUCCESS
    assert pools[0].made <= MOST_SLICES
    assert max(reads) <= 1 << 20


def test_one_giant_chunk_needs_few_buffers(tmp_path, pools, reads):
    image = tmp_path / "image"
    padded_image(image, SIZE)
    with serve(make_store(tmp_path)) as served:
        assert put(served.url, image.read_bytes(), chunk=SIZE).status == 200
    assert pools[0].made <= MOST_SLICES
    assert max(reads) <= 1 << 20


def test_a_download_needs_few_buffers_and_none_in_the_server(tmp_path, pools, monkeypatch):
    monkeypatch.setattr(FileBody, "__iter__", None)
    with serve(make_store(tmp_path)) as served:
        placed = served.store.directories[0] / NEW_IMAGE.name
        md5 = padded_image(placed, SIZE)
        placed.with_name(placed.name + ".md5").write_text(f"{md5} *{placed.name}\n")
        (tmp_path / "target").mkdir()
        assert download_image(served.url, NEW_TXID, INFO, [tmp_path / "target"]).md5 == md5
    assert [pool.made <= MOST_SLICES for pool in pools] == [True]


def test_a_file_without_a_descriptor_is_sent_up_to_its_length():
    """The kernel cannot send such a file, so `sendfile` reads it and sends the bytes."""
    content = os.urandom(3 << 20)
    here, there = socket.socketpair()
    body = FileBody(io.BytesIO(content + b"more"), "file", len(content), Throttle(0), 65536)

    def send() -> None:
        with here:
            body.send_to(here)

    sender = threading.Thread(target=send)
    sender.start()
    with there, there.makefile("rb") as stream:
        assert stream.read() == content
    sender.join()


@pytest.mark.parametrize("begun", [b"", b"li"])
@pytest.mark.parametrize("more", [b"", b"GET / HTTP/1.1\r\n"])
def test_a_connection_reports_bytes_read_ahead(begun, more):
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        connection = BufferedConnection(PacedSocket(there, PortLimits(), Refusals(), lambda: False), begun)
        here.sendall((b"line\n" + more)[len(begun) :])
        assert connection.readline() == b"line\n"
        assert connection.rest() == more, "the connection does not wait for more"
        here.shutdown(socket.SHUT_WR)
        assert connection.read() == more


def test_bytes_received_with_the_headers_are_read_first():
    here, there = socket.socketpair()
    with here, there:
        connection = BufferedConnection(PacedSocket(there, PortLimits(), Refusals(), lambda: False), b"0123456789")
        assert connection.read(4) == b"0123"
        assert connection.rest() == b"456789"
