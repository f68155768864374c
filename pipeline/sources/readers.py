"""The tables of the `fsimage` data source and their readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from image_format.reader import ImageFile
from pipeline.host_image import HostImage
from pipeline.schema import Table
from pipeline.sources.image_tables import sections
from pipeline.sources.image_tables.batches import rows_to_batches
from pipeline.sources.inode_batch import InodeBatch, InodeLookups
from pipeline.sources.table_reader import TablePart, TableReader, parts_of_diffs, parts_of_inodes, single_part
from pipeline.tables.inodes import ACLS, BLOCKS, DIRECTORIES, INODES, UNDER_CONSTRUCTION, XATTRS
from pipeline.tables.managers import CACHE, SUMMARY, TOKENS
from pipeline.tables.snapshots import REFERENCES, SNAPSHOT_DIFFS, SNAPSHOTS

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.host_image import HostImage

_BATCH_ROWS = 1 << 16
_PATH_BYTES = 1 << 28


class InodesReader:
    """`TableReader` of the `inodes` table."""

    @property
    def table(self) -> Table:
        return INODES

    def parts(self, image: ImageFile, wanted: int | None) -> list[TablePart]:
        return parts_of_inodes(image, wanted)

    def read(self, image: HostImage, part: TablePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in inode_batches(image, part):
            if batch.count:
                yield batch.to_arrow(columns)


def inode_batches(image: HostImage, part: TablePart) -> Iterator[InodeBatch]:
    """Yield the inodes of a part in batches."""
    lookups = InodeLookups(image)
    for slots in _runs(image, part.cut(image.count)):
        yield InodeBatch(lookups, slots)


def _runs(image: HostImage, slots: range) -> Iterator[range]:
    """Divide slots into batches; batches with very long paths are smaller."""
    for start in range(slots.start, slots.stop, _BATCH_ROWS):
        yield from _bounded(image, range(start, min(start + _BATCH_ROWS, slots.stop)))


def _bounded(image: HostImage, slots: range) -> Iterator[range]:
    rows = image.parent_rows[slots.start : slots.stop]
    bounds = image.directories.bounds
    size = int(np.sum(np.diff(bounds)[rows[rows >= 0]])) if bounds.size > 1 else 0
    if size <= _PATH_BYTES or len(slots) == 1:
        yield slots
    else:
        middle = slots.start + len(slots) // 2
        yield from _bounded(image, range(slots.start, middle))
        yield from _bounded(image, range(middle, slots.stop))


_PartsOf = Callable[[ImageFile, int | None], list[TablePart]]


def _one_part(_image: ImageFile, _wanted: int | None) -> list[TablePart]:
    return single_part()


@dataclass(frozen=True, slots=True)
class BatchReader:
    """A `TableReader` over a function of (image, part, columns) that returns batches."""

    table: Table
    batches: Callable[[HostImage, TablePart, Sequence[str]], Iterator[pa.RecordBatch]]
    parts_of: _PartsOf

    def parts(self, image: ImageFile, wanted: int | None) -> list[TablePart]:
        return self.parts_of(image, wanted)

    def read(self, image: HostImage, part: TablePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self.batches(image, part, columns)


@dataclass(frozen=True, slots=True)
class RowReader:
    """A `TableReader` over a function of (image, part) that returns rows; a row maps column names to values."""

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
    RowReader(SNAPSHOT_DIFFS, sections.snapshot_diffs, parts_of_diffs),
    RowReader(REFERENCES, sections.references),
    RowReader(ACLS, sections.acls, parts_of_inodes),
    RowReader(XATTRS, sections.xattrs, parts_of_inodes),
    RowReader(UNDER_CONSTRUCTION, sections.under_construction, parts_of_inodes),
    RowReader(CACHE, sections.cache),
    RowReader(TOKENS, sections.tokens),
    RowReader(SUMMARY, sections.summary),
)


DEFAULT_TABLE = "inodes"
_ALL: tuple[TableReader, ...] = (InodesReader(), *OTHER_TABLES)
READERS: dict[str, TableReader] = {reader.table.name: reader for reader in _ALL}
