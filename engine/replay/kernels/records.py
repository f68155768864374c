"""Frames and fields of operations, for kernels (see journal.binary_codec and journal.primitives)."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import step
from image_format.kernels.wire import fixed64, octet

_STEP = 16
_SLASH, _DOT, _N, _R, _S = b"/.nrs"


def _crc_tables() -> np.ndarray:
    """Return tables for CRC-32 (IEEE, reflected), one for each byte that a step processes."""
    tables = np.zeros((_STEP, 256), np.uint32)
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        tables[0, value] = crc
    for k in range(1, _STEP):
        tables[k] = tables[k - 1] >> 8 ^ tables[0, tables[k - 1] & 0xFF]
    return tables


CRC_TABLES = _crc_tables()


@step
def _byte_crc(table, word, number):
    return CRC_TABLES[table, word >> np.uint64(8 * number) & np.uint64(0xFF)]


@step
def crc32(buf, start, end):
    """Return the CRC-32 of `buf[start:end]`."""
    crc = np.uint32(0xFFFFFFFF)
    pos = start
    while pos + _STEP <= end:
        low, high = fixed64(buf, pos) ^ np.uint64(crc), fixed64(buf, pos + 8)
        crc = np.uint32(0)
        for i in range(8):
            crc ^= _byte_crc(15 - i, low, i) ^ _byte_crc(7 - i, high, i)
        pos += _STEP
    while pos < end:
        crc = crc >> np.uint32(8) ^ CRC_TABLES[0, (crc ^ np.uint32(octet(buf, pos))) & np.uint32(0xFF)]
        pos += 1
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))


@step
def u16(buf, pos):
    return np.int64(octet(buf, pos)) << 8 | np.int64(octet(buf, pos + 1))


@step
def i16(buf, pos):
    return np.int64(np.int8(octet(buf, pos))) << 8 | np.int64(octet(buf, pos + 1))


@step
def i32(buf, pos):
    return (
        np.int64(np.int8(octet(buf, pos))) << 24
        | np.int64(octet(buf, pos + 1)) << 16
        | np.int64(octet(buf, pos + 2)) << 8
        | np.int64(octet(buf, pos + 3))
    )


@step
def i64(buf, pos):
    return (
        np.int64(octet(buf, pos)) << 56
        | np.int64(octet(buf, pos + 1)) << 48
        | np.int64(octet(buf, pos + 2)) << 40
        | np.int64(octet(buf, pos + 3)) << 32
        | np.int64(octet(buf, pos + 4)) << 24
        | np.int64(octet(buf, pos + 5)) << 16
        | np.int64(octet(buf, pos + 6)) << 8
        | np.int64(octet(buf, pos + 7))
    )


@step
def vlong(buf, pos, end):
    """Return (VLONG, next position); the position is -1 if the number does not end before `end` or exceeds 63 bits."""
    if pos >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(np.int8(octet(buf, pos)))
    pos += 1
    if first >= -112:
        return first, pos
    size = -112 - first if first >= -120 else -120 - first
    if size > end - pos:
        return np.int64(0), np.int64(-1)
    value = np.int64(0)
    for i in range(size):
        value = value << 8 | np.int64(octet(buf, pos + i))
    if value < 0:
        return np.int64(0), np.int64(-1)
    return (value if first >= -120 else ~value), pos + size


@step
def skip_string(buf, pos, end):
    """Return the position after a string with a 16-bit length; -1 if the string does not end before `end`."""
    following = np.int64(-1)
    if 0 <= pos <= end - 2:
        following = pos + 2 + u16(buf, pos)
        if following > end:
            following = np.int64(-1)
    return following


@step
def is_plain_text(buf, start, end):
    """Return whether bytes have the same meaning in UTF-8 and in Hadoop's encoding: well-formed, without surrogates."""
    pos = start
    while pos < end:
        lead = octet(buf, pos)
        if lead < 0x80:
            pos += 1
        elif 0xC2 <= lead <= 0xDF:
            if pos + 1 >= end or octet(buf, pos + 1) & 0xC0 != 0x80:
                return False
            pos += 2
        elif 0xE0 <= lead <= 0xEF:
            if pos + 2 >= end or octet(buf, pos + 1) & 0xC0 != 0x80 or octet(buf, pos + 2) & 0xC0 != 0x80:
                return False
            if (lead == 0xE0 and octet(buf, pos + 1) < 0xA0) or (lead == 0xED and octet(buf, pos + 1) >= 0xA0):
                return False
            pos += 3
        else:
            return False
    return True


@step
def path_end(buf, pos, end):
    """Return the position after the path at `pos`.

    Return -1 for an invalid path, for the root, and for a path that only the plain function reads
    (`engine.namespace.op_paths`). Such a path is not plain, or has a component that begins like a reserved name.
    """
    following = skip_string(buf, pos, end)
    if following < 0:
        return np.int64(-1)
    start = pos + 2
    if following - start < 2 or octet(buf, start) != _SLASH or octet(buf, following - 1) == _SLASH:
        return np.int64(-1)
    empty = False
    dotted = octet(buf, start + 1) == _DOT
    every = np.uint8(0)
    # no early exit, so that the compiler can vectorise the loop
    for i in range(start + 1, following):
        after_slash = octet(buf, i - 1) == _SLASH
        empty |= after_slash & (octet(buf, i) == _SLASH)
        dotted |= after_slash & (octet(buf, i) == _DOT)
        every |= octet(buf, i)
    if empty or (dotted and _is_reserved(buf, start, following)):
        return np.int64(-1)
    if every >= 0x80 and not is_plain_text(buf, start, following):
        return np.int64(-1)
    return following


@step
def _is_reserved(buf, start, end):
    """Return whether any component begins with `.sn`, or the first component begins with `.r`."""
    if end - start > 2 and octet(buf, start + 1) == _DOT and octet(buf, start + 2) == _R:
        return True
    for i in range(start, end - 3):
        begins = octet(buf, i) == _SLASH and octet(buf, i + 1) == _DOT
        if begins and octet(buf, i + 2) == _S and octet(buf, i + 3) == _N:
            return True
    return False
