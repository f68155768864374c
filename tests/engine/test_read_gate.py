"""The gate between readers of a namespace and the thread that applies edits."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from engine.errors import NamespaceBusyError
from engine.read_gate import ReadGate
from tests.namenode_stub.stub_support import wait_until


def test_change_enters_the_gate_before_waiting_readers() -> None:
    gate, order = ReadGate(), list[str]()
    inside, go_on = threading.Event(), threading.Event()

    def change() -> None:
        with gate.changing():
            order.append("change")

    def read() -> None:
        with gate.reading(lambda: True, 600):
            order.append("read")

    def first() -> None:
        with gate.reading(lambda: True, 600):
            inside.set()
            go_on.wait(600)
            gate.pause(lambda: True, 600)
            order.append("first")

    threads = [threading.Thread(target=target) for target in (first, change, read)]
    threads[0].start()
    inside.wait(600)
    threads[1].start()
    wait_until("the change waits", lambda: len(gate._changes) == 1)
    threads[2].start()
    go_on.set()
    for thread in threads:
        thread.join(600)
    assert order[0] == "change"
    assert set(order) == {"change", "read", "first"}


def test_pause_admits_waiting_readers_that_are_ready() -> None:
    gate, order, applied = ReadGate(), list[str](), [False]

    def read(name: str, is_ready: Callable[[], bool]) -> None:
        with gate.reading(is_ready, 600):
            order.append(name)

    waiting = ("later", lambda: applied[0]), ("now", lambda: True)
    threads = [threading.Thread(target=read, args=each) for each in waiting]
    with gate.reading(lambda: True, 600):
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_until("the reader waits", lambda number=number: len(gate._readers) == number)
        gate.pause(lambda: True, 600)
        order.append("first")
        applied[0] = True
    for thread in threads:
        thread.join(600)
    assert order == ["now", "first", "later"]


def test_readers_enter_the_gate_in_arrival_order() -> None:
    """A reader that waited too long has left the queue and does not delay other readers."""
    gate, order = ReadGate(), list[int | str]()

    def read(number: int, timeout: float) -> None:
        try:
            with gate.reading(lambda: True, timeout):
                order.append(number)
        except NamespaceBusyError:
            order.append("refused")

    threads = [threading.Thread(target=read, args=(number, 600)) for number in range(6)]
    with gate.changing():
        for number, thread in enumerate(threads):
            thread.start()
            wait_until("the reader waits", lambda number=number: len(gate._readers) == number + 1)
            if number == 3:
                late = threading.Thread(target=read, args=(number, 0))
                late.start()
                late.join(600)
    for thread in threads:
        thread.join(600)
    assert order == ["refused", *range(6)]


def test_timed_out_pause_does_not_block_the_gate() -> None:
    """The reader ends although the change, for instance a save, continues."""
    gate, ready, go_on = ReadGate(), [True], threading.Event()
    inside = threading.Event()

    def change() -> None:
        with gate.changing():
            ready[0] = False
            inside.set()
            go_on.wait(600)

    thread = threading.Thread(target=change)
    with pytest.raises(NamespaceBusyError), gate.reading(lambda: ready[0], 600):
        thread.start()
        wait_until("the change waits", lambda: len(gate._changes) == 1)
        gate.pause(lambda: ready[0], 0)
    inside.wait(600)
    # the end of the reader has not opened the gate, which the change still occupies
    with pytest.raises(NamespaceBusyError), gate.reading(lambda: True, 0):
        pass
    go_on.set()
    thread.join(600)
    with gate.reading(lambda: True, 600):
        pass
