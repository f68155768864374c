"""The counts that the sections of a report show, and the rules for counting."""

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
from pipeline.reports.request import ReportOptions

_DEFAULT_BLOCK = 128 << 20


def image_rules(options: ReportOptions) -> Rules:
    """Return the rules for counting inodes."""
    has_sets = options.paths is not None and bool(options.paths.sets)
    return Rules(options.as_of, options.small, options.cold_days, options.replication, options.top + 1, has_sets)


def edit_rules(options: ReportOptions) -> EditRules:
    """Return the rules for counting transactions."""
    return EditRules(options.depth, options.small or _DEFAULT_BLOCK // SMALL_PART, options.top + 1)


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
        images: the reported image and older images, the oldest first.
        last: an earlier report, from which the report measures growth if there is no older image; None if there is
            no such report.
        edits: tables of `counts.edits.count_bucket`, None if there are no edits.
        findings: `Verification.as_dict` of the image, None if the image was not verified.
        snapshots: cost of the image's snapshots, or the reason why it is unknown; None if the image has no snapshots,
            or if the `snapshots` section is not made.
        has_file: whether the image is a file; an image in a lake has only the `inodes` table.
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
