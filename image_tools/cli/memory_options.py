"""The options `--memory` and `--spill-dir`, and the memory limit of commands that read images."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from hadoop_common.cli.output import EXISTING_FOLDER, parsed_by
from hadoop_common.quantities import parse_size
from image_format.memory_limit import MIN_MEMORY, TOO_LITTLE, MemoryLimit

F = TypeVar("F", bound=Callable[..., Any])


def _memory(text: str) -> int:
    size = parse_size(text)
    if size < MIN_MEMORY:
        raise ValueError(TOO_LITTLE)
    return size


def memory_options(what: str, *, configured: bool) -> Callable[[F], F]:
    """Add both options, `memory` in bytes and `spill_dir`; an omitted option is None.

    Args:
        what: description of the limited data.
        configured: whether the command has --conf with the defaults.
    """
    where, most = ("checkpointer.memory.dir of --conf, else ", "checkpointer.memory of --conf, else ")
    spill = click.option(
        "--spill-dir",
        type=EXISTING_FOLDER,
        help=f"Folder for data beyond the limit of --memory (default: {where if configured else ''}the system's).",
    )
    memory = click.option(
        "--memory",
        metavar="SIZE",
        callback=parsed_by(_memory),
        help=f"Memory limit of {what}, such as 2g; data beyond the limit is stored in a file "
        f"(default: {most if configured else ''}none).",
    )
    return lambda command: memory(spill(command))


def memory_bound(command: F) -> F:
    """Add `--memory` to a command without spill files: work that needs more memory is aborted.

    The default limit is three quarters of the available memory.
    """

    @functools.wraps(command)
    def bounded(*arguments: Any, memory: int | None, **options: Any) -> Any:
        with memory_limited(memory):
            return command(*arguments, **options)

    return click.option(
        "--memory",
        metavar="SIZE",
        callback=parsed_by(_memory),
        help="Memory limit, such as 2g; an image that needs more is refused "
        "(default: three quarters of the available memory).",
    )(bounded)  # type: ignore[return-value]


def memory_limited(memory: int | None) -> AbstractContextManager[None]:
    """Abort the work in the context if it needs more than `memory` bytes (None: three quarters of the available
    memory).

    Raises:
        OutOfMemoryError: the work exceeded the limit.
    """
    from hadoop_common.available_memory import available_memory
    from hadoop_common.process_memory import bounded_memory

    size = memory or available_memory() * 3 // 4
    return bounded_memory(size) if size else nullcontext()


def with_options(configured: MemoryLimit, memory: int | None, spill_dir: Path | None) -> MemoryLimit:
    """Return the configured limit, overridden by options."""
    found = configured if memory is None else replace(configured, size=memory)
    return found if spill_dir is None else replace(found, folder=spill_dir)
