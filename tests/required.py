"""Parts that a test run requires, such as `hadoop-3.5.0` or `kerberos`, from CHECKPOINTER_TEST_REQUIRES.

A test whose real counterpart is missing is skipped, or fails if the counterpart's name is in the list. `.ci/run`
contains the list.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

VARIABLE = "CHECKPOINTER_TEST_REQUIRES"


def required(name: str) -> bool:
    """Return whether this run requires `name`."""
    return name in os.environ.get(VARIABLE, "").split()


def skip(name: str, reason: str) -> NoReturn:
    """Skip the test because `name` is missing, or fail it if `name` is required; `reason` is one sentence."""
    if required(name):
        pytest.fail(f"{reason} ({VARIABLE} lists {name})", pytrace=False)
    pytest.skip(reason)
