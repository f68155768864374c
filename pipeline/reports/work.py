"""Options of a report, and the DataFrames that its sections share: tables are read once, results are kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol, TypeVar, cast

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pipeline.reports.queries.classes import add_up
from pipeline.reports.queries.facts import DIRECTORY_COLUMNS, FACT_COLUMNS, MEASURES, Rules, directories, facts, places
from pipeline.reports.queries.operations import ACTIVITY_COLUMNS, WRITTEN_COLUMNS, activity, written_files
from pipeline.reports.queries.small_files import savings
from pipeline.reports.queries.tree import roll_up
from pipeline.reports.rows import Record, collect
from pipeline.source_files import SourceFile

Progress = Callable[[str], None]
"""Callback that receives the name of the current step."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The caller's options of a report.

    Attributes:
        as_of: reference time for ages, UTC.
        depth: levels of directories below the root in a tree.
        top: maximum rows of a table.
        small: bytes below which a file is small; None for an eighth of its block size.
        cold_days: days without use after which a file is cold.
        only: ids of sections; empty for all.
    """

    as_of: datetime
    depth: int = 3
    top: int = 20
    small: int | None = None
    cold_days: int = 365
    only: tuple[str, ...] = ()

    def rules(self) -> Rules:
        return Rules(self.as_of, self.small, self.cold_days)


T = TypeVar("T")

TOTALED = (
    *MEASURES,
    *("small_files", "small_length", "saved_inodes", "saved_blocks", "saved_heap"),
    *("cold_files", "cold_length", "cold_raw"),
)
"""Columns with totals."""


class ImageTables(Protocol):
    """Access to the tables of one image."""

    def __call__(self, table: str, columns: Sequence[str]) -> DataFrame: ...


class EditTable(Protocol):
    """Access to the table of edits."""

    def __call__(self, columns: Sequence[str]) -> DataFrame: ...


@dataclass
class _ImageCounts:
    """Counts of one image."""

    tables: ImageTables
    options: ReportOptions
    kept: list[DataFrame]

    def keep(self, frame: DataFrame) -> DataFrame:
        """Persist a frame, so that it is computed once; on disk, to save heap."""
        self.kept.append(frame.persist(StorageLevel.DISK_ONLY))
        return frame

    @cached_property
    def facts(self) -> DataFrame:
        return self.keep(facts(self.tables("inodes", FACT_COLUMNS), self.options.rules()))

    @cached_property
    def directories(self) -> DataFrame:
        return self.keep(directories(self.tables("inodes", DIRECTORY_COLUMNS)))

    @cached_property
    def places(self) -> DataFrame:
        return self.keep(savings(places(self.facts, self.directories)))

    @cached_property
    def rolled(self) -> DataFrame:
        return self.keep(roll_up(self.places, depth=self.options.depth))

    @cached_property
    def total(self) -> Record:
        """Sums of `TOTALED` over the whole tree."""
        sums = (sql.coalesce(add_up(name), sql.lit(0)).alias(name) for name in TOTALED)
        return collect(self.places.agg(*sums), limit=1)[0]


class ReportData:
    """Shared DataFrames of one report.

    Args:
        after: tables of the reported image.
        before: tables of an older image, None without growth.
        edits: the edits to report on, None for none.
        spark, file: session and file for the section `findings`; the file is None for an image in a lake.
    """

    def __init__(
        self,
        options: ReportOptions,
        after: ImageTables,
        before: ImageTables | None = None,
        edits: EditTable | None = None,
        *,
        spark: SparkSession | None = None,
        file: SourceFile | None = None,
    ) -> None:
        self.options = options
        self.tables = after
        self._kept: list[DataFrame] = []
        self._made: dict[str, Any] = {}
        self.image = _ImageCounts(after, options, self._kept)
        self.before = None if before is None else _ImageCounts(before, options, self._kept)
        self.edits = edits
        self.spark, self.file = spark, file

    @cached_property
    def activity(self) -> DataFrame:
        assert self.edits is not None
        return self.image.keep(activity(self.edits(ACTIVITY_COLUMNS)))

    @cached_property
    def written(self) -> DataFrame:
        assert self.edits is not None
        return self.image.keep(written_files(self.edits(WRITTEN_COLUMNS)))

    def once(self, name: str, make: Callable[[ReportData], T]) -> T:
        """Return the result of `make`, computed at the first call with this name."""
        if name not in self._made:
            self._made[name] = make(self)
        return cast("T", self._made[name])

    def close(self) -> None:
        """Release all persisted frames."""
        for frame in self._kept:
            frame.unpersist()
