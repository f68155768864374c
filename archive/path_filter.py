"""Bloom filters over the paths in a segment of the edit log.

A filter contains each path that an operation names, with all directories above it. If the operation also affects
everything below the path (deletes and renames), the filter contains a second entry for the path. A search for a path
therefore finds operations on the path, below it, and on a directory above it.

All numbers are unsigned 64-bit numbers and wrap around. The sum of the bytes b0, b1, … of a path in UTF-8 is

    sum = value[b0] * STEP^0 + value[b1] * STEP^1 + …

where value[b] is the 8-byte BLAKE2b digest of the byte b, read as little-endian. The sums of all directories above a
path are therefore partial sums. Let m be the finalizer of SplitMix64. The key of a path is m(sum), and the key of
everything below it is m(sum xor SPREAD). Key k sets the bits (k + i * m(k)) mod the number of bits, for i from 0 to 6;
bit 0 is the highest bit of the first byte.

Footers of objects contain the version of this rule, because a filter built by another rule would exclude paths that
the segment contains.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from journal.op_columns import OpColumns
from journal.op_times import clean_path, op_paths, spreads
from journal.operation import EditOp
from journal.primitives import decode_cesu8

FILTER_VERSION: Final = 2
_BITS_PER_KEY: Final = 10
_HASHES: Final = 7
_STEP: Final = 0x9E3779B97F4A7C15
_STEP_BACK: Final = pow(_STEP, -1, 1 << 64)
_SPREAD: Final = np.uint64(0xA5A5A5A5A5A5A5A5)
_WORD: Final = (1 << 64) - 1
_MIN_POWER: Final = 10
"""Binary logarithm of the minimum number of cached powers."""
_SLASH: Final = ord("/")
_ASCII: Final = 0x80

Words = npt.NDArray[np.uint64]

_VALUES: Final[Words] = np.array(
    [int.from_bytes(blake2b(bytes([each]), digest_size=8).digest(), "little") for each in range(256)], np.uint64
)


class PathFilterBuilder:
    """Builder of the filter of a segment; it needs about 8 bytes of memory per distinct path and directory."""

    def __init__(self) -> None:
        self._keys: list[Words] = []
        # reused, because the system clears new memory
        self._total: Words = np.empty(0, np.uint64)

    def add(self, op: EditOp) -> None:
        for path in op_paths(op):
            self._add(path, wide=spreads(op))

    def add_columns(self, buffer: bytes, columns: OpColumns) -> None:
        """Add the paths of many operations, which are in `buffer`.

        Raises:
            ValueError: a path cannot be decoded.
        """
        for op in columns.decoded:
            self.add(op)
        if not len(columns.begins):
            return
        data = np.frombuffer(buffer, np.uint8)
        begins, ends, wide = columns.begins, columns.begins + columns.sizes, columns.spreads
        slashes = np.flatnonzero(data == _SLASH)
        # the slashes after the first byte of each path
        first, last = np.searchsorted(slashes, begins + 1), np.searchsorted(slashes, ends)
        unclean = _is_unclean(data, slashes, begins, ends)
        for number in np.flatnonzero(unclean).tolist():
            path = decode_cesu8(buffer[begins[number] : ends[number]])
            self._add(path, wide=bool(wide[number]))
        clean = ~unclean
        begins, ends, first = begins[clean], ends[clean], first[clean]
        counts = last[clean] - first
        # number of each slash; the slashes of a path have consecutive numbers
        order = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        above = slashes[order + np.repeat(first, counts)]
        if len(self._total) <= len(data):
            self._total = np.empty(len(data) + 1, np.uint64)
        begins = np.concatenate([np.repeat(begins, counts), begins])
        sums = _sums(data, begins, np.concatenate([above, ends]), self._total)
        own = sums[len(above) :]
        self._note(np.concatenate([sums, own[wide[clean]] ^ _SPREAD]))

    def build(self) -> bytes:
        """Return the filter; empty if nothing was added."""
        if not self._keys:
            return b""
        keys = _distinct(np.concatenate(self._keys))
        second = _mixed(keys)
        bits = np.zeros(max(64, (len(keys) * _BITS_PER_KEY + 7) & ~7), np.bool_)
        for number in range(_HASHES):
            bits[(keys + np.uint64(number) * second) % np.uint64(len(bits))] = True
        return np.packbits(bits).tobytes()

    def _add(self, path: str, *, wide: bool) -> None:
        sums = _sums_of(clean_path(path))
        self._note(np.append(sums, sums[-1:] ^ _SPREAD) if wide else sums)

    def _note(self, sums: Words) -> None:
        self._keys.append(_distinct(_mixed(sums)))


def may_contain(path_filter: bytes | None, path: str) -> bool:
    """Return whether an operation on `path`, below it, or on a directory above it may be in the segment.

    Args:
        path_filter: the filter of the segment; None for a filter of another version.
    """
    if path_filter is None:
        return True
    if not path_filter:
        return False
    size = 8 * len(path_filter)
    searched = _searched(clean_path(path))
    return not searched or any(_contains(path_filter, size, key, second) for key, second in searched)


def _contains(path_filter: bytes, size: int, key: int, second: int) -> bool:
    for number in range(_HASHES):
        place = ((key + number * second) & _WORD) % size
        if not path_filter[place >> 3] >> (7 - (place & 7)) & 1:
            return False
    return True


@lru_cache(maxsize=1 << 10)
def _searched(path: str) -> tuple[tuple[int, int], ...]:
    """Return the keys to search for a clean path, each with its second hash; empty for the root."""
    sums = _sums_of(path)
    keys = _mixed(np.concatenate([sums[-1:], sums ^ _SPREAD]))
    return tuple(zip(keys.tolist(), _mixed(keys).tolist(), strict=True))


def _sums_of(path: str) -> Words:
    """Return the sums of the directories above a clean path, and then of the path; empty for the root."""
    content = path.encode("utf-8", "surrogatepass")
    data = np.frombuffer(content, np.uint8)
    ends = [each for each in range(1, len(content)) if content[each] == _SLASH] + [len(content)] * (path != "/")
    return _sums(data, np.zeros(len(ends), np.int64), np.array(ends, np.int64), np.empty(len(data) + 1, np.uint64))


def _sums(
    data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], total: Words
) -> Words:
    """Return the sum of the bytes `begins` to `ends` of `data`, for each pair.

    Args:
        total: scratch array with one word for each byte of `data`, and one more.
    """
    powers, back = _powers(1 << max(_MIN_POWER, (len(data) - 1).bit_length()))
    total[0], terms = 0, total[1 : len(data) + 1]
    np.take(_VALUES, data, out=terms, mode="clip")
    terms *= powers[: len(data)]
    np.cumsum(terms, out=terms)
    found: Words = (total[ends] - total[begins]) * back[begins]
    return found


@lru_cache(maxsize=2)
def _powers(size: int) -> tuple[Words, Words]:
    """Return the powers of `_STEP` and of its inverse, from exponent 0 on."""

    def powers(of: int) -> Words:
        factors = np.full(size, of, np.uint64)
        factors[0] = 1
        return np.cumprod(factors)

    return powers(_STEP), powers(_STEP_BACK)


def _mixed(values: Words) -> Words:
    """Apply the finalizer of SplitMix64."""
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Words = mixed ^ (mixed >> np.uint64(31))
    return result


def _distinct(keys: Words) -> Words:
    """Return each key once, in order; `np.unique` hashes, which is slower."""
    ordered: Words = np.sort(keys)
    differs = ordered[1:] != ordered[:-1]
    return np.concatenate([ordered[:1], ordered[1:][differs]])


def _is_unclean(
    data: npt.NDArray[np.uint8],
    slashes: npt.NDArray[np.int64],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Return a mask of the paths that are not clean, because they are not ASCII or have empty components."""
    if not len(begins):
        return np.zeros(0, np.bool_)
    doubled = slashes[1:][np.diff(slashes) == 1]
    has_doubled: npt.NDArray[np.bool_] = np.searchsorted(doubled, begins + 1) < np.searchsorted(doubled, ends)
    outside: npt.NDArray[np.bool_] = (ends <= begins + 1) | (data[np.minimum(begins, len(data) - 1)] != _SLASH)
    ends_with_slash: npt.NDArray[np.bool_] = data[ends - 1] == _SLASH
    # alternately the largest byte of a path, and the largest byte between this path and the next path
    edges = np.column_stack([begins, np.maximum(ends, begins + 1)]).ravel()
    beyond_ascii: npt.NDArray[np.bool_] = np.maximum.reduceat(data, edges)[::2] >= _ASCII
    return outside | ends_with_slash | has_doubled | beyond_ascii
