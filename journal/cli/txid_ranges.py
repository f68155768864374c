"""Option values: one transaction id, or a range."""

from __future__ import annotations

import re
from typing import Any

import click

_RANGE = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")
_MAX_TXIDS = 1_000_000


class _TxidRanges(click.ParamType["range"]):
    name = "txids"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        match = _RANGE.fullmatch(value)
        if match is None:
            self.fail(f"{value} is not a transaction id or a range FIRST-LAST", param, ctx)
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            self.fail(f"{value} ends before it begins", param, ctx)
        if last - first >= _MAX_TXIDS:
            self.fail(f"{value} are more than {_MAX_TXIDS} transactions", param, ctx)
        return range(first, last + 1)


TXID_RANGES = _TxidRanges()
"""A `range` of transaction ids, written as `TXID` or `FIRST-LAST`."""
