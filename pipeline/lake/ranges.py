"""Sets of transactions as ranges, and the ranges in the files of a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class TxidRange(NamedTuple):
    """Transactions `first` .. `last`, both included."""

    first: int
    last: int


class CountedRange(NamedTuple):
    """Transactions of one file: the smallest and largest txid, and their number `rows`."""

    file: str
    first: int
    last: int
    rows: int


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


def contained(files: Iterable[CountedRange]) -> tuple[list[TxidRange], list[str]]:
    """Return the transactions of disjoint files, and the files whose counts do not determine their transactions.

    The days of adjacent transactions can alternate, so the txid ranges of files may overlap. Overlapping files have no
    gap if their counts add up to the width of their common range.
    """
    certain: list[TxidRange] = []
    unclear: list[str] = []
    for group in _overlapping(files):
        whole = TxidRange(group[0].first, max(each.last for each in group))
        if sum(each.rows for each in group) == whole.last - whole.first + 1:
            certain.append(whole)
        else:
            unclear += [each.file for each in group]
    return certain, unclear


def _overlapping(files: Iterable[CountedRange]) -> list[list[CountedRange]]:
    groups: list[list[CountedRange]] = []
    reached = -1
    for file in sorted(files, key=lambda each: (each.first, each.last)):
        if not groups or file.first > reached:
            groups.append([])
            reached = file.last
        groups[-1].append(file)
        reached = max(reached, file.last)
    return groups


def ranges_of(txids: Sequence[int]) -> list[TxidRange]:
    """Return the ranges of single txids."""
    return merge(TxidRange(txid, txid) for txid in txids)
