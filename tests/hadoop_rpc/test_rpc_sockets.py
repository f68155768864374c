"""Calls over real sockets: responses, errors and retries."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hadoop_common.back_off import BackOff
from hadoop_common.errors import HdfsError
from hadoop_rpc.client import RetryPolicy, RpcClient
from hadoop_rpc.errors import (
    NoSuchProtocolError,
    NoSuchRpcMethodError,
    RemoteError,
    RetriableError,
    RpcConnectionError,
    RpcProtocolError,
    RpcServerError,
    SafeModeError,
)
from hadoop_rpc.proto import ha_service_pb2 as ha
from hadoop_rpc.service import CallContext
from tests.hadoop_rpc.socket_support import WAIT, Handler, client, say, serving, text
from tests.namenode_stub.stub_support import wait_until


def test_a_server_measures_its_calls() -> None:
    def fail(request: ha.GetServiceStatusResponseProto, _: CallContext) -> ha.GetServiceStatusResponseProto:
        raise RemoteError("no")

    with serving(echo=lambda request, _: request, fail=fail) as server, client(server) as rpc:
        say(rpc, "echo", "x" * 1000)
        with pytest.raises(RemoteError):
            say(rpc, "fail")
        # a call is counted after its response
        wait_until("both calls", lambda: server.activity.counts().calls == 2)
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


def test_responses_arrive_in_the_order_of_completion() -> None:
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
    ("error", "kind", "message"),
    [
        (SafeModeError("Log not rolled. Name node is in safe mode."), SafeModeError, "Log not rolled"),
        (RemoteError("odd", class_name="org.example.OddException"), RemoteError, "odd"),
        (HdfsError("the disk is full"), RemoteError, "the disk is full"),
        (ZeroDivisionError("secret detail"), RemoteError, "ZeroDivisionError"),
    ],
)
def test_faults_of_a_handler_reach_the_caller(error: Exception, kind: type[RemoteError], message: str) -> None:
    with serving(fail=raising(error), ok=lambda _, __: text("ok")) as server, client(server) as rpc:
        with pytest.raises(kind, match=message) as caught:
            say(rpc, "fail")
        assert "secret" not in str(caught.value)
        assert say(rpc, "ok") == "ok"


@pytest.mark.parametrize("where", ["hadoop_rpc.service.parse", "hadoop_rpc.server_state.ServerConnection.respond"])
def test_memory_error_does_not_stop_a_handler(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def lack(*_: object) -> None:
        raise MemoryError

    with serving(handlers=1, ok=lambda _, __: text("ok")) as server:
        for _ in range(3):
            with monkeypatch.context() as exhausted, client(server) as rpc:
                exhausted.setattr(where, lack)
                with pytest.raises((RemoteError, RpcConnectionError)):
                    say(rpc, "ok")
        with client(server) as rpc:
            assert say(rpc, "ok") == "ok"


def test_unknown_methods_and_protocols_are_refused() -> None:
    with serving(ok=lambda _, __: text("ok")) as server:
        with client(server) as rpc, pytest.raises(NoSuchRpcMethodError, match="other"):
            say(rpc, "other")
        with RpcClient(*server.address, "org.example.Other", user="a") as rpc, pytest.raises(NoSuchProtocolError):
            say(rpc, "ok")


def test_incomplete_response_is_reported_as_a_server_error() -> None:
    with (
        serving(bad=lambda _, __: ha.GetServiceStatusResponseProto()) as server,
        client(server) as rpc,
        pytest.raises(RemoteError, match="cannot be encoded"),
    ):
        say(rpc, "bad")


def test_retriable_error_is_retried() -> None:
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


def test_unencodable_error_text_does_not_stop_a_handler() -> None:
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


def test_concurrent_large_calls_do_not_block_each_other() -> None:
    """The calls exceed the buffers of sockets and handlers, so responses must be read while requests are sent."""
    with serving(1, echo=lambda request, _: request) as server, client(server) as rpc, ThreadPoolExecutor(8) as pool:
        words = [str(number) * (8 << 20) for number in range(8)]
        assert all(pool.map(lambda word: say(rpc, "echo", word) == word, words))
