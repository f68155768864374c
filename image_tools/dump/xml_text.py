"""Elements of Hadoop's XML dumps, with the escapes of XMLUtils.mangleXmlString."""

from __future__ import annotations

import re

from image_tools.dump.values import java_text

_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\\\\&\"'<>\ud800-\udfff\ufffe\uffff]")
_ENTITIES = {"&": "&amp;", '"': "&quot;", "'": "&apos;", "<": "&lt;", ">": "&gt;"}


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return _ENTITIES.get(character) or f"\\{ord(character):04x};"


def escaped(value: str) -> str:
    """Escape characters that XML does not allow, and the backslash, as `\\hhhh;`."""
    return _ODD.sub(_escape, value)


def text(tag: str, value: str | bytes) -> str:
    """Return an element with text."""
    return f"<{tag}>{escaped(java_text(value))}</{tag}>"


def number(tag: str, value: int) -> str:
    """Return an element with a number."""
    return f"<{tag}>{value}</{tag}>"
