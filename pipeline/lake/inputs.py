"""Finds the input of an append: an image or finalized segments, with their transaction ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hadoop_common.names import parse_image, parse_segment
from pipeline.errors import SourceFileError
from pipeline.lake.commits import TxidRange, subtract
from pipeline.lake.files import HadoopFiles
from pipeline.source_files import SourceKind, choose, not_found

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDERS = ("", "current")
_BATCH_SEGMENTS = 256
_BATCH_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class LakeImage:
    """An image, by its path and the txid of its name."""

    txid: int
    path: str


@dataclass(frozen=True, slots=True)
class LakeSegment:
    """A finalized segment; `size` in bytes, `modified` in ms since 1970."""

    name: str
    txids: TxidRange
    size: int
    modified: int


def find_image(spark: SparkSession, path: str) -> LakeImage:
    """Return the image at `path`, or the newest image of a storage directory.

    Raises:
        SourceFileError: no image was found, or its name has no txid.
    """
    found = HadoopFiles(spark, path)
    if found.is_file():
        image = parse_image(path.rsplit("/", 1)[-1])
        if image is None:
            raise SourceFileError(f"{path} is not named fsimage_TXID", hint="Rename the file to fsimage_TXID.")
        return LakeImage(image.txid, path)
    for folder in _FOLDERS:
        for name in choose(found.names(folder), SourceKind.IMAGE):
            image = parse_image(name)
            assert image is not None
            return LakeImage(image.txid, found.uri(f"{folder}/{name}" if folder else name))
    raise not_found(path, SourceKind.IMAGE)


def find_segments(spark: SparkSession, path: str) -> list[LakeSegment]:
    """Return the finalized segment at `path`, or those of a directory, by their txids; maybe none.

    Raises:
        SourceFileError: `path` does not exist, or is another file.
    """
    found = HadoopFiles(spark, path)
    if found.is_file():
        name = path.rsplit("/", 1)[-1]
        segments = _segments(found, "", [name]) if parse_segment(name) else []
        if not segments:
            raise SourceFileError(f"{path} is not a finalized segment", hint="Name a finalized segment or a directory.")
        return segments
    for folder in _FOLDERS:
        segments = _segments(found, folder, found.names(folder))
        if segments:
            return segments
    return []


def _segments(found: HadoopFiles, folder: str, names: Iterable[str]) -> list[LakeSegment]:
    segments = []
    for name in names:
        parsed = parse_segment(name)
        if parsed is None or parsed.last is None:
            continue
        place = "" if found.is_file() else (f"{folder}/{name}" if folder else name)
        txids = TxidRange(parsed.first, parsed.last)
        segments.append(LakeSegment(name, txids, found.size(place), found.modified(place)))
    return sorted(segments, key=lambda segment: segment.txids)


def in_batches(segments: Sequence[LakeSegment], taken: Iterable[TxidRange]) -> list[TxidRange]:
    """Return the transactions that are not yet `taken`, in contiguous runs, one for each job."""
    runs: list[TxidRange] = []
    taken = list(taken)
    batch: list[LakeSegment] = []
    for segment in segments:
        full = len(batch) == _BATCH_SEGMENTS or sum(each.size for each in batch) > _BATCH_BYTES
        if batch and full:
            runs += subtract([each.txids for each in batch], [*taken, *runs])
            batch = []
        batch.append(segment)
    return runs + subtract([each.txids for each in batch], [*taken, *runs])
