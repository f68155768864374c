"""Values of /status as readable text: counts, ages, sizes, and names made from keys."""

from __future__ import annotations

import re
import time
from typing import Any

from markupsafe import Markup, escape

from hadoop_common.quantities import ago_text, duration
from hadoop_common.text_layout import byte_count

_COMMAND = re.compile("`([^`]+)`")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def code_marked(text: str) -> Markup:
    """Return a sentence as HTML; text between backticks becomes code."""
    # convert to `str` first: with a `Markup`, the substitution would also escape its replacement
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(text))))


def count_text(value: Any) -> str:
    """Return a number with thousands separators, `unknown` for None, or `none` for a negative transaction id."""
    if value is None:
        return "unknown"
    return "none" if value < 0 else f"{value:,}"


def time_text(at: float | None) -> str:
    """Return a time as text in UTC."""
    return "never" if at is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def title_of(key: str) -> str:
    """Split a camel-case key into words: `imageTxid` becomes `Image txid`."""
    return _HUMP.sub(" ", key).lower().capitalize()


def value_text(key: str, value: Any, now: float) -> str:
    """Return any plain value of /status as text; the suffix of its key identifies times, durations and sizes."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if key.endswith("At") and value > 1e8:
            return f"{time_text(value)} ({ago_text(value, now)})"
        if key.lower().endswith("seconds"):
            return duration(value) if value >= 1 else f"{value:g} s"
        if key.lower().endswith("bytes"):
            return byte_count(value)
        return count_text(value) if isinstance(value, int) else f"{value:g}"
    return str(value)
