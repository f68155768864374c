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


def keys_of(path: str, *, spreads: bool) -> Iterable[str]:
    """Yield the keys of an operation's path; `spreads` if the operation affects everything below it."""
    clean = clean_path(path)
    if spreads:
        yield _SPREAD + clean
    while clean != "/":
        yield clean
        clean = clean[: clean.rindex("/")] or "/"


def build_filter(keys: Iterable[str]) -> bytes:
    """Build a filter of distinct `keys`."""
    hashed = np.frombuffer(b"".join(_digest(key) for key in keys), "<u8").reshape(-1, 2)
    if not len(hashed):
        return b""
    bits = np.zeros(max(64, (len(hashed) * _BITS_PER_KEY + 7) & ~7), np.uint8)
    for number in range(_HASHES):
        bits[(hashed[:, 0] + np.uint64(number) * hashed[:, 1]) % np.uint64(len(bits))] = 1
    return np.packbits(bits).tobytes()


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
