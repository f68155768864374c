"""Arguments of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

Arguments = tuple[Any, ...]


def octets(*parts: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(parts), np.uint8)


def writable(*parts: bytes) -> np.ndarray:
    return octets(*parts).copy()


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def zeros(size: int) -> np.ndarray:
    return np.zeros(size, np.int64)
