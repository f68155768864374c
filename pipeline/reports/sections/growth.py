"""Section `growth`: changes since an older image, and the clients that made them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pipeline.reports.counts.edits import ordered
from pipeline.reports.counts.tree import CHANGES, changes
from pipeline.reports.model import Bars, ReportColumn, ReportSection, ReportTable
from pipeline.reports.rows import Record, bytes_, count, first_bars, first_rows, path, records, table, text
from pipeline.reports.work import ReportData

_CHANGED = (
    bytes_("raw", "Space with replicas, change"),
    bytes_("raw_before", "Before"),
    bytes_("raw_after", "After"),
    bytes_("length", "Size of files, change"),
    count("files", "Files, change"),
    count("directories", "Directories, change"),
    count("blocks", "Blocks, change"),
)
_CAUSES = (
    path("directory"),
    count("creates", "Creates"),
    count("deletes", "Deletes"),
    count("renames", "Renames"),
    count("appends", "Appends, truncates, concats"),
)
_WRITERS = (
    text("owner", "Owner"),
    text("machine", "Client machine"),
    count("created", "Files created"),
    count("appended", "Files appended to"),
    bytes_("length", "Size of files written"),
)


def section(work: ReportData) -> ReportSection:
    """Make tables of changes by directory and by owner, and of the operations that made them."""
    assert work.before is not None
    top = work.options.top
    depth, limit = work.options.depth, top + 1
    by_path = records(changes(work.before.rolled(depth), work.image.rolled(depth), "path", limit))
    by_owner = records(changes(work.before.by_owner, work.image.by_owner, "owner", limit))
    owner: ReportColumn = text("owner", "Owner")
    tables = [
        table("growth", "The whole namespace", _CHANGED, [_whole(work.before.total, work.image.total)]),
        first_rows("growth_by_directory", "Directories that changed most", (path(), *_CHANGED), by_path, most=top),
        first_rows("growth_by_owner", "Owners whose data changed most", (owner, *_CHANGED), by_owner, most=top),
    ]
    if work.edits is not None:
        tables += _made_by(work.edits, top)
    charts: list[Bars] = []
    for changed, key, by in ((by_path, "path", "directory"), (by_owner, "owner", "owner")):
        title = f"Change of space with replicas by {by}"
        charts += first_bars(title, key, "raw", changed, unit="bytes", most=top)
    return ReportSection(
        "growth",
        "Growth",
        "Changes from the older image to this image, by directory tree and by owner.",
        tuple(tables),
        tuple(charts),
        (
            (
                "Edits contain owner and client machine of written files. The users who delete or rename are only "
                "in the NameNode's audit log."
            ),
        )
        if work.edits is not None
        else ("With --edits the report shows the causes of growth.",),
    )


def _whole(before: Record, after: Record) -> Record:
    """Return the change of the whole namespace."""
    changed = {name: after[name] - before[name] for name in CHANGES}
    return {**changed, "raw_before": before["raw"], "raw_after": after["raw"]}


def _made_by(edits: Mapping[str, pa.Table], top: int) -> list[ReportTable]:
    where = records(ordered(edits, "causes", top + 1))
    who = records(ordered(edits, "writers", top + 1))
    return [
        first_rows("growth_causes", "Directories with most changes in the edits", _CAUSES, where, most=top),
        first_rows("growth_writers", "Clients that wrote most", _WRITERS, who, most=top),
    ]
