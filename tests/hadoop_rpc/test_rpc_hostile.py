"""Peers that attack the RPC server: they never read or finish requests, stay silent, or connect in large numbers."""

from __future__ import annotations

import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

import pytest

from hadoop_common.fair_queue import FairQueue
from hadoop_common.port_limits import PortLimits
from hadoop_rpc.client import NO_RETRY, RpcClient
from hadoop_rpc.errors import RemoteError
from hadoop_rpc.framing import delimited
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.proto import rpc_pb2 as pb
from hadoop_rpc.sasl import MAX_HANDSHAKE_FRAME
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext, Method, Service
from hadoop_rpc.wire import (
    CONTEXT_CALL_ID,
    PING_CALL_ID,
    AuthProtocol,
    connection_header,
    request_frame,
    sasl_request_frame,
)
from tests.depth import scaled
from tests.hadoop_rpc.fake_security import FakeDoor
from tests.hadoop_rpc.socket_support import PROTOCOL, WAIT, SlowCall, service, text
from tests.hadoop_rpc.socket_support import serving as served

PATIENT = PortLimits(opening=WAIT, idle=WAIT, stall=WAIT)
MIB = 1 << 20
ME = b"0123456789abcdef"

Answer = ha.GetServiceStatusResponseProto


serving = partial(served, handlers=2, shutdown_timeout=1.0)


def call(method: str, body: Answer, number: int = 1) -> bytes:
    header = pb.RequestHeaderProto(methodName=method, declaringClassProtocolName=PROTOCOL, clientProtocolVersion=1)
    return request_frame(number, ME, delimited(header), delimited(body))


def hello() -> bytes:
    context = pb.IpcConnectionContextProto(userInfo=pb.UserInformationProto(effectiveUser="mallory"), protocol=PROTOCOL)
    return connection_header(AuthProtocol.NONE) + request_frame(CONTEXT_CALL_ID, b"", delimited(context))


def stranger(server: RpcServer, *, host: str = "127.0.0.1", receive_bytes: int = 4096) -> socket.socket:
    """Return a connection with a small receive buffer from a separate address."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    peer.settimeout(WAIT)
    peer.bind((host, 0))
    peer.connect(server.address)
    return peer


def is_served(server: RpcServer) -> None:
    with RpcClient(*server.address, PROTOCOL, user="alice", timeout=WAIT, retry=NO_RETRY) as rpc:
        assert rpc.call("echo", text("hello"), Answer).notReadyReason == "hello"


def end_of(peer: socket.socket) -> bytes:
    """Return all bytes until the server ends the connection."""
    came = b""
    try:
        while data := peer.recv(65536):
            came += data
    except ConnectionResetError:
        pass
    return came


def test_peer_that_reads_no_responses_occupies_no_handler() -> None:
    """Each response is larger than the socket buffers, and the peer does not read."""
    with serving(handlers=2) as server, ExitStack() as closing:
        for _ in range(5):
            peer = closing.enter_context(stranger(server))
            peer.sendall(hello() + call("echo", text("x" * (8 * MIB))))
        is_served(server)


def test_overlong_method_name_is_not_echoed() -> None:
    with serving() as server, stranger(server) as peer:
        peer.sendall(hello() + call("m" * MIB, text("")))
        message = end_of(peer)
        assert b"a RequestHeaderProto has 10486" in message
        assert len(message) < 1000


def test_long_error_text_of_a_handler_is_truncated() -> None:
    def fail(_: Answer, __: CallContext) -> Answer:
        raise RemoteError("/name" * MIB)

    with (
        serving(fail=fail) as server,
        RpcClient(*server.address, PROTOCOL, user="alice", timeout=WAIT, retry=NO_RETRY) as rpc,
        pytest.raises(RemoteError, match=r"/name/name.*\(5242880 characters\)") as caught,
    ):
        rpc.call("fail", text(""), Answer)
    assert len(caught.value.text) < 5000


def test_unread_response_has_a_deadline() -> None:
    """A peer that reads the response slowly does not extend the deadline, because the deadline depends on the rate."""
    limits = PortLimits(stall=0.4, least_rate=MIB)
    with serving(limits=limits) as server, stranger(server) as peer:
        peer.sendall(hello() + call("echo", text("x" * (8 * MIB))))
        with pytest.raises(ConnectionResetError):
            while peer.recv(100):
                threading.Event().wait(0.001)
        is_served(server)
        assert server.refusals.counts() == {"too slow": 1}


@pytest.mark.parametrize(
    ("sent", "limits", "reason"),
    [
        (b"", replace(PATIENT, opening=0.2), "no caller named"),
        (b"hrpc", replace(PATIENT, opening=0.2), "no caller named"),
        (connection_header(AuthProtocol.SASL), replace(PATIENT, opening=0.2), "no caller named"),
        (hello(), replace(PATIENT, idle=0.2, connections=1), "idle"),
        (hello() + request_frame(PING_CALL_ID, b""), replace(PATIENT, idle=0.2, connections=1), "idle"),
        (hello() + call("echo", text("whole")), replace(PATIENT, idle=0.2, connections=1), "idle"),
        (hello() + call("echo", text("x" * 10_000))[:-1], replace(PATIENT, stall=0.2), "too slow"),
    ],
)
def test_silent_connection_is_closed(sent: bytes, limits: PortLimits, reason: str) -> None:
    with serving(limits=limits) as server, stranger(server) as peer:
        peer.sendall(sent)
        end_of(peer)
        assert server.refusals.counts() == {reason: 1}


def test_idle_connection_stays_open_below_the_connection_limit() -> None:
    """Hadoop's clients keep connections for ipc.client.connection.maxidletime. A call on a closed connection fails."""
    later = time.monotonic() + 10 * WAIT
    with (
        serving(limits=replace(PATIENT, connections=2)) as server,
        RpcClient(*server.address, PROTOCOL, user="alice", timeout=WAIT, retry=NO_RETRY) as rpc,
    ):
        rpc.call("echo", text("first"), Answer)
        (channel,) = server.loop.channels()
        assert channel.overdue(later) == ""
        with stranger(server) as peer:
            peer.sendall(hello() + call("echo", text("x")))
            assert peer.recv(1)
            assert channel.overdue(later) == "idle"


@pytest.mark.parametrize("auth", AuthProtocol)
def test_frames_are_small_before_the_peer_is_identified(auth: AuthProtocol) -> None:
    with serving() as server, stranger(server) as peer:
        peer.sendall(connection_header(auth) + (64 * MIB).to_bytes(4, "big"))
        assert b"a frame of 67108864 bytes was announced, expected 0 to 16384" in end_of(peer)
        assert server.refusals.counts() == {"malformed": 1}


def test_maximum_request_size_is_configured_by_hadoops_key() -> None:
    limits = replace(PATIENT, max_request=2 * MIB)
    with serving(limits=limits) as server, stranger(server) as peer:
        peer.sendall(hello() + call("echo", text("x" * MIB)) + (3 * MIB).to_bytes(4, "big"))
        message = end_of(peer)
        assert b"x" * MIB in message
        assert b"a frame of 3145728 bytes was announced, expected 0 to 2097152 (ipc.maximum.data.length)" in message


def test_client_id_of_another_length_is_refused() -> None:
    with serving() as server, stranger(server) as peer:
        peer.sendall(hello() + request_frame(1, b"i" * 17, b""))
        assert b"the client's id has 17 bytes" in end_of(peer)


def test_incomplete_requests_stay_within_the_memory_limit() -> None:
    """Connections that exceed the limit are closed; a complete request is still performed."""
    limits = PortLimits(memory=MIB, stall=1.0, least_rate=1)
    part = call("echo", text("x" * MIB))[:-1]
    service = Service(PROTOCOL, {"echo": Method(Answer, lambda request, _: request)})
    with (
        RpcServer([service], "127.0.0.1", 0, handlers=2, limits=limits, max_frame=2 * MIB) as server,
        ExitStack() as closing,
    ):
        most = 0
        peers = [closing.enter_context(stranger(server)) for _ in range(scaled(40, quick=10))]
        for peer in peers:
            with suppress(OSError):
                peer.sendall(hello() + part)
            is_served(server)
            most = max(most, server._held)
        # Each peer without data in transit may send one more piece.
        assert most <= 3 * MIB + len(peers) * 65536
        for peer in peers:
            end_of(peer)
        counts = server.refusals.counts()
        assert counts["memory"] > 0
        assert counts["memory"] + counts.get("too slow", 0) == len(peers)
        assert server._held == 0


def test_incomplete_tokens_of_many_addresses_leave_memory_to_others() -> None:
    """Each peer stays below the size limit of a login, but together the peers fill the memory; the time limit of a
    login is long.
    """
    limits = PortLimits(memory=MIB, stall=6.0, opening=3600)
    service = Service(PROTOCOL, {"echo": Method(Answer, lambda request, _: request)})
    part = connection_header(AuthProtocol.SASL) + MAX_HANDSHAKE_FRAME.to_bytes(4, "big")
    token = pb.RpcSaslProto(state=pb.RpcSaslProto.INITIATE, token=b"x" * 200_000)
    with (
        RpcServer([service], "127.0.0.1", 0, limits=limits, max_frame=MIB, security=FakeDoor()) as server,
        ExitStack() as closing,
    ):
        peers = [closing.enter_context(stranger(server, host=f"127.0.0.{2 + number % 3}")) for number in range(12)]
        for peer in peers:
            peer.settimeout(0)
            with suppress(BlockingIOError):
                peer.sendall(part + b"x" * (MAX_HANDSHAKE_FRAME - 1))
        while not server.full:
            threading.Event().wait(0.01)
        with stranger(server) as good:
            # the response needs several reads
            good.sendall(connection_header(AuthProtocol.SASL) + sasl_request_frame(token))
            assert b"Client mechanism is malformed" in end_of(good)
        assert server.refusals.counts()["memory"] > 0


def test_waiting_calls_stay_within_the_memory_limit() -> None:
    slow = SlowCall()
    # Only partial requests fill the memory; complete requests are performed, and their memory is released.
    body = text("x" * (MIB // 2))
    limits = PortLimits(memory=8 * MIB)
    with (
        RpcServer([service(slow=slow)], "127.0.0.1", 0, handlers=1, limits=limits, max_frame=MIB) as server,
        ThreadPoolExecutor(20) as pool,
        ExitStack() as closing,
    ):
        peers = [closing.enter_context(stranger(server)) for _ in range(10)]
        sending = [pool.submit(peer.sendall, hello() + 4 * call("slow", body)) for peer in peers]
        slow.await_begin()
        slow.release()
        for each in sending:
            each.result(WAIT)
        for peer in peers:
            peer.shutdown(socket.SHUT_WR)
            assert end_of(peer).count(ME) == 4
        assert server.refusals.counts() == {}


def test_slow_calls_of_one_peer_leave_a_handler_for_others() -> None:
    slow = SlowCall()
    with serving(handlers=3, slow=slow) as server, ExitStack() as closing:
        for _ in range(8):
            peer = closing.enter_context(stranger(server, host="127.0.0.2"))
            peer.sendall(hello() + b"".join(call("slow", text(""), number) for number in range(50)))
        slow.await_begin(2)
        is_served(server)
        slow.release()


def test_peers_and_their_connections_take_turns() -> None:
    calls: FairQueue[str] = FairQueue(2)
    for peer, line, name in (
        ("mallory", 1, "m1"),
        ("mallory", 1, "m2"),
        ("mallory", 2, "other m"),
        ("alice", 1, "a1"),
        ("mallory", 1, "m3"),
    ):
        assert calls.put(peer, line, name)
    taken = [calls.get() for _ in range(3)]
    assert [item for _, item in taken if item] == ["m1", "a1", "other m"]
    late: list[object] = []
    waiting = threading.Thread(target=lambda: late.append(calls.get()))
    waiting.start()
    calls.done("alice")
    assert not late
    calls.done("mallory")
    waiting.join(WAIT)
    assert late == [("mallory", "m2")]
    assert calls.close() == ["m3"]
    assert calls.get() is None
    assert not calls.put("alice", 1, "too late")


@pytest.mark.parametrize("limits", [PortLimits(connections=5), PortLimits(peer_connections=5)])
@pytest.mark.parametrize("message", [b"", hello(), hello() + call("echo", text("x" * 9000))[:-1]])
def test_idle_connections_are_closed_for_new_ones(limits: PortLimits, message: bytes) -> None:
    with serving(limits=limits) as server, ExitStack() as closing:
        for _ in range(scaled(500, quick=50)):
            closing.enter_context(stranger(server)).sendall(message)
            if len(server.loop.channels()) > 4:
                is_served(server)
        is_served(server)
        assert len(server.loop.channels()) <= 5
        assert server.refusals.counts()["made room"] >= 40


def test_many_connections_of_one_address_do_not_close_those_of_others() -> None:
    with serving(limits=PortLimits(connections=10)) as server, ExitStack() as closing:
        quiet = closing.enter_context(stranger(server))
        quiet.sendall(hello())
        for _ in range(40):
            closing.enter_context(stranger(server, host="127.0.0.2"))
        is_served(server)
        quiet.sendall(call("echo", text("still here")))
        assert quiet.recv(1000)


def test_busy_connections_are_not_closed_for_new_ones() -> None:
    slow = SlowCall()
    with (
        serving(limits=PortLimits(connections=1), slow=slow) as server,
        stranger(server) as busy,
        stranger(server) as late,
    ):
        # The late connection replaced a connection that had sent nothing.
        assert end_of(busy) == b""
        late.sendall(hello() + call("slow", text("")))
        slow.await_begin()
        with stranger(server) as refused:
            assert end_of(refused) == b""
        slow.release()
        assert late.recv(1000)
        assert server.refusals.counts() == {"made room": 1, "too many connections": 1}


def test_lack_of_descriptors_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowCall()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving(slow=slow) as server, ExitStack() as closing, stranger(server) as busy:
        busy.sendall(hello() + call("slow", text("")))
        slow.await_begin()
        peers = [closing.enter_context(socket.socket()) for _ in range(20)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (peers[-1].fileno() + 1, hard))
        try:
            for peer in peers:
                peer.settimeout(WAIT)
                peer.connect(server.address)
            while not server.refusals.counts().get("no descriptors"):
                threading.Event().wait(0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        slow.release()
        is_served(server)
    assert len(caplog.records) < 30


def test_fault_in_the_socket_loop_does_not_stop_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError

    with serving() as server, stranger(server) as peer:
        with monkeypatch.context() as patched:
            patched.setattr("hadoop_rpc.server_connection.RpcChannel.overdue", fail)
            peer.sendall(hello())
            while "failed because of a bug" not in caplog.text:
                threading.Event().wait(0.01)
        is_served(server)
