"""Frequency of Python's cyclic garbage collection."""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Run the garbage collector only after very many allocations.

    With the defaults, the collector repeatedly walks all imported objects: a fifth of a merge with few edits, a
    twentieth of a replay of snapshots.
    """
    gc.set_threshold(100_000, 20, 100)
