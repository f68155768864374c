"""How often Python looks for cycles of objects that nobody refers to."""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Let the collector walk all objects only where a process makes very many.

    By default it walks all that is imported again and again: a fifth of a merge with few edits, a twentieth of a replay
    of snapshots. No start makes as many objects.
    """
    gc.set_threshold(100_000, 20, 100)
