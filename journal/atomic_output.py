"""A file that appears complete under its name or not at all, and replaces another only on request."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path

from hadoop_common.durable import TEMPORARY_SUFFIX, remove_durably, removed_on_fault, rename_durably, sync_output
from hadoop_common.file_faults import error_text
from journal.errors import JournalStorageError


def write_new_file(output: Path, fill: Callable[[BufferedWriter], Path], *, overwrite: bool = False) -> Path:
    """Let `fill` write a temporary file, sync it, and give it the name that `fill` returns.

    Args:
        output: the file to write, or a directory for the file that `fill` names.
        fill: writes the content; called once.
        overwrite: whether an existing file is replaced.

    Raises:
        JournalStorageError: the file cannot be written, or exists and may not be replaced; the temporary file is
        removed.
        Exception: errors of `fill`; the temporary file is removed.
    """
    into_directory = output.is_dir()
    if not overwrite and not into_directory:
        _check_free(output)
    folder = output if into_directory else output.parent
    temporary = folder / f".edits_{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    try:
        with removed_on_fault(temporary):
            with temporary.open("xb") as out:
                target = fill(out)
                sync_output(out)
            _place(temporary, target, overwrite)
    except OSError as error:
        hint = "Check that the directory exists, is writable and has enough space."
        raise JournalStorageError(f"{output} cannot be written: {error_text(error, output)}", hint=hint) from error
    return target


def _place(temporary: Path, target: Path, overwrite: bool) -> None:
    if overwrite:
        rename_durably(temporary, target)
        return
    _check_free(target)
    try:
        # unlike a rename, a link never replaces a file that appeared in between
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:
        # the file system has no hard links
        rename_durably(temporary, target)
        return
    remove_durably(temporary)


def _check_free(path: Path) -> None:
    if path.exists() or path.is_symlink():
        hint = "Name another output; --force replaces this one."
        raise JournalStorageError(f"{path} exists already", hint=hint)
