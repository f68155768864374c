"""Depth of the tests: by default a sample; CHECKPOINTER_TEST_DEPTH selects everything.

CHECKPOINTER_TEST_DEPTH is `quick`, `deep`, or a number N for N times as many random cases as `deep`.
CHECKPOINTER_TEST_SEED (1) chooses the sample and the random cases.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hypothesis import settings

SEED = int(os.environ.get("CHECKPOINTER_TEST_SEED", "1"))
_DEPTH = os.environ.get("CHECKPOINTER_TEST_DEPTH", "quick")
_FACTOR = {"quick": 0, "": 0, "deep": 1}[_DEPTH] if not _DEPTH.isdecimal() else int(_DEPTH)
# divisor of `full` in the quick tier if `quick` is not given
_DIVISOR = 8

Item = TypeVar("Item")


def deep() -> bool:
    """Return whether the tests run in the deep tier."""
    return _FACTOR > 0


def scaled(full: int, quick: int | None = None) -> int:
    """Return `full` in the deep tier; in the quick tier, return `quick`, or an eighth of `full` by default."""
    if deep():
        return full * _FACTOR
    return max(1, full // _DIVISOR) if quick is None else quick


def examples(full: int, **others: Any) -> settings:
    """Return Hypothesis settings with `full` examples in the deep tier, fewer in the quick tier."""
    # the environment of the fuzzer does not contain Hypothesis
    from hypothesis import settings

    return settings(max_examples=max(scaled(full), 5), **others)


def sample(items: Sequence[Item], quick: int, name: str) -> Sequence[Item]:
    """Return all `items` in the deep tier; in the quick tier `quick` of them, in order, chosen by `name` and seed."""
    return items if deep() else chosen(items, quick, name)


def chosen(items: Sequence[Item], count: int, name: str) -> Sequence[Item]:
    """Return `count` of `items`, in order, chosen by `name` and seed."""
    if len(items) <= count:
        return items
    digest = hashlib.sha256(f"{SEED} {name}".encode()).digest()
    return [items[at] for at in sorted(random.Random(digest).sample(range(len(items)), count))]
