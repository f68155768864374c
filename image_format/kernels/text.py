"""Kernel that recognises UTF-8."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import lean_kernel
from image_format.kernels.wire import octet

_HIGH = 0x80


@lean_kernel
def valid_utf8(buf, pos, end):
    """Return whether bytes are UTF-8 as Java and Python define it: shortest form, no surrogates, up to U+10FFFF."""
    while pos < end:
        first = np.int64(octet(buf, pos))
        pos += 1
        if first < _HIGH:
            continue
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
        elif 0xF0 <= first <= 0xF4:
            more = 3
        else:
            return False
        if more > end - pos:
            return False
        second = np.int64(octet(buf, pos))
        if (
            (first == 0xE0 and second < 0xA0)
            or (first == 0xED and second > 0x9F)
            or (first == 0xF0 and second < 0x90)
            or (first == 0xF4 and second > 0x8F)
        ):
            return False
        for i in range(more):
            if octet(buf, pos + i) & 0xC0 != 0x80:
                return False
        pos += more
    return True
