"""Options of a report, and the counts that its sections show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from pipeline.reports.counts.classes import SMALL_PART
from pipeline.reports.counts.edits import EditRules
from pipeline.reports.counts.namespace import Rules
from pipeline.reports.counts.snapshots import SnapshotCosts
from pipeline.reports.counts.tree import ImageCounts
from pipeline.reports.earlier_reports import EarlierReport
from pipeline.reports.path_rules import PathRules

_DEFAULT_BLOCK = 128 << 20


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The caller's options of a report.

    Attributes:
        as_of: reference time for ages, UTC.
        depth: levels of directories below the root in a tree.
        top: maximum rows of a table.
        small: bytes below which a file is small; None for an eighth of its block size.
        cold_days: days without use after which a file is cold.
        replication: the cluster's default, dfs.replication.
        max_items: the cluster's limit on a directory's children, dfs.namenode.fs-limits.max-directory-items.
        only: ids of sections; empty for all.
        paths: path sets and tables, None if there is none.
    """

    as_of: datetime
    depth: int = 3
    top: int = 20
    small: int | None = None
    cold_days: int = 365
    replication: int = 3
    max_items: int = 1 << 20
    only: tuple[str, ...] = ()
    paths: PathRules | None = None

    def wants(self, section: str) -> bool:
        """Return whether the report has a section, if its input exists."""
        return not self.only or section in self.only

    def rules(self) -> Rules:
        has_sets = self.paths is not None and bool(self.paths.sets)
        return Rules(self.as_of, self.small, self.cold_days, self.replication, self.top + 1, has_sets)

    def edit_rules(self) -> EditRules:
        return EditRules(self.depth, self.small or _DEFAULT_BLOCK // SMALL_PART, self.top + 1)


@dataclass(frozen=True)
class CountedImage:
    """An image in a series; `time` is UTC, or None if unknown."""

    txid: int
    time: datetime | None
    counts: ImageCounts


@dataclass(frozen=True)
class ReportData:
    """The data for the sections of a report.

    Attributes:
        image: counts of the reported image.
        images: the reported image and older ones, the oldest first.
        last: an earlier report from which growth is measured without an older image, None if there is none.
        edits: tables of `counts.edits.count_bucket`, None if there are no edits.
        findings: `Verification.as_dict` of the image, None if the image was not verified.
        snapshots: cost of the image's snapshots, or the reason why it is unknown; None without snapshots or without
            that section.
        has_file: whether the image is a file; an image in a lake has only the table `inodes`.
    """

    options: ReportOptions
    image: ImageCounts
    images: tuple[CountedImage, ...] = ()
    last: EarlierReport | None = None
    edits: Mapping[str, pa.Table] | None = None
    findings: Mapping[str, Any] | None = None
    snapshots: SnapshotCosts | str | None = None
    has_file: bool = True

    @property
    def before(self) -> ImageCounts | EarlierReport | None:
        """Sums of the oldest image or of the last report; None if there is neither."""
        return self.images[0].counts if len(self.images) > 1 else self.last
