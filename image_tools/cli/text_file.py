"""Writes text to standard output, or to a file that appears complete or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from hadoop_common.cli.output import refuse_input
from hadoop_common.durable import written_atomically
from hadoop_common.file_faults import error_text, hint_for
from image_format.errors import ImageStorageError

_CHUNK = 1 << 16
_HINT = "Check that the directory exists, is writable and has enough space, or specify another --output."


def check_output(output: Path | None, source: Path, *, force: bool) -> None:
    """Refuse the input file as output, and any other existing file unless `force` is set.

    Raises:
        click.BadParameter: the output file is refused.
    """
    if output is None or not output.exists():
        return
    refuse_input(output, source, "--output")
    if not force:
        raise click.BadParameter(f"{output} exists; --force replaces it", param_hint="--output")


def emit(pieces: Iterable[str | bytes], output: Path | None) -> None:
    """Print `pieces` as UTF-8, or write them to `output` through a temporary file.

    Raises:
        ImageStorageError: the file cannot be written; an existing file is unchanged.
    """
    if output is None:
        for chunk in _chunks(pieces):
            click.echo(chunk, nl=False)
        return
    try:
        with written_atomically(output) as out:
            out.writelines(_chunks(pieces))
    except OSError as error:
        hint = hint_for(error, _HINT)
        raise ImageStorageError(f"cannot write {output}: {error_text(error, output)}", hint=hint) from error


def _chunks(pieces: Iterable[str | bytes]) -> Iterator[bytes]:
    """Combine pieces of text into larger chunks."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece if isinstance(piece, bytes) else piece.encode())
        size += len(waiting[-1])
        if size >= _CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
