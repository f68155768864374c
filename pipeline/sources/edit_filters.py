"""Filters that Spark pushes down to the edits: those on `txid` and `op` decide what is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pipeline.sources.edit_ranges import WantedEdits
from pipeline.sources.edit_rows import opcode_of

_TXID, _OP = ("txid",), ("op",)

_BOUNDS: dict[type[Filter], Callable[[WantedEdits, int], WantedEdits]] = {
    EqualTo: lambda wanted, value: _between(wanted, value, value),
    EqualNullSafe: lambda wanted, value: _between(wanted, value, value),
    GreaterThan: lambda wanted, value: _between(wanted, value + 1, wanted.high),
    GreaterThanOrEqual: lambda wanted, value: _between(wanted, value, wanted.high),
    LessThan: lambda wanted, value: _between(wanted, wanted.low, value - 1),
    LessThanOrEqual: lambda wanted, value: _between(wanted, wanted.low, value),
}


def narrow(wanted: WantedEdits, pushed: Filter) -> WantedEdits | None:
    """`wanted` and `pushed` together; None where the filter has to be evaluated by Spark."""
    column = getattr(pushed, "attribute", None)
    if isinstance(pushed, IsNotNull):
        return wanted if column in {_TXID, _OP} else None
    value = getattr(pushed, "value", None)
    if column == _TXID and type(pushed) in _BOUNDS and isinstance(value, int):
        return _BOUNDS[type(pushed)](wanted, value)
    if column == _OP and isinstance(pushed, EqualTo | EqualNullSafe) and isinstance(value, str):
        return _one_of(wanted, [value])
    if column == _OP and isinstance(pushed, In):
        return _one_of(wanted, [each for each in pushed.value if isinstance(each, str)])
    return None


def _between(wanted: WantedEdits, low: int, high: int) -> WantedEdits:
    return replace(wanted, low=max(wanted.low, low), high=min(wanted.high, high))


def _one_of(wanted: WantedEdits, names: Iterable[str]) -> WantedEdits:
    opcodes = frozenset(code for name in names if (code := opcode_of(name)) is not None)
    return replace(wanted, opcodes=opcodes if wanted.opcodes is None else opcodes & wanted.opcodes)
