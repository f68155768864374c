"""A server with one method over real sockets, and a server whose bytes a script controls."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hadoop_common.port_limits import PortLimits
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


def service(**methods: Handler) -> Service:
    """Return the protocol with these methods; `echo` returns its request."""
    methods = {"echo": lambda request, _: request, **methods}
    return Service(PROTOCOL, {name: Method(ha.GetServiceStatusResponseProto, each) for name, each in methods.items()})


@contextmanager
def serving(
    handlers: int = 4, limits: PortLimits | None = None, shutdown_timeout: float = WAIT, **methods: Handler
) -> Iterator[RpcServer]:
    settings = {"handlers": handlers, "limits": limits, "shutdown_timeout": shutdown_timeout}
    with RpcServer([service(**methods)], "127.0.0.1", 0, **settings) as server:  # type: ignore[arg-type]
        yield server


class SlowCall:
    """A method whose calls wait for `release`; `performed` are the texts of the calls that began."""

    def __init__(self, answer: str = "slow") -> None:
        self._answer = answer
        self._begun = threading.Semaphore(0)
        self._released = threading.Event()
        self.release = self._released.set
        self.performed: list[str] = []

    def __call__(self, request: ha.GetServiceStatusResponseProto, _: CallContext) -> ha.GetServiceStatusResponseProto:
        self.performed.append(request.notReadyReason)
        self._begun.release()
        assert self._released.wait(WAIT)
        return text(self._answer)

    def await_begin(self, count: int = 1) -> None:
        assert all(self._begun.acquire(timeout=WAIT) for _ in range(count))


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
