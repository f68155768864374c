"""Runs an operation in a child process, with errors injected into its system calls."""

from __future__ import annotations

import ctypes
import itertools
import logging
import multiprocessing
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.checkpointer.kill_harness import WARM_MODULE

CHILD_SECONDS = 600.0
_PR_SET_PTRACER = 0x59616D61
_ANYONE = ctypes.c_ulong(-1)
_T = TypeVar("_T")


@dataclass
class Outcome:
    """The result of an operation.

    Attributes:
        code: exit status of a command, or its equivalent.
        text: what an operator reads: standard error, results, alarms, warnings.
        tracebacks: uncaught exceptions, and exceptions logged as faults of the program.
        facts: further results of the operation.
    """

    code: int
    text: str
    tracebacks: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def run_in_child(
    body: Callable[..., Outcome], *arguments: object, watched: Callable[[int], AbstractContextManager[_T]]
) -> tuple[Outcome, _T]:
    """Run `body` in a child process, inside the context that `watched` returns for its process id."""
    context = multiprocessing.get_context("forkserver")
    # This affects only the first child, because the server is already running afterwards.
    context.set_forkserver_preload(["__main__", WARM_MODULE])
    ours, theirs = multiprocessing.Pipe()
    child = context.Process(target=_child, args=(body, arguments, theirs))
    child.start()
    theirs.close()
    assert child.pid is not None
    with ours:
        assert ours.recv() == "ready"
        with watched(child.pid) as watch:
            ours.send("go")
            outcome = ours.recv() if ours.poll(CHILD_SECONDS) else None
            child.join(CHILD_SECONDS if outcome else 0)
            if child.exitcode is None:
                child.kill()
                child.join()
                outcome = outcome or Outcome(-1, "the child did not end", ["no end"])
    assert outcome is not None
    return outcome, watch


class _Faults(logging.Handler):
    """A handler that collects all tracebacks that the program would print."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []
        self.lines: list[str] = []
        threading.excepthook = lambda reported: self.add("thread", reported.exc_value)
        sys.unraisablehook = lambda reported: self.add("ignored", reported.exc_value)

    def add(self, where: str, fault: BaseException | None) -> None:
        self.found.append(f"{where}: " + "".join(traceback.format_exception(fault)))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if record.exc_info and record.exc_info[1] is not None:
            self.add(record.getMessage(), record.exc_info[1])


def _make_names_repeatable() -> None:
    """Make random file names, and names based on the clock, the same in each run."""
    numbers = itertools.count(1)
    secrets.token_hex = lambda size=8: f"{next(numbers):0{2 * size}x}"  # type: ignore[misc,assignment]
    time.time_ns = lambda: next(numbers) * 1_000_000


def _child(body: Callable[..., Outcome], arguments: tuple[object, ...], parent: Any) -> None:
    # permits strace on systems where a process may trace only its descendants
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYONE, 0, 0, 0)
    _make_names_repeatable()
    faults = _Faults()
    logging.getLogger().addHandler(faults)
    parent.send("ready")
    parent.recv()
    try:
        outcome = body(*arguments)
    except BaseException as fault:
        outcome = Outcome(-1, f"{type(fault).__name__}: {fault}")
        faults.add("body", fault)
    outcome.tracebacks += faults.found
    outcome.facts["log"] = faults.lines
    parent.send(outcome)
