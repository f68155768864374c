"""How kernels are compiled: without the interpreter lock, and kept on disk where there is a place for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

from numba import njit

__all__ = ["inlined", "kernel"]

_LOG = logging.getLogger(__name__)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile at the first call; the machine code is kept beside the source, or in the user's cache folder.

    Where neither can be written (an installation owned by root, a user without a home, a full disk) each process
    compiles anew: slower to start, the same results. NUMBA_CACHE_DIR names another place.
    """
    return _compiled(function, "never")


def inlined(function: Callable[..., Any]) -> Any:
    """As `kernel`, for small steps that become part of the kernels that call them."""
    return _compiled(function, "always")


def _compiled(function: Callable[..., Any], inline: Literal["never", "always"]) -> Any:
    try:
        dispatcher: Any = njit(cache=True, nogil=True, inline=inline)(function)
    except RuntimeError:
        # Numba's way to say at once that it found no folder for its cache.
        return njit(nogil=True, inline=inline)(function)
    _forgive_full_disk(dispatcher._cache)
    return dispatcher


def _forgive_full_disk(cache: Any) -> None:
    """Let a kernel that cannot be kept be used all the same; Numba would end the call that compiled it."""
    save = cache.save_overload

    def save_if_possible(signature: Any, compiled: Any) -> None:
        try:
            save(signature, compiled)
        except OSError as error:
            _LOG.warning("a compiled kernel is not kept for the next start: %s", error)

    cache.save_overload = save_if_possible
