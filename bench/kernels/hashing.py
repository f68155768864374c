"""Stateless pseudo-random numbers: each number depends only on its purpose, so the order of work does not matter."""

from __future__ import annotations

import numpy as np

from image_format.kernels.jit import lean_kernel


@lean_kernel
def mixed(seed, number, purpose):
    """Return 64 bits of SplitMix64 for `number`; each purpose has its own numbers."""
    value = np.uint64(seed) + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    value += np.uint64(purpose) * np.uint64(0xD1B54A32D192ED03)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@lean_kernel
def below(bits, limit):
    """Map the hash `bits` to a number from 0 to `limit` - 1."""
    return np.int64((bits >> np.uint64(1)) % np.uint64(limit))


@lean_kernel
def share(bits):
    """Map the hash `bits` to a number that is at least 0 and less than 1."""
    return np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)
