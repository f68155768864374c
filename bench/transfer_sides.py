"""The processes of `bench.transfer`: our server, a receiver that acts as a NameNode does, minimal and slow servers, and
our clients.

A server prints its port and exits when its input ends; a client prints its wall and CPU seconds.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import psutil
from flask import Blueprint, Response, request

from checkpointer.transfer import UploadResult, download_image, upload_image
from hadoop_common.image_servlet import DIGEST_HEADER
from hadoop_common.names import ImageKind, image_name
from hadoop_common.storage_info import StorageInfo
from hadoop_common.throttle import UNLIMITED, Throttle
from hadoop_common.tls.reloading import ServerTls, use_client
from hadoop_common.tls.settings import TlsConfig
from image_format.md5_file import read_md5_file
from servlets.application import create_application
from servlets.http_server import HttpServer
from servlets.image_transfer_servlet import TransferOptions, image_transfer_blueprint
from servlets.received_files import ImageReceiver
from servlets.transfer_requests import parse_digest, parse_put
from tests.loopback_relay import LoopbackRelay

NAMESPACE = StorageInfo(-63, 1, 0, "CID-bench", "BP-bench")
_LOOPBACK = "127.0.0.1"
_BUFFER = 1 << 20
_RELAY_PIECE = 1 << 16
SIDES = [sys.executable, "-m", "bench.transfer_sides"]
_LENGTH = re.compile(rb"\r\nContent-Length: *(\d+)", re.IGNORECASE)
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"


@dataclass(frozen=True)
class Server:
    """A process that serves, itself or through its child processes."""

    process: psutil.Popen
    url: str

    def cpu(self) -> float:
        times = [each.cpu_times() for each in (self.process, *self.process.children())]
        return float(sum(each.user + each.system for each in times))


@contextmanager
def serving(*arguments: object) -> Iterator[Server]:
    """Run a server with these arguments."""
    command = [*SIDES, *map(str, arguments)]
    with psutil.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            scheme = "https" if "--tls" in arguments else "http"
            yield Server(process, f"{scheme}://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.stdin.close()
            process.wait()


class _Store:
    """Store that serves the images of one folder and accepts any upload."""

    def __init__(self, folder: Path, target: Path) -> None:
        self._folder = folder
        self._target = target

    def storage_info(self) -> StorageInfo:
        return NAMESPACE

    def find_image(self, txid: int) -> Path | None:
        path = self._folder / image_name(txid)
        return path if path.exists() else None

    def latest_image(self) -> Path | None:
        return None

    def find_segment(self, first: int, last: int) -> Path | None:
        return None

    def image_directories(self) -> list[Path]:
        return [self._target]

    def is_active(self) -> bool:
        return True

    def checkpoint_rejection(self, txid: int, kind: ImageKind) -> str | None:
        return None

    def image_received(self, txid: int, kind: ImageKind, md5: str, size: int) -> None: ...


def serve(folder: Path, target: Path, bandwidth: int, tls: Path | None) -> None:
    """Run our servlet over the images of `folder`; uploads go to `target`. With `tls`, the server uses HTTPS."""
    blueprint = image_transfer_blueprint(_Store(folder, target), options=TransferOptions(bandwidth=bandwidth))
    shown = None if tls is None else ServerTls(_tls(tls))
    with HttpServer(create_application(blueprint), _LOOPBACK, 0, tls=shown) as server:
        print(server.address[1], flush=True)
        sys.stdin.read()


def namenode(target: Path, tls: Path | None) -> None:
    """Receive images as a NameNode does: compare length and MD5, sync the file and rename it, without a full check."""
    servlet = Blueprint("namenode", __name__)

    @servlet.put("/imagetransfer")
    def put() -> Response:
        offered = parse_put(request.args)
        body = cast(io.RawIOBase, request.stream)
        with ImageReceiver([target], offered.txid) as receiver:
            while count := body.readinto(receiver.room()):
                receiver.took(count)
            receiver.commit(size=offered.size, md5=parse_digest(request.headers.get(DIGEST_HEADER)))
        return Response()

    with HttpServer(create_application(servlet), _LOOPBACK, 0) as server:
        print(server.address[1], flush=True)
        sys.stdin.read()


def _tls(folder: Path) -> TlsConfig:
    return TlsConfig(folder=folder, server_file=folder / "ssl-server.xml", client_file=folder / "ssl-client.xml")


def plain(image: Path, tls: Path | None) -> None:
    """Answer a GET with `image` by sendfile; read a PUT into one buffer and discard it."""
    listening = socket.create_server((_LOOPBACK, 0))
    print(listening.getsockname()[1], flush=True)
    # a daemon thread, which ends with the process
    threading.Thread(target=_accept, args=(listening, image), daemon=True).start()
    sys.stdin.read()


def _accept(listening: socket.socket, image: Path) -> None:
    while True:
        connection, _ = listening.accept()
        with connection:
            head, begun = _head(connection)
            if head.startswith(b"GET"):
                _give(connection, image)
            else:
                _take(connection, head, begun)


def _head(connection: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        if not (more := connection.recv(4096)):
            raise ConnectionAbortedError("the client closed the connection before its request was complete")
        received += more
    head, _, begun = received.partition(b"\r\n\r\n")
    return head, begun


def _give(connection: socket.socket, image: Path) -> None:
    with image.open("rb") as file:
        size = image.stat().st_size
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size)
        connection.sendfile(file)


def _take(connection: socket.socket, head: bytes, begun: bytes) -> None:
    if b"100-continue" in head:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    length = _LENGTH.search(head)
    left = int(length[1]) - len(begun) if length else None
    buffer = memoryview(bytearray(_BUFFER))
    end = begun
    # A chunked body is not decoded, because the last bytes of a read show its end.
    while left != 0 and (left is not None or not end.endswith(_END_OF_CHUNKS)):
        count = connection.recv_into(buffer)
        if not count:
            raise ConnectionAbortedError("the client closed the connection before the end of its body")
        end = (end + bytes(buffer[max(0, count - 16) : count]))[-16:]
        left = None if left is None else left - count
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")


def relay(url: str, bandwidth: int, tls: Path | None) -> None:
    """Relay connections to the server at `url`; clients send at most `bandwidth` bytes per second."""
    to = urlsplit(url)
    with _SlowRelay((to.hostname or "", to.port or 0), Throttle(bandwidth)) as slow:
        print(slow.address.rpartition(":")[2], flush=True)
        sys.stdin.read()


class _SlowRelay(LoopbackRelay):
    def __init__(self, target: tuple[str, int], throttle: Throttle) -> None:
        super().__init__(target)
        self._throttle = throttle

    def serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.target) as server:
            back = threading.Thread(target=_forward, args=(server, client, Throttle(UNLIMITED)), daemon=True)
            back.start()
            _forward(client, server, self._throttle)
            back.join()


def _forward(source: socket.socket, sink: socket.socket, throttle: Throttle) -> None:
    # a server closes its end when it refuses a request, a client after the response
    with suppress(ConnectionError), throttle.transfer():
        while data := source.recv(_RELAY_PIECE):
            throttle.acquire(len(data))
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def download(url: str, txid: int, target: Path, tls: Path | None) -> None:
    """Run our download until the image is verified, durable and stored under its final name."""
    use_client(TlsConfig() if tls is None else _tls(tls))
    download_image(url, txid, NAMESPACE, [target])


def upload(url: str, txid: int, image: Path, tls: Path | None) -> None:
    """Run our upload; raise an error if it is refused."""
    use_client(TlsConfig() if tls is None else _tls(tls))
    result = upload_image(url, image, read_md5_file(image).hex(), txid, NAMESPACE)
    if result is not UploadResult.SUCCESS:
        raise SystemExit(f"the upload returned {result.name}")


def _report(began: float, before: resource.struct_rusage) -> None:
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu}))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.transfer_sides", description=__doc__)
    sides = parser.add_subparsers(dest="side", required=True)
    for name, arguments in {
        "serve": ("folder", "target", "bandwidth"),
        "namenode": ("target",),
        "plain": ("image",),
        "download": ("url", "txid", "target"),
        "upload": ("url", "txid", "image"),
        "relay": ("url", "bandwidth"),
    }.items():
        parsed = sides.add_parser(name)
        for argument in arguments:
            kind = str if argument == "url" else int if argument in ("txid", "bandwidth") else Path
            parsed.add_argument(argument, type=kind)
        parsed.add_argument("--tls", type=Path, help="folder with ssl-server.xml and ssl-client.xml")
    given = vars(parser.parse_args())
    known: list[Callable[..., None]] = [serve, namenode, plain, relay, download, upload]
    side = {each.__name__: each for each in known}[given.pop("side")]
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    side(**given)
    if side in (download, upload):
        _report(began, before)


if __name__ == "__main__":
    main()
