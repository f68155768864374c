"""Section `small-files`: small files by directory and owner, and the clients that create them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pipeline.reports.counts.classes import SMALL_PART
from pipeline.reports.counts.edits import ordered
from pipeline.reports.counts.grouping import Order, first, more_than_none
from pipeline.reports.counts.tree import HEAP_BYTES
from pipeline.reports.model import ReportColumn, ReportSection, ReportTable, cell_text
from pipeline.reports.request import ReportOptions
from pipeline.reports.rows import (
    Record,
    bytes_,
    count,
    first_bars,
    first_rows,
    path,
    percent,
    records,
    share,
    table,
    text,
)
from pipeline.reports.work import ReportData, edit_rules

_SMALL = (
    count("small_files", "Small files"),
    count("files", "All files"),
    bytes_("small_length", "Size of small files"),
    count("saved_inodes", "Files saved by merging"),
    count("saved_blocks", "Blocks saved"),
    bytes_("saved_heap", "Heap saved (approx.)"),
)
_MADE = (
    count("small_files", "Small files"),
    count("files", "Files written"),
    percent("share", "Share small"),
    bytes_("small_length", "Size of small files"),
)


def section(work: ReportData) -> ReportSection:
    """Make tables of the directories and owners with the most small files, and of the clients that create them."""
    top = work.options.top
    by_path = most_small(work.image.by_directory, "path", top + 1)
    by_owner = most_small(work.image.by_owner, "owner", top + 1)
    owner = text("owner", "Owner")
    tables = [
        table("small_files", "Small files in total", _SMALL, [work.image.total]),
        first_rows(
            "small_files_by_directory", "Directories with the most small files", (path(), *_SMALL), by_path, most=top
        ),
        first_rows("small_files_by_owner", "Owners with the most small files", (owner, *_SMALL), by_owner, most=top),
    ]
    if work.edits is not None:
        tables += _makers(work.edits, work.options)
    return ReportSection(
        "small-files",
        "Small files",
        f"Files smaller than {_limit_text(work)}: location, owners and origin.",
        tuple(tables),
        first_bars("Small files by directory", "path", "small_files", by_path, most=top),
        (
            (
                "The savings assume merging each owner's small files of a directory into files of one full block. "
                f"The saved heap is estimated with Hadoop's rule of thumb: {HEAP_BYTES} bytes for each inode or block."
            ),
        ),
    )


def most_small(rows: pa.Table, key: str, limit: int) -> list[Record]:
    """Return the `limit` rows with the most small files."""
    order: Order = [("small_files", "descending"), (key, "ascending")]
    return records(first(more_than_none(rows, "small_files"), order, limit))


def _makers(edits: Mapping[str, pa.Table], options: ReportOptions) -> list[ReportTable]:
    heads: dict[str, ReportColumn] = {
        "directory": path("directory"),
        "owner": text("owner", "Owner"),
        "machine": text("machine", "Client machine"),
    }
    tables = []
    small = cell_text(edit_rules(options).small, "bytes")
    for name, title, keys in (
        ("made_by_directory", "Directories with the most new small files", ("directory",)),
        ("made_by_client", "Clients that create small files", ("owner", "machine")),
    ):
        made = records(ordered(edits, name, options.top + 1))
        for record in made:
            record["share"] = share(record["small_files"], record["files"])
        columns = (*(heads[key] for key in keys), *_MADE)
        explained = f"Files smaller than {small} that the edits open and close."
        tables.append(first_rows(f"small_files_{name}", title, columns, made, most=options.top, text=explained))
    return tables


def _limit_text(work: ReportData) -> str:
    small = work.options.small
    return f"1/{SMALL_PART} of their block size" if small is None else cell_text(small, "bytes")
