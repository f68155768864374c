"""Bloom filters over the paths in a segment of the edit log.

A filter has each path that an operation names, with all directories above it, and once more the path of each operation
that also affects everything below it (deletes and renames). A search for a path therefore finds operations on the path,
below it, and on a directory above it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from journal.op_times import clean_path

_BITS_PER_KEY = 10
_HASHES = 7
_SPREAD = "="
_RECENT = 1 << 14
"""Keys that are remembered, since successive operations often share directories."""


class PathFilterBuilder:
    """Builds the filter of a segment, in memory of about 16 bytes for each different path."""

    def __init__(self) -> None:
        self._recent: set[str] = set()
        self._packed = bytearray()

    def add(self, path: str, *, spreads: bool) -> None:
        """Add an operation's path; `spreads` if the operation affects everything below it."""
        for key in keys_of(path, spreads=spreads):
            if key in self._recent:
                continue
            if len(self._recent) >= _RECENT:
                self._recent.clear()
            self._recent.add(key)
            self._packed += _digest(key)

    def build(self) -> bytes:
        """Return the filter; empty if nothing was added."""
        hashed = np.frombuffer(self._packed, "<u8").reshape(-1, 2)
        if not len(hashed):
            return b""
        hashed = hashed[np.unique(hashed[:, 0], return_index=True)[1]]
        bits = np.zeros(max(64, (len(hashed) * _BITS_PER_KEY + 7) & ~7), np.uint8)
        for number in range(_HASHES):
            bits[(hashed[:, 0] + np.uint64(number) * hashed[:, 1]) % np.uint64(len(bits))] = 1
        return np.packbits(bits).tobytes()


def keys_of(path: str, *, spreads: bool) -> Iterable[str]:
    """Yield the keys of an operation's path; `spreads` if the operation affects everything below it."""
    clean = clean_path(path)
    if spreads:
        yield _SPREAD + clean
    while clean != "/":
        yield clean
        clean = clean[: clean.rindex("/")] or "/"


def may_contain(path_filter: bytes, path: str) -> bool:
    """Return whether an operation on `path`, below it, or on a directory above it may be in the segment."""
    if not path_filter:
        return False
    clean = clean_path(path)
    if clean == "/":
        return True
    above = [clean[:cut] for cut in range(1, len(clean)) if clean[cut] == "/"]
    return any(_contains(path_filter, key) for key in (clean, _SPREAD + clean, *(_SPREAD + each for each in above)))


def _contains(path_filter: bytes, key: str) -> bool:
    first, second = (int.from_bytes(half, "little") for half in (_digest(key)[:8], _digest(key)[8:]))
    size = 8 * len(path_filter)
    places = (((first + number * second) & 0xFFFFFFFFFFFFFFFF) % size for number in range(_HASHES))
    return all(path_filter[place >> 3] >> (7 - (place & 7)) & 1 for place in places)


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
