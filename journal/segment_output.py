"""Writes a whole finalized segment, from operations or from the intact bytes of another segment.

The file appears complete under its name or not at all, and replaces an existing file only on request.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from io import BufferedWriter
from pathlib import Path
from typing import NamedTuple

from hadoop_common.durable import (
    TEMPORARY_SUFFIX,
    refuse_special,
    remove_durably,
    removed_on_fault,
    rename_durably,
    sync_output,
)
from hadoop_common.file_faults import error_text, hint_for
from hadoop_common.names import segment_name
from journal.binary_codec import encode_op
from journal.errors import JournalStorageError, SegmentError, TransactionGapError
from journal.operation import EditOp
from journal.primitives import Buffer
from journal.segment_format import encode_header

_STEP = 4 << 20


class WrittenSegment(NamedTuple):
    """A segment that is durable under its name."""

    path: Path
    first_txid: int
    last_txid: int
    transactions: int
    size: int


def write_ops(output: Path, ops: Iterable[EditOp], layout_version: int, *, overwrite: bool = False) -> WrittenSegment:
    """Write `ops` as a finalized segment: into `output` if it is a directory, otherwise as the file `output`.

    An error leaves no incomplete file.

    Raises:
        TransactionGapError: the txids are not consecutive.
        SegmentError: `ops` is empty.
        OpEncodingError, UnsupportedEditsLayoutError: see `encode_op`.
        JournalStorageError: the file cannot be written, or exists and `overwrite` is not set.
        JournalError: the iteration of `ops` failed.
    """
    header = encode_header(layout_version)
    first = last = None
    count = 0

    def fill(out: BufferedWriter) -> Path:
        nonlocal first, last, count
        out.write(header)
        for op in ops:
            if last is not None and op.txid != last + 1:
                raise TransactionGapError(last + 1, op.txid)
            out.write(encode_op(op, layout_version))
            first, last = op.txid if first is None else first, op.txid
            count += 1
        if first is None or last is None:
            raise SegmentError("the segment has no operations", hint="A segment must contain at least one operation.")
        return output / segment_name(first, last) if output.is_dir() else output

    path = write_new_file(output, fill, overwrite=overwrite)
    assert first is not None
    assert last is not None
    return WrittenSegment(path, first, last, count, path.stat().st_size)


def write_range(output: Path, buffer: Buffer, end: int, *, overwrite: bool = False) -> Path:
    """Write `buffer[:end]` as file `output`; return the path of the file.

    Raises:
        JournalStorageError: see `write_new_file`.
    """
    return write_pieces(output, buffer, [range(end)], overwrite=overwrite)


def write_pieces(output: Path, buffer: Buffer, pieces: Iterable[range | bytes], *, overwrite: bool = False) -> Path:
    """Write `pieces`, which are bytes or ranges of `buffer`, in order to the file `output`; return the file's path.

    Raises:
        JournalStorageError: see `write_new_file`.
    """

    def fill(out: BufferedWriter) -> Path:
        for piece in pieces:
            if isinstance(piece, bytes):
                out.write(piece)
                continue
            for start in range(piece.start, piece.stop, _STEP):
                out.write(bytes(buffer[start : min(piece.stop, start + _STEP)]))
        return output

    return write_new_file(output, fill, overwrite=overwrite)


def write_new_file(output: Path, fill: Callable[[BufferedWriter], Path], *, overwrite: bool = False) -> Path:
    """Fill a temporary file with `fill`, sync it, and rename it to the name that `fill` returns.

    Args:
        output: the file to write, or the directory for the file that `fill` names.
        fill: writes the content; called once.
        overwrite: whether an existing file is replaced.

    Raises:
        JournalStorageError: the file cannot be written, or exists and `overwrite` is not set; the temporary file is
            removed.
        Exception: errors of `fill`; the temporary file is removed.
    """
    refuse_special(output)
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
        hint = hint_for(error, "Check that the directory exists, is writable and has enough space.")
        raise JournalStorageError(f"{output} cannot be written: {error_text(error, output)}", hint=hint) from error
    return target


def _place(temporary: Path, target: Path, overwrite: bool) -> None:
    if overwrite:
        rename_durably(temporary, target)
        return
    _check_free(target)
    try:
        # Unlike a rename, a link never replaces a file that has since appeared.
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
        hint = "Specify another output; --force replaces this file."
        raise JournalStorageError(f"{path} already exists", hint=hint)
