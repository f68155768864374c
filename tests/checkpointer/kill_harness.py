"""Kills a process with SIGKILL at each step of its work: every durable file operation and every network call.

`record` runs a body in a child process and lists the steps; `kill` runs the body again and kills the process at one
step. Children are forked from a server process that has imported everything and compiled the kernels, so that each
child starts quickly. A body is a module's function with arguments that can be pickled. The harness works for any role.
"""

from __future__ import annotations

import http.client
import io
import multiprocessing
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from checkpointer.transfer.send_loop import BodySender
from hadoop_common import http_connection
from hadoop_rpc.client import RpcClient

WARM_MODULE = "tests.checkpointer.kill_warm"
CHILD_SECONDS = 600.0

_FILE_STEPS = ("fsync", "rename", "replace", "unlink", "remove", "mkdir", "rmdir", "ftruncate", "link")
_NETWORK_STEPS: tuple[tuple[type, str], ...] = (
    (RpcClient, "call"),
    (http_connection.CancellableConnection, "connect"),
    (http.client.HTTPConnection, "endheaders"),
    (http.client.HTTPConnection, "getresponse"),
    (http.client.HTTPResponse, "read"),
    (http.client.HTTPResponse, "readinto"),
    (BodySender, "send"),
)


@dataclass(frozen=True)
class Kill:
    """Place of a kill: before step `number` of a run or, with `half`, in the middle of that step, which is a write."""

    number: int
    step: str
    half: bool = False

    def __str__(self) -> str:
        return f"{self.number}-{'half-' if self.half else ''}{self.step}"


def kills(steps: list[str]) -> Iterator[Kill]:
    """Yield every place for a kill: before each step, in the middle of each write, and after the last step."""
    for number, step in enumerate(steps):
        yield Kill(number, step)
        if step.startswith("write"):
            yield Kill(number, step, half=True)
    yield Kill(len(steps) - 1, f"after-{steps[-1]}", half=True)


def record(body: Callable[..., None], *arguments: object) -> list[str]:
    """Return the steps of an undisturbed run."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    with receiving:
        code = _run(_record, body, arguments, sending)
        sending.close()
        assert code == 0, f"the child exited with code {code}"
        steps: list[str] = receiving.recv()
    return steps


def kill(where: Kill, body: Callable[..., None], *arguments: object) -> None:
    """Run `body` in a child that is killed at `where`."""
    code = _run(_die, body, arguments, where)
    assert code == -signal.SIGKILL, f"the child was not killed at {where}, it exited with code {code}"


# ---- the child ---------------------------------------------------------------------------------------------


def _run(target: Callable[..., None], body: Callable[..., None], arguments: tuple[object, ...], more: object) -> int:
    context = multiprocessing.get_context("forkserver")
    # This affects only the first child; afterwards, the server is already running.
    context.set_forkserver_preload(["__main__", WARM_MODULE, body.__module__])
    child = context.Process(target=target, args=(body, arguments, more))
    child.start()
    child.join(CHILD_SECONDS)
    if child.exitcode is None:
        child.kill()
        child.join()
        raise AssertionError("the child did not end")
    return child.exitcode


class _Counter:
    """Called around each step, by any thread."""

    def __init__(self, reached: Callable[[int], None]) -> None:
        self._reached = reached
        self._lock = threading.Lock()
        self.steps: list[str] = []

    def step(self, name: str) -> int:
        with self._lock:
            number = len(self.steps)
            self.steps.append(name)
            self._reached(number)
            return number


def _record(body: Callable[..., None], arguments: tuple[object, ...], sending: Connection) -> None:
    counter = _Counter(lambda number: None)
    _instrument(counter, None)
    body(*arguments)
    sending.send(counter.steps)


def _die(body: Callable[..., None], arguments: tuple[object, ...], where: Kill) -> None:
    def reached(number: int) -> None:
        if number == where.number and not where.half:
            _kill_self()

    _instrument(_Counter(reached), where.number if where.half else None)
    body(*arguments)


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _instrument(counter: _Counter, half: int | None) -> None:
    """Patch the functions that change files or communicate, for the rest of this process, which is a child."""
    for name in _FILE_STEPS:
        setattr(os, name, _counted(getattr(os, name), name, counter, half))
    for owner, name in _NETWORK_STEPS:
        setattr(owner, name, _counted(getattr(owner, name), f"{owner.__name__}.{name}", counter, half))
    open_file, open_path = os.open, pathlib.Path.open

    def counted_write(write: Callable[..., int]) -> Callable[..., int]:
        def counted(descriptor: int, data: Any, *offset: int) -> int:
            if counter.step("write") == half:
                try:
                    write(descriptor, memoryview(data)[: len(data) // 2], *offset)
                finally:
                    # a write of half the data may fail, because direct writes consist of whole blocks
                    _kill_self()
            return write(descriptor, data, *offset)

        return counted

    def counted_open(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            counter.step(f"create {pathlib.Path(path).name}")
        return open_file(path, flags, *more, **named)

    def counted_path_open(self: pathlib.Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        opened = open_path(self, mode, *more, **named)
        if isinstance(opened, io.BufferedWriter):
            counter.step(f"created {self.name}")
        return opened

    os.write, os.pwrite = counted_write(os.write), counted_write(os.pwrite)
    os.open, pathlib.Path.open = counted_open, counted_path_open  # type: ignore


def _counted(original: Callable[..., Any], name: str, counter: _Counter, half: int | None) -> Callable[..., Any]:
    def counted(*arguments: Any, **named: Any) -> Any:
        if name == "HTTPResponse.readinto":
            # the number of pieces of a body depends on the machine, so only the first piece is a step
            if hasattr(arguments[0], "is_begun"):
                return original(*arguments, **named)
            arguments[0].is_begun = True
        number = counter.step(name)
        result = original(*arguments, **named)
        if number == half:
            _kill_self()
        return result

    return counted
