"""The options `--memory` and `--spill-dir`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from checkpointer.cli.existing_path import EXISTING_FOLDER
from checkpointer.config.memory_settings import LEAST_MEMORY, TOO_LITTLE
from hadoop_common.quantities import parse_size
from image_format.memory_limit import MemoryLimit

__all__ = ["memory_options", "with_options"]

F = TypeVar("F", bound=Callable[..., Any])


def _size(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        size = parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}; such as 512m or 2g", context, parameter) from error
    if size < LEAST_MEMORY:
        raise click.BadParameter(f"{text!r} {TOO_LITTLE}", context, parameter)
    return size


def memory_options(what: str, *, configured: bool) -> Callable[[F], F]:
    """Add both options: `memory` in bytes and `spill_dir`, None where they are not given.

    Args:
        what: is limited.
        configured: whether the command has --conf, where the defaults may stand.
    """
    where, most = ("checkpointer.memory.dir of --conf, else ", "checkpointer.memory of --conf, else ")
    spill = click.option(
        "--spill-dir",
        type=EXISTING_FOLDER,
        help=f"Folder for what goes beyond --memory (default: {where if configured else ''}the system's).",
    )
    memory = click.option(
        "--memory",
        metavar="SIZE",
        callback=_size,
        help=f"Limit on the memory of {what}, such as 2g; beyond it they are kept in a file "
        f"(default: {most if configured else ''}none).",
    )
    return lambda command: memory(spill(command))


def with_options(configured: MemoryLimit, memory: int | None, spill_dir: Path | None) -> MemoryLimit:
    """What is configured, less what options say otherwise."""
    found = configured if memory is None else replace(configured, size=memory)
    return found if spill_dir is None else replace(found, folder=spill_dir)
