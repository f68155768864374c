"""Section `files`: sizes, ages, replication and policies."""

from __future__ import annotations

from pipeline.reports.counts.classes import AGE_LABELS, SIZE_LABELS
from pipeline.reports.counts.grouping import Order, first, more_than_none
from pipeline.reports.counts.path_groups import policy_subtrees
from pipeline.reports.counts.tree import EFFECTIVE_POLICY
from pipeline.reports.model import Bin, Histogram, ReportSection, ReportTable
from pipeline.reports.rows import CONTENT, Record, bytes_, count, first_rows, path, percent, records, share, table, text
from pipeline.reports.sections.dimensions import classes, of_dimension
from pipeline.reports.work import ReportData

_FILES = (
    count("files", "Files"),
    percent("share", "Share of files"),
    bytes_("length", "Size of files"),
    bytes_("raw", "Space with replicas"),
    count("blocks", "Blocks"),
)
_UNLIKE = (count("unlike_files", "Files"), bytes_("unlike_raw", "Space with replicas"))
_MOST_UNLIKE: Order = [("unlike_raw", "descending"), ("unlike_files", "descending"), ("path", "ascending")]
# texts for values that mean an absent setting
_UNSET = {
    (EFFECTIVE_POLICY, None): "(NameNode's default)",
    ("ec_policy", None): "(replicated)",
    ("replication", "0"): "(erasure-coded)",
}
_PLAIN = (
    ("replication", "by_replication", "By replication factor", "Replication"),
    (EFFECTIVE_POLICY, "by_storage_policy", "By storage policy", "Storage policy"),
    ("ec_policy", "by_erasure_coding", "By erasure coding policy", "Erasure coding"),
)

_BY_DIRECTORY = (
    ("storage_policy", "storage_policy_directories", "Directories with a storage policy", "Storage policy"),
    ("ec_policy", "erasure_coding_directories", "Directories with an erasure coding policy", "Erasure coding"),
)
_LARGEST: Order = [("raw", "descending"), ("files", "descending"), ("path", "ascending")]


def section(work: ReportData) -> ReportSection:
    """Make tables of files by size class, age, replication factor, storage policy and erasure coding policy."""
    sizes = classes(work, "size_class", SIZE_LABELS)
    ages = classes(work, "mtime_class", AGE_LABELS)
    tables = [
        _table(work, "by_size", "By size", "Size", sizes),
        _table(work, "by_age", "By age", "Last modified", ages),
    ]
    for dimension, name, title, heading in _PLAIN:
        rows = of_dimension(work, dimension)
        for record in rows:
            record["value"] = _UNSET.get((dimension, record["value"]), record["value"])
        tables.append(_table(work, name, title, heading, rows))
    for policy, name, title, heading in _BY_DIRECTORY:
        tables += _of_directories(work, policy, name, title, heading)
    tables += _unlike_default(work)
    return ReportSection(
        "files",
        "File statistics",
        f"Files by size, by age on {work.options.as_of:%Y-%m-%d}, and by storage settings.",
        tuple(tables),
        (
            Histogram("Files by size", _bins(sizes, "files")),
            Histogram("Space with replicas by size of the file", _bins(sizes, "raw"), "bytes"),
            Histogram("Space with replicas by last modification", _bins(ages, "raw"), "bytes"),
        ),
        (
            (
                "The storage policy is the file's own policy, or the policy of the nearest ancestor that has one. "
                "The erasure coding policy is the policy that applied when the file was written."
            ),
        ),
    )


def _of_directories(work: ReportData, policy: str, name: str, title: str, heading: str) -> list[ReportTable]:
    """Make the table of the directories on which a policy is set, if there are any."""
    most = work.options.top
    rows = records(first(policy_subtrees(work.image, policy), _LARGEST, most + 1))
    words = "A row counts the files below its directory, except those below another directory with its own policy."
    heads = (path(), text(policy, heading), *CONTENT)
    return [first_rows(name, title, heads, rows, most=most, text=words)] if rows else []


def _unlike_default(work: ReportData) -> list[ReportTable]:
    """Make tables of the files whose replication factor differs from the default."""
    default, most = work.options.replication, work.options.top
    text = f"The default is {default} (dfs.replication); --replication sets it. Erasure-coded files are excluded."
    rows = records(first(more_than_none(work.image.by_directory, "unlike_files"), _MOST_UNLIKE, most + 1))
    title = "Replication factor other than the default"
    return [
        table("unlike_default", title, _UNLIKE, [work.image.total], text),
        first_rows("unlike_default_by_directory", f"{title}, by directory", (path(), *_UNLIKE), rows, most=most),
    ]


def _table(work: ReportData, name: str, title: str, heading: str, rows: list[Record]) -> ReportTable:
    for record in rows:
        record["share"] = share(record["files"], work.image.total["files"])
    heads = (text("value", heading), *_FILES)
    return first_rows(name, title, heads, rows, most=max(work.options.top, len(SIZE_LABELS)))


def _bins(rows: list[Record], measure: str) -> tuple[Bin, ...]:
    return tuple(Bin(record["value"], record[measure]) for record in rows)
