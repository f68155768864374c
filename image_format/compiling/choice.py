"""Which form of a kernel runs: the compiled one, or its Python form.

    the compiled form is in memory, or kept on disk   it runs
    the work is small                                 the Python form runs, and the compiler in the background is asked
    the work is large                                 the call compiles the kernel; a log line says so once

Work is small if the arguments have at most `MAX_BYTES` in arrays, and the kernel has spent less than `MAX_SECONDS` in
its Python form in this process: calls of small work that are many take no longer than compiling. Numba asks
`KernelChoice` about argument types that it has no code in memory for, so a call of a compiled kernel costs nothing
more. Once a kernel was not at hand, its calls go to `call_plain` for a second, which is faster than Numba's question.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import numpy as np

from image_format.compiling.background import BACKGROUND, Request
from image_format.compiling.mode import Mode, mode
from image_format.compiling.plain import call_plain

_LOG = logging.getLogger(__name__)

MAX_BYTES: Final = 1 << 20
"""Of the sections of some thousand inodes."""
MAX_SECONDS: Final = 2.0
"""Of CPU time, about what compiling a kernel takes."""
_LOOK_AGAIN: Final = 1.0
"""Seconds after which a missing file is looked for again: the compiler in the background may have written it."""


def is_small(*arguments: Any) -> bool:
    """Whether arrays, also those in tuples, have few bytes."""
    return _bytes(arguments) <= MAX_BYTES


def _bytes(arguments: Iterable[Any]) -> int:
    total = 0
    for each in arguments:
        if isinstance(each, np.ndarray):
            total += each.nbytes
        elif isinstance(each, tuple):
            total += _bytes(each)
    return total


class KernelChoice:
    """Chooses the form of one kernel for argument types that are not in memory; takes the place of `compile_now`.

    Args:
        request: for the kernel with some types of arguments, to the compiler in the background.
        compile_now: compiles or loads for some arguments, and returns the compiled form.
        types_of: the types of some arguments.
        kept: whether a compiled form for such types is on disk; None where none can be kept.
        plain: makes the Python form; None for a kernel that has none.
        measured: positions of the arguments that tell how much work a call is.
        missing: called where the Python form runs since the compiled one is not at hand.
    """

    def __init__(
        self,
        request: Callable[[Any], Request],
        compile_now: Callable[..., Any],
        types_of: Callable[[tuple[Any, ...]], Any],
        kept: Callable[[Any], bool] | None,
        plain: Callable[[], Callable[..., Any] | None],
        measured: tuple[int, ...],
        missing: Callable[[], None],
    ) -> None:
        self._request = request
        self._compile_now = compile_now
        self._types_of = types_of
        self._kept = kept
        self._plain = plain
        self._measured = measured
        self._missing = missing
        self._seconds = 0.0
        self._look_again = 0.0

    def __call__(self, *arguments: Any) -> Callable[..., Any]:
        """Return what Numba calls with these arguments."""
        types = self._types_of(arguments)
        if mode() is not Mode.COMPILED and not self._is_kept(types):
            form = self._plain()
            if form is not None and self._is_little(arguments):
                self._ask(types)
                self._look_again = time.monotonic() + _LOOK_AGAIN
                self._missing()
                return partial(self._timed, form)
            _tell_once()
        compiled: Callable[..., Any] = self._compile_now(*arguments)
        return compiled

    def is_at_hand(self, types: Any) -> bool:
        """Return whether a compiled form is kept on disk; if none is, ask for one."""
        if not self._is_kept(types):
            self._ask(types)
            return False
        return True

    def _is_kept(self, types: Any) -> bool:
        return self._kept is not None and self._kept(types)

    def _ask(self, types: Any) -> None:
        if self._kept is not None:
            BACKGROUND.ask(self._request(types))

    def call_plain(self, otherwise: Callable[..., Any], *arguments: Any) -> Any:
        """Call the Python form, within a second of `missing` and for little work; else `otherwise`."""
        form = self._plain()
        if form is None or time.monotonic() > self._look_again or not self._is_little(arguments):
            return otherwise(*arguments)
        return self._timed(form, *arguments)

    def _is_little(self, arguments: tuple[Any, ...]) -> bool:
        return self._seconds < MAX_SECONDS and _bytes([arguments[each] for each in self._measured]) <= MAX_BYTES

    def _timed(self, form: Callable[..., Any], *arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return call_plain(form, arguments)
        finally:
            self._seconds += time.thread_time() - began


_told: set[str] = set()


def _tell_once() -> None:
    if not _told:
        _told.add("compiling")
        _LOG.warning(
            "compiling kernels for a large namespace: this takes about two minutes of one core, once per installation "
            "and kind of CPU; `checkpointer compile` does so beforehand"
        )
