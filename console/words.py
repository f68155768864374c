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
    """Return HTML of a sentence whose commands are between backticks."""
    # the string is escaped first: with a Markup, the pattern would escape its replacement too
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(text))))


def count_text(value: Any) -> str:
    """Return a number with separated thousands, `unknown` for None and `none` for a negative transaction id."""
    if value is None:
        return "unknown"
    return "none" if value < 0 else f"{value:,}"


def time_text(at: float | None) -> str:
    """Return a moment in UTC."""
    return "never" if at is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def title_of(key: str) -> str:
    """Return the words of a key in camel case: `imageTxid` is `Image txid`."""
    return _HUMP.sub(" ", key).lower().capitalize()


def value_text(key: str, value: Any, now: float) -> str:
    """Return any plain value of /status; the end of its key reveals times, durations and sizes."""
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
