"""Calls to a peer that a cancelled checkpoint abandons."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from engine.errors import CheckpointCancelledError

_SLICE_SECONDS = 0.25

T = TypeVar("T")


def watched(call: Callable[[], T], cancelled: Callable[[], bool], peer: str) -> T:
    """Run `call` in a separate thread, and return or raise its result; `peer` is the name of the peer that answers.

    Raises:
        CheckpointCancelledError: `cancelled()` became true first; the thread continues until the call returns.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=f"call-{peer}", daemon=True).start()
    while not wait([answer], _SLICE_SECONDS).done:
        if cancelled():
            raise CheckpointCancelledError(f"cancelled while {peer} did not answer")
    return answer.result()
