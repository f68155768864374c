"""Names of files and directories: a function of the directory and the position in it, in Hadoop's name order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bench.kernels.hashing import below, mixed
from image_format.kernels.jit import kernel, lean_kernel

MOST_DEPTH = 12
NAME_ROOM = 96
"""Maximum number of bytes of a name."""
PATH_ROOM = NAME_ROOM * (MOST_DEPTH + 2)
DECIMAL, HASHED, DATE, LISTED = 0, 1, 2, 3
_DIRECTORY_STYLE, _FILE_STYLE, _NAME = 11, 12, 13
_ZERO, _DASH, _SLASH = 48, 45, 47
_FIRST_DAY = 15340  # 2012-01-01
_SELDOM = 50


class TreeArrays(NamedTuple):
    """The tree, for kernels.

    Directories are numbered level by level; the sub-directories of one directory have consecutive numbers.

    Attributes:
        parents: number of a directory's parent, by directory; 0 is the root, which is its own parent.
        first_child: number of a directory's first sub-directory, by directory; one entry more than directories.
        ranks: position of a directory among all inodes, followed by its files, by directory; one entry more than
            directories.
        depths, owners: depth and owner by directory; owners are numbers of users.
        pool, bounds: concatenated strings, and the start of each.
        styles: rows (style, digits, text before, text after, whether a UUID, whether a _SUCCESS comes first); styles
            for directories come first.
        counts: (seed, styles for directories, styles for files, users, groups).
    """

    parents: npt.NDArray[np.int32]
    first_child: npt.NDArray[np.int32]
    ranks: npt.NDArray[np.int64]
    depths: npt.NDArray[np.uint8]
    owners: npt.NDArray[np.uint16]
    pool: npt.NDArray[np.uint8]
    bounds: npt.NDArray[np.int64]
    styles: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


@kernel
def put_pool(out, pos, tree, text):
    """Append a string of the pool."""
    start = np.uint64(tree.bounds[text])
    size = np.uint64(tree.bounds[text + 1]) - start
    # unsigned indices need no check for negative values
    for k in range(size):
        out[np.uint64(pos) + k] = tree.pool[start + k]
    return pos + np.int64(size)


@lean_kernel
def _digits(number):
    digits = 1
    limit = np.int64(10)
    while limit <= number:
        digits += 1
        limit *= 10
    return digits


@kernel
def put_decimal(out, pos, number, width):
    """Append a decimal number with at least `width` digits."""
    size = max(width, _digits(number))
    rest = np.uint64(number)
    for k in range(size):
        out[np.uint64(pos + size - 1 - k)] = np.uint64(_ZERO) + rest % np.uint64(10)
        rest //= np.uint64(10)
    return pos + size


@kernel
def put_hex(out, pos, bits, width):
    """Append the lowest `width` hexadecimal digits of `bits`."""
    for k in range(width):
        digit = np.int64(bits & np.uint64(15))
        out[np.uint64(pos + width - 1 - k)] = _ZERO + digit if digit < 10 else 87 + digit
        bits >>= np.uint64(4)
    return pos + width


@kernel
def _put_date(out, pos, day):
    """Append the date that is `day` days after 1970-01-01 (computed in a calendar that begins on 0000-03-01)."""
    day += 719468
    era = day // 146097
    of_era = day - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    pos = put_decimal(out, pos, year + era * 400 + (1 if month >= 10 else 0), 4)
    out[pos] = _DASH
    pos = put_decimal(out, pos + 1, month + 3 if month < 10 else month - 9, 2)
    out[pos] = _DASH
    return put_decimal(out, pos + 1, of_year - (153 * month + 2) // 5 + 1, 2)


@kernel
def _put_uuid(out, pos, first, second):
    out[pos] = _DASH
    pos = put_hex(out, pos + 1, first, 8)
    out[pos] = _DASH
    pos = put_hex(out, pos + 1, first >> np.uint64(32), 4)
    out[pos] = _DASH
    pos = put_hex(out, pos + 1, first >> np.uint64(48), 4)
    out[pos] = _DASH
    pos = put_hex(out, pos + 1, second >> np.uint64(48), 4)
    out[pos] = _DASH
    return put_hex(out, pos + 1, second, 12)


@kernel
def _put_name(out, pos, tree, style, key, number, count):
    """Append name `number` of `count` in the directory `key`; names of one directory increase with their numbers."""
    styles = tree.styles
    seed = tree.counts[0]
    if styles[style, 5]:
        if number == 0:
            return put_pool(out, pos, tree, styles[style, 5])
        number -= 1
    if styles[style, 0] == LISTED:
        return put_pool(out, pos, tree, styles[style, 2] + number)
    pos = put_pool(out, pos, tree, styles[style, 2])
    if styles[style, 0] == DECIMAL:
        # as many digits as the largest number in the directory
        pos = put_decimal(out, pos, number, max(styles[style, 1], _digits(count - 1)))
    elif styles[style, 0] == DATE:
        pos = _put_date(out, pos, _FIRST_DAY + number)
    else:
        step = (np.int64(1) << 60) // count
        bits = mixed(seed, key * 1000003 + number, _NAME + 8 + style)
        pos = put_hex(out, pos, np.uint64(number * step + below(bits, step)), 15)
        pos = put_hex(out, pos, bits, styles[style, 1] - 15)
    if styles[style, 4]:
        pos = _put_uuid(out, pos, mixed(seed, key, _NAME + 1), mixed(seed, key, _NAME + 2))
    return put_pool(out, pos, tree, styles[style, 3])


@kernel
def _pick(bits, first, count):
    """Choose one of `count` styles; the last style is rarely chosen."""
    if below(bits >> np.uint64(32), _SELDOM) == 0:
        return first + count - 1
    return first + below(bits & np.uint64(0xFFFFFFFF), count - 1)


@kernel
def put_directory_name(out, pos, tree, directory):
    """Append the local name of a directory, which is empty for the root."""
    if directory == 0:
        return pos
    above = tree.parents[directory]
    number = directory - tree.first_child[above]
    count = tree.first_child[above + 1] - tree.first_child[above]
    style = np.int64(0)
    if above:
        style = _pick(mixed(tree.counts[0], above, _DIRECTORY_STYLE), np.int64(1), tree.counts[1] - 1)
    return _put_name(out, pos, tree, style, np.int64(above), np.int64(number), np.int64(count))


@kernel
def put_file_name(out, pos, tree, directory, number):
    """Append the local name of file `number` of a directory."""
    count = tree.ranks[directory + 1] - tree.ranks[directory] - 1
    style = _pick(mixed(tree.counts[0], directory, _FILE_STYLE), tree.counts[1], tree.counts[2])
    return _put_name(out, pos, tree, style, np.int64(directory), np.int64(number), np.int64(count))


@kernel
def put_path(out, pos, tree, directory):
    """Append the path of a directory, which is empty for the root."""
    way = np.empty(MOST_DEPTH + 1, np.int64)
    steps = 0
    while directory:
        way[steps] = directory
        steps += 1
        directory = tree.parents[directory]
    for k in range(steps - 1, -1, -1):
        out[pos] = _SLASH
        pos = put_directory_name(out, pos + 1, tree, way[k])
    return pos
