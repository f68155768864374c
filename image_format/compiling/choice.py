"""Choice of the form in which a kernel runs: compiled or Python.

    the compiled form is in memory or on disk         the compiled form runs
    the work is small                                 the Python form runs, and requests the compiled form
    the work is large                                 the call compiles the kernel, which is logged once

Work is small if the Python form probably takes at most `MAX_SECONDS` (see `cost`), which is less than compiling takes.
In addition, the kernel's Python form must have run for less than `MAX_SECONDS` in this process. Numba calls
`KernelChoice` only for argument types without code in memory, so calls of compiled kernels have no additional cost. For
a second after a compiled form was missing, calls go to `call_plain`, which is faster than a call by Numba.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from image_format.compiling.background import BACKGROUND, Request
from image_format.compiling.cost import COSTS
from image_format.compiling.mode import Mode, mode
from image_format.compiling.plain import call_plain

_LOG = logging.getLogger(__name__)

MAX_SECONDS: Final = 5.0
"""Maximum CPU time of a kernel's Python form.

Compiling a kernel and the kernels that it calls takes a few seconds, during which the compiler holds the interpreter
lock.
"""
MAX_BYTES: Final = 2 << 20
"""Size of sections with about 10,000 inodes; kernels without an entry in `COSTS` read them within `MAX_SECONDS`."""
_RETRY_AFTER: Final = 1.0
"""Seconds after which a missing file is checked again, because the background compiler may have written it."""


def _bytes(arguments: Iterable[Any]) -> int:
    total = 0
    for each in arguments:
        if isinstance(each, np.ndarray):
            total += each.nbytes
        elif isinstance(each, tuple):
            total += _bytes(each)
    return total


class KernelChoice:
    """Choice of one kernel's form for argument types without code in memory; Numba calls this object to compile.

    Args:
        request: returns the request to the background compiler for argument types.
        compile_now: compiles or loads the kernel for arguments, and returns the compiled form.
        types_of: returns Numba's types of arguments.
        kept: returns whether the compiled form for types is on disk; None if compiled forms cannot be stored.
        plain: returns the Python form; None if the kernel has none.
        measured: positions of the arguments that determine the amount of work of a kernel without an entry in `COSTS`.
        missing: called when the Python form runs because the compiled form is missing.
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
        self._retry_at = 0.0

    def __call__(self, *arguments: Any) -> Callable[..., Any]:
        """Return the form that Numba then calls with these arguments."""
        types = self._types_of(arguments)
        if mode() is not Mode.COMPILED and not self._is_kept(types):
            form = self._plain()
            if form is not None and self._is_little(arguments):
                self._ask(types)
                self._retry_at = time.monotonic() + _RETRY_AFTER
                self._missing()
                return partial(self._timed, form)
            _warn_once()
        compiled: Callable[..., Any] = self._compile_now(*arguments)
        return compiled

    def is_at_hand(self, types: Any) -> bool:
        """Return whether a compiled form is on disk; if not, request it."""
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
        """Call the Python form if the work is small and `missing` ran within the last second, else `otherwise`."""
        form = self._plain()
        if form is None or time.monotonic() > self._retry_at or not self._is_little(arguments):
            return otherwise(*arguments)
        return self._timed(form, *arguments)

    def _is_little(self, arguments: tuple[Any, ...]) -> bool:
        measured, seconds = self._cost
        return self._seconds < MAX_SECONDS and seconds(*(arguments[each] for each in measured)) <= MAX_SECONDS

    @cached_property
    def _cost(self) -> tuple[tuple[int, ...], Callable[..., float]]:
        """Return the positions of the arguments that determine the work, and a function that computes the time."""
        module, name, _ = self._request(None)
        cost, form = COSTS.get(f"{module.rpartition('.')[2]}.{name}"), self._plain()
        if cost is None or form is None:
            return self._measured, lambda *measured: _bytes(measured) / MAX_BYTES * MAX_SECONDS
        names = form.__code__.co_varnames
        return tuple(names.index(each) for each in cost.arguments), cost.seconds

    def _timed(self, form: Callable[..., Any], *arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return call_plain(form, arguments)
        finally:
            self._seconds += time.thread_time() - began


_warned: set[str] = set()


def _warn_once() -> None:
    if not _warned:
        _warned.add("compiling")
        _LOG.warning(
            "compiling kernels for a large namespace: this takes about two minutes on one core, once per installation "
            "and kind of CPU; `checkpointer compile` compiles them in advance"
        )
