"""`spark.read.format("fsimage")`: the tables of an image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from image_format.reader import ImageFile
from pipeline.host_image import HostImage
from pipeline.host_scratch import host_scratch
from pipeline.schema import Table
from pipeline.source_files import SourceFile, SourceKind, is_pattern
from pipeline.sources.options import SourceOptions
from pipeline.sources.readers import DEFAULT_TABLE, READERS
from pipeline.sources.table_reader import MAX_PARTS, TablePart
from pipeline.staging import resolve_all
from pipeline.tables.inodes import IMAGE_COLUMN
from pipeline.task_errors import mark_typed_errors

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONS = ("path", "table", "columns", "partitions", "archive", "as_of", "branch", "key_file")
"""Options of the data source:

- `path`: an image, or a storage directory with its newest image, on any file system that Spark supports; or several as
  a list or a pattern, which adds the `image` column to the table;
- `archive`: instead of a path, the directory or URL of an archive, which the driver reads; `as_of`: a transaction id or
  a time (default: the newest moment); `branch` and `key_file` as in `checkpointer archive restore`;
- `table`: name of a table (default: `inodes`);
- `columns`: comma-separated names; other columns are not read;
- `partitions`: number of partitions of a divisible table (default: one for each 16 MB of inodes).

Spark applies all filters. If a reader accepted a filter, the filter would also apply to later queries of the same
DataFrame, which would then miss rows.
"""


@dataclass(frozen=True, slots=True)
class _ReaderOptions:
    paths: tuple[str, ...]
    table: Table
    partitions: int | None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> _ReaderOptions:
        given = SourceOptions("fsimage", OPTIONS, options)
        table = READERS[given.choice("table", tuple(READERS), DEFAULT_TABLE)].table
        if len(given.paths) > 1 or is_pattern(given.paths[0]):
            table = replace(table, columns=(*table.columns, IMAGE_COLUMN))
        return cls(paths=given.paths, table=given.columns(table), partitions=given.integer("partitions", least=1))


class FsImageDataSource(DataSource):
    """Data source `fsimage`, registered by `pipeline.register`."""

    @classmethod
    def name(cls) -> str:
        return "fsimage"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        with mark_typed_errors():
            self._options = _ReaderOptions.read(options)

    def schema(self) -> StructType:
        return self._options.table.spark_schema()

    def reader(self, schema: StructType) -> FsImageReader:
        return FsImageReader(self._options)


class ImagePart(InputPartition):
    def __init__(self, file: SourceFile, part: TablePart) -> None:
        self.file = file
        self.part = part


class FsImageReader(DataSourceReader):
    """Reader of one table; the driver reads only the FileSummary of the image."""

    def __init__(self, options: _ReaderOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with mark_typed_errors():
            return self.partitions_of(resolve_all(self._options.paths, SourceKind.IMAGE))

    def partitions_of(self, files: Sequence[SourceFile]) -> list[InputPartition]:
        """Divide the table of each image of `files`."""
        with mark_typed_errors():
            return [ImagePart(file, part) for file in files for part in self._parts(file)]

    def _parts(self, file: SourceFile) -> list[TablePart]:
        wanted = self._options.partitions
        with ImageFile.open(file.on_driver(), verify_md5=False) as image:
            return READERS[self._options.table.name].parts(image, wanted and min(wanted, MAX_PARTS))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ImagePart)
        with mark_typed_errors():
            image = open_in_task(partition.file)
            table = self._options.table
            reader = READERS[table.name]
            # At least one column, because a batch without columns has no row count.
            names = [name for name in table.names if name != IMAGE_COLUMN.name] or [reader.table.names[0]]
            for batch in reader.read(image, partition.part, names):
                yield batch if tuple(names) == table.names else _with_image(batch, table, partition.file)


def _with_image(batch: pa.RecordBatch, table: Table, file: SourceFile) -> pa.RecordBatch:
    """Return the columns of `table`, including the path of the image."""
    import pyarrow as pa

    source = pa.array([file.staged or file.path] * batch.num_rows, pa.string())
    arrays = [source if name == IMAGE_COLUMN.name else batch.column(name) for name in table.names]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow_schema())


def open_in_task(file: SourceFile) -> HostImage:
    """Open an image in a task, with the index that all tasks of this host share.

    Raises:
        HdfsError: see `HostImage.open` and `SourceFile.check_version`.
    """
    image = HostImage.open(file.in_task(), host_scratch(), file.staged)
    file.check_version()
    return image
