"""Reader of the `inodes` table: the current tree of an image, read in ranges of slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from image_format.reader import ImageFile
from pipeline.host_image import HostImage
from pipeline.schema import Table
from pipeline.sources.inode_batch import InodeBatch, InodeLookups
from pipeline.sources.table_reader import TablePart, parts_of_inodes
from pipeline.tables.inodes import INODES

_BATCH_ROWS = 1 << 16
_PATH_BYTES = 1 << 28


class InodesReader:
    """`TableReader` of the table `inodes`."""

    @property
    def table(self) -> Table:
        return INODES

    def parts(self, image: ImageFile, wanted: int | None) -> list[TablePart]:
        return parts_of_inodes(image, wanted)

    def read(self, image: HostImage, part: TablePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        lookups = InodeLookups(image)
        for slots in _runs(image, part.cut(image.count)):
            batch = InodeBatch(lookups, slots)
            if batch.count:
                yield batch.to_arrow(columns)


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
