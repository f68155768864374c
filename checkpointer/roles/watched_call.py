"""Blocking calls that the caller abandons when it is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from engine.errors import CheckpointCancelledError

_SLICE_SECONDS = 0.25

T = TypeVar("T")


def watched(call: Callable[[], T], cancelled: Callable[[], bool], whom: str) -> T:
    """Return or raise the result of `call`, which runs in a thread of its own; `whom` names the peer that must answer.

    Raises:
        CheckpointCancelledError: `cancelled()` became true first. The thread lives as long as its call.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=f"call-{whom}", daemon=True).start()
    while not wait([answer], _SLICE_SECONDS).done:
        if cancelled():
            raise CheckpointCancelledError(f"cancelled while {whom} did not answer")
    return answer.result()
