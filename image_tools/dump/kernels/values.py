"""Kernels that print the value of a field: numbers, times, and bytes in several forms.

Each kernel receives the output and a position in it, and returns the next position; the caller reserves the space.
"""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import step
from image_format.kernels.wire import copy_bytes, octet

MAX_ESCAPE = 6
"""Maximum number of bytes that `put_escaped` prints for a byte; `put_hex` and `put_base64` print fewer."""
MAX_NUMBER = 20
MAX_DATE = 16

_MINUS, _COLON, _SPACE, _ZERO, _EQUALS = 45, 58, 32, 48, 61
_DAY, _HOUR, _MINUTE = 86400, 3600, 60
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


@step
def put_number(out, at, value):
    """Print a signed number."""
    if value < 0:
        out[np.uint64(at)] = _MINUS
        at += 1
        rest = np.uint64(0) - np.uint64(value)
    else:
        rest = np.uint64(value)
    end = at + 1
    more = rest // np.uint64(10)
    while more:
        end += 1
        more //= np.uint64(10)
    pos = end
    while pos > at:
        pos -= 1
        more = rest // np.uint64(10)
        out[np.uint64(pos)] = _ZERO + (rest - more * np.uint64(10))
        rest = more
    return end


@step
def _two_digits(out, at, value):
    out[np.uint64(at)] = _ZERO + value // 10
    out[np.uint64(at + 1)] = _ZERO + value % 10
    return at + 2


@step
def put_date(out, at, millis, paths):
    """Print `yyyy-MM-dd HH:mm` in local time; return -1 for a time with an unknown offset."""
    seconds = millis // 1000
    last = paths.changes.size - 1
    if last < 1 or seconds < 0 or seconds >= paths.changes[last]:
        return np.int64(-1)
    low = 0
    high = last - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if paths.changes[middle] <= seconds:
            low = middle
        else:
            high = middle - 1
    seconds += paths.offsets[low]
    days = seconds // _DAY
    rest = seconds - days * _DAY
    # years begin in March, so that a leap day is the last day of its year; an era is 400 years
    days += 719468
    era = days // 146097
    day = days - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += era * 400
    month += 3
    if month > 12:
        month -= 12
        year += 1
    at = _two_digits(out, at, year // 100)
    at = _two_digits(out, at, year % 100)
    out[np.uint64(at)] = _MINUS
    at = _two_digits(out, at + 1, month)
    out[np.uint64(at)] = _MINUS
    at = _two_digits(out, at + 1, day + 1)
    out[np.uint64(at)] = _SPACE
    at = _two_digits(out, at + 1, rest // _HOUR)
    out[np.uint64(at)] = _COLON
    return _two_digits(out, at + 1, rest % _HOUR // _MINUTE)


@step
def put_escaped(out, at, buf, pos, end, program):
    """Print bytes, escaped."""
    while pos < end:
        byte = octet(buf, pos)
        code = np.int64(byte)
        if byte == 0xEF and end - pos > 2 and octet(buf, pos + 1) == 0xBF and octet(buf, pos + 2) | 1 == 0xBF:
            code = np.int64(256) + octet(buf, pos + 2) - 0xBE
        start = program.escapes[np.uint64(code)]
        size = program.escapes[np.uint64(code + 1)] - start
        if size == 0:
            out[np.uint64(at)] = byte
            at += 1
            pos += 1
        else:
            copy_bytes(out, at, program.escaped, start, size)
            at += size
            pos += 3 if code > 255 else 1
    return at


@step
def put_hex(out, at, buf, pos, end):
    while pos < end:
        byte = octet(buf, pos)
        out[np.uint64(at)] = _HEX_DIGITS[byte >> 4]
        out[np.uint64(at + 1)] = _HEX_DIGITS[byte & 15]
        at += 2
        pos += 1
    return at


@step
def put_base64(out, at, buf, pos, end):
    while pos < end:
        left = min(end - pos, 3)
        group = np.int64(0)
        for i in range(left):
            group |= np.int64(octet(buf, pos + i)) << (16 - 8 * i)
        for i in range(4):
            out[np.uint64(at + i)] = _ALPHABET[group >> (18 - 6 * i) & 63] if i <= left else _EQUALS
        at += 4
        pos += 3
    return at
