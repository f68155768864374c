"""Command-line arguments that name existing paths."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import click

from hadoop_common.file_faults import FileFaultError


class _ExistingPath(click.Path):
    """Click's path type, except that a failing disk is reported as such and not as wrong usage."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(exists=True, file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        try:
            mode = os.stat(value).st_mode  # noqa: PTH116 - the value is not a path yet
        except (FileNotFoundError, NotADirectoryError):
            self.fail(f"{self.name.capitalize()} {os.fspath(value)!r} does not exist.", param, ctx)
        except OSError as fault:
            raise FileFaultError(fault, value, "cannot be read") from fault
        if not (self.dir_okay if stat.S_ISDIR(mode) else self.file_okay):
            is_a = "directory" if stat.S_ISDIR(mode) else "file"
            self.fail(f"{self.name.capitalize()} {os.fspath(value)!r} is a {is_a}.", param, ctx)
        return Path(value)


EXISTING = _ExistingPath()
EXISTING_FILE = _ExistingPath(dir_okay=False)
EXISTING_FOLDER = _ExistingPath(file_okay=False)
