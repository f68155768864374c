"""The command of a process that runs a module of this installation."""

from __future__ import annotations

import sys


def child_module(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this Python.

    The process does not import modules from the working directory, to which other users may be able to write.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
