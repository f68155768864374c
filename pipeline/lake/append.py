"""Appends images and transactions to the lake; existing files never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipeline import read_edits, read_image
from pipeline.lake.commits import (
    EDITS,
    INODES,
    STAGING,
    LakePlan,
    TxidRange,
    committed_edits,
    committed_images,
    edits_commit,
    execute,
    finish_killed_runs,
    holes,
    image_commit,
    subtract,
    unfinished,
)
from pipeline.lake.files import HadoopFiles
from pipeline.lake.inputs import LakeSegment, find_image, find_segments, in_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FILE_BYTES = 256 << 20
"""Bytes of edits for each Parquet file of a day, which becomes some tens of megabytes."""
_NO_SUCCESS_FILE = ("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")


@dataclass(frozen=True, slots=True)
class AppendedEdits:
    """Result of an append of edits.

    Attributes:
        ranges: transactions that the append added.
        missing: transactions between the lake's first and last that the lake lacks.
    """

    ranges: Sequence[TxidRange]
    missing: Sequence[TxidRange]

    @property
    def transactions(self) -> int:
        return sum(each.last - each.first + 1 for each in self.ranges)


def append_image(spark: SparkSession, image: str, root: str) -> int | None:
    """Add the inodes of an image as `inodes/txid=N`; return the txid, or None if the lake already has the image.

    The next append finishes or restarts an append that was killed.

    Args:
        image: an image, or a storage directory with its newest image, on any file system that Spark knows.
        root: the lake's directory; created if missing.

    Raises:
        SourceFileError: no image was found.
        LakeBusyError: another process writes to this lake.
        LakeError: the lake cannot be read or written.
    """
    files = HadoopFiles(spark, root)
    found = find_image(spark, image)
    if found.txid in committed_images(files) and not unfinished(files):
        return None
    with files.lock():
        finish_killed_runs(files)
        if found.txid in committed_images(files):
            return None
        run = f"image-{found.txid}"
        staged = files.uri(f"{STAGING}/{run}/data")
        read_image(spark, found.path).write.option(*_NO_SUCCESS_FILE).parquet(staged)
        about = {"txid": found.txid, "rows": spark.read.parquet(staged).count(), "bytes": _size(files, run)}
        execute(files, LakePlan(run, [("data", f"{INODES}/txid={found.txid}")], image_commit(found.txid), about))
    return found.txid


def append_edits(spark: SparkSession, edits: str, root: str) -> AppendedEdits:
    """Add the transactions of finalized segments that the lake lacks, in folders for the days of their times (UTC).

    Args:
        edits: a segment, a directory of segments or a storage directory, on any file system that Spark knows.
        root: the lake's directory; created if missing.

    Raises:
        SourceFileError: `edits` does not exist.
        LakeBusyError: another process writes to this lake.
        LakeError: the lake cannot be read or written.
    """
    files = HadoopFiles(spark, root)
    segments = find_segments(spark, edits)
    offered = [segment.txids for segment in segments]
    if not subtract(offered, committed_edits(files)) and not unfinished(files):
        return AppendedEdits((), holes(committed_edits(files)))
    with files.lock():
        finish_killed_runs(files)
        batches = in_batches(segments, committed_edits(files))
        for batch in batches:
            _append_batch(spark, files, edits, batch, segments)
        return AppendedEdits(batches, holes(committed_edits(files)))


def _append_batch(
    spark: SparkSession, files: HadoopFiles, edits: str, batch: TxidRange, segments: Sequence[LakeSegment]
) -> None:
    run = f"edits-{batch.first}-{batch.last}"
    mine = [each for each in segments if each.txids.last >= batch.first and each.txids.first <= batch.last]
    rows = read_edits(spark, edits, from_txid=str(batch.first), to_txid=str(batch.last))
    staged = f"{STAGING}/{run}/data"
    writer = _laid_out(rows, batch, mine).write.option(*_NO_SUCCESS_FILE).partitionBy("day")
    writer.parquet(files.uri(staged))
    moves = []
    for day in files.names(staged):
        for number, name in enumerate(_parquet(files.names(f"{staged}/{day}"))):
            target = f"{EDITS}/{day}/edits_{batch.first}-{batch.last}_{number:03d}.parquet"
            moves.append((f"data/{day}/{name}", target))
    about = {"first": batch.first, "last": batch.last, "files": len(moves), "bytes": _size(files, run)}
    execute(files, LakePlan(run, moves, edits_commit(batch), about))


def _laid_out(rows: DataFrame, batch: TxidRange, segments: Sequence[LakeSegment]) -> DataFrame:
    """Add the column `day`; split `rows` into one partition for each file, sorted by txid."""
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    count = max(1, sum(each.size for each in segments) // _FILE_BYTES)
    width = (batch.last - batch.first) // count + 1
    block = ((F.col("txid") - F.lit(batch.first)) / F.lit(width)).cast("long")
    spread = rows.repartition(1) if count == 1 else rows.repartition(int(count), block)
    return spread.withColumn("day", _day(segments)).sortWithinPartitions("day", "txid")


def _day(segments: Sequence[LakeSegment]) -> Column:
    """Return the day of `approximate_time` in UTC, independent of the session's time zone. A segment without any time
    gets the day on which its file was written.
    """
    from pyspark.sql import functions as F  # noqa: N812

    written = [literal for each in segments for literal in (F.lit(each.name), F.lit(_moment(each.modified)))]
    time = F.coalesce(F.col("approximate_time"), F.create_map(*written)[F.col("segment")])
    days = F.floor(F.unix_micros(time) / F.lit(86_400_000_000)).cast("int")
    return F.date_add(F.lit("1970-01-01").cast("date"), days)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _parquet(names: Sequence[str]) -> list[str]:
    return sorted(name for name in names if name.endswith(".parquet"))


def _size(files: HadoopFiles, run: str) -> int:
    return files.size(f"{STAGING}/{run}/data")


def retain_images(spark: SparkSession, root: str, keep: int) -> list[int]:
    """Remove all but the `keep` newest images; return the txids of the removed ones.

    Raises:
        LakeBusyError: another process writes to this lake.
        LakeError: the lake cannot be read or written.
    """
    if keep < 1:
        raise ValueError(f"{keep} images cannot be kept")
    files = HadoopFiles(spark, root)
    if len(committed_images(files)) <= keep and not unfinished(files):
        return []
    with files.lock():
        finish_killed_runs(files)
        removed = committed_images(files)[:-keep]
        for txid in removed:
            moves = [("data", f"{INODES}/txid={txid}")]
            execute(files, LakePlan(f"remove-{txid}", moves, uncommit=image_commit(txid), back=True))
        return removed
