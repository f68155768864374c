"""Kernels that sum by pairs of numbers, compiled and uncompiled, compared with plain dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.kernels import sums
from pipeline.reports.counts.sums import PairSums

MAX_LONG = (1 << 63) - 1
_KEYS = st.sampled_from([0, 1, -1, 1 << 40, MAX_LONG, -(1 << 63)])
_VALUES = st.integers(0, 9) | st.integers(0, MAX_LONG)
_BATCHES = st.lists(st.lists(st.tuples(_KEYS, _KEYS, _VALUES, _VALUES), max_size=9), max_size=4)


def call(kernel: Any, form: str) -> Callable[..., Any]:
    compiled: Callable[..., Any] = kernel.dispatcher
    return compiled if form == "compiled" else kernel.plainly


@pytest.mark.parametrize("form", ["compiled", "plain"])
@given(batches=_BATCHES)
def test_sums_and_maxima_equal_those_of_a_dictionary(form: str, batches: list[Any]) -> None:
    expected: dict[tuple[int, int], list[int]] = {}
    found = PairSums(1, largest=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pipeline.reports.counts.sums._FIRST_ROOM", 1)
        patched.setattr("pipeline.reports.counts.sums.add_rows", call(sums.add_rows, form))
        patched.setattr("pipeline.reports.counts.sums.number_pairs", call(sums.number_pairs, form))
        for rows in batches:
            first, second, *values = np.array(rows, np.int64).reshape(-1, 4).T.copy()
            found.add(first, second, np.array(values))
            for one, other, value, largest in rows:
                sum_and_largest = expected.setdefault((one, other), [0, 0])
                sum_and_largest[0] = min(MAX_LONG, sum_and_largest[0] + value)
                sum_and_largest[1] = max(sum_and_largest[1], largest)
    first, second, results = found.table()
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    assert dict(zip(pairs, results.T.tolist(), strict=True)) == expected
