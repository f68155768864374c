"""The options `--memory` and `--spill-dir`, and `--memory` as a bound of commands that look at images."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from hadoop_common.cli.existing_path import EXISTING_FOLDER
from hadoop_common.quantities import parse_size
from image_format.memory_limit import MIN_MEMORY, TOO_LITTLE, MemoryLimit

F = TypeVar("F", bound=Callable[..., Any])


def _size(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        size = parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}; such as 512m or 2g", context, parameter) from error
    if size < MIN_MEMORY:
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


def memory_bound(command: F) -> F:
    """Add `--memory` to a command that has no files for what goes beyond it: work that needs more is given up.

    Without the option the bound is three quarters of what the system has left.
    """

    @functools.wraps(command)
    def bounded(*arguments: Any, memory: int | None, **options: Any) -> Any:
        with held(memory):
            return command(*arguments, **options)

    return click.option(
        "--memory",
        metavar="SIZE",
        callback=_size,
        help="Most memory that the work may take, such as 2g; an image that needs more is refused "
        "(default: three quarters of what the system has left).",
    )(bounded)  # type: ignore[return-value]


def held(memory: int | None) -> AbstractContextManager[None]:
    """Gives work up that takes more than `memory` bytes; None is three quarters of what the system has left.

    Raises:
        OutOfMemoryError: the work inside does.
    """
    from hadoop_common.process_memory import available_memory, bounded_memory

    size = memory or available_memory() * 3 // 4
    return bounded_memory(size) if size else nullcontext()


def with_options(configured: MemoryLimit, memory: int | None, spill_dir: Path | None) -> MemoryLimit:
    """What is configured, less what options say otherwise."""
    found = configured if memory is None else replace(configured, size=memory)
    return found if spill_dir is None else replace(found, folder=spill_dir)
