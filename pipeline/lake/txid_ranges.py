"""Sets of transaction ids as ranges: those of the lake, those of segments, and gaps."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple


class TxidRange(NamedTuple):
    """Transactions `first` .. `last`, both included."""

    first: int
    last: int


def merge(ranges: Iterable[TxidRange]) -> list[TxidRange]:
    """Return the same transactions in as few ranges as possible, ascending."""
    merged: list[TxidRange] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1].last + 1:
            merged[-1] = TxidRange(merged[-1].first, max(merged[-1].last, last))
        else:
            merged.append(TxidRange(first, last))
    return merged


def subtract(ranges: Iterable[TxidRange], taken: Iterable[TxidRange]) -> list[TxidRange]:
    """Return the transactions of `ranges` outside of `taken`, in as few ranges as possible."""
    left = []
    known = merge(taken)
    for whole in merge(ranges):
        first = whole.first
        for away in known:
            if away.last < first or away.first > whole.last:
                continue
            if away.first > first:
                left.append(TxidRange(first, away.first - 1))
            first = away.last + 1
        if first <= whole.last:
            left.append(TxidRange(first, whole.last))
    return left


def holes(ranges: Iterable[TxidRange]) -> list[TxidRange]:
    """Return the gaps between the first and the last transaction of `ranges`."""
    merged = merge(ranges)
    return [TxidRange(one.last + 1, two.first - 1) for one, two in itertools.pairwise(merged)]
