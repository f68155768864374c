"""A client login over sockets: ordered tokens from many threads, and a refused login."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from hadoop_rpc.client import NO_RETRY, RpcClient
from hadoop_rpc.errors import LoginRefusedError, RpcConnectionError
from hadoop_rpc.framing import DelimitedReader, delimited, frame
from hadoop_rpc.login_settings import BINDS_ANY_ADDRESS
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.security import Protection
from tests.hadoop_rpc.fake_security import FakeSecurity, FakeServer
from tests.socket_peer import scripted

_REFUSED = frame(
    delimited(
        pb.RpcResponseHeaderProto(
            callId=0xFFFFFFDF,
            status=pb.RpcResponseHeaderProto.FATAL,
            exceptionClassName="javax.security.sasl.SaslException",
            errorMsg="GSS initiate failed",
        )
    )
)


class _Refusing(FakeServer):
    """A server that refuses every token."""

    def _negotiate(self, step: pb.RpcSaslProto) -> bytes:
        return super()._negotiate(step) if step.state == pb.RpcSaslProto.NEGOTIATE else _REFUSED


def _serve(server: FakeServer, peer: socket.socket) -> None:
    answered = 0
    while data := peer.recv(1 << 16):
        answer = server.receive(data)
        for body in server.frames[answered:]:
            answered += 1
            call_id = DelimitedReader(body).read(pb.RpcRequestHeaderProto).callId
            if call_id >= 0:
                header = pb.RpcResponseHeaderProto(callId=call_id, status=pb.RpcResponseHeaderProto.SUCCESS)
                answer += server.respond(frame(delimited(header), delimited(ha.MonitorHealthResponseProto())))
        peer.sendall(answer)


def client(address: tuple[str, int], security: FakeSecurity) -> RpcClient:
    return RpcClient(*address, "org.example.P", user="", security=security, retry=NO_RETRY, timeout=600.0)


@pytest.mark.parametrize("protection", list(Protection))
def test_tokens_are_sent_in_the_order_of_their_creation(protection: Protection) -> None:
    """Like Kerberos, the server counts tokens, and ends the connection when a token is out of order."""
    server = FakeServer()
    with scripted(partial(_serve, server)) as address, client(address, FakeSecurity((protection,))) as rpc:

        def call(number: int) -> None:
            request = ha.GetServiceStatusResponseProto(state=ha.ACTIVE, notReadyReason="x" * (number % 7 * 20_000))
            rpc.call("m", request, ha.MonitorHealthResponseProto)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(call, range(100)))
    assert server.protection is protection
    assert len(server.frames) == 101


@pytest.mark.parametrize("renews", [True, False])
def test_refused_ticket_is_renewed_once(renews: bool) -> None:
    class Renewing(FakeSecurity):
        def renew(self) -> bool:
            return renews

    servers = [_Refusing(), FakeServer()] if renews else [_Refusing()]
    with scripted(*(partial(_serve, server) for server in servers)) as address, client(address, Renewing()) as rpc:
        if renews:
            rpc.call("m", ha.MonitorHealthRequestProto(), ha.MonitorHealthResponseProto)
        else:
            with pytest.raises(LoginRefusedError, match="GSS initiate failed"):
                rpc.call("m", ha.MonitorHealthRequestProto(), ha.MonitorHealthResponseProto)


@pytest.mark.parametrize(
    ("own_host", "seen"), [("127.0.0.2", "127.0.0.2"), ("203.0.113.1", "127.0.0.1"), ("", "127.0.0.1")]
)
def test_a_connection_comes_from_the_address_of_our_principals_host(own_host: str, seen: str) -> None:
    """JournalNodes compare that host with the name of the caller's address."""
    callers: list[str] = []

    def serve(peer: socket.socket) -> None:
        callers.append(peer.getpeername()[0])
        _serve(FakeServer(), peer)

    with scripted(serve) as address, client(address, FakeSecurity(own_host=own_host)) as rpc:
        rpc.call("a", ha.MonitorHealthRequestProto(), ha.MonitorHealthResponseProto)
    assert callers == [seen]


@pytest.mark.parametrize(("own_host", "bound"), [("127.0.1.1", False), ("198.51.100.1", True)])
def test_only_a_loopback_server_is_reached_from_a_loopback_address(
    own_host: str, bound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's /etc/hosts gives the host's name to 127.0.1.1."""
    sources: list[object] = []

    def silent(address: tuple[str, int], timeout: float, source: object = None) -> None:
        sources.append(source)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(RpcConnectionError) as error, client(("192.0.2.1", 1), FakeSecurity(own_host=own_host)) as rpc:
        rpc.call("a", ha.MonitorHealthRequestProto(), ha.MonitorHealthResponseProto)
    assert sources == [(own_host, 0) if bound else None]
    assert (BINDS_ANY_ADDRESS.name in str(error.value)) == bound
