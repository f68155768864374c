"""Mode of kernels in this process, set by `CHECKPOINTER_KERNELS` for tests, benchmarks and `checkpointer compile`.

`CHECKPOINTER_KERNELS_UNTIL` is the id of a process; when this process ends, the background compiler ends too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final

VARIABLE: Final = "CHECKPOINTER_KERNELS"
UNTIL: Final = f"{VARIABLE}_UNTIL"


class Mode(Enum):
    """Form of a kernel that a call runs; see `choice`."""

    CHOSEN = ""
    COMPILED = "compiled"
    """Always the compiled form; a missing form is compiled."""
    PLAIN = "plain"
    """Always the Python form if a kernel has one; Numba is not loaded."""


def mode() -> Mode:
    """Return the mode of this process; `CHOSEN` for an unknown value."""
    value = os.environ.get(VARIABLE, "")
    return next((each for each in Mode if each.value == value), Mode.CHOSEN)


@contextmanager
def compiled_kernels() -> Iterator[None]:
    """Compile each missing kernel that is called inside the context or in processes started inside the context."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = Mode.COMPILED.value
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
