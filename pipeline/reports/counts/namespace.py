"""Counts of the inodes of an image: one pass over batches of the `inodes` table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.reports.counts.classes import (
    NO_TIME,
    SMALL_PART,
    age_class,
    days_before,
    known_size,
    raw_space,
    size_class,
)
from pipeline.reports.counts.grouping import Numbers, codes_of, grouped, more_than_none, numbers, pack, unpack
from pipeline.reports.counts.sums import PairNumbers, PairSums, TextNumbers

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
"""Columns of `inodes` that the counts need, without names and paths, which are the bulk of an image."""

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
"""Columns of `inodes` that the counts need for directories."""

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
"""Sums over six kinds of files: small, cold, accessed after the last modification, empty, world-writable, and with a
replication factor other than the default.
"""

EVERYBODY_WRITES, STICKY = 0o2, 0o1000
"""Bits of a permission; see FsPermission."""

DIMENSIONS = ("owner", "group", "size_class", "mtime_class", "use_class", "replication", "ec_policy")
CLASSES = frozenset({"size_class", "mtime_class", "use_class"})
"""Dimensions whose values are positions in the lists of labels of `counts.classes`."""
OF_ALL = frozenset({"owner", "group"})
"""Dimensions that count all inodes; all other dimensions count only files."""

OF_FILES = ("files", "length", "raw", "blocks")


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits for small and cold files, the default replication factor, and the length of lists.

    Attributes:
        as_of: reference time for ages.
        small: bytes below which a file is small; None for an eighth of its block size.
        cold_days: days without use after which a file is cold.
        replication: the cluster's default, dfs.replication.
        limit: maximum rows of a list of files.
        directory_sizes: whether to count the files of each directory by size class, for path sets.
    """

    as_of: datetime
    small: int | None = None
    cold_days: int = 365
    replication: int = 3
    limit: int = 21
    directory_sizes: bool = False


class NamespaceCounts:
    """Counts of the inodes below the root. A task adds its batches, then reads the tables.

    The last use of a file is the later of its access and modification times; if the NameNode does not record access
    times, the last use is the modification time. An impossible length counts as 0.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._owners, self._groups, self._policies = TextNumbers(), TextNumbers(), TextNumbers()
        self._holders = PairNumbers()
        self._direct = PairSums(len(_SUMS), largest=1)
        self._classes = PairSums(len(_SUMS))
        self._sizes = PairSums(1)
        self._own: list[pa.Table] = []
        self._tree: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch with `FACT_COLUMNS`."""
        if batch["parent"].null_count:
            batch = batch.filter(pc.is_valid(batch["parent"]))
        rows = _measured(batch, self._rules)
        parent, owner = numbers(batch["parent"]), self._owners.of(batch["owner"])
        self._direct.add(parent, owner, rows.values)
        holder = self._holders.of(owner, self._groups.of(batch["group"]))
        packed = _packed(rows, self._policies.of(batch["ec_policy"]))
        self._classes.add(holder, packed, rows.values[: len(_SUMS)])
        files = rows.values[_SUMS.index("files")]
        if self._rules.directory_sizes:
            chosen = files > 0
            self._sizes.add(parent[chosen], rows.size_class[chosen], files[chosen][np.newaxis])
        if batch["storage_policy"].null_count < batch.num_rows:
            own = pc.and_(pc.is_valid(batch["storage_policy"]), pa.array(files > 0))
            columns = {name: rows.values[_SUMS.index(name)] for name in OF_FILES}
            policy = batch["storage_policy"].cast(pa.string())
            self._own.append(pa.table({"parent": parent, "policy": policy, **columns}).filter(own))

    def add_directories(self, batch: pa.RecordBatch) -> None:
        """Record the directories of a batch with `DIRECTORY_COLUMNS`."""
        self._tree.append(pa.table(batch.select(list(DIRECTORY_COLUMNS))))

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables.

        - `direct`: by `parent` (inode id) and `owner`, the `MEASURES` and `PARTS` of the direct children, and the
          largest `block_size` of small files;
        - `dimensions`: by `dimension` and `value` (text, null if there is none), `MEASURES` and `PARTS`;
        - `sizes`: by `dimension` (owner or group), `value` and `size_class`, the files and their raw space;
        - `directory_sizes`: by `parent` and `size_class`, the files; empty unless the rules request it;
        - `policies`: by `parent` and `policy`, `OF_FILES` of the files on which a storage policy is set;
        - `tree`: `DIRECTORY_COLUMNS` of directories.
        """
        parent, owner, sums = self._direct.table()
        names = (*_SUMS, "block_size")
        direct = {"parent": parent, "owner": self._owners.texts(owner), **dict(zip(names, sums, strict=True))}
        found = {"direct": pa.table(direct)}
        classes = self._class_sums()
        if classes.num_rows:
            found["dimensions"] = pa.concat_tables(_dimension(name, classes) for name in DIMENSIONS)
            found["sizes"] = pa.concat_tables(_sizes(name, classes) for name in sorted(OF_ALL))
        if self._rules.directory_sizes:
            parent, size_class, files = self._sizes.table()
            found["directory_sizes"] = pa.table({"parent": parent, "size_class": size_class, "files": files[0]})
        if self._own:
            found["policies"] = grouped(pa.concat_tables(self._own), _KEYS["policies"], OF_FILES)
        if self._tree:
            found["tree"] = pa.concat_tables(self._tree)
        return {**{name: schema.empty_table() for name, schema in _SCHEMAS.items()}, **found}

    def _class_sums(self) -> pa.Table:
        """Return the sums by all `DIMENSIONS`."""
        holder, packed, sums = self._classes.table()
        owners, groups = (each[holder] for each in self._holders.pairs())
        size_class, mtime_class, use_class, replication, policy = _unpacked(packed)
        columns = {
            "owner": self._owners.texts(owners),
            "group": self._groups.texts(groups),
            "size_class": size_class,
            "mtime_class": mtime_class,
            "use_class": use_class,
            "replication": replication,
            "ec_policy": self._policies.texts(policy),
        }
        return pa.table({**columns, **dict(zip(_SUMS, sums, strict=True))})


_SUMS = (*MEASURES, *PARTS)
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


_BY_PARENT = ("direct", "policies", "directory_sizes")
"""Tables whose rows belong to directories."""


def in_buckets(tables: Mapping[str, pa.Table], buckets: int) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Yield (bucket, packed tables): a directory has the same bucket in all tasks, other tables are in bucket 0."""
    by_parent = {name: tables[name] for name in _BY_PARENT}
    number = {name: numbers(table["parent"]) % buckets for name, table in by_parent.items()}
    rest = {name: table for name, table in tables.items() if name not in _BY_PARENT}
    for bucket in range(buckets):
        chosen = {name: table.filter(pa.array(number[name] == bucket)) for name, table in by_parent.items()}
        yield bucket, pack({**chosen, **({} if bucket else rest)})


def merge_bucket(parts: Sequence[Mapping[str, bytes]]) -> Iterator[dict[str, bytes]]:
    """Yield the content of a bucket with one row for each key in the tables of directories; only one part is open at a
    time.
    """
    merged = {name: _merge_pairs(name, (unpack([{name: part[name]}])[name] for part in parts)) for name in _BY_PARENT}
    yield pack(merged)
    for part in parts:
        yield {name: content for name, content in part.items() if name not in _BY_PARENT}


def merge_counts(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the tables of `NamespaceCounts.tables` with one row for each key."""
    merged = dict(tables)
    for name, keys in _KEYS.items():
        rows = merged.get(name, _SCHEMAS[name].empty_table())
        if name in _BY_PARENT:
            merged[name] = _merge_pairs(name, [rows])
        else:
            merged[name] = grouped(rows, keys, [each for each in rows.column_names if each not in keys])
    return merged


def _merge_pairs(name: str, parts: Iterable[pa.Table]) -> pa.Table:
    """Return a table of directories with one row for each key."""
    schema, (first, second) = _SCHEMAS[name], _KEYS[name]
    measures = [each for each in schema.names if each not in {first, second}]
    largest = measures.count("block_size")
    texts, sums = TextNumbers(), PairSums(len(measures) - largest, largest)
    is_text = schema.field(second).type == pa.string()
    for rows in parts:
        values = np.array([numbers(rows[each]) for each in measures]).reshape(len(measures), rows.num_rows)
        sums.add(numbers(rows[first]), texts.of(rows[second]) if is_text else numbers(rows[second]), values)
    parent, key, found = sums.table()
    keys = {first: parent, second: texts.texts(key) if is_text else key}
    return pa.table({**keys, **dict(zip(measures, found, strict=True))}, schema)


class _MeasuredRows(NamedTuple):
    """Classes and measures of rows; a class that does not apply is -1.

    Attributes:
        values: int64, a row for each of `_SUMS`, then the block size of small files.
    """

    size_class: Numbers
    mtime_class: Numbers
    use_class: Numbers
    replication: Numbers
    values: Numbers


def _measured(batch: pa.RecordBatch, rules: Rules) -> _MeasuredRows:
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
    replication = numbers(batch["replication"])
    raw = np.where(is_file, raw_space(length, replication, batch["ec_policy"]), 0)
    is_unlike = is_file & (replication > 0) & (replication != rules.replication)
    blocks = numbers(batch["block_count"])
    columns = {
        "files": is_file,
        "directories": is_kind.get("DIRECTORY", nobody),
        "symlinks": is_kind.get("SYMLINK", nobody),
        "length": length,
        "raw": raw,
        "blocks": blocks,
        "small_files": is_small,
        "small_length": length * is_small,
        "small_blocks": blocks * is_small,
        "cold_files": is_cold,
        "cold_length": length * is_cold,
        "cold_raw": raw * is_cold,
        "read_files": is_file & (atime > mtime) & (mtime != NO_TIME),
        "empty_files": is_file & (length == 0),
        "writable_files": is_file & (numbers(batch["permission"]) & EVERYBODY_WRITES > 0),
        "unlike_files": is_unlike,
        "unlike_raw": raw * is_unlike,
        "block_size": block_size * is_small,
    }
    values = np.empty((len(columns), kinds.size), np.int64)
    for row, name in enumerate((*_SUMS, "block_size")):
        values[row] = columns[name]
    classes = (size_class(length), age_class(mtime, rules.as_of), age_class(used, rules.as_of))
    return _MeasuredRows(*classes, replication, values)


_REPLICATION, _POLICY = 32, 15
"""Widths in bits. A signed replication factor has 32, each class 4, and the number of an erasure coding policy 15."""
_CLASS = 4


def _packed(rows: _MeasuredRows, policy: Numbers) -> Numbers:
    """Return the classes, the replication factor and the number of the erasure coding policy as one number."""
    packed = (policy << _REPLICATION) | (rows.replication & (1 << _REPLICATION) - 1)
    for each in (rows.use_class, rows.mtime_class, rows.size_class):
        packed = (packed << _CLASS) | (each + 1)
    return packed


def _unpacked(packed: Numbers) -> tuple[Numbers, ...]:
    """Return the size class, the classes of modification and use, the replication factor and the policy."""
    classes = [(packed >> position * _CLASS & (1 << _CLASS) - 1) - 1 for position in range(3)]
    rest = packed >> 3 * _CLASS
    replication = (rest & (1 << _REPLICATION) - 1).astype(np.uint32).view(np.int32).astype(np.int64)
    return (*classes, replication, rest >> _REPLICATION)


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
