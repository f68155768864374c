"""Builds a report: opens the inputs and makes one section after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pipeline.reports.inputs import open_edits, open_image
from pipeline.reports.model import SECTIONS, NamespaceReport, ReportSection
from pipeline.reports.sections import make_section
from pipeline.reports.work import Progress, ReportData, ReportOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The inputs of a report, each a path or URI.

    Attributes:
        image: an image, a storage directory or a lake.
        before: an older image from which growth is measured; "" for none. May be the same lake.
        edits: segments or a lake; "" for none. With `before` only those between the two images are used.
        cluster: name of the cluster; "" for the id in the image's directory.
    """

    image: str
    before: str = ""
    edits: str = ""
    cluster: str = ""


def make_report(
    spark: SparkSession,
    request: ReportRequest,
    choose: Callable[[datetime | None], ReportOptions],
    *,
    generated: datetime,
    progress: Progress,
) -> NamespaceReport:
    """Make every section that `only` selects and whose inputs exist.

    Args:
        choose: returns the options for the image's modification time.
        progress: called with the name of each section before it starts.

    Raises:
        HdfsError: an image or the edits cannot be read.
        PySparkException, Py4JError: a job failed; `task_errors.unwrap` may find the typed error.
    """
    progress("image")
    after = open_image(spark, request.image)
    before = open_image(spark, request.before, before=after.txid) if request.before else None
    options = choose(after.time)
    first, last = (None, None) if before is None else (before.txid + 1, after.txid)
    edits = open_edits(spark, request.edits, first, last) if request.edits else None
    older = None if before is None else before.tables
    work = ReportData(options, after.tables, older, edits, spark=spark, file=after.file)
    try:
        sections = _sections(work, progress)
    finally:
        work.close()
    return NamespaceReport(
        title=f"Namespace at transaction {after.txid}",
        image=after.path,
        txid=after.txid,
        image_time=after.time,
        generated=generated,
        sections=sections,
        before="" if before is None else before.path,
        edits=request.edits,
        cluster=request.cluster or after.cluster,
    )


def _sections(work: ReportData, progress: Progress) -> tuple[ReportSection, ...]:
    only = work.options.only
    available = {
        "": True,
        "edits": work.edits is not None,
        "before": work.before is not None,
        "file": work.file is not None,
    }
    made = []
    for section_id, needed in SECTIONS.items():
        if (not only or section_id in only) and available[needed]:
            progress(section_id)
            made.append(make_section(section_id, work))
    return tuple(made)
