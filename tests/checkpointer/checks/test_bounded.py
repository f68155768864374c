"""Time limits of queries by `check`."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from checkpointer.checks.bounded import ask_all
from checkpointer.checks.facts import Observation


def test_hanging_query_does_not_delay_the_others() -> None:
    released = threading.Event()
    for limit in (0.5, 5.0, 50.0):
        # on a slow machine, the threads may not have begun within the first limits
        answers = ask_all({"slow": lambda: released.wait(600), "quick": lambda: True}, limit)
        if answers["quick"].value:
            break
    released.set()
    assert answers["quick"].value is True
    assert f"no answer within {limit:g} s" in answers["slow"].error


def test_a_hanging_question_is_not_repeated_until_it_returns() -> None:
    released = threading.Event()

    def hang(number: int) -> int:
        released.wait(600)
        return number

    def ask_both() -> dict[int, Observation[int]]:
        return ask_all({number: partial(hang, number) for number in (1, 2)}, 600 if released.is_set() else 0.0)

    assert [answer.error for answer in ask_both().values()] == ["no answer within 0 s"] * 2
    assert [answer.error for answer in ask_both().values()] == ["an earlier query has not returned yet"] * 2
    # another question with the same key
    assert ask_all({1: lambda: 5}, 600)[1].value == 5
    released.set()
    for thread in threading.enumerate():
        if thread.name.startswith("check-"):
            thread.join(600)
    assert [answer.value for answer in ask_both().values()] == [1, 2]


def test_bug_in_a_query_is_raised() -> None:
    def wrong() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        ask_all({"wrong": wrong}, 10)
