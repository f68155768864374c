"""Tasks of a report's Spark jobs: each counts a part of an image or of the edits, or verifies the image.

One job counts all images and verifies one image. A task returns small tables by directory, owner and class. The
children of a directory may be in any part of the image, and operations on its path in any part of the edits. Therefore
a shuffle sends the counts of each directory to one task, which merges them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from image_tools.verify.checker import verify_image
from pipeline.host_image import HostImage
from pipeline.job_results import collect_results
from pipeline.kernels.features import ACL, DIRECTORY, XATTRS
from pipeline.reports.counts.edits import EDIT_COLUMNS, EditCounts, EditRules, count_bucket, merge_buckets
from pipeline.reports.counts.features import HOLDERS, attribute_counts, open_file_counts
from pipeline.reports.counts.grouping import pack, unpack
from pipeline.reports.counts.namespace import (
    BOTH_COLUMNS,
    DIRECTORY_COLUMNS,
    FACT_COLUMNS,
    NamespaceCounts,
    Rules,
    in_buckets,
    merge_bucket,
)
from pipeline.source_files import SourceFile
from pipeline.sources.fsimage import open_in_task
from pipeline.sources.image_tables import sections
from pipeline.sources.readers import inode_batches
from pipeline.sources.table_reader import TablePart
from pipeline.task_errors import mark_typed_errors

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql.datasource import InputPartition

    from pipeline.sources.edits import EditsReader

_WATCH_SECONDS = 0.5

Packed = dict[str, bytes]
"""Tables of `counts.grouping.pack`."""


class ReportTask(Protocol):
    """A task of the first job.

    Attributes:
        name: groups the results.
        size: bytes that the task reads.
    """

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    def run(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class InodesTask:
    """Task that counts the inodes of the current tree in a part of an image."""

    name: str
    size: int
    file: SourceFile
    part: TablePart
    rules: Rules

    def run(self) -> dict[str, pa.Table]:
        """Return the tables of `NamespaceCounts` and `counts.features`."""
        return count_inodes(open_in_task(self.file), self.part, self.rules)


def count_inodes(image: HostImage, part: TablePart, rules: Rules) -> dict[str, pa.Table]:
    """Return the tables of `NamespaceCounts` and `counts.features` of a part of an image."""
    counts = NamespaceCounts(rules)
    for batch in inode_batches(image, part):
        counts.add(batch.to_encoded(FACT_COLUMNS))
        counts.add_directories(batch.directories().to_arrow(DIRECTORY_COLUMNS))
    return {**counts.tables(), **_features(image, part, rules)}


def _features(image: HostImage, part: TablePart, rules: Rules) -> dict[str, pa.Table]:
    """Return the tables of `counts.features`, and `holders`: feature (acl or xattr), type, inodes.

    The function decodes only attributes of directories, because every file may have an attribute.
    """
    slots = part.cut(image.count)
    every = sections.marks_of(image, part)
    marks = np.where(image.in_tree(slots), every, 0)
    is_directory = marks & DIRECTORY > 0
    rows = []
    for feature, bit in (("acl", ACL), ("xattr", XATTRS)):
        for kind, chosen in (("files", ~is_directory), ("directories", is_directory)):
            rows.append({"feature": feature, "type": kind, "inodes": int(((marks & bit > 0) & chosen).sum())})
    holders = np.flatnonzero((marks & XATTRS > 0) & is_directory) + slots.start
    return {
        "holders": pa.Table.from_pylist(rows, HOLDERS),
        **attribute_counts(sections.xattrs_of(image, holders.tolist())),
        **open_file_counts(sections.open_files(image, part, every), rules),
    }


@dataclass(frozen=True, slots=True)
class RowsTask:
    """Task that counts rows of the `inodes` table."""

    name: str
    size: int
    rows: ParquetPart
    rules: Rules

    def run(self) -> dict[str, pa.Table]:
        """Return the tables of `NamespaceCounts`."""
        counts = NamespaceCounts(self.rules)
        for batch in self.rows.batches(BOTH_COLUMNS):
            counts.add(batch)
            counts.add_directories(batch.filter(pc.equal(batch["type"], "DIRECTORY")))
        return counts.tables()


CountingTask = InodesTask | RowsTask


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """Task that verifies an image in the memory of its Python process, instead of the JVM's heap.

    Attributes:
        limit: maximum number of listed findings of each kind.
    """

    name: str
    size: int
    file: SourceFile
    limit: int

    def run(self) -> dict[str, Any]:
        """Return `Verification.as_dict`."""
        return verify_image(self.file.in_task(), limit=self.limit).as_dict()


def run_tasks(
    context: SparkContext, tasks: Sequence[ReportTask], advance: Callable[[int], None]
) -> dict[str, list[Any]]:
    """Run all tasks as one job; return the results by name.

    Args:
        advance: called with the bytes that all completed tasks have read.

    Raises:
        PipelineError: see `job_results.complete`.
    """
    counting = sum(isinstance(task, CountingTask) for task in tasks)
    buckets = max(1, min(counting, context.defaultParallelism))
    with _watched(context.accumulator(0), advance) as read:
        parts = context.parallelize(tasks, len(tasks)).mapPartitions(partial(_run, read, buckets))
        by_bucket = parts.partitionBy(buckets, int) if counting > 1 else parts
        found = collect_results(by_bucket.mapPartitions(_merge), buckets if counting > 1 else len(tasks))
    results: dict[str, list[Any]] = {task.name: [] for task in tasks}
    for name, result in itertools.chain.from_iterable(found):
        results[name].append(result)
    return results


def _run(read: Accumulator[int], buckets: int, tasks: Iterable[ReportTask]) -> Iterator[tuple[int, tuple[str, Any]]]:
    pa.set_cpu_count(1)  # the task has one core
    for task in tasks:
        with mark_typed_errors():
            if isinstance(task, CountingTask):
                for bucket, part in in_buckets(task.run(), buckets):
                    yield bucket, (task.name, part)
            else:
                yield 0, (task.name, task.run())
        read.add(task.size)


def _merge(pairs: Iterable[tuple[int, tuple[str, Any]]]) -> Iterator[list[tuple[str, Any]]]:
    """Yield the results of a bucket."""
    found: dict[str, list[Any]] = {}
    for _, (name, result) in pairs:
        found.setdefault(name, []).append(result)
    yield [
        (name, result)
        for name, results in found.items()
        for result in (merge_bucket(results) if len(results) > 1 else results)
    ]


@contextmanager
def _watched(read: Accumulator[int], advance: Callable[[int], None]) -> Iterator[Accumulator[int]]:
    """Report the value of an accumulator regularly until the block ends."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_WATCH_SECONDS):
            advance(read.value)

    watcher = threading.Thread(target=watch, name="report-progress", daemon=True)
    watcher.start()
    try:
        yield read
    finally:
        ended.set()
        watcher.join()


@dataclass(frozen=True, slots=True)
class TxidBounds:
    """Transactions `first` .. `last`; None if unlimited."""

    first: int | None = None
    last: int | None = None

    def select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the range."""
        if self.first is not None:
            batch = batch.filter(pc.greater_equal(batch["txid"], self.first))
        return batch if self.last is None else batch.filter(pc.less_equal(batch["txid"], self.last))


class BatchSource(Protocol):
    """A part of a table that one task reads."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class SegmentsPart:
    """A part of segments; the reader determines the columns."""

    reader: EditsReader
    part: InputPartition

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self.reader.read(self.part)


@dataclass(frozen=True, slots=True)
class ParquetPart:
    """A Parquet file of a lake."""

    file: SourceFile

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self.file.in_task(), coerce_int96_timestamp_unit="us") as table:
            yield from table.iter_batches(columns=list(columns))


def count_edits(
    context: SparkContext, parts: Sequence[BatchSource], wanted: TxidBounds, rules: EditRules
) -> dict[str, pa.Table]:
    """Return the tables of `count_bucket` for all edits.

    Raises:
        PipelineError: see `job_results.complete`.
    """
    if not parts:
        return count_bucket((), rules)
    buckets = min(len(parts), context.defaultParallelism)
    counted = context.parallelize(parts, len(parts)).mapPartitions(partial(_count_parts, wanted, buckets))
    by_bucket = counted if len(parts) == 1 else counted.partitionBy(buckets, int)
    found = collect_results(by_bucket.mapPartitions(partial(_count_buckets, rules)), buckets)
    return merge_buckets(unpack(found), rules.limit)


def _count_parts(wanted: TxidBounds, buckets: int, parts: Iterable[BatchSource]) -> Iterator[tuple[int, Packed]]:
    counts = EditCounts()
    for part in parts:
        with mark_typed_errors():
            for batch in part.batches(EDIT_COLUMNS):
                counts.add(wanted.select(batch))
    yield from counts.buckets(buckets)


def _count_buckets(rules: EditRules, pairs: Iterable[tuple[int, Packed]]) -> Iterator[Packed]:
    yield pack(count_bucket((content for _, content in pairs), rules))
