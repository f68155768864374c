"""How much is tried: a sample by default, everything where CHECKPOINTER_TEST_DEPTH says so.

CHECKPOINTER_TEST_DEPTH is `quick`, `deep`, or a number N: as deep, and N times as many of what is random.
CHECKPOINTER_TEST_SEED (1) says which sample, and which random ones.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import settings

SEED = int(os.environ.get("CHECKPOINTER_TEST_SEED", "1"))
_DEPTH = os.environ.get("CHECKPOINTER_TEST_DEPTH", "quick")
_FACTOR = {"quick": 0, "": 0, "deep": 1}[_DEPTH] if not _DEPTH.isdecimal() else int(_DEPTH)
# what the quick tier tries of what has no number of its own there
_SHARE = 6

Item = TypeVar("Item")


def deep() -> bool:
    """Whether everything is tried."""
    return _FACTOR > 0


def scaled(full: int, quick: int | None = None) -> int:
    """How often something random is tried: `full` times at full depth; in the quick tier `quick`, or a sixth."""
    if deep():
        return full * _FACTOR
    return max(1, full // _SHARE) if quick is None else quick


def examples(full: int, **others: Any) -> settings:
    """Hypothesis' settings with so many examples at full depth."""
    return settings(max_examples=max(scaled(full), 5), **others)


def sample(items: Sequence[Item], quick: int, name: str) -> Sequence[Item]:
    """All of `items` at full depth; in the quick tier `quick` of them, in order, others for another `name` or seed."""
    return items if deep() else chosen(items, quick, name)


def chosen(items: Sequence[Item], count: int, name: str) -> Sequence[Item]:
    """`count` of `items`, in order, others for another `name` or seed."""
    if len(items) <= count:
        return items
    digest = hashlib.sha256(f"{SEED} {name}".encode()).digest()
    return [items[at] for at in sorted(random.Random(digest).sample(range(len(items)), count))]
