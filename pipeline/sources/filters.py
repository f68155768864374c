"""Filters that Spark pushes down to a data source, evaluated on Arrow arrays before rows are sent to the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as ds

from pipeline.schema import Table

Mask = npt.NDArray[np.bool_]

_COMPARISONS: dict[type[ds.Filter], Callable[[Any, Any], Any]] = {
    ds.EqualTo: pc.equal,
    ds.LessThan: pc.less,
    ds.LessThanOrEqual: pc.less_equal,
    ds.GreaterThan: pc.greater,
    ds.GreaterThanOrEqual: pc.greater_equal,
}
_TEXT: dict[type[ds.Filter], Callable[[Any, str], Any]] = {
    ds.StringStartsWith: lambda array, text: pc.starts_with(array, pattern=text),
    ds.StringEndsWith: lambda array, text: pc.ends_with(array, pattern=text),
    ds.StringContains: lambda array, text: pc.match_substring(array, pattern=text),
}


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters that a row has to pass, all of them."""

    items: tuple[ds.Filter, ...] = ()

    def __iter__(self) -> Iterator[ds.Filter]:
        return iter(self.items)

    @classmethod
    def split(cls, pushed: Iterable[ds.Filter], table: Table) -> tuple[Filters, list[ds.Filter]]:
        """(those that can be evaluated here, those that Spark has to evaluate)."""
        types = {column.name: column.type for column in table.columns}
        taken: list[ds.Filter] = []
        left: list[ds.Filter] = []
        for item in pushed:
            (taken if _is_known(item, types) else left).append(item)
        return cls(tuple(taken)), left

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that pass."""
        for item in self.items:
            if batch.num_rows:
                batch = batch.filter(pa.array(self.passes(item, batch.column(column_of(item)))))
        return batch

    @staticmethod
    def passes(item: ds.Filter, array: pa.Array) -> Mask:
        """For each value of the filter's column, whether it passes; a condition on a null is not met."""
        mask: Mask = _evaluate(item, array).fill_null(False).to_numpy(zero_copy_only=False)
        return mask


def column_of(item: ds.Filter) -> str:
    """Name of the column that a filter looks at."""
    inner: Any = item
    while isinstance(inner, ds.Not):
        inner = inner.child
    return str(inner.attribute[0])


def _is_known(item: ds.Filter, types: dict[str, pa.DataType]) -> bool:
    if isinstance(item, ds.Not):
        return _is_known(item.child, types)
    attribute: Any = getattr(item, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in types:
        return False
    kind = types[attribute[0]]
    if isinstance(item, ds.IsNull | ds.IsNotNull):
        return True
    if isinstance(item, ds.In):
        return all(_fits(value, kind) for value in item.value)
    if isinstance(item, ds.EqualNullSafe):
        return item.value is None or _fits(item.value, kind)
    if type(item) in _TEXT:
        return bool(kind == pa.string())
    return type(item) in _COMPARISONS and _fits(getattr(item, "value", None), kind)


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a literal is of a column's own type; a time without a zone is not."""
    if pa.types.is_integer(kind):
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << (kind.bit_width - 1)
    if pa.types.is_timestamp(kind):
        return isinstance(value, datetime) and value.tzinfo is not None
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    return bool(pa.types.is_string(kind)) and isinstance(value, str)


def _evaluate(item: Any, array: pa.Array) -> Any:
    """True, false or null a value, as SQL has it."""
    if isinstance(item, ds.Not):
        return pc.invert(_evaluate(item.child, array))
    if isinstance(item, ds.IsNull):
        return pc.is_null(array)
    if isinstance(item, ds.IsNotNull):
        return pc.is_valid(array)
    if type(item) in _TEXT:
        return _TEXT[type(item)](array, item.value)
    if isinstance(item, ds.In):
        found = pc.is_in(array, value_set=pa.array(item.value, array.type))
        return pc.if_else(pc.is_valid(array), found, pa.scalar(None, pa.bool_()))
    if isinstance(item, ds.EqualNullSafe):
        if item.value is None:
            return pc.is_null(array)
        return pc.equal(array, pa.scalar(item.value, array.type)).fill_null(False)
    return _COMPARISONS[type(item)](array, pa.scalar(item.value, array.type))
