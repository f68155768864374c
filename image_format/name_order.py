"""The order of names inside a directory: their UTF-8 bytes compared as Java's signed bytes."""

from __future__ import annotations

_SIGNED = bytes(byte ^ 0x80 for byte in range(256))


def name_key(name: bytes) -> bytes:
    """Return the sort key of a local name: `sorted(names, key=name_key)` is the order of Hadoop's children lists.

    Non-ASCII names come before ASCII ones, a prefix before the longer name (INode.compareTo).
    """
    return name.translate(_SIGNED)
