"""Queries that may never return. Each query runs in a separate thread, and one time limit applies to all queries."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from types import CodeType
from typing import TypeVar

from checkpointer.checks.facts import Observation
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_hanging: dict[tuple[Hashable, CodeType], threading.Thread] = {}
"""Threads of questions that exceeded their limit."""


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

    The function abandons a hanging thread, for example on a dead NFS mount; the thread ends with the process. While the
    thread hangs, the same question fails immediately, because repeated checks of a daemon must not add threads.
    Exceptions other than HdfsError and OSError propagate.

    Args:
        questions: functions by key; a key and the source of its function identify a question.
    """
    answers: queue.SimpleQueue[tuple[K, Observation[T] | BaseException]] = queue.SimpleQueue()

    def run(key: K, question: Callable[[], T]) -> None:
        try:
            answers.put((key, ask(question)))
        except BaseException as fault:
            answers.put((key, fault))

    found: dict[K, Observation[T]] = {}
    threads: dict[K, threading.Thread] = {}
    for key, question in questions.items():
        earlier = _hanging.get((key, _source(question)))
        if earlier is not None and earlier.is_alive():
            found[key] = Observation(error="an earlier query has not returned yet", late=True)
            continue
        threads[key] = threading.Thread(target=run, args=(key, question), name=f"check-{key}", daemon=True)
        threads[key].start()
    deadline = time.monotonic() + limit
    while len(found) < len(questions):
        try:
            key, answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if isinstance(answer, BaseException):
            raise answer
        found[key] = answer
    for key in threads.keys() - found.keys():
        _hanging[key, _source(questions[key])] = threads[key]
    return {key: found.get(key, Observation(error=f"no answer within {limit:g} s", late=True)) for key in questions}


def _source(question: Callable[[], object]) -> CodeType:
    function = question.func if isinstance(question, partial) else question
    code: CodeType = function.__code__
    return code
