"""Section `growth`: what changed since an older image, and who did it."""

from __future__ import annotations

from pipeline.reports.model import Bar, Bars, Column, ReportTable, Section
from pipeline.reports.queries.classes import add_up_signed
from pipeline.reports.queries.growth import CHANGES, changes
from pipeline.reports.queries.operations import causes, writers
from pipeline.reports.rows import collect, table
from pipeline.reports.sections.heads import bytes_, count, path, text
from pipeline.reports.work import Work

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


def section(work: Work) -> Section:
    """Changes by directory and by owner, and the operations of the edits that made them."""
    assert work.before is not None
    top = work.options.top
    sums = [add_up_signed(name).alias(name) for name in CHANGES]
    owners = [image.places.groupBy("owner").agg(*sums) for image in (work.before, work.image)]
    by_path = collect(changes(work.before.rolled, work.image.rolled, "path", limit=top))
    by_owner = collect(changes(owners[0], owners[1], "owner", limit=top))
    owner: Column = text("owner", "Owner")
    tables = [
        table("growth_by_directory", "Directories that changed most", (path(), *_CHANGED), by_path),
        table("growth_by_owner", "Owners whose data changed most", (owner, *_CHANGED), by_owner),
    ]
    if work.edits is not None:
        tables += _made_by(work)
    charts = []
    for records, key in ((by_path, "path"), (by_owner, "owner")):
        bars = tuple(Bar(record[key] or "", record["raw"]) for record in records if record["raw"])
        if bars:
            charts.append(
                Bars(f"Change of space with replicas by {'directory' if key == 'path' else key}", bars, "bytes")
            )
    return Section(
        "growth",
        "Growth",
        "What changed from the older image to this one, in and below each directory and by owner.",
        tuple(tables),
        tuple(charts),
        (
            (
                "An edit names the owner and machine of the client that writes a file; who deletes or renames is "
                "only in the NameNode's audit log."
            ),
        )
        if work.edits is not None
        else ("With --edits the report shows who caused it.",),
    )


def _made_by(work: Work) -> list[ReportTable]:
    top = work.options.top
    where = collect(causes(work.activity, depth=work.options.depth, limit=top))
    who = collect(writers(work.written, limit=top))
    return [
        table("growth_causes", "Where the edits changed most", _CAUSES, where),
        table("growth_writers", "Who wrote the files", _WRITERS, who),
    ]
