"""Many concurrent clients: the order of changes is the same in memory, in the log, and after a restart or a kill."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from journal.segment_file import list_segments
from namenode_stub.active_namespace import ActiveNamespace, OperationRefusedError
from namenode_stub.node import NameNodeStub
from tests.depth import scaled
from tests.namenode_stub.stub_support import copy_while_written, formatted, restarted_tree, uris, wait_until

THREADS, OPERATIONS = 8, 200
ROUNDS = scaled(15, quick=3)


def client(names: ActiveNamespace, number: int, count: int) -> None:
    """Perform operations of a client that shares its directories with others."""
    chance = random.Random(number)
    for step in range(count):
        shared = f"/shared/{chance.randrange(5)}"
        path = f"{shared}/{number}-{step}"
        with contextlib.suppress(OperationRefusedError):
            match chance.randrange(6):
                case 0:
                    names.mkdirs(path)
                case 1:
                    names.mkdirs(shared)
                    names.create(path)
                case 2:
                    names.create(path)
                    names.files.add_block(path)
                    names.files.close(path, step)
                case 3:
                    names.rename(shared, f"/shared/{chance.randrange(5)}")
                case 4:
                    names.delete(f"/shared/{chance.randrange(5)}", recursive=chance.randrange(10) == 0)
                case _:
                    names.attributes.set_permission(shared, chance.choice([0o700, 0o755]))


def test_changes_of_concurrent_clients_survive_a_restart(tmp_path: Path) -> None:
    config = formatted(tmp_path)
    with NameNodeStub(config) as stub:
        stub.namespace.mkdirs("/shared")
        with ThreadPoolExecutor(THREADS + 2) as pool:
            done = threading.Event()
            others = [pool.submit(repeat, stub.namespace.walk, done), pool.submit(repeat, stub.active.roll, done)]
            clients = [pool.submit(client, stub.namespace, number, OPERATIONS) for number in range(THREADS)]
            for each in clients:
                each.result()
            done.set()
            for each in others:
                each.result()
        before = stub.namespace.walk()
        last = stub.namespace.transactions.log.last_txid
        assert stub.namespace.transactions.last_txid == last
    segments = list_segments(tmp_path / "name" / "current")
    assert len(segments) > 2
    assert [each.path.name for each in segments] == [
        each.path.name for each in list_segments(tmp_path / "shared" / "current")
    ]
    # the last segment ends with the marker that was written at shutdown
    assert segments[-1].last == last + 1
    assert restarted_tree(config) == before


def repeat(action: Callable[[], object], done: threading.Event) -> None:
    while not done.wait(0.01):
        action()


def test_every_acknowledged_operation_survives_a_kill(tmp_path: Path) -> None:
    """A copy of the files equals the state after SIGKILL; a stub started on the copy must have every acknowledged
    operation.
    """
    config = formatted(tmp_path / "live")
    chance = random.Random(7)
    acknowledged: list[str] = []
    stop = threading.Event()
    with NameNodeStub(config) as stub, ThreadPoolExecutor(3) as pool:

        def writer(number: int) -> None:
            step = 0
            # with pauses, so that the log stays short and restarts stay fast
            while not stop.wait(0.005):
                path = f"/w{number}-{step}"
                stub.namespace.create(path)
                acknowledged.append(path)
                if step % 20 == 19:
                    stub.active.roll()
                step += 1

        writers = [pool.submit(writer, number) for number in range(2)]
        try:
            for number in range(ROUNDS):
                target = len(acknowledged) + chance.randrange(25)
                wait_until("more operations", lambda target=target: len(acknowledged) > target)  # type: ignore[misc]
                promised = acknowledged[:]
                copy = tmp_path / f"copy{number}"
                folders = (copy / "name", copy / "shared")
                for folder in folders:
                    copy_while_written(tmp_path / "live" / folder.name, folder)
                copied = replace(
                    config, image_directories=folders[:1], edits=uris(*folders), shared_edits=folders[1].as_uri()
                )
                assert set(promised) <= {status.path for status in restarted_tree(copied)}
        finally:
            stop.set()
        for each in writers:
            each.result()


def test_seen_txid_is_written_after_its_transaction_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = formatted(tmp_path)
    durable = []

    def write(path: Path, data: bytes) -> None:
        txid = int(data)
        opened = path.parent / f"edits_inprogress_{txid:019d}"
        ended = any(segment.last == txid for segment in list_segments(path.parent))
        durable.append(ended or opened.stat().st_size > 8)
        path.write_bytes(data)

    monkeypatch.setattr("checkpointer.storage.formatting.write_atomically", write)
    with NameNodeStub(config) as stub:
        first = stub.active.roll()
        assert (tmp_path / "name/current/seen_txid").read_text() == f"{first}\n"
        assert (tmp_path / "shared/current/seen_txid").read_text() == f"{first}\n"
    assert durable == [True] * 6
