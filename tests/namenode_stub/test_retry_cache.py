"""The stub answers repeated calls from memory, and after a restart from the edits."""

from __future__ import annotations

import getpass
import threading
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext
from journal import ops
from namenode_stub.names.caller import ClientCall
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.node import NameNodeStub
from namenode_stub.rpc.changes import file_changes
from namenode_stub.rpc.handlers import OnceOnly
from namenode_stub.rpc.service_switch import ServiceSwitch
from namenode_stub.rpc.snapshots import snapshot_changes
from tests.namenode_stub.rpc_support import rpc_config

ME = getpass.getuser()
CLIENT = b"0123456789abcdef"


def never() -> Any:
    raise AssertionError("the call must not be performed")


def test_a_response_is_repeated_until_it_expires() -> None:
    now = [0.0]
    cache = RetryCache(lambda: now[0], capacity=2)
    calls = [ClientCall(client_id=CLIENT, call_id=number) for number in range(3)]
    assert cache.once(calls[0], lambda: "a", never) == "a"
    now[0] = 600.0
    assert cache.once(calls[0], never, never) == "a"
    now[0] = 600.1
    assert cache.once(calls[0], lambda: "b", never) == "b"
    assert cache.once(calls[1], lambda: "c", never) == "c"
    assert cache.once(calls[2], lambda: "d", never) == "d"
    assert cache.once(calls[1], never, never) == "c"
    # Only a limited number of responses is kept.
    assert cache.once(calls[0], lambda: "e", never) == "e"


def test_failed_calls_and_calls_without_ids_are_performed_again() -> None:
    cache = RetryCache()
    caller = ClientCall(client_id=CLIENT, call_id=1)
    with pytest.raises(ZeroDivisionError):
        cache.once(caller, lambda: 1 // 0, never)
    assert cache.once(caller, lambda: 5, never) == 5
    for anonymous in (ClientCall(), ClientCall(client_id=CLIENT), ClientCall(call_id=3)):
        assert [cache.once(anonymous, lambda n=n: n, never) for n in (1, 2)] == [1, 2]  # type: ignore[misc]


def test_a_repeated_call_waits_for_the_running_call() -> None:
    cache = RetryCache()
    caller = ClientCall(client_id=CLIENT, call_id=1)
    running, go_on = threading.Event(), threading.Event()
    answers: list[str] = []

    def slow() -> str:
        running.set()
        assert go_on.wait(600)
        return "once"

    first = threading.Thread(target=lambda: answers.append(cache.once(caller, slow, never)))
    first.start()
    assert running.wait(600)
    second = threading.Thread(target=lambda: answers.append(cache.once(caller, never, never)))
    second.start()
    go_on.set()
    first.join()
    second.join()
    assert answers == ["once", "once"]


def test_replayed_operations_are_remembered() -> None:
    cache = RetryCache()
    known = ops.DeleteOp(path="/a", timestamp=1, rpc_client_id=CLIENT, rpc_call_id=7)
    given = [known, ops.DeleteOp(path="/b", timestamp=1), ops.SetGenstampV2Op(genstamp=1)]
    assert list(cache.watch(given)) == given
    assert cache.once(ClientCall(client_id=CLIENT, call_id=7), never, lambda: "known") == "known"


def test_repeated_calls_are_answered_before_and_after_a_restart(tmp_path: Path) -> None:
    config = rpc_config(tmp_path)
    perm = pb.FsPermissionProto(perm=0o644)
    create = pb.CreateRequestProto(
        src="/f", masked=perm, clientName="c", createFlag=1, createParent=True, replication=3, blockSize=1 << 27
    )
    rename = pb.RenameRequestProto(src="/f", dst="/g")
    delete = pb.DeleteRequestProto(src="/g", recursive=False)
    snapshot = pb.CreateSnapshotRequestProto(snapshotRoot="/", snapshotName="s")
    remove = pb.DeleteSnapshotRequestProto(snapshotRoot="/", snapshotName="s")

    def context(number: int) -> CallContext:
        return CallContext(ME, "", "127.0.0.1", "p", CLIENT, number, 0)

    def perform_all(stub: NameNodeStub, cache: RetryCache, *, creates: bool = True) -> list[Any]:
        once = OnceOnly(cache)
        handlers = file_changes(stub.namespace, once) | snapshot_changes(stub.namespace, once, ServiceSwitch(ME, ""))
        calls = [("rename", rename), ("delete", delete), ("createSnapshot", snapshot), ("deleteSnapshot", remove)]
        made = [handlers["create"](create, context(1))] if creates else []
        return [*made, *(handlers[name](request, context(2 + n)) for n, (name, request) in enumerate(calls))]

    with NameNodeStub(config) as stub:
        stub.namespace.snapshots.allow("/")
        answers = perform_all(stub, stub.retry_cache)
        last = stub.namespace.transactions.last_txid
        # This includes the response to `create`, although the file no longer exists.
        assert perform_all(stub, stub.retry_cache) == answers
        assert stub.namespace.transactions.last_txid == last
    with NameNodeStub(config) as stub:
        last = stub.namespace.transactions.last_txid
        assert perform_all(stub, stub.retry_cache, creates=False) == answers[1:]
        assert stub.namespace.transactions.last_txid == last
