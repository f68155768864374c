"""Counts of the inodes of an image: one pass over batches of the table `inodes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.reports.counts.classes import NO_TIME, age_class, days_before, known_size, raw_space, size_class
from pipeline.reports.counts.grouping import Mask, Numbers, codes_of, grouped, more_than_none, numbers

FACT_COLUMNS = (
    "parent",
    "type",
    "owner",
    "group",
    "permission",
    "length",
    "mtime",
    "atime",
    "replication",
    "block_size",
    "block_count",
    "storage_policy",
    "ec_policy",
)
"""Columns of `inodes` that are counted, without names and paths, the bulk of an image."""

DIRECTORY_COLUMNS = (
    "id",
    "parent",
    "path",
    "owner",
    "permission",
    "storage_policy",
    "ec_policy",
    "ns_quota",
    "ds_quota",
)
"""Columns of `inodes` that the counts need of directories."""

BOTH_COLUMNS = tuple(dict.fromkeys((*FACT_COLUMNS, *DIRECTORY_COLUMNS)))

MEASURES = ("files", "directories", "symlinks", "length", "raw", "blocks")
"""Sums: counts, bytes of files, bytes on DataNodes, blocks."""

PARTS = (
    "small_files",
    "small_length",
    "small_blocks",
    "cold_files",
    "cold_length",
    "cold_raw",
    "read_files",
    "empty_files",
    "writable_files",
    "unlike_files",
    "unlike_raw",
)
"""Sums of small files, of cold files, of files whose access time is later than the modification time, of files of
length 0, of files that everybody may write, and of files with another replication factor than the default.
"""

EVERYBODY_WRITES, STICKY = 0o2, 0o1000
"""Bits of a permission; see FsPermission."""

DIMENSIONS = ("owner", "group", "size_class", "mtime_class", "use_class", "replication", "ec_policy")
CLASSES = frozenset({"size_class", "mtime_class", "use_class"})
"""Dimensions whose values are positions in the lists of labels of `counts.classes`."""
OF_ALL = frozenset({"owner", "group"})
"""Dimensions that count all inodes; the others count only files."""

OF_FILES = ("files", "length", "raw", "blocks")

SMALL_PART = 8
"""A file below one part in this many of its block size is small, unless the user sets a size."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits for small and cold files, the default replication factor, and the length of lists.

    Attributes:
        as_of: reference time for ages.
        small: bytes below which a file is small; None for an eighth of its block size.
        cold_days: days without use after which a file is cold.
        replication: the cluster's default, dfs.replication.
        limit: maximum rows of a list of files.
        directory_sizes: whether the files of each directory are counted by size class, for path sets.
    """

    as_of: datetime
    small: int | None = None
    cold_days: int = 365
    replication: int = 3
    limit: int = 21
    directory_sizes: bool = False


class NamespaceCounts:
    """Counts of the inodes below the root; batches are added, then the tables are taken.

    The last use of a file is the later of its access and modification times; if access times are off, the modification
    time. An impossible length counts as 0.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._found: dict[str, list[pa.Table]] = {"direct": [], "classes": [], "policies": [], "tree": []}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch with `FACT_COLUMNS`."""
        batch = batch.filter(pc.is_valid(batch["parent"]))
        if not batch.num_rows:
            return
        rows = _measured(batch, self._rules)
        self._found["direct"].append(grouped(rows, _KEYS["direct"], _SUMS, ("block_size",)))
        self._found["classes"].append(grouped(rows, DIMENSIONS, _SUMS))
        if self._rules.directory_sizes:
            found = grouped(more_than_none(rows, "files"), _KEYS["directory_sizes"], ("files",))
            self._found.setdefault("directory_sizes", []).append(found)
        own = pc.and_(pc.is_valid(batch["storage_policy"]), pc.greater(rows["files"], 0))
        if own.to_numpy().any():
            self._found["policies"].append(
                rows.append_column("policy", batch["storage_policy"]).filter(own).select(_OWN)
            )

    def add_directories(self, batch: pa.RecordBatch) -> None:
        """Record the directories of a batch with `DIRECTORY_COLUMNS`."""
        self._found["tree"].append(pa.table(batch.select(list(DIRECTORY_COLUMNS))))

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables.

        - `direct`: by `parent` (inode id) and `owner`, the `MEASURES` and `PARTS` of the direct children, and the
          largest `block_size` of small files;
        - `dimensions`: by `dimension` and `value` (text, null for none), `MEASURES` and `PARTS`;
        - `sizes`: by `dimension` (owner or group), `value` and `size_class`, the files and their raw space;
        - `directory_sizes`: by `parent` and `size_class`, the files; empty unless the rules ask for it;
        - `policies`: by `parent` and `policy`, `OF_FILES` of the files with a storage policy of their own;
        - `tree`: `DIRECTORY_COLUMNS` of directories.
        """
        found = {name: pa.concat_tables(parts) for name, parts in self._found.items() if parts}
        if "classes" in found:
            classes = grouped(found.pop("classes"), DIMENSIONS, _SUMS)
            found["dimensions"] = pa.concat_tables(_dimension(name, classes) for name in DIMENSIONS)
            found["sizes"] = pa.concat_tables(_sizes(name, classes) for name in sorted(OF_ALL))
        return merge_counts(found)


_SUMS = (*MEASURES, *PARTS)
_OWN = ("parent", "policy", *OF_FILES)
_LONGS = [(name, pa.int64()) for name in _SUMS]
_KEYS = {
    "direct": ("parent", "owner"),
    "dimensions": ("dimension", "value"),
    "sizes": ("dimension", "value", "size_class"),
    "policies": ("parent", "policy"),
    "directory_sizes": ("parent", "size_class"),
}
_SCHEMAS = {
    "direct": pa.schema([("parent", pa.int64()), ("owner", pa.string()), *_LONGS, ("block_size", pa.int64())]),
    "dimensions": pa.schema([("dimension", pa.string()), ("value", pa.string()), *_LONGS]),
    "sizes": pa.schema(
        [
            ("dimension", pa.string()),
            ("value", pa.string()),
            *((name, pa.int64()) for name in ("size_class", "files", "raw")),
        ]
    ),
    "directory_sizes": pa.schema([(name, pa.int64()) for name in ("parent", "size_class", "files")]),
    "policies": pa.schema(
        [("parent", pa.int64()), ("policy", pa.string()), *((name, pa.int64()) for name in OF_FILES)]
    ),
}


def merge_counts(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the tables of `NamespaceCounts.tables` with one row for each key."""
    merged = dict(tables)
    for name, keys in _KEYS.items():
        rows = merged.get(name, _SCHEMAS[name].empty_table())
        largest = ("block_size",) if name == "direct" else ()
        sums = [each for each in rows.column_names if each not in (*keys, *largest)]
        merged[name] = grouped(rows, keys, sums, largest)
    return merged


def _measured(batch: pa.RecordBatch, rules: Rules) -> pa.Table:
    """Return the keys and measures of each row; a class that does not apply is -1."""
    kinds, names = codes_of(batch["type"])
    is_kind = {name: kinds == code for code, name in enumerate(names.to_pylist())}
    nobody = np.zeros(kinds.size, np.bool_)
    is_file = is_kind.get("FILE", nobody)
    length = known_size(numbers(batch["length"]))
    block_size = numbers(batch["block_size"])
    mtime, atime = (numbers(batch[name], NO_TIME) for name in ("mtime", "atime"))
    used = np.maximum(mtime, atime)
    is_small = is_file & (length * SMALL_PART < block_size if rules.small is None else length < rules.small)
    is_cold = is_file & (used <= days_before(rules.as_of, rules.cold_days)) & (used != NO_TIME)
    is_read = is_file & (atime > mtime) & (mtime != NO_TIME)
    replication = numbers(batch["replication"])
    raw = np.where(is_file, raw_space(length, replication, batch["ec_policy"]), 0)
    is_writable = is_file & (numbers(batch["permission"]) & EVERYBODY_WRITES > 0)
    is_unlike = is_file & (replication > 0) & (replication != rules.replication)
    blocks = numbers(batch["block_count"])
    columns = {
        **{name: batch[name] for name in ("parent", "owner", "group", "replication", "ec_policy")},
        "size_class": size_class(length),
        "mtime_class": age_class(mtime, rules.as_of),
        "use_class": age_class(used, rules.as_of),
        "files": _ones(is_file),
        "directories": _ones(is_kind.get("DIRECTORY", nobody)),
        "symlinks": _ones(is_kind.get("SYMLINK", nobody)),
        "length": length,
        "raw": raw,
        "blocks": blocks,
        "small_files": _ones(is_small),
        "small_length": np.where(is_small, length, 0),
        "small_blocks": np.where(is_small, blocks, 0),
        "cold_files": _ones(is_cold),
        "cold_length": np.where(is_cold, length, 0),
        "cold_raw": np.where(is_cold, raw, 0),
        "read_files": _ones(is_read),
        "empty_files": _ones(is_file & (length == 0)),
        "writable_files": _ones(is_writable),
        "unlike_files": _ones(is_unlike),
        "unlike_raw": np.where(is_unlike, raw, 0),
        "block_size": np.where(is_small, block_size, 0),
    }
    return pa.table(columns)


def _ones(mask: Mask) -> Numbers:
    return mask.astype(np.int64)


def _sizes(name: str, classes: pa.Table) -> pa.Table:
    """Return the files by owner or group and size class."""
    rows = grouped(more_than_none(classes, "files"), (name, "size_class"), ("files", "raw"))
    columns = [rows[name].cast(pa.string()), *(rows[each] for each in ("size_class", "files", "raw"))]
    return pa.table([pa.array([name] * rows.num_rows, pa.string()), *columns], _SCHEMAS["sizes"].names)


def _dimension(name: str, classes: pa.Table) -> pa.Table:
    """Return the sums of one dimension.

    Args:
        classes: the sums by all `DIMENSIONS`.
    """
    if name not in OF_ALL:
        # Only files have a length, blocks or a part.
        nothing = pa.array(np.zeros(classes.num_rows, np.int64))
        for other in ("directories", "symlinks"):
            classes = classes.set_column(classes.column_names.index(other), other, nothing)
        classes = more_than_none(classes, "files")
    rows = grouped(classes, (name,), _SUMS)
    values = rows[name]
    if name in CLASSES:
        values = pc.if_else(pc.equal(values, -1), pa.scalar(None, pa.int64()), values)
    columns = [pa.array([name] * rows.num_rows, pa.string()), values.cast(pa.string())]
    return pa.table([*columns, *(rows[each] for each in _SUMS)], ["dimension", "value", *_SUMS])
