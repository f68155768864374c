"""Section `growth`: changes since an older image, and the clients that made them."""

from __future__ import annotations

from pipeline.reports.model import Bars, ReportColumn, ReportSection, ReportTable
from pipeline.reports.queries.classes import add_up_signed
from pipeline.reports.queries.operations import causes, writers
from pipeline.reports.queries.tree import CHANGES, changes
from pipeline.reports.rows import Record, bytes_, collect, count, first_bars, first_rows, path, table, text
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
    sums = [add_up_signed(name).alias(name) for name in CHANGES]
    owners = [image.places.groupBy("owner").agg(*sums) for image in (work.before, work.image)]
    by_path = collect(changes(work.before.rolled, work.image.rolled, "path", limit=top + 1))
    by_owner = collect(changes(owners[0], owners[1], "owner", limit=top + 1))
    owner: ReportColumn = text("owner", "Owner")
    tables = [
        table("growth", "The whole namespace", _CHANGED, [_whole(work.before.total, work.image.total)]),
        first_rows("growth_by_directory", "Directories that changed most", (path(), *_CHANGED), by_path, most=top),
        first_rows("growth_by_owner", "Owners whose data changed most", (owner, *_CHANGED), by_owner, most=top),
    ]
    if work.edits is not None:
        tables += _made_by(work)
    charts: list[Bars] = []
    for records, key, by in ((by_path, "path", "directory"), (by_owner, "owner", "owner")):
        title = f"Change of space with replicas by {by}"
        charts += first_bars(title, key, "raw", records, unit="bytes", most=top)
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


def _made_by(work: ReportData) -> list[ReportTable]:
    top = work.options.top
    where = collect(causes(work.activity, depth=work.options.depth, limit=top + 1))
    who = collect(writers(work.written, limit=top + 1))
    return [
        first_rows("growth_causes", "Directories with most changes in the edits", _CAUSES, where, most=top),
        first_rows("growth_writers", "Clients that wrote most", _WRITERS, who, most=top),
    ]
