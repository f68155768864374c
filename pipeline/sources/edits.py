"""`spark.read.format("hdfs_edits")`: the transactions of edit log segments as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from journal.segment_file import map_file
from pipeline.errors import SourceFileError
from pipeline.schema import Table
from pipeline.source_files import SourceFile, SourceKind
from pipeline.sources.edit_plan import PlacedRange, choose_segments, examine_files, share
from pipeline.sources.edit_ranges import EditsRange, WantedEdits, read_range
from pipeline.sources.edit_rows import EditRow, record_batch
from pipeline.sources.options import SourceOptions
from pipeline.staging import resolve_all
from pipeline.tables.edits import EDITS
from pipeline.task_errors import mark_typed_errors

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS = (
    "path",
    "columns",
    "from_txid",
    "to_txid",
    "in_progress",
    "gaps",
    "partitions",
    "archive",
    "branch",
    "key_file",
)
"""Options of the data source:

- `path`: a segment, a directory of segments or a storage directory, on any file system that Spark supports; or a
  journal on BookKeeper, `bookkeeper://zk1:2181;zk2:2181/path`, which the driver reads; or several as a list or a
  pattern;
- `archive`: instead of a path, the directory or URL of an archive, which the driver reads; `branch` and `key_file` as
  in `checkpointer archive restore`;
- `columns`: comma-separated names; other columns are not read;
- `from_txid`, `to_txid`: the first and last transaction to read; both must exist;
- `in_progress`: true also reads segments in progress, up to their last complete operation;
- `gaps`: `allow` accepts segments that are not contiguous, `error` (the default) reports the gap;
- `partitions`: maximum number of partitions (default: one for each 8 MiB).
"""
_BATCH_ROWS = 16384
_BATCH_BYTES = 32 << 20


class EditsDataSource(DataSource):
    """Data source `hdfs_edits`, registered by `pipeline.register`."""

    @classmethod
    def name(cls) -> str:
        return "hdfs_edits"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        with mark_typed_errors():
            self._options = _EditsOptions.read(options)

    def schema(self) -> StructType:
        return self._options.table.spark_schema()

    def reader(self, schema: StructType) -> EditsReader:
        return self.edits_reader()

    def edits_reader(self) -> EditsReader:
        """Return the reader; the options determine its schema."""
        return EditsReader(self._options)


@dataclass(frozen=True, slots=True)
class _EditsOptions:
    paths: tuple[str, ...]
    table: Table
    from_txid: int | None
    to_txid: int | None
    in_progress: bool
    allow_gaps: bool
    partitions: int | None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> _EditsOptions:
        given = SourceOptions("hdfs_edits", OPTIONS, options)
        return cls(
            paths=given.paths,
            table=given.columns(EDITS),
            from_txid=given.integer("from_txid", least=0),
            to_txid=given.integer("to_txid", least=0),
            in_progress=given.switch("in_progress"),
            allow_gaps=given.choice("gaps", ("error", "allow"), "error") == "allow",
            partitions=given.integer("partitions", least=1),
        )


class _Ranges(InputPartition):
    def __init__(self, ranges: Sequence[PlacedRange]) -> None:
        super().__init__(tuple(ranges))


class EditsReader(DataSourceReader):
    """Reader of segments: a process on the driver's host divides the segments, and tasks read the parts."""

    def __init__(self, options: _EditsOptions) -> None:
        self._options = options
        self._wanted = WantedEdits()
        if options.from_txid is not None:
            self._wanted = replace(self._wanted, low=options.from_txid)
        if options.to_txid is not None:
            self._wanted = replace(self._wanted, high=options.to_txid)

    def partitions(self) -> Sequence[InputPartition]:
        """Divide the segments into runs of complete operations.

        Raises:
            SourceFileError: no segments were found, or they cannot be read.
            JournalError: segments have a gap, or a segment to divide is damaged.
        """
        kind = SourceKind.OPEN_EDITS if self._options.in_progress else SourceKind.EDITS
        with mark_typed_errors(), _as_source_error():
            return self.partitions_of(resolve_all(self._options.paths, kind))

    def partitions_of(self, files: Sequence[SourceFile]) -> Sequence[InputPartition]:
        """Divide the segments of `files`; see `partitions`."""
        with mark_typed_errors(), _as_source_error():
            return [_Ranges(run) for run in self._runs(files) if run]

    def _runs(self, files: Sequence[SourceFile]) -> list[list[PlacedRange]]:
        options = self._options
        segments = choose_segments(
            examine_files(files, in_progress=options.in_progress),
            self._wanted,
            allow_gaps=options.allow_gaps,
            start=options.from_txid,
            end=options.to_txid,
        )
        runs = share(segments, options.partitions)
        return [[item for item in run if item.piece.meets(self._wanted)] for run in runs]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition.

        Raises:
            SourceFileError: a segment cannot be read.
            JournalError: a segment is damaged; the error names file, offset and txid.
        """
        with mark_typed_errors(), _as_source_error():
            for item in partition.value:
                wanted = replace(self._wanted, low=max(self._wanted.low, item.from_txid))
                with map_file(item.source.in_task()) as content:
                    rows = read_range(content, item.piece, wanted)
                    yield from _batches(rows, item.piece, self._options.table)


def _batches(rows: Iterator[EditRow], piece: EditsRange, table: Table) -> Iterator[pa.RecordBatch]:
    batch: list[EditRow] = []
    for row in rows:
        if len(batch) == _BATCH_ROWS or (batch and row.op.offset - batch[0].op.offset > _BATCH_BYTES):
            yield record_batch(batch, table, piece.file)
            batch = []
        batch.append(row)
    if batch:
        yield record_batch(batch, table, piece.file)


@contextmanager
def _as_source_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceFileError(f"a segment cannot be read: {error}", hint="Check its disk and permissions.") from None
