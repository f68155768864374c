"""Writes a table of an image as Parquet directly from the tasks; Spark's JVM receives only counts.

Spark's writer converts Arrow batches to rows and back to columns. This conversion takes several times as long as
reading the image. Here, each task writes one part as a file with Arrow's writer.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hadoop_common.durable import fsync_directory, rename_durably, sync_output
from pipeline.errors import OutputError
from pipeline.job_results import collect_results
from pipeline.sources.fsimage import FsImageDataSource, ImagePart
from pipeline.task_errors import mark_typed_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext

_SUCCESS = "_SUCCESS"
_UNFINISHED = "_part-"
_DISTINCT = frozenset({"id", "parent", "path", "name", "length", "mtime", "atime"})
"""Columns whose values seldom repeat, so that a dictionary would only cost time and space."""


def write_parquet(
    context: SparkContext,
    image: str,
    target: Path,
    *,
    table: str = "inodes",
    compression: str = "zstd",
    options: dict[str, str] | None = None,
) -> int:
    """Write `table` of `image` as the new folder `target`, a path that every host shares; return the number of rows.

    The folder appears complete or not at all: tasks write and flush the files in a temporary folder next to it, and the
    driver then renames this folder.

    Args:
        image: a local path.
        options: further options of the `fsimage` data source.

    Raises:
        OutputError: `target` exists, or its parent is not writable.
    """
    if target.exists():
        raise OutputError(f"{target} already exists", hint="Choose another name.")
    source = FsImageDataSource({"path": image, "table": table, **(options or {})})
    parts = source.reader(source.schema()).partitions()
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.making-", dir=target.parent))
    except OSError as fault:
        hint = "Check that the folder exists and is writable."
        raise OutputError(f"cannot create a folder in {target.parent}: {fault.strerror}", hint=hint) from fault
    try:
        write = partial(_write_parts, source, str(folder), compression)
        rows = sum(collect_results(context.parallelize(parts, len(parts)).mapPartitions(write), len(parts)))
        for left in folder.glob(f"{_UNFINISHED}*"):  # folders that killed attempts left
            left.unlink()
        (folder / _SUCCESS).touch()
        fsync_directory(folder)
        folder.chmod(0o755)
        rename_durably(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return rows


def _write_parts(source: FsImageDataSource, folder: str, compression: str, parts: Iterator[ImagePart]) -> Iterator[int]:
    reader = source.reader(source.schema())
    for part in parts:
        with mark_typed_errors():
            yield _write(reader.read(part), Path(folder), part.part.number, compression)


def _write(batches: Iterator[pa.RecordBatch], folder: Path, number: int, compression: str) -> int:
    """Write one file, or none if there are no rows; a repeated attempt replaces the file with the same rows."""
    import pyarrow as arrow
    import pyarrow.parquet as pq

    arrow.set_cpu_count(1)  # the task has one core
    first = next(batches, None)
    if first is None:
        return 0
    rows = 0
    with tempfile.NamedTemporaryFile(dir=folder, prefix=_UNFINISHED, delete=False) as out:
        repeating = [name for name in first.schema.names if name not in _DISTINCT]
        with pq.ParquetWriter(out, first.schema, compression=compression, use_dictionary=repeating) as writer:
            batch = first
            while batch is not None:
                writer.write_batch(batch)
                rows += batch.num_rows
                batch = next(batches, None)
        os.fchmod(out.fileno(), 0o644)
        sync_output(out)
    # A plain rename is enough: the driver syncs the folder once for all files.
    Path(out.name).rename(folder / f"part-{number:05d}.{compression}.parquet")
    return rows
