"""Rows of a search: one path per line, one JSON object per line, or Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hadoop_common.durable import written_atomically
from hadoop_common.file_faults import error_text, hint_for
from hadoop_common.java_numbers import unsigned64
from hadoop_common.java_utf8 import decode_java_utf8
from hadoop_common.printable import escaped
from image_format.errors import ImageStorageError
from image_tools.dump.values import java_text
from image_tools.search.criteria import KINDS
from image_tools.search.scan import FoundInodes, NamespaceScan

_KIND_NAMES = {number: name for name, number in KINDS.items()}
# number of paths that are checked and written in one batch
_LINES = 1 << 10
_FIELDS = (
    ("path", "string"),
    ("type", "string"),
    ("owner", "string"),
    ("group", "string"),
    ("mode", "string"),
    ("length", "int64"),
    ("replication", "int64"),
    ("blockSize", "int64"),
    ("blocks", "int64"),
    ("mtime", "int64"),
    ("atime", "int64"),
    ("storagePolicy", "string"),
)


def path_lines(scan: NamespaceScan, batches: Iterable[FoundInodes]) -> Iterator[bytes]:
    """Yield a line with the path of each inode; characters that are not printable are escaped."""
    for found in batches:
        paths = list(scan.paths(found))
        for first in range(0, len(paths), _LINES):
            chunk = paths[first : first + _LINES]
            text = decode_java_utf8(b"\n".join(chunk))
            if text.count("\n") < len(chunk) and text.replace("\n", "").isprintable():
                yield text.encode() + b"\n"
            else:
                yield b"".join(escaped(java_text(path)).encode() + b"\n" for path in chunk)


def json_lines(scan: NamespaceScan, batches: Iterable[FoundInodes]) -> Iterator[str]:
    """Yield a line with a JSON object for each inode."""
    for found in batches:
        for row in _rows(scan, found):
            yield json.dumps(row, ensure_ascii=False) + "\n"


def write_parquet(scan: NamespaceScan, batches: Iterable[FoundInodes], output: Path) -> None:
    """Write the rows to a Parquet file, which appears complete or not at all.

    Raises:
        ImportError: pyarrow is not installed.
        ImageStorageError: the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in _FIELDS])
    try:
        with written_atomically(output) as out, pq.ParquetWriter(out, schema) as writer:
            for found in batches:
                writer.write_batch(pa.RecordBatch.from_pylist(list(_rows(scan, found)), schema))
    except OSError as error:
        hint = hint_for(
            error, "Check that the directory exists, is writable and has enough space, or specify another --output."
        )
        raise ImageStorageError(f"cannot write {output}: {error_text(error, output)}", hint=hint) from error


def _rows(scan: NamespaceScan, found: FoundInodes) -> Iterator[dict[str, Any]]:
    columns = found.columns
    for number, (slot, path) in enumerate(zip(found.slots.tolist(), scan.paths(found), strict=True)):
        owner = scan.names.owner(unsigned64(int(columns.permission[number])))
        values = (
            java_text(path),
            _KIND_NAMES[int(columns.kind[number])],
            None if owner.user is None else java_text(owner.user),
            None if owner.group is None else java_text(owner.group),
            f"{owner.mode & 0o7777:04o}",
            int(columns.length[number]),
            int(columns.replication[number]),
            int(columns.block_size[number]),
            int(columns.block_count[number]),
            int(columns.mtime[number]),
            int(columns.atime[number]),
            scan.policy(slot, columns, number),
        )
        yield dict(zip((name for name, _ in _FIELDS), values, strict=True))
