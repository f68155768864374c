"""What a table of the `fsimage` data source is read by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from image_format.reader import ImageFile
from image_format.summary import Section

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.host_image import HostImage
    from pipeline.schema import Table

MAXIMUM_PARTS = 10_000
_PART_BYTES = 16 * 1024 * 1024
_COMPRESSION = 4  # what a part's bytes are to become when they are unpacked, roughly


@dataclass(frozen=True, slots=True)
class Part:
    """One task's share of an image: part `number` (from 0) of `of` equal ones."""

    number: int
    of: int

    def cut(self, count: int) -> range:
        """The part of `count` things, such as an image's slots."""
        return range(self.number * count // self.of, (self.number + 1) * count // self.of)


class TableReader(Protocol):
    """Reads one table of an image."""

    @property
    def table(self) -> Table: ...

    def parts(self, image: ImageFile, wanted: int | None) -> list[Part]:
        """How the table is divided among tasks; decided on the driver, by the FileSummary alone.

        Args:
            wanted: how many parts the user asks for, None for a number that suits the image.
        """

    def read(self, image: HostImage, part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Batches of at most 65,536 rows with these columns, in this order.

        Raises:
            ImageFormatError: the image is damaged.
        """


def whole() -> list[Part]:
    """One part, for a table that is small or cannot be divided."""
    return [Part(0, 1)]


def parts_of_inodes(image: ImageFile, wanted: int | None) -> list[Part]:
    """Parts of about 16 MB of INODE records each, or as many as `wanted`."""
    size = next((_unpacked(image, entry) for entry in image.sections if entry.name == "INODE"), 0)
    count = wanted or max(1, min(MAXIMUM_PARTS, -(-size // _PART_BYTES)))
    return [Part(number, count) for number in range(count)]


def _unpacked(image: ImageFile, entry: Section) -> int:
    return entry.length * (_COMPRESSION if image.codec else 1)
