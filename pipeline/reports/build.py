"""Builds a report: opens the inputs, counts them on Spark, and makes the sections from the counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from engine.observer import Observer
from pipeline.reports.counts.grouping import unpack
from pipeline.reports.counts.tree import ImageCounts
from pipeline.reports.earlier_reports import last_report
from pipeline.reports.inputs import ImageInput, check_series, open_edits, open_image
from pipeline.reports.model import SECTIONS, NamespaceReport, ReportSection
from pipeline.reports.request import ReportOptions, ReportRequest
from pipeline.reports.sections import make_section
from pipeline.reports.snapshot_costs import SnapshotsTask
from pipeline.reports.tasks import ReportTask, TxidBounds, VerifyTask, count_edits, run_tasks
from pipeline.reports.work import CountedImage, ReportData, edit_rules, image_rules

if TYPE_CHECKING:
    from pyspark import SparkContext

_VERIFIED, _SNAPSHOTS = "verify", "snapshots"


def make_report(
    context: SparkContext,
    request: ReportRequest,
    choose: Callable[[datetime | None], ReportOptions],
    *,
    generated: datetime,
    progress: Observer,
) -> NamespaceReport:
    """Make every section that `only` selects and whose inputs exist.

    Args:
        choose: returns the options for the image's modification time.

    Raises:
        HdfsError: an input cannot be read, or an older image belongs to another namespace or is not older.
        PySparkException, Py4JError: a job failed; `task_errors.typed_error` may find the typed error.
    """
    after = open_image(context, request.image)
    older = sorted(
        (open_image(context, name, before=after.txid) for name in request.before), key=lambda image: image.txid
    )
    check_series(older, after)
    last = last_report(Path(request.reports), after.txid, after.namespace) if request.reports and not older else None
    before = older[0] if older else last
    options = choose(after.time)
    data = replace(_count(context, options, [*older, after], progress), last=last)
    if request.edits:
        progress.phase("edits", None)
        bounds = TxidBounds() if before is None else TxidBounds(before.txid + 1, after.txid)
        parts = open_edits(context, request.edits, after)
        data = replace(data, edits=count_edits(context, parts, bounds, edit_rules(options)))
    progress.phase("sections", None)
    return NamespaceReport(
        title=f"Namespace at transaction {after.txid}",
        image=after.path,
        txid=after.txid,
        image_time=after.time,
        generated=generated,
        sections=_sections(data),
        before="" if before is None else str(before.path),
        edits=request.edits,
        cluster=request.cluster or after.cluster,
        namespace=after.namespace,
    )


def _count(
    context: SparkContext, options: ReportOptions, images: Sequence[ImageInput], progress: Observer
) -> ReportData:
    """Count the images, the oldest first, and verify the last image, in one job."""
    after = images[-1]
    names = [f"image {number}" for number in range(len(images))]
    tasks: list[ReportTask] = []
    if after.file is not None and options.wants("findings"):
        # The longest task begins first.
        tasks.append(VerifyTask(_VERIFIED, 0, after.file, options.top))
    if after.file is not None and options.wants("snapshots") and after.has_snapshots():
        tasks.append(SnapshotsTask(_SNAPSHOTS, 0, after.file))
    # the reported image comes next, then older images
    for name, image in reversed([*zip(names, images, strict=True)]):
        tasks += image.tasks(name, image_rules(options), context.defaultParallelism)
    progress.phase("image", sum(task.size for task in tasks) or None)
    results = run_tasks(context, tasks, progress.advance)
    counted = [
        CountedImage(image.txid, image.time, ImageCounts(unpack(results.pop(name))))
        for name, image in zip(names, images, strict=True)
    ]
    findings = next(iter(results.get(_VERIFIED, ())), None)
    return ReportData(
        options,
        counted[-1].counts,
        tuple(counted),
        findings=findings,
        snapshots=next(iter(results.get(_SNAPSHOTS, ())), None),
        has_file=after.file is not None,
    )


def _sections(data: ReportData) -> tuple[ReportSection, ...]:
    available = {
        "": True,
        "paths": data.options.paths is not None,
        "edits": data.edits is not None,
        "before": data.before is not None,
        "file": data.has_file,
    }
    chosen = (each for each, needed in SECTIONS.items() if data.options.wants(each) and available[needed])
    return tuple(make_section(section_id, data) for section_id in chosen)
