"""A server with one method over real sockets, and a server whose bytes a script controls."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hadoop_rpc.client import NO_RETRY, RpcClient
from hadoop_rpc.framing import RpcFrameBuffer
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext, Method, Service

PROTOCOL = "org.example.Echo"
WAIT = 600.0
Handler = Callable[[ha.GetServiceStatusResponseProto, CallContext], ha.GetServiceStatusResponseProto]


def text(value: str) -> ha.GetServiceStatusResponseProto:
    """Return a message that contains a string."""
    return ha.GetServiceStatusResponseProto(state=ha.ACTIVE, notReadyReason=value)


@contextmanager
def serving(handlers: int = 4, **methods: Handler) -> Iterator[RpcServer]:
    echo = Service(
        PROTOCOL, {name: Method(ha.GetServiceStatusResponseProto, handler) for name, handler in methods.items()}
    )
    with RpcServer([echo], "127.0.0.1", 0, handlers=handlers, shutdown_timeout=WAIT) as server:
        yield server


def client(server: RpcServer, **options: object) -> RpcClient:
    return RpcClient(*server.address, PROTOCOL, user="alice", **{"timeout": WAIT, "retry": NO_RETRY, **options})  # type: ignore[arg-type]


def say(rpc: RpcClient, method: str, value: str = "", *, idempotent: bool = True) -> str:
    answer = rpc.call(method, text(value), ha.GetServiceStatusResponseProto, idempotent=idempotent)
    return answer.notReadyReason


def read_frames(peer: socket.socket, count: int) -> None:
    """Read the connection's header and `count` frames."""
    frames = RpcFrameBuffer()
    while frames.take(7) is None:
        frames.feed(peer.recv(1))
    for _ in range(count):
        while frames.next_frame() is None:
            data = peer.recv(4096)
            assert data
            frames.feed(data)


def poll_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not done():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
