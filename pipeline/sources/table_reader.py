"""Interface of the readers of the `fsimage` data source, and the division of an image into parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from image_format.reader import ImageFile

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.host_image import HostImage
    from pipeline.schema import Table

MAX_PARTS = 10_000
_PART_BYTES = 16 * 1024 * 1024
_DIFF_BYTES = 8 * 1024 * 1024
_COMPRESSION = 4  # assumed ratio of decompressed to compressed bytes


@dataclass(frozen=True, slots=True)
class TablePart:
    """A task's part of an image: `number` (from 0) of `of` equal parts."""

    number: int
    of: int

    def cut(self, count: int) -> range:
        """Return the range of this part among `count` items, such as slots."""
        return range(self.number * count // self.of, (self.number + 1) * count // self.of)


class TableReader(Protocol):
    @property
    def table(self) -> Table: ...

    def parts(self, image: ImageFile, wanted: int | None) -> list[TablePart]:
        """Divide the table among tasks. The driver reads only the FileSummary to decide.

        Args:
            wanted: number of parts that the user requests, None for a default that depends on the image.
        """

    def read(self, image: HostImage, part: TablePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most 65,536 rows with these columns, in this order.

        Raises:
            ImageFormatError: the image is damaged.
        """


def single_part() -> list[TablePart]:
    """Return one part, for a table that is small or indivisible."""
    return [TablePart(0, 1)]


def parts_of_inodes(image: ImageFile, wanted: int | None) -> list[TablePart]:
    """Divide INODE into parts of about 16 MB of records, or into `wanted` parts."""
    size = next((entry.length for entry in image.sections if entry.name == "INODE"), 0)
    size *= _COMPRESSION if image.codec else 1
    count = wanted or max(1, min(MAX_PARTS, -(-size // _PART_BYTES)))
    return [TablePart(number, count) for number in range(count)]


def parts_of_diffs(image: ImageFile, wanted: int | None) -> list[TablePart]:
    """Divide SNAPSHOT_DIFF into parts of about 8 MB as stored, or into `wanted` parts."""
    size = next((entry.length for entry in image.sections if entry.name == "SNAPSHOT_DIFF"), 0)
    count = wanted or max(1, min(MAX_PARTS, -(-size // _DIFF_BYTES)))
    return [TablePart(number, count) for number in range(count)]
