"""Queries that may never return; each runs in its own thread, and one time limit applies to all of them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from checkpointer.checks.facts import Observation
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text

T = TypeVar("T")
K = TypeVar("K")


def ask(question: Callable[[], T]) -> Observation[T]:
    """Return the result or the error of `question`."""
    try:
        return Observation(question())
    except HdfsError as fault:
        return Observation(error=fault.message, hint=fault.hint)
    except OSError as fault:
        return Observation(error=error_text(fault))


def ask_all(questions: Mapping[K, Callable[[], T]], limit: float) -> dict[K, Observation[T]]:
    """Run all questions in parallel; the result of a question that takes more than `limit` seconds is an error.

    A hanging thread, for instance on a dead NFS mount, is abandoned and ends with the process. Exceptions other than
    HdfsError and OSError propagate.
    """
    answers: queue.SimpleQueue[tuple[K, Observation[T] | BaseException]] = queue.SimpleQueue()

    def run(key: K, question: Callable[[], T]) -> None:
        try:
            answers.put((key, ask(question)))
        except BaseException as fault:
            answers.put((key, fault))

    for key, question in questions.items():
        threading.Thread(target=run, args=(key, question), name=f"check-{key}", daemon=True).start()
    deadline = time.monotonic() + limit
    found: dict[K, Observation[T]] = {}
    while len(found) < len(questions):
        try:
            key, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if isinstance(answer, BaseException):
            raise answer
        found[key] = answer
    return {key: found.get(key, Observation(error=f"no answer within {limit:g} s", late=True)) for key in questions}
