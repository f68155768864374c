"""Sums of rows by pairs of numbers, over any number of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.kernels.sums import add_rows, number_pairs
from pipeline.reports.counts.grouping import Numbers, codes_of

_FIRST_ROOM = 1 << 10


class TextNumbers:
    """Numbering of strings: equal strings have the same number in all batches. Null counts as a string."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {}

    def of(self, column: pa.Array) -> Numbers:
        """Return the number of each row's string."""
        codes, texts = codes_of(column)
        numbers = [self._numbers.setdefault(text, len(self._numbers)) for text in texts.to_pylist()]
        return np.array(numbers, np.int64)[codes]

    def texts(self, numbers: Numbers) -> pa.Array:
        return pa.array(list(self._numbers), pa.string()).take(pa.array(numbers))


class PairNumbers:
    """Numbering of pairs of numbers: equal pairs have the same number in all batches."""

    def __init__(self) -> None:
        self.count = 0
        self._keys = np.empty((_FIRST_ROOM, 2), np.int64)
        self._slots = np.full(2 * _FIRST_ROOM, -1, np.int64)

    def of(self, first: Numbers, second: Numbers) -> Numbers:
        """Return the number of each row's pair."""
        self._make_room(self.count + first.size)
        groups = np.empty(first.size, np.int64)
        pairs = _read_only(first), _read_only(second)
        self.count = int(number_pairs(*pairs, self._slots, self._keys, self.count, groups))
        return groups

    def pairs(self) -> tuple[Numbers, Numbers]:
        """Return the first and the second number of each pair."""
        first, second = self._keys[: self.count].T.copy()
        return first, second

    def _make_room(self, needed: int) -> None:
        if needed <= self._keys.shape[0]:
            return
        first, second = self.pairs()
        room = 1 << (needed - 1).bit_length()
        self._keys = np.empty((room, 2), np.int64)
        self._slots = np.full(2 * room, -1, np.int64)
        groups = np.empty(first.size, np.int64)
        number_pairs(_read_only(first), _read_only(second), self._slots, self._keys, 0, groups)


def _read_only(values: Numbers) -> Numbers:
    """Return a read-only view, because Arrow's arrays are read-only and a kernel should be compiled only once."""
    view = values.view()
    view.flags.writeable = False
    return view


class PairSums:
    """Sums by pairs of numbers; see `kernels.sums.add_rows`.

    Args:
        measures: number of sums.
        largest: number of largest values, after the sums.
    """

    def __init__(self, measures: int, largest: int = 0) -> None:
        self._numbers = PairNumbers()
        self._sums = np.zeros((0, measures + largest), np.int64)
        self._largest = largest

    def add(self, first: Numbers, second: Numbers, values: Numbers) -> None:
        """Add rows.

        Args:
            values: a row for each sum and largest value, and a column for each row.
        """
        groups = self._numbers.of(first, second)
        if self._numbers.count > self._sums.shape[0]:
            sums = np.zeros((2 * self._numbers.count, self._sums.shape[1]), np.int64)
            sums[: self._sums.shape[0]] = self._sums
            self._sums = sums
        add_rows(groups, values, self._sums, self._largest)

    def table(self) -> tuple[Numbers, Numbers, Any]:
        """Return the first and the second number of each pair, and the sums and largest values of all pairs."""
        return (*self._numbers.pairs(), np.ascontiguousarray(self._sums[: self._numbers.count].T))
