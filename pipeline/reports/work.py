"""DataFrames that the sections of a report share: tables are read once, intermediate results are kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar, cast

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pipeline.reports.options import ReportOptions
from pipeline.reports.queries.classes import add_up
from pipeline.reports.queries.facts import DIRECTORY_COLUMNS, FACT_COLUMNS, MEASURES, directories, facts, places
from pipeline.reports.queries.operations import ACTIVITY_COLUMNS, WRITTEN_COLUMNS, activity, written_files
from pipeline.reports.queries.small_files import savings
from pipeline.reports.queries.tree import roll_up
from pipeline.reports.rows import Record, collect

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
    """

    def __init__(
        self,
        options: ReportOptions,
        after: ImageTables,
        before: ImageTables | None = None,
        edits: EditTable | None = None,
    ) -> None:
        self.options = options
        self.tables = after
        self._kept: list[DataFrame] = []
        self._made: dict[str, Any] = {}
        self.image = _ImageCounts(after, options, self._kept)
        self.before = None if before is None else _ImageCounts(before, options, self._kept)
        self.edits = edits

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
