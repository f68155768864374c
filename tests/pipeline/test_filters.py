"""Filters on Arrow arrays mean what SQL means by them, nulls included."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as ds

from pipeline.schema import TIMESTAMP, Column, Table
from pipeline.sources.filters import Filters, column_of

TABLE = Table(
    "t",
    "",
    (
        Column("n", pa.int64(), "", ""),
        Column("i", pa.int32(), "", ""),
        Column("s", pa.string(), "", ""),
        Column("t", TIMESTAMP, "", ""),
        Column("b", pa.bool_(), "", ""),
        Column("l", pa.list_(pa.string()), "", ""),
    ),
)
N, S, T = ("n",), ("s",), ("t",)
COMPARED = {
    ds.EqualTo: lambda a, b: a == b,
    ds.LessThan: lambda a, b: a < b,
    ds.LessThanOrEqual: lambda a, b: a <= b,
    ds.GreaterThan: lambda a, b: a > b,
    ds.GreaterThanOrEqual: lambda a, b: a >= b,
    ds.StringStartsWith: lambda a, b: a.startswith(b),
    ds.StringEndsWith: lambda a, b: a.endswith(b),
    ds.StringContains: lambda a, b: b in a,
}

numbers = st.integers(-3, 3)
words = st.text("ab%_.é", max_size=3)
times = st.integers(0, 3).map(lambda second: datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC))


def twin(item: Any, value: Any) -> bool | None:
    """SQL's answer for one value, None for unknown."""
    if isinstance(item, ds.Not):
        inner = twin(item.child, value)
        return None if inner is None else not inner
    if isinstance(item, ds.IsNull | ds.IsNotNull):
        return (value is None) == isinstance(item, ds.IsNull)
    if isinstance(item, ds.EqualNullSafe):
        return bool(value == item.value)
    if value is None:
        return None
    return value in item.value if isinstance(item, ds.In) else bool(COMPARED[type(item)](value, item.value))


@st.composite
def conditions(draw: st.DrawFn, column: str, values: st.SearchStrategy[Any]) -> ds.Filter:
    comparing = [kind for kind in COMPARED if column == "s" or not kind.__name__.startswith("String")]
    kind = draw(st.sampled_from([*comparing, ds.In, ds.IsNull, ds.IsNotNull, ds.EqualNullSafe]))
    made: Any
    if kind in (ds.IsNull, ds.IsNotNull):
        made = kind((column,))
    elif kind is ds.In:
        made = ds.In((column,), tuple(draw(st.lists(values, min_size=1, max_size=3))))
    elif kind is ds.EqualNullSafe:
        made = ds.EqualNullSafe((column,), draw(st.none() | values))
    else:
        made = kind((column,), draw(values))
    return ds.Not(made) if draw(st.booleans()) else made


@given(st.sampled_from([("n", numbers), ("i", numbers), ("s", words), ("t", times)]), st.data())
def test_a_row_passes_where_sql_says_true(column: tuple[str, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    name, values = column
    item = data.draw(conditions(name, values))
    rows = data.draw(st.lists(st.none() | values, max_size=6))
    taken, left = Filters.split([item], TABLE)
    assert (list(taken), left) == ([item], [])
    assert column_of(item) == name
    kind = next(each.type for each in TABLE.columns if each.name == name)
    batch = pa.RecordBatch.from_arrays([pa.array(rows, kind)], names=[name])
    expected = [row for row in rows if twin(item, row) is True]
    assert taken.apply(batch).column(0).to_pylist() == expected


@pytest.mark.parametrize(
    "item",
    [
        ds.EqualTo(("l",), ["a"]),
        ds.EqualTo(("n", "x"), 1),
        ds.EqualTo(("nothing",), 1),
        ds.EqualTo(N, None),
        ds.EqualTo(N, 1.5),
        ds.EqualTo(N, True),
        ds.LessThan(N, 1 << 63),
        ds.EqualTo(("i",), 1 << 31),
        ds.EqualTo(S, 1),
        ds.In(N, (1, None)),
        ds.Not(ds.In(S, ("a", None))),
        ds.GreaterThan(T, datetime(2026, 1, 1)),
        ds.StringContains(N, "a"),
    ],
    ids=str,
)
def test_what_is_not_understood_is_left_to_spark(item: ds.Filter) -> None:
    taken, left = Filters.split([item, ds.IsNotNull(N)], TABLE)
    assert (list(taken), left) == ([ds.IsNotNull(N)], [item])


def test_all_filters_have_to_pass() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2, 3, None], "s": ["a", "b", "a", "a"]})
    filters = Filters((ds.GreaterThan(N, 1), ds.EqualTo(S, "a")))
    assert filters.apply(batch).to_pylist() == [{"n": 3, "s": "a"}]
