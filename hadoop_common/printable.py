"""Escapes characters of untrusted text that would end the line of a log or control a terminal."""

from __future__ import annotations

import unicodedata

# control characters, and characters that reorder or break lines
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def escaped(text: str, *, keep: str = "") -> str:
    """Return `text` with control characters and line breaks as \\xNN or \\uNNNN, except the characters in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each in keep or unicodedata.category(each) not in _STEERING else each.encode("unicode_escape").decode()
        for each in text
    )
