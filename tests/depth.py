"""How much is tried: a quick choice by default, everything where CHECKPOINTER_TEST_DEPTH says so."""

from __future__ import annotations

import os

__all__ = ["deep"]

_VARIABLE = "CHECKPOINTER_TEST_DEPTH"


def deep() -> bool:
    """Whether the slow tests run too: CHECKPOINTER_TEST_DEPTH is `deep`, or a number from 2 on."""
    value = os.environ.get(_VARIABLE, "")
    return value == "deep" or (value.isdecimal() and int(value) > 1)
