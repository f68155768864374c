"""Text of strangers on a line of a log or a terminal: what could end the line or steer the terminal is escaped."""

from __future__ import annotations

import unicodedata

# control characters, and those that reorder or break lines
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def escaped(text: str, *, keep: str = "") -> str:
    """`text` with such characters as \\xNN or \\uNNNN, but for those of `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each in keep or unicodedata.category(each) not in _STEERING else each.encode("unicode_escape").decode()
        for each in text
    )
