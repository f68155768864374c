"""How kernels run in this process: `CHECKPOINTER_KERNELS`, for tests, benchmarks and `checkpointer compile`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final

VARIABLE: Final = "CHECKPOINTER_KERNELS"


class Mode(Enum):
    """Which form of a kernel a call runs, see `choice`."""

    CHOSEN = ""
    COMPILED = "compiled"
    """Always the compiled form: a call that finds none compiles it."""
    PLAIN = "plain"
    """Always the Python form, where a kernel has one; Numba is not even loaded."""


def mode() -> Mode:
    """Return the mode of this process; `CHOSEN` for any value that is not known."""
    value = os.environ.get(VARIABLE, "")
    return next((each for each in Mode if each.value == value), Mode.CHOSEN)


@contextmanager
def compiled_kernels() -> Iterator[None]:
    """Compile each kernel that is called inside and not at hand, also in processes started inside."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = Mode.COMPILED.value
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
