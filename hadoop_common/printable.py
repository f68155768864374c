"""Escapes characters of untrusted text that would end the line of a log or control a terminal."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

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


def escaped_json(value: Any) -> str:
    """Return `value` as JSON in one line, with escapes of JSON for the characters that `escaped` escapes."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if unicodedata.category(each) not in _STEERING else json.dumps(each)[1:-1] for each in text)
