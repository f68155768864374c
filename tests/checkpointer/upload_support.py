"""Uploader of one test image, and a peer that answers at a chosen point of the body."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from checkpointer.transfer import UploadResult
from checkpointer.transfer.common import never
from checkpointer.transfer.upload_target import Upload
from checkpointer.transfer.uploader import Uploader, UploadPolicy
from engine.settings import ReplayRules
from hadoop_common.back_off import BackOff
from tests.checkpointer.service_support import Clock
from tests.servlets.support import INFO, NEW_TXID, Served, make_store, serve

BIG = 64 << 20
POLICY = UploadPolicy(
    quiet_period=150.0, back_off=BackOff(10.0, 100.0), parallelism=4, timeout=600.0, chunk_size=65536, bandwidth=0
)


@contextmanager
def peer(answer: bytes, *, after: int = 0, hold: threading.Event | None = None) -> Iterator[str]:
    """Yield a server that reads `after` bytes of the body and sends `answer`, or closes the connection if `answer` is
    empty.

    Before the response, the server waits for `hold` without reading. The stub never responds in the middle of a body.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = threading.Event()

        def run() -> None:
            while not done.is_set():
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(600)
                    data = b""
                    while b"\r\n\r\n" not in data and (piece := connection.recv(4096)):
                        data += piece
                    read = len(data.partition(b"\r\n\r\n")[2])
                    while read < after and (piece := connection.recv(min(65536, after - read))):
                        read += len(piece)
                    connection.sendall(answer)
                    if hold is not None:
                        hold.wait(600)
                    while answer and connection.recv(65536):
                        pass  # a close with unread bytes would discard the response

        thread = threading.Thread(target=run)
        thread.start()
        host, port = listener.getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            done.set()
            if hold is not None:
                hold.set()
            with socket.create_connection((host, port)) as last:
                last.shutdown(socket.SHUT_WR)
            thread.join()


def refusal(status: int) -> bytes:
    return f"HTTP/1.1 {status} Refused\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n".encode()


def equal(address: str, rules: ReplayRules, **options: object) -> str:
    """Report that the NameNode's settings of replay equal ours."""
    return ""


def uploader(
    *addresses: str,
    clock: Clock | None = None,
    policy: UploadPolicy = POLICY,
    differs: Callable[..., str] = equal,
    **options: Any,
) -> Uploader:
    return Uploader(addresses, policy, differs=differs, clock=clock or Clock(), jitter=lambda: 1.0, **options)


def offered(subject: Uploader, path: Path, **options: Any) -> Mapping[str, Upload]:
    return {each.address: each for each in subject.offer(path, NEW_TXID, INFO, never, **options)}


OLD, TAKEN = UploadResult.OLD_TRANSACTION_ID_FAILURE.name, UploadResult.SUCCESS.name


# messages of Hadoop 3.4.1 and 2.7.3
RECENT = (
    "Rejecting a fsimage due to small time delta and txnid delta. Time since previous checkpoint is 395 expecting at "
    "least 2700 txnid delta since previous checkpoint is 2 expecting at least 1000000"
)


HAS = "Either current namenode has checkpointed or another checkpointer already uploaded an checkpoint for txid 120"


BUSY = (
    "Another checkpointer is already in the process of uploading a checkpoint made up to transaction ID "
    "ImageRequest{txId=120, address='127.0.0.1'}"
)


@contextmanager
def namenodes(root: Path, count: int) -> Iterator[list[Served]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serve(make_store(root / f"nn{n}", 1))) for n in range(count)]
