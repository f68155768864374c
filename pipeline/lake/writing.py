"""Writes Parquet files of the lake in Spark's tasks; the driver receives only their names and sizes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hadoop_common.durable import fsync_directory, fsync_file
from pipeline.lake.delta import LakeFile, file_system, lake_errors, local_path
from pipeline.schema import TIMESTAMP
from pipeline.sources.edits import EditsReader
from pipeline.sources.fsimage import FsImageReader
from pipeline.task_errors import mark_typed_errors

if TYPE_CHECKING:
    import pyarrow.fs
    import pyarrow.parquet
    from pyspark.sql.datasource import InputPartition

_GROUP_ROWS = 1 << 18
_DELTA = "DELTA_BINARY_PACKED"
_RISING = frozenset(
    {"id", "parent", "mtime", "atime", "length", "inode_id", "block_id", "genstamp", "bytes", "raw_bytes", "txid"}
)
"""Columns with similar neighbouring values; delta encoding needs a third of the space of a dictionary."""
_DISTINCT = frozenset({"path", "name", "target", "fields"})
"""Strings that seldom repeat, for which a dictionary would cost time and space."""


@dataclass(frozen=True, slots=True)
class ImageTablePart:
    """A part of a table of an image, and the place of its rows in the lake."""

    table: str
    uri: str
    reader: FsImageReader
    part: InputPartition
    partition: Mapping[str, str]


def write_image_parts(parts: Iterable[ImageTablePart]) -> Iterator[tuple[str, LakeFile | None]]:
    """Write each part as one file; yield the part's table and the file (None for an empty part)."""
    for item in parts:
        with mark_typed_errors():
            writer: LakeFileWriter | None = None
            for batch in item.reader.read(item.part):
                writer = writer or LakeFileWriter(item.uri, item.partition, batch.schema)
                writer.add(batch)
            yield item.table, None if writer is None else writer.close()


@dataclass(frozen=True, slots=True)
class EditsJob:
    """Arguments of the tasks that write edits.

    Attributes:
        written: time of each segment's file, in ms since 1970, for transactions without any time.
    """

    uri: str
    cluster: str
    reader: EditsReader
    written: Mapping[str, int]


def write_edits(job: EditsJob, parts: Iterable[InputPartition]) -> Iterator[list[LakeFile]]:
    """Write a file for each day (UTC) in each part; yield the files of each part."""
    for part in parts:
        with mark_typed_errors():
            writers: dict[str, LakeFileWriter] = {}
            for batch in job.reader.read(part):
                for day, rows in _by_day(batch, job.written):
                    if day not in writers:
                        writers[day] = LakeFileWriter(job.uri, {"cluster": job.cluster, "day": day}, batch.schema)
                    writers[day].add(rows)
            yield [writer.close() for writer in writers.values()]


def _by_day(batch: pa.RecordBatch, written: Mapping[str, int]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Divide a batch of one segment by the day of `approximate_time`."""
    import pyarrow.compute as pc

    default = pa.scalar(written.get(batch.column("segment")[0].as_py(), 0) * 1000, TIMESTAMP)
    days = pc.fill_null(batch.column("approximate_time"), default).cast(pa.date32())
    for day in days.unique():
        yield str(day.as_py()), batch.filter(pc.equal(days, day))


@dataclass(slots=True)
class LakeFileWriter:
    """One Parquet file of a table. Its name is unique, because a task may run twice."""

    uri: str
    partition: Mapping[str, str]
    schema: pa.Schema
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _pending: int = 0
    _rows: int = 0
    _txids: tuple[int, int] | None = None
    _path: str = ""
    _system: pyarrow.fs.FileSystem = field(init=False)
    _writer: pyarrow.parquet.ParquetWriter = field(init=False)

    def __post_init__(self) -> None:
        import pyarrow.parquet as pq

        pa.set_cpu_count(1)  # the task has one core
        folder = "".join(f"{name}={value}/" for name, value in self.partition.items())
        self._path = f"{folder}part-{uuid.uuid4()}.zstd.parquet"
        rising = [each.name for each in self.schema if each.name in _RISING and not pa.types.is_string(each.type)]
        plain = {*rising, *_DISTINCT}
        with lake_errors(self.uri):
            self._system = file_system(self.uri)
            self._writer = pq.ParquetWriter(
                self._path,
                self.schema,
                filesystem=self._system,
                compression="zstd",
                use_dictionary=[name for name in self.schema.names if name not in plain],
                column_encoding=dict.fromkeys(rising, _DELTA),
            )

    def add(self, batch: pa.RecordBatch) -> None:
        if "txid" in batch.schema.names:
            import pyarrow.compute as pc

            found = pc.min_max(batch.column("txid")).as_py()
            first, last = self._txids or (found["min"], found["max"])
            self._txids = (min(first, found["min"]), max(last, found["max"]))
        self._batches.append(batch)
        self._pending += batch.num_rows
        self._rows += batch.num_rows
        if self._pending >= _GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        with lake_errors(self.uri):
            self._writer.write_table(pa.Table.from_batches(self._batches, self.schema))
        self._batches, self._pending = [], 0

    def close(self) -> LakeFile:
        if self._batches:
            self._write()
        with lake_errors(self.uri):
            self._writer.close()
            size = self._system.get_file_info(self._path).size
            if root := local_path(self.uri):
                path = Path(root) / self._path
                fsync_file(path)
                for folder in path.parents[: len(self.partition) + 1]:
                    fsync_directory(folder)
        return LakeFile(self._path, size, self._rows, dict(self.partition), self._txids)
