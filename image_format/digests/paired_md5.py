"""MD5 of a stream with that of other bytes taken on the way, where the processor has vectors for both."""

from __future__ import annotations

import functools
import hashlib
import logging
import platform
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from image_format.codecs import Buffer

__all__ = ["PairedMd5", "pairs_are_quick"]

_LOG = logging.getLogger(__name__)

State = npt.NDArray[np.uint32]
Lanes = Callable[[State, npt.NDArray[np.uint8], npt.NDArray[np.uint8], int], Any]

_BLOCK = 64
_SLICE = 2 * 1024 * 1024
_NEEDED = "avx512vl"
"""It has MD5's functions and rotation as single instructions; with older vectors each stream is a quarter slower."""


class PairedMd5:
    """As `hashlib.md5`, for a stream; the digest of `beside` costs no more time, as far as the stream goes.

    One thread may update while another asks for the digest of `beside`.

    Args:
        beside: the other bytes; they do not change.
    """

    def __init__(self, beside: memoryview) -> None:
        self._lanes, start = _kernel()
        self._states = np.stack([start, start])
        self._tail = b""
        self._size = 0
        self._beside = _octets(beside)
        self._whole = self._beside.size // _BLOCK * _BLOCK
        self._position = 0
        self._guard = threading.Lock()

    def update(self, data: Buffer) -> None:
        """Take more of the stream."""
        view = memoryview(data).cast("B")
        self._size += view.nbytes
        start = -len(self._tail) % _BLOCK
        if self._tail:
            self._tail += view[:start]
            if len(self._tail) < _BLOCK:
                return
            self._take(memoryview(self._tail))
        behind = max(start, len(view) - (len(view) - start) % _BLOCK)
        self._tail = bytes(view[behind:])
        for first in range(start, behind, _SLICE):
            self._take(view[first : min(first + _SLICE, behind)])

    def _take(self, blocks: memoryview) -> None:
        data = _octets(blocks)
        with self._guard:
            both = min(data.size, self._whole - self._position)
            self._lanes(self._states, data, self._beside[self._position :], both // _BLOCK)
            self._position += both
            self._alone(0, data[both:])

    def _alone(self, lane: int, data: npt.NDArray[np.uint8]) -> None:
        states = np.stack([self._states[lane]] * 2)
        self._lanes(states, data, data, data.size // _BLOCK)
        self._states[lane] = states[0]

    def digest(self) -> bytes:
        """Digest (16 bytes) of the stream so far."""
        return self._finished(0, self._tail, self._size)

    def digest_beside(self) -> bytes:
        """Digest (16 bytes) of `beside`; takes what the stream was too short for."""
        while True:
            with self._guard:
                rest = self._beside[self._position : min(self._position + _SLICE, self._whole)]
                if not rest.size:
                    break
                self._alone(1, rest)
                self._position += rest.size
        return self._finished(1, self._beside[self._whole :].tobytes(), self._beside.size)

    def _finished(self, lane: int, tail: bytes, size: int) -> bytes:
        padding = b"\x80" + bytes(-(len(tail) + 9) % _BLOCK) + (8 * size).to_bytes(16, "little")[:8]
        last = _octets(memoryview(tail + padding))
        states = np.stack([self._states[lane]] * 2)
        self._lanes(states, last, last, last.size // _BLOCK)
        return bytes(states[0].astype("<u4").data)


@functools.cache
def pairs_are_quick() -> bool:
    """Whether the processor takes two digests at once; the kernel is compiled for that, or loaded, and tried."""
    if platform.machine() != "x86_64" or not _has_vectors():
        return False
    try:
        return _agrees()
    except Exception:
        _LOG.exception("MD5 cannot be compiled here, so that of the system's library is used")
        return False


def _has_vectors() -> bool:
    """Whether kernels may use what is needed, and the processor has it."""
    import numba
    from llvmlite import binding

    config: Any = numba.config
    features = config.CPU_FEATURES
    allowed = config.CPU_NAME is None if features is None else f"+{_NEEDED}" in features.split(",")
    return allowed and not config.DISABLE_JIT and bool(binding.get_host_cpu_features().get(_NEEDED))


@functools.cache
def _kernel() -> tuple[Lanes, State]:
    from image_format.digests.lanes import START, md5_lanes

    return md5_lanes, START


def _agrees() -> bool:
    """Whether the compiled code gives what the library does; a digest that is wrong must not leave the process."""
    left, right = bytes(range(200)), bytes(range(255, 0, -1))
    paired = PairedMd5(memoryview(right))
    paired.update(left)
    found = paired.digest(), paired.digest_beside()
    if found == tuple(hashlib.md5(data, usedforsecurity=False).digest() for data in (left, right)):
        return True
    _LOG.error("compiled MD5 is wrong on this processor, so that of the system's library is used")
    return False


def _octets(view: memoryview) -> npt.NDArray[np.uint8]:
    # One kind of array for the kernel, whatever it came from.
    return np.frombuffer(view.toreadonly(), np.uint8)
