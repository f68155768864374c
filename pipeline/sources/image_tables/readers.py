"""The readers of all tables except `inodes`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from image_format.reader import ImageFile
from pipeline.schema import Table
from pipeline.sources.image_tables import sections
from pipeline.sources.image_tables.batches import rows_to_batches
from pipeline.sources.table_reader import TablePart, TableReader, parts_of_inodes, single_part
from pipeline.tables.blocks import BLOCKS
from pipeline.tables.directories import DIRECTORIES
from pipeline.tables.features import ACLS, XATTRS
from pipeline.tables.managers import CACHE, TOKENS
from pipeline.tables.snapshots import REFERENCES, SNAPSHOT_DIFFS, SNAPSHOTS
from pipeline.tables.summary import SUMMARY
from pipeline.tables.under_construction import UNDER_CONSTRUCTION

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.host_image import HostImage

_PartsOf = Callable[[ImageFile, int | None], list[TablePart]]


def _one_part(_image: ImageFile, _wanted: int | None) -> list[TablePart]:
    return single_part()


@dataclass(frozen=True, slots=True)
class BatchReader:
    """A `TableReader` that gets its batches from a function of (image, part, columns)."""

    table: Table
    batches: Callable[[HostImage, TablePart, Sequence[str]], Iterator[pa.RecordBatch]]
    parts_of: _PartsOf

    def parts(self, image: ImageFile, wanted: int | None) -> list[TablePart]:
        return self.parts_of(image, wanted)

    def read(self, image: HostImage, part: TablePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self.batches(image, part, columns)


@dataclass(frozen=True, slots=True)
class RowReader:
    """A `TableReader` that gets its rows from a function of (image, part); a row maps column names to values."""

    table: Table
    rows: Callable[[HostImage, TablePart], Iterator[Mapping[str, Any]]]
    parts_of: _PartsOf = _one_part

    def parts(self, image: ImageFile, wanted: int | None) -> list[TablePart]:
        return self.parts_of(image, wanted)

    def read(self, image: HostImage, part: TablePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return rows_to_batches(self.table, columns, self.rows(image, part))


OTHER_TABLES: tuple[TableReader, ...] = (
    BatchReader(BLOCKS, sections.blocks, parts_of_inodes),
    BatchReader(DIRECTORIES, sections.directories, parts_of_inodes),
    RowReader(SNAPSHOTS, sections.snapshots),
    RowReader(SNAPSHOT_DIFFS, sections.snapshot_diffs, sections.parts_of_diffs),
    RowReader(REFERENCES, sections.references),
    RowReader(ACLS, sections.acls, parts_of_inodes),
    RowReader(XATTRS, sections.xattrs, parts_of_inodes),
    RowReader(UNDER_CONSTRUCTION, sections.under_construction, parts_of_inodes),
    RowReader(CACHE, sections.cache),
    RowReader(TOKENS, sections.tokens),
    RowReader(SUMMARY, sections.summary),
)
