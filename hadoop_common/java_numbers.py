"""Java's ints and longs in unsigned fields of messages, as two's complement."""

from __future__ import annotations

from typing import Final

UINT64: Final = (1 << 64) - 1
"""The long -1 in an unsigned field."""
_UINT32: Final = (1 << 32) - 1


def signed32(value: int) -> int:
    """Convert an unsigned field to a Java int."""
    return value - (1 << 32) if value >> 31 else value


def signed64(value: int) -> int:
    """Convert an unsigned field to a Java long."""
    return value - (1 << 64) if value >> 63 else value


def unsigned32(value: int) -> int:
    """Convert a Java int to an unsigned field; a larger number is reduced to its lowest 32 bits."""
    return value & _UINT32


def unsigned64(value: int) -> int:
    """Convert a Java long to an unsigned field; a larger number is reduced to its lowest 64 bits."""
    return value & UINT64
