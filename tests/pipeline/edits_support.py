"""Reads edits in the process of the test, and makes segments for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hadoop_common.names import segment_name
from journal.binary_codec import encode_op
from journal.operation import EditOp
from journal.segment_format import encode_header
from pipeline.sources.edits import EditsDataSource, EditsReader

LAYOUT = -67


def reader(path: Path | str, **options: str) -> EditsReader:
    source = EditsDataSource({"path": str(path), **options})
    return source.reader(source.schema())


def rows(path: Path | str, **options: str) -> list[dict[str, Any]]:
    made = reader(path, **options)
    return [row for part in made.partitions() for batch in made.read(part) for row in batch.to_pylist()]


def write_segment(folder: Path, ops: Sequence[EditOp], *, layout: int = LAYOUT, name: str = "") -> Path:
    """Write `ops` as a segment, named by their txids unless `name` is set."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or segment_name(ops[0].txid, ops[-1].txid))
    path.write_bytes(encode_header(layout) + b"".join(encode_op(op, layout) for op in ops))
    return path
