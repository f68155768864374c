"""Connections that are interrupted, silent or closed, and the shutdown of a server."""

from __future__ import annotations

import math
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hadoop_common.addresses import host_port
from hadoop_common.back_off import BackOff
from hadoop_rpc.client import NO_RETRY, RetryPolicy, RpcClient
from hadoop_rpc.errors import (
    RetriableError,
    RpcConnectionError,
    RpcError,
    RpcProtocolError,
    RpcTimeoutError,
    VersionMismatchError,
)
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import Method, Service
from tests.hadoop_rpc.socket_support import PROTOCOL, WAIT, SlowCall, client, read_frames, say, service, serving, text
from tests.namenode_stub.stub_support import wait_until
from tests.socket_peer import scripted, threads_without


def test_refused_connection_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with (
        RpcClient(*address, PROTOCOL, user="a", retry=NO_RETRY) as rpc,
        pytest.raises(RpcConnectionError, match="refused") as caught,
    ):
        say(rpc, "ok")
    # The server may also be a JournalNode.
    assert "server at this address" in caught.value.hint


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "no\0host"])
def test_invalid_host_names_are_reported(host: str) -> None:
    with RpcClient(host, 1, PROTOCOL, user="a", retry=NO_RETRY) as rpc, pytest.raises(RpcConnectionError) as caught:
        say(rpc, "ok")
    assert not caught.value.sent


def test_client_reconnects_to_a_restarted_server() -> None:
    with serving(ok=lambda _, __: text("one")) as server:
        address = server.address
        rpc = client(server)
        assert say(rpc, "ok") == "one"
    with pytest.raises(RpcConnectionError):
        say(rpc, "ok")
    with RpcServer([service(ok=lambda _, __: text("two"))], *address), rpc:
        assert say(rpc, "ok") == "two"


def cut(peer: socket.socket) -> None:
    read_frames(peer, 2)


def test_interrupted_call_is_retried_only_if_idempotent() -> None:
    pauses: list[float] = []
    with (
        scripted(cut, cut) as address,
        RpcClient(*address, PROTOCOL, user="a", retry=RetryPolicy(attempts=2), sleep=pauses.append) as rpc,
        pytest.raises(RpcConnectionError, match="closed the connection"),
    ):
        say(rpc, "ok")
    assert len(pauses) == 1
    with (
        scripted(cut) as address,
        RpcClient(*address, PROTOCOL, user="a", sleep=pauses.append) as rpc,
        pytest.raises(RpcConnectionError) as caught,
    ):
        say(rpc, "ok", idempotent=False)
    assert caught.value.sent
    assert len(pauses) == 1


def test_call_to_a_silent_server_times_out() -> None:
    def silent(peer: socket.socket) -> None:
        while peer.recv(100):
            pass

    with (
        scripted(silent) as address,
        RpcClient(*address, PROTOCOL, user="a", timeout=0.1) as rpc,
        pytest.raises(RpcTimeoutError, match=r"ok within 0\.1 s"),
    ):
        say(rpc, "ok")


def test_a_silent_server_is_pinged() -> None:
    pinged = threading.Event()

    def silent(peer: socket.socket) -> None:
        read_frames(peer, 3)
        pinged.set()
        while peer.recv(100):
            pass

    with (
        scripted(silent) as address,
        ThreadPoolExecutor(1) as pool,
        RpcClient(*address, PROTOCOL, user="a", timeout=WAIT, ping_interval=0.1, retry=NO_RETRY) as rpc,
    ):
        call = pool.submit(say, rpc, "ok")
        assert pinged.wait(WAIT)
        assert not call.done()
        rpc.close()
        with pytest.raises(RpcConnectionError, match="closed by this side"):
            call.result(WAIT)


def test_call_with_an_infinite_timeout_is_answered() -> None:
    with serving(echo=lambda request, context: request) as server, client(server, timeout=math.inf) as rpc:
        assert say(rpc, "echo", "x") == "x"


def test_other_calls_are_retried_after_a_timeout_closes_the_connection() -> None:
    asked = threading.Event()

    def silent(peer: socket.socket) -> None:
        read_frames(peer, 3)
        asked.set()
        while peer.recv(100):
            pass

    with (
        scripted(silent, cut) as address,
        RpcClient(
            *address, PROTOCOL, user="a", timeout=WAIT, retry=RetryPolicy(attempts=2, back_off=BackOff(0.0, 0.0))
        ) as rpc,
        ThreadPoolExecutor(1) as pool,
    ):
        patient = pool.submit(say, rpc, "ok")
        wait_until("the call", lambda: rpc._link is not None and bool(rpc._link._waiting))
        link = rpc._link
        assert link is not None
        with pytest.raises(RpcTimeoutError, match=r"ok within 0\.1 s"):
            link.call(1 << 20, "ok", text(""), 0.1, retry=0)
        # The second connection is also interrupted, and the caller receives the error.
        with pytest.raises(RpcConnectionError, match="closed the connection"):
            patient.result(WAIT)
    assert asked.is_set()


def test_fault_of_the_reader_thread_fails_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("hadoop_rpc.client_state.ClientConnection.receive", fail)
    with (
        serving(ok=lambda _, __: text("ok")) as server,
        client(server) as rpc,
        pytest.raises(RpcConnectionError, match="was closed") as caught,
    ):
        say(rpc, "ok")
    assert caught.value.sent
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", RpcProtocolError, "the server answers with HTTP, not with Hadoop RPC"),
        (b"\x15\x03\x03\x00\x02\x02\x46", RpcProtocolError, "the server answers with TLS, not with Hadoop RPC"),
        (b"\x00\x00\x00\x03\xff\xff\xff", RpcProtocolError, "does not end a message length"),
        (b"\x00\x00\x00\x08\x07", RpcConnectionError, "closed the connection"),
    ],
)
def test_server_of_another_protocol_is_reported(answer: bytes, kind: type[RpcError], message: str) -> None:
    def talk(peer: socket.socket) -> None:
        read_frames(peer, 2)
        peer.sendall(answer)

    with (
        scripted(talk) as address,
        RpcClient(*address, PROTOCOL, user="a", retry=NO_RETRY) as rpc,
        pytest.raises(kind, match=message) as caught,
    ):
        say(rpc, "ok")
    assert host_port(*address) in str(caught.value)


def test_http_server_is_reported_the_same_way_at_any_moment() -> None:
    """An HTTP server responds to the first bytes and closes the connection, while the client still sends."""

    def talk(peer: socket.socket) -> None:
        peer.recv(7)
        peer.sendall(b"HTTP/1.1 400 Illegal character CNTL=0x9\r\nConnection: close\r\n\r\n")

    for _ in range(20):
        with (
            scripted(talk) as address,
            RpcClient(*address, PROTOCOL, user="a", retry=NO_RETRY) as rpc,
            pytest.raises(RpcProtocolError, match="answers with HTTP") as caught,
        ):
            say(rpc, "ok")
        assert "dfs.namenode.rpc-address" in caught.value.hint


def test_close_of_a_client_fails_its_calls() -> None:
    slow = SlowCall("late")
    with serving(slow=slow) as server, ThreadPoolExecutor(1) as pool:
        rpc = client(server)
        call = pool.submit(say, rpc, "slow")
        slow.await_begin()
        rpc.close()
        with pytest.raises(RpcConnectionError, match="closed by this side"):
            call.result(WAIT)
        slow.release()
        with pytest.raises(RpcConnectionError, match="is closed"):
            say(rpc, "slow")


def test_stop_waits_for_running_calls() -> None:
    slow = SlowCall("done")
    with serving(slow=slow) as server, ThreadPoolExecutor(2) as pool, client(server) as rpc:
        call = pool.submit(say, rpc, "slow")
        slow.await_begin()
        stop = pool.submit(server.stop)
        slow.release()
        assert call.result(WAIT) == "done"
        stop.result(WAIT)
        with pytest.raises(RpcConnectionError):
            say(rpc, "slow")


def test_no_calls_begin_after_a_stop_times_out() -> None:
    slow = SlowCall("late")
    server = RpcServer([service(slow=slow)], "127.0.0.1", 0, handlers=1, shutdown_timeout=0.1)
    with ThreadPoolExecutor(3) as pool, server, client(server) as rpc:
        calls = [pool.submit(say, rpc, "slow", "first")]
        slow.await_begin()
        calls += [pool.submit(say, rpc, "slow", word) for word in ("second", "third")]
        wait_until("the calls in the queue", lambda: len(server._calls) == 2)
        connections = server.loop.channels()
        server.stop()
        assert not server.loop.channels()
        assert [connection.socket.fileno() for connection in connections] == [-1]
        slow.release()
        with pytest.raises(RpcConnectionError):
            calls[0].result(WAIT)
        for call in calls[1:]:
            with pytest.raises(RetriableError, match="stopping"):
                call.result(WAIT)
        for handler in server._handlers:
            handler.join(WAIT)
            assert not handler.is_alive()
    assert slow.performed == ["first"]


def test_stop_ends_other_calls_while_it_waits_for_a_running_one() -> None:
    """While the shutdown waits for a running call, all other calls end with a response or a closed connection."""
    slow = SlowCall("done")
    server = RpcServer([service(slow=slow)], "127.0.0.1", 0, handlers=1, shutdown_timeout=WAIT)
    server.start()
    with (
        ThreadPoolExecutor(5) as pool,
        client(server) as shared,
        client(server) as other,
        socket.create_connection(server.address) as idle,
    ):
        running = pool.submit(say, shared, "slow", "first")
        slow.await_begin()
        waiting = [pool.submit(say, each, "slow", "waiting") for each in (shared, other)]
        wait_until("the calls in the queue", lambda: len(server._calls) == 2)
        stop = pool.submit(server.stop)
        for call in waiting:
            with pytest.raises(RetriableError, match="stopping"):
                call.result(WAIT)
        idle.settimeout(WAIT)
        assert idle.recv(1) == b""
        # a new call on the connection of the running call
        with pytest.raises(RetriableError, match="stopping"):
            say(shared, "slow", "late")
        # the connection without a running call has ended
        with pytest.raises(RpcConnectionError):
            say(other, "slow", "late")
        assert not stop.done()
        assert not running.done()
        slow.release()
        assert running.result(WAIT) == "done"
        stop.result(WAIT)
    assert slow.performed == ["first"]


def test_failed_connection_does_not_stop_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(107, "not connected")

    with serving(ok=lambda _, __: text("ok")) as server:
        with monkeypatch.context() as patched:
            patched.setattr("hadoop_rpc.server_connection.RpcChannel.__init__", fail)
            with socket.create_connection(server.address) as peer:
                peer.settimeout(WAIT)
                assert peer.recv(1) == b""
        assert not server.loop.channels()
        with client(server) as rpc:
            assert say(rpc, "ok") == "ok"


@pytest.mark.parametrize("refused", ["rpc-handler-2", "rpc-loop"])
def test_start_without_threads_is_reported_and_leaves_nothing(refused: str) -> None:
    with threads_without(refused, WAIT):
        server = RpcServer([], "127.0.0.1", 0, handlers=4)
        with pytest.raises(RpcError, match="can't start new thread") as caught:
            server.start()
        assert caught.value.hint
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.address)


def test_occupied_port_is_reported() -> None:
    with serving() as server, pytest.raises(RpcError, match="cannot listen"):
        RpcServer([], *server.address).start()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_address_of_another_host_is_reported(host: str) -> None:
    with pytest.raises(RpcError, match="cannot listen") as refused:
        RpcServer([], host, 0).start()
    assert "name of this host" in refused.value.hint


def test_unsupported_protocol_version_is_refused() -> None:
    echo = Service(PROTOCOL, {"ok": Method(ha.GetServiceStatusResponseProto, lambda _, __: text("two"))}, version=2)
    with (
        RpcServer([echo], "127.0.0.1", 0) as server,
        client(server) as rpc,
        pytest.raises(VersionMismatchError, match="version 2"),
    ):
        say(rpc, "ok")
