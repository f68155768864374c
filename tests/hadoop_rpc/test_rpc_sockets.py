"""The threaded client and server on loopback: many calls, cut connections, silent peers, stops."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from hadoop_common.back_off import BackOff
from hadoop_common.errors import HdfsError
from hadoop_rpc.client import NO_RETRY, RetryPolicy, RpcClient
from hadoop_rpc.errors import (
    NoSuchProtocolError,
    NoSuchRpcMethodError,
    RemoteError,
    RetriableError,
    RpcConnectionError,
    RpcError,
    RpcProtocolError,
    RpcServerError,
    RpcTimeoutError,
    SafeModeError,
    VersionMismatchError,
)
from hadoop_rpc.framing import RpcFrameBuffer
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.server import RpcServer
from hadoop_rpc.service import CallContext, Method, Service

PROTOCOL = "org.example.Echo"
WAIT = 600.0

Handler = Callable[[ha.GetServiceStatusResponseProto, CallContext], ha.GetServiceStatusResponseProto]


def text(value: str) -> ha.GetServiceStatusResponseProto:
    """Return a message with a text."""
    return ha.GetServiceStatusResponseProto(state=ha.ACTIVE, notReadyReason=value)


@contextmanager
def serving(handlers: int = 4, **methods: Handler) -> Iterator[RpcServer]:
    echo = Service(
        PROTOCOL, {name: Method(ha.GetServiceStatusResponseProto, handler) for name, handler in methods.items()}
    )
    with RpcServer([echo], "127.0.0.1", 0, handlers=handlers) as server:
        yield server


def client(server: RpcServer, **options: object) -> RpcClient:
    return RpcClient(*server.address, PROTOCOL, user="alice", **{"timeout": WAIT, "retry": NO_RETRY, **options})  # type: ignore[arg-type]


def say(rpc: RpcClient, method: str, value: str = "", *, idempotent: bool = True) -> str:
    answer = rpc.call(method, text(value), ha.GetServiceStatusResponseProto, idempotent=idempotent)
    return answer.notReadyReason


@contextmanager
def scripted(*scripts: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """Yield a server that treats its n-th connection by the n-th script."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for script in scripts:
                peer, _ = listener.accept()
                with peer:
                    script(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()
    thread.join(WAIT)
    assert not thread.is_alive()


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


# ---- calls ----


def test_a_server_measures_its_calls() -> None:
    def fail(request: ha.GetServiceStatusResponseProto, _: CallContext) -> ha.GetServiceStatusResponseProto:
        raise RemoteError("no")

    with serving(echo=lambda request, _: request, fail=fail) as server, client(server) as rpc:
        say(rpc, "echo", "x" * 1000)
        with pytest.raises(RemoteError):
            say(rpc, "fail")
        # counted after the answer
        poll_until(lambda: server.activity.counts().calls == 2)
        counts = server.activity.counts()
        assert (counts.successes, server.open_connections, server.queue_length) == (1, 1, 0)
        assert counts.processing_seconds > 0 <= counts.queue_seconds
        assert min(counts.received, counts.sent) > 1000


def test_many_threads_share_one_connection() -> None:
    seen: set[tuple[str, int]] = set()

    def echo(request: ha.GetServiceStatusResponseProto, caller: CallContext) -> ha.GetServiceStatusResponseProto:
        seen.add((caller.user, caller.call_id))
        return text(request.notReadyReason[::-1])

    with serving(echo=echo) as server, client(server) as rpc, ThreadPoolExecutor(16) as pool:
        words = [f"word {number} {'x' * (number * 37 % 5000)}" for number in range(400)]
        assert list(pool.map(lambda word: say(rpc, "echo", word), words)) == [word[::-1] for word in words]
        assert len(seen) == len(words)
        assert {user for user, _ in seen} == {"alice"}


def test_answers_come_as_calls_end() -> None:
    release = threading.Event()

    def slow(_: object, caller: CallContext) -> ha.GetServiceStatusResponseProto:
        assert release.wait(WAIT)
        return text("slow")

    with (
        serving(slow=slow, quick=lambda _, __: text("quick")) as server,
        client(server) as rpc,
        ThreadPoolExecutor(1) as pool,
    ):
        first = pool.submit(say, rpc, "slow")
        assert say(rpc, "quick") == "quick"
        assert not first.done()
        release.set()
        assert first.result(WAIT) == "slow"


def raising(error: Exception) -> Handler:
    def handler(_: object, __: CallContext) -> ha.GetServiceStatusResponseProto:
        raise error

    return handler


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (SafeModeError("Log not rolled. Name node is in safe mode."), SafeModeError, "Log not rolled"),
        (RemoteError("odd", class_name="org.example.OddException"), RemoteError, "odd"),
        (HdfsError("the disk is full"), RemoteError, "the disk is full"),
        (ZeroDivisionError("secret detail"), RemoteError, "ZeroDivisionError"),
    ],
)
def test_faults_of_a_handler_reach_the_caller(error: Exception, kind: type[RemoteError], said: str) -> None:
    with serving(fail=raising(error), ok=lambda _, __: text("ok")) as server, client(server) as rpc:
        with pytest.raises(kind, match=said) as caught:
            say(rpc, "fail")
        assert "secret" not in str(caught.value)
        assert say(rpc, "ok") == "ok"


def test_what_is_not_served() -> None:
    with serving(ok=lambda _, __: text("ok")) as server:
        with client(server) as rpc, pytest.raises(NoSuchRpcMethodError, match="other"):
            say(rpc, "other")
        with RpcClient(*server.address, "org.example.Other", user="a") as rpc, pytest.raises(NoSuchProtocolError):
            say(rpc, "ok")


def test_an_answer_that_is_not_complete_is_a_fault_of_the_server() -> None:
    with (
        serving(bad=lambda _, __: ha.GetServiceStatusResponseProto()) as server,
        client(server) as rpc,
        pytest.raises(RemoteError, match="cannot be encoded"),
    ):
        say(rpc, "bad")


def test_a_retriable_error_is_tried_again() -> None:
    attempts: list[tuple[int, int]] = []
    pauses: list[float] = []

    def busy(_: object, caller: CallContext) -> ha.GetServiceStatusResponseProto:
        attempts.append((caller.call_id, caller.retry_count))
        if len(attempts) < 3:
            raise RetriableError("starting")
        return text("up")

    policy = RetryPolicy(attempts=3, back_off=BackOff(0.5, 5.0))
    with serving(busy=busy) as server, client(server, retry=policy, sleep=pauses.append) as rpc:
        assert say(rpc, "busy", idempotent=False) == "up"
    assert attempts == [(0, 0), (0, 1), (0, 2)]
    assert pauses == [0.5, 1.0]


def test_a_text_that_cannot_be_encoded_costs_no_handler() -> None:
    with (
        serving(1, bad=raising(RemoteError("name \udc80")), ok=lambda _, __: text("ok")) as server,
        client(server) as rpc,
    ):
        with pytest.raises(RemoteError, match=r"name \?"):
            say(rpc, "bad")
        assert say(rpc, "ok") == "ok"


def test_strings_that_are_not_utf8_are_refused() -> None:
    handled: list[object] = []

    def ok(request: ha.GetServiceStatusResponseProto, _: CallContext) -> ha.GetServiceStatusResponseProto:
        handled.append(request)
        return text("ok")

    broken = ha.GetServiceStatusResponseProto.FromString(b"\x08\x01\x1a\x02\xff\xfe")
    with serving(1, ok=ok, bad=lambda _, __: broken) as server, client(server) as rpc:
        with pytest.raises(RpcServerError, match="notReadyReason is not UTF-8"):
            rpc.call("ok", broken, ha.GetServiceStatusResponseProto)
        with pytest.raises(RpcProtocolError, match="notReadyReason is not UTF-8"):
            say(rpc, "bad")
        assert say(rpc, "ok") == "ok"
    assert len(handled) == 1


def test_large_calls_side_by_side_do_not_wait_for_each_other() -> None:
    """More than sockets and handlers can hold: answers must be read while requests are sent."""
    with serving(1, echo=lambda request, _: request) as server, client(server) as rpc, ThreadPoolExecutor(8) as pool:
        words = [str(number) * (8 << 20) for number in range(8)]
        assert all(pool.map(lambda word: say(rpc, "echo", word) == word, words))


# ---- connections ----


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with (
        RpcClient(*address, PROTOCOL, user="a", retry=NO_RETRY) as rpc,
        pytest.raises(RpcConnectionError, match="refused") as caught,
    ):
        say(rpc, "ok")
    # JournalNodes are called too.
    assert "server at this address" in caught.value.hint


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "no\0host"])
def test_a_name_that_is_none(host: str) -> None:
    with RpcClient(host, 1, PROTOCOL, user="a", retry=NO_RETRY) as rpc, pytest.raises(RpcConnectionError) as caught:
        say(rpc, "ok")
    assert not caught.value.sent


def test_a_server_that_was_started_again_is_called_again() -> None:
    with serving(ok=lambda _, __: text("one")) as server:
        address = server.address
        rpc = client(server)
        assert say(rpc, "ok") == "one"
    with pytest.raises(RpcConnectionError):
        say(rpc, "ok")
    echo = Service(PROTOCOL, {"ok": Method(ha.GetServiceStatusResponseProto, lambda _, __: text("two"))})
    with RpcServer([echo], *address), rpc:
        assert say(rpc, "ok") == "two"


def cut(peer: socket.socket) -> None:
    read_frames(peer, 2)


def test_a_cut_connection_is_tried_again_if_the_call_allows_it() -> None:
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


def test_a_silent_server_is_given_up_and_pinged() -> None:
    pinged = threading.Event()

    def silent(peer: socket.socket) -> None:
        read_frames(peer, 3)
        pinged.set()
        while peer.recv(100):
            pass

    with scripted(silent) as address:
        options = {"timeout": 1.5, "ping_interval": 0.1}
        with RpcClient(*address, PROTOCOL, user="a", **options) as rpc, pytest.raises(RpcTimeoutError):  # type: ignore[arg-type]
            say(rpc, "ok")
    assert pinged.is_set()


def test_a_call_without_a_limit_is_answered() -> None:
    with serving(echo=lambda request, context: request) as server, client(server, timeout=math.inf) as rpc:
        assert say(rpc, "echo", "x") == "x"


def test_who_waits_beside_a_call_that_is_given_up_asks_again() -> None:
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
        poll_until(lambda: rpc._link is not None and bool(rpc._link._waiting))
        rpc._timeout = 0.1
        with pytest.raises(RpcTimeoutError, match=r"ok within 0\.1 s"):
            say(rpc, "ok")
        # The second connection is cut too, and that is what it hears of.
        with pytest.raises(RpcConnectionError, match="closed the connection"):
            patient.result(WAIT)
    assert asked.is_set()


def test_whatever_ends_the_reader_ends_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
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
    ("answer", "kind"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", RpcProtocolError),
        (b"\x00\x00\x00\x03\xff\xff\xff", RpcProtocolError),
        (b"\x00\x00\x00\x08\x07", RpcConnectionError),
    ],
)
def test_a_server_of_something_else(answer: bytes, kind: type[RpcError]) -> None:
    def talk(peer: socket.socket) -> None:
        read_frames(peer, 2)
        peer.sendall(answer)

    with scripted(talk) as address, RpcClient(*address, PROTOCOL, user="a", retry=NO_RETRY) as rpc, pytest.raises(kind):
        say(rpc, "ok")


def test_closing_a_client_ends_its_calls() -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(_: object, __: CallContext) -> ha.GetServiceStatusResponseProto:
        entered.set()
        assert release.wait(WAIT)
        return text("late")

    with serving(slow=slow) as server, ThreadPoolExecutor(1) as pool:
        rpc = client(server)
        call = pool.submit(say, rpc, "slow")
        assert entered.wait(WAIT)
        rpc.close()
        with pytest.raises(RpcConnectionError, match="closed here"):
            call.result(WAIT)
        release.set()
        with pytest.raises(RpcConnectionError, match="is closed"):
            say(rpc, "slow")


def test_a_stop_lets_running_calls_end() -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(_: object, __: CallContext) -> ha.GetServiceStatusResponseProto:
        entered.set()
        assert release.wait(WAIT)
        return text("done")

    with serving(slow=slow) as server, ThreadPoolExecutor(2) as pool, client(server) as rpc:
        call = pool.submit(say, rpc, "slow")
        assert entered.wait(WAIT)
        stop = pool.submit(server.stop)
        release.set()
        assert call.result(WAIT) == "done"
        stop.result(WAIT)
        with pytest.raises(RpcConnectionError):
            say(rpc, "slow")


def test_a_stop_that_does_not_wait_longer_lets_no_more_calls_begin() -> None:
    entered, release = threading.Event(), threading.Event()
    performed: list[str] = []

    def slow(request: ha.GetServiceStatusResponseProto, _: CallContext) -> ha.GetServiceStatusResponseProto:
        performed.append(request.notReadyReason)
        entered.set()
        assert release.wait(WAIT)
        return text("late")

    echo = Service(PROTOCOL, {"slow": Method(ha.GetServiceStatusResponseProto, slow)})
    server = RpcServer([echo], "127.0.0.1", 0, handlers=1, shutdown_timeout=0.1)
    with ThreadPoolExecutor(3) as pool, server, client(server) as rpc:
        calls = [pool.submit(say, rpc, "slow", "first")]
        assert entered.wait(WAIT)
        calls += [pool.submit(say, rpc, "slow", word) for word in ("second", "third")]
        poll_until(lambda: len(server._calls) == 2)
        connections = server.loop.channels()
        server.stop()
        assert not server.loop.channels()
        assert [connection.socket.fileno() for connection in connections] == [-1]
        release.set()
        with pytest.raises(RpcConnectionError):
            calls[0].result(WAIT)
        for call in calls[1:]:
            with pytest.raises(RetriableError, match="stopping"):
                call.result(WAIT)
        for handler in server._handlers:
            handler.join(WAIT)
            assert not handler.is_alive()
    assert performed == ["first"]


def test_a_stop_keeps_nobody_waiting_for_the_calls_of_others() -> None:
    """While the stop waits for one running call, all others have an answer or the end of their connection."""
    entered, release = threading.Event(), threading.Event()
    performed: list[str] = []

    def slow(request: ha.GetServiceStatusResponseProto, _: CallContext) -> ha.GetServiceStatusResponseProto:
        performed.append(request.notReadyReason)
        entered.set()
        assert release.wait(WAIT)
        return text("done")

    echo = Service(PROTOCOL, {"slow": Method(ha.GetServiceStatusResponseProto, slow)})
    server = RpcServer([echo], "127.0.0.1", 0, handlers=1, shutdown_timeout=WAIT)
    server.start()
    with (
        ThreadPoolExecutor(5) as pool,
        client(server) as shared,
        client(server) as other,
        socket.create_connection(server.address) as idle,
    ):
        running = pool.submit(say, shared, "slow", "first")
        assert entered.wait(WAIT)
        waiting = [pool.submit(say, each, "slow", "waiting") for each in (shared, other)]
        poll_until(lambda: len(server._calls) == 2)
        stop = pool.submit(server.stop)
        for call in waiting:
            with pytest.raises(RetriableError, match="stopping"):
                call.result(WAIT)
        idle.settimeout(WAIT)
        assert idle.recv(1) == b""
        # one that comes now, on the connection of the call that runs
        with pytest.raises(RetriableError, match="stopping"):
            say(shared, "slow", "late")
        # the connection without a running call is at its end
        with pytest.raises(RpcConnectionError):
            say(other, "slow", "late")
        assert not stop.done()
        assert not running.done()
        release.set()
        assert running.result(WAIT) == "done"
        stop.result(WAIT)
    assert performed == ["first"]


def test_a_connection_that_cannot_be_served_does_not_end_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_start_without_threads_ends_in_a_sentence_and_leaves_nothing(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    begun: list[threading.Thread] = []

    def refuse(thread: threading.Thread) -> None:
        if thread.name == refused:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    server = RpcServer([], "127.0.0.1", 0, handlers=4)
    with pytest.raises(RpcError, match="can't start new thread") as caught:
        server.start()
    assert caught.value.hint
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.address)
    for thread in begun:
        thread.join(WAIT)
        assert not thread.is_alive()


def test_a_port_that_is_taken() -> None:
    with serving() as server, pytest.raises(RpcError, match="cannot listen"):
        RpcServer([], *server.address).start()


def test_a_version_that_is_not_served() -> None:
    echo = Service(PROTOCOL, {"ok": Method(ha.GetServiceStatusResponseProto, lambda _, __: text("two"))}, version=2)
    with (
        RpcServer([echo], "127.0.0.1", 0) as server,
        client(server) as rpc,
        pytest.raises(VersionMismatchError, match="version 2"),
    ):
        say(rpc, "ok")
