"""Growth over several images of the lake, by directory and by owner; runs without Spark.

The module reads each image once, file by file, and reduces it to a row for each directory and owner. It keeps only the
rows of directories down to a depth, so it compares images by their totals and not inode by inode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.lake.delta import LakeFile, LakeTable
from pipeline.lake.lake import ImageInLake, image_table
from pipeline.reports.counts.classes import known_size
from pipeline.reports.counts.grouping import grouped, numbers
from pipeline.tables.inodes import INODES

if TYPE_CHECKING:
    from collections.abc import Callable

_COLUMNS = ("id", "parent", "path", "type", "owner", "length")


class Totals(NamedTuple):
    """Totals of a directory with everything below it, or of an owner; `bytes` is the total length of the files."""

    files: int
    directories: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ImageTotals:
    """Totals of one image by directory, down to a depth, and by owner."""

    directories: dict[str, Totals]
    owners: dict[str, Totals]


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """A directory or an owner.

    Attributes:
        totals: totals of each image, the oldest first.
    """

    name: str
    totals: tuple[Totals, ...]

    @property
    def change(self) -> Totals:
        """The newest totals minus the oldest."""
        first, last = self.totals[0], self.totals[-1]
        return Totals(*(new - old for new, old in zip(last, first, strict=True)))

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "change": self.change._asdict(), "totals": [each._asdict() for each in self.totals]}


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth over images, oldest first; rows are sorted by the size of their change in bytes."""

    images: Sequence[ImageInLake]
    directories: Sequence[GrowthRow]
    owners: Sequence[GrowthRow]

    def as_dict(self) -> dict[str, Any]:
        return {
            "images": [image.as_dict() for image in self.images],
            "directories": [row.as_dict() for row in self.directories],
            "owners": [row.as_dict() for row in self.owners],
        }


def measure_growth(
    root: str, images: Sequence[ImageInLake], depth: int, *, progress: Callable[[str], None] = lambda _: None
) -> Growth:
    """Compare images of one cluster, oldest first, by owners and by directories down to `depth` levels below the root.

    Raises:
        LakeError: the lake cannot be read.
    """
    table = image_table(root, INODES.name)
    found = []
    for image in images:
        progress(f"image {image.txid}")
        found.append(_totals(table, [file for file in table.files() if file.partition == image.partition], depth))
    directories = _rows([each.directories for each in found])
    return Growth(images, directories, _rows([each.owners for each in found]))


def _rows(images: Sequence[dict[str, Totals]]) -> list[GrowthRow]:
    names = sorted(set().union(*images))
    none = Totals(0, 0, 0)
    rows = [GrowthRow(name, tuple(image.get(name, none) for image in images)) for name in names]
    return sorted(rows, key=lambda row: (-abs(row.change.bytes), -abs(row.change.files), row.name))


def _totals(table: LakeTable, files: Sequence[LakeFile], depth: int) -> ImageTotals:
    parts, directories = [], []
    for file in files:
        rows = table.read(_COLUMNS, [file])
        is_directory = pc.equal(rows["type"], "DIRECTORY")
        named = rows.filter(is_directory).select(["id", "path"])
        directories.append(pa.table({"id": named["id"], "place": _place(named["path"], depth)}))
        counted = pa.table(
            {
                "parent": rows["parent"],
                "owner": rows["owner"],
                "files": pc.equal(rows["type"], "FILE").cast(pa.int64()),
                "directories": is_directory.cast(pa.int64()),
                "bytes": _lengths(rows["length"]),
            }
        )
        parts.append(_summed(counted, ["parent", "owner"]))
    if not parts:
        return ImageTotals({}, {})
    together = pa.concat_tables(parts).join(pa.concat_tables(directories), "parent", "id")
    summed = _summed(together.drop_columns(["parent"]), ["place", "owner"])
    return _by_name(summed.to_pylist())


def _lengths(lengths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the lengths of inodes; 0 for inodes that are not files and for impossible lengths, as in reports."""
    return pa.chunked_array([pa.array(known_size(numbers(lengths)))])


def _place(paths: pa.ChunkedArray, depth: int) -> pa.Array:
    """Return the first `depth` names of each path."""
    pattern = rf"^(?P<place>/(?:[^/]+(?:/[^/]+){{0,{depth - 1}}})?)"
    return pc.struct_field(pc.extract_regex(paths, pattern), "place")


def _summed(rows: pa.Table, keys: list[str]) -> pa.Table:
    return grouped(rows, keys, Totals._fields)


def _by_name(rows: Sequence[dict[str, Any]]) -> ImageTotals:
    directories: dict[str, Counter[str]] = {}
    owners: dict[str, Counter[str]] = {}
    for row in rows:
        counts = {name: row[name] for name in Totals._fields}
        # Only the root has no parent.
        for place in _with_ancestors(row["place"]) if row["place"] else ():
            directories.setdefault(place, Counter()).update(counts)
        owners.setdefault(row["owner"] or "", Counter()).update(counts)
    return ImageTotals(_as_totals(directories), _as_totals(owners))


def _with_ancestors(place: str) -> Iterator[str]:
    yield "/"
    end = place.find("/", 1)
    while end > 0:
        yield place[:end]
        end = place.find("/", end + 1)
    if place != "/":
        yield place


def _as_totals(found: dict[str, Counter[str]]) -> dict[str, Totals]:
    return {name: Totals(*(counts[each] for each in Totals._fields)) for name, counts in found.items()}
