"""Decodes UTF-8 as Java does."""

from __future__ import annotations

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd"


def decode_java_utf8(raw: bytes) -> str:
    """Decode UTF-8 as Java's String and Text.decode do; U+FFFD replaces malformed bytes and encoded surrogates."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT.encode(), raw).decode("utf-8", "replace")
