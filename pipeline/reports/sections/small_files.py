"""Section `small-files`: small files by directory and owner, and the clients that create them."""

from __future__ import annotations

from pipeline.reports.model import ReportColumn, ReportSection, ReportTable, cell_text
from pipeline.reports.queries.facts import SMALL_PART
from pipeline.reports.queries.small_files import HEAP_BYTES, made_small, small_by
from pipeline.reports.rows import bytes_, collect, count, first_bars, first_rows, path, percent, share, table, text
from pipeline.reports.work import ReportData

_DEFAULT_BLOCK = 128 << 20
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
    """Make tables of directories and owners with most small files, and of the clients that create small files."""
    top = work.options.top
    places = work.image.places
    by_path = collect(small_by(places, "path", limit=top + 1))
    by_owner = collect(small_by(places, "owner", limit=top + 1))
    owner = text("owner", "Owner")
    tables = [
        table("small_files", "Small files in total", _SMALL, [work.image.total]),
        first_rows(
            "small_files_by_directory", "Directories with most small files", (path(), *_SMALL), by_path, most=top
        ),
        first_rows("small_files_by_owner", "Owners with most small files", (owner, *_SMALL), by_owner, most=top),
    ]
    if work.edits is not None:
        tables += _makers(work)
    return ReportSection(
        "small-files",
        "Small files",
        f"Files smaller than {_limit_text(work)}: location, owners and origin.",
        tuple(tables),
        first_bars("Small files by directory", "path", "small_files", by_path, most=top),
        (
            (
                "The savings assume merging each owner's small files of a directory into files of one full block. "
                f"The heap follows the rule of thumb of {HEAP_BYTES} bytes for each file or block."
            ),
        ),
    )


def _makers(work: ReportData) -> list[ReportTable]:
    small = work.options.small or _DEFAULT_BLOCK // SMALL_PART
    heads: dict[str, ReportColumn] = {
        "directory": path("directory"),
        "owner": text("owner", "Owner"),
        "machine": text("machine", "Client machine"),
    }
    tables = []
    most = work.options.top
    for name, title, keys in (
        ("small_files_made_by_directory", "Directories with most new small files", ("directory",)),
        ("small_files_made_by_client", "Clients that create small files", ("owner", "machine")),
    ):
        records = collect(made_small(work.written, keys, small, limit=most + 1))
        for record in records:
            record["share"] = share(record["small_files"], record["files"])
        columns = (*(heads[key] for key in keys), *_MADE)
        text_ = f"Files smaller than {cell_text(small, 'bytes')} that the edits open and close."
        tables.append(first_rows(name, title, columns, records, most=most, text=text_))
    return tables


def _limit_text(work: ReportData) -> str:
    small = work.options.small
    return f"1/{SMALL_PART} of their block size" if small is None else cell_text(small, "bytes")
