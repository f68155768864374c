"""Section `growth`: changes since an older image, and the clients that made them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hadoop_common.quantities import counted
from pipeline.reports.counts.edits import ordered
from pipeline.reports.counts.grouping import total_of
from pipeline.reports.counts.tree import CHANGES, changes
from pipeline.reports.earlier_reports import EarlierReport
from pipeline.reports.model import Chart, Point, ReportColumn, ReportSection, ReportTable, Series, TimeLine
from pipeline.reports.rows import Record, bytes_, count, first_bars, first_rows, path, records, table, text, time
from pipeline.reports.work import CountedImage, ReportData

_CHANGED = (
    bytes_("raw", "Space with replicas, change"),
    bytes_("raw_before", "Before"),
    bytes_("raw_after", "After"),
    bytes_("length", "Size of files, change"),
    count("files", "Files, change"),
    count("directories", "Directories, change"),
    count("blocks", "Blocks, change"),
)
_MOMENT = (count("txid", "Transaction"), time("time", "Time of the image"))
_SUMS = (
    bytes_("raw", "Space with replicas"),
    bytes_("length", "Size of files"),
    count("files", "Files"),
    count("directories", "Directories"),
)
_TWO, _LINES = 2, 6
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
    """Make tables of changes by directory and by owner, and of the operations that caused the changes."""
    assert work.before is not None
    top = work.options.top
    by_path, by_owner = _changed(work, "path"), _changed(work, "owner")
    owner: ReportColumn = text("owner", "Owner")
    tables = [
        table("growth", "The whole namespace", _CHANGED, [_whole(work.before.total, work.image.total)]),
        first_rows("growth_by_directory", "Directories that changed the most", (path(), *_CHANGED), by_path, most=top),
        first_rows("growth_by_owner", "Owners whose data changed most", (owner, *_CHANGED), by_owner, most=top),
    ]
    if len(work.images) > _TWO:
        tables += _series(work, by_path)
    if work.edits is not None:
        tables += _made_by(work.edits, top)
    charts: list[Chart] = [*_lines(work, by_path)]
    for changed, key, by in ((by_path, "path", "directory"), (by_owner, "owner", "owner")):
        title = f"Change of space with replicas by {by}"
        charts += first_bars(title, key, "raw", changed, unit="bytes", most=top)
    return ReportSection("growth", "Growth", _text(work), tuple(tables), tuple(charts), _notes(work))


def _notes(work: ReportData) -> tuple[str, ...]:
    if work.edits is None:
        return ("With --edits, the report shows the causes of growth.",)
    note = (
        "Edits contain the owner and the client machine only for written files. Only the NameNode's audit log contains "
        "the users who delete or rename."
    )
    start = work.images[0].txid if work.last is None else work.last.txid
    wanted = work.images[-1].txid - start
    missing = wanted - total_of(work.edits["types"]["count"])
    if missing <= 0:
        return (note,)
    return (f"The edits lack {missing:,} of the {counted(wanted, 'transaction', ',')} of this period.", note)


def _changed(work: ReportData, key: str) -> list[Record]:
    """Return the largest changes by `path` or `owner`."""
    assert work.before is not None
    depth = work.options.depth
    before, after = (each.rolled(depth) if key == "path" else each.by_owner for each in (work.before, work.image))
    if isinstance(work.before, EarlierReport):
        after = work.before.comparable(after, key)
    return records(changes(before, after, key, work.options.top + 1))


def _text(work: ReportData) -> str:
    if isinstance(work.before, EarlierReport):
        return (
            f"Changes since the report of transaction {work.before.txid}, of the directories and owners that the "
            "earlier report lists."
        )
    return "Changes from the oldest image to this image, by directory tree and by owner."


def _series(work: ReportData, changed: list[Record]) -> list[ReportTable]:
    """Make tables of the totals of each image, and of the directories and owners that changed the most."""
    top = work.options.top
    totals = [{**_moment(image), **image.counts.total} for image in work.images]
    ends = work.images[0].counts.by_owner, work.images[-1].counts.by_owner
    owners = [row["owner"] for row in records(changes(*ends, "owner", top))]
    paths = [row["path"] for row in changed[:top]]
    return [
        table("growth_images", "Each image", (*_MOMENT, *_SUMS), totals),
        table(
            "growth_images_by_directory",
            "Directories that changed the most, in each image",
            (path(), *_MOMENT, *_SUMS),
            _rows(work, "path", paths),
        ),
        table(
            "growth_images_by_owner",
            "Owners whose data changed most, in each image",
            (text("owner", "Owner"), *_MOMENT, *_SUMS),
            _rows(work, "owner", owners),
        ),
    ]


def _rows(work: ReportData, key: str, names: list[str]) -> list[Record]:
    """Return a row for each name and image; an image without the name has zeros."""
    found: dict[str, list[Record]] = {name: [] for name in names}
    for image in work.images:
        rows = image.counts.rolled(work.options.depth) if key == "path" else image.counts.by_owner
        chosen = rows.filter(pc.is_in(rows[key], pa.array(names, pa.string())))
        present = {row[key]: row for row in records(chosen)}
        for name, series in found.items():
            sums = present.get(name, {})
            series.append({key: name, **_moment(image), **{each.name: sums.get(each.name, 0) for each in _SUMS}})
    return [row for series in found.values() for row in series]


def _moment(image: CountedImage) -> Record:
    return {"txid": image.txid, "time": image.time}


def _lines(work: ReportData, changed: list[Record]) -> list[Chart]:
    """Make a chart of the space of the directories that changed the most, if the times of all images are known."""
    names = [row["path"] for row in changed[:_LINES]]
    if len(work.images) <= _TWO or not names or any(image.time is None for image in work.images):
        return []
    rows = _rows(work, "path", names)
    series = [
        Series(name, tuple(Point(row["time"], row["raw"]) for row in rows if row["path"] == name)) for name in names
    ]
    return [TimeLine("Space with replicas of the directories that changed the most", tuple(series), "bytes")]


def _whole(before: Mapping[str, int], after: Mapping[str, int]) -> Record:
    """Return the change of the whole namespace."""
    changed = {name: after[name] - before[name] for name in CHANGES}
    return {**changed, "raw_before": before["raw"], "raw_after": after["raw"]}


def _made_by(edits: Mapping[str, pa.Table], top: int) -> list[ReportTable]:
    where = records(ordered(edits, "causes", top + 1))
    who = records(ordered(edits, "writers", top + 1))
    return [
        first_rows("growth_causes", "Directories with the most changes in the edits", _CAUSES, where, most=top),
        first_rows("growth_writers", "Clients that wrote the most", _WRITERS, who, most=top),
    ]
