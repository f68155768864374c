"""Order of names in a directory: UTF-8 bytes, compared as signed bytes, as in Java."""

from __future__ import annotations

_SIGNED = bytes(byte ^ 0x80 for byte in range(256))


def name_key(name: bytes) -> bytes:
    """Return the sort key of a local name: `sorted(names, key=name_key)` is the order of Hadoop's children lists.

    Non-ASCII names precede ASCII names, and a prefix precedes a longer name (INode.compareTo).
    """
    return name.translate(_SIGNED)
