"""Counts of edits: tasks count their transactions by directory, then a shuffle sends each directory to one task."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.reports.counts.classes import known_size
from pipeline.reports.counts.grouping import (
    MAX_LONG,
    Numbers,
    Order,
    codes_of,
    first,
    grouped,
    groups_of,
    highest,
    more_than_none,
    numbers,
    pack,
    unpack,
    with_columns,
)
from pipeline.schema import TIMESTAMP

EDIT_COLUMNS = ("txid", "op", "path", "approximate_time", "owner", "client_machine", "length")
"""Columns of the table of edits that are counted."""

CREATES = "creates"
KINDS = {
    CREATES: ("OP_ADD", "OP_MKDIR", "OP_SYMLINK"),
    "deletes": ("OP_DELETE",),
    "renames": ("OP_RENAME", "OP_RENAME_OLD"),
    "appends": ("OP_APPEND", "OP_TRUNCATE", "OP_CONCAT_DELETE"),
    "attributes": (
        "OP_SET_PERMISSIONS",
        "OP_SET_OWNER",
        "OP_TIMES",
        "OP_SET_REPLICATION",
        "OP_SET_ACL",
        "OP_SET_XATTR",
        "OP_REMOVE_XATTR",
        "OP_SET_STORAGE_POLICY",
        "OP_SET_QUOTA",
        "OP_SET_NS_QUOTA",
        "OP_CLEAR_NS_QUOTA",
        "OP_SET_QUOTA_BY_STORAGETYPE",
    ),
}
"""Operations by kind; each kind has one count."""

CHANGING = (CREATES, "deletes", "renames", "appends")
"""Kinds that change the content of a directory."""

OTHER = "other"
_KIND_OF = {op: kind for kind, ops in KINDS.items() for op in ops}
_WRITING = pa.array(["OP_ADD", "OP_CLOSE", "OP_APPEND"])
_HOUR = 3_600_000_000
_NONE = -1

_ACTIVITY = pa.schema([("op", pa.string()), ("hour", pa.int64()), ("directory", pa.string()), ("count", pa.int64())])
_WRITTEN = pa.schema(
    [
        ("path", pa.string()),
        ("directory", pa.string()),
        ("owner", pa.string()),
        ("machine", pa.string()),
        ("machine_txid", pa.int64()),
        ("length", pa.int64()),
        ("length_txid", pa.int64()),
        ("created", pa.int64()),
        ("appended", pa.int64()),
    ]
)


def kind_of(op: str) -> str:
    """Return the kind of an operation, one of `KINDS` or `OTHER`."""
    return _KIND_OF.get(op, OTHER)


@dataclass(frozen=True, slots=True)
class EditRules:
    """Options of the counts.

    Attributes:
        depth: level of the directories to which changes are attributed.
        small: bytes below which a new file is small; edits do not always contain the block size.
        limit: maximum number of directories in a table.
    """

    depth: int
    small: int
    limit: int


class EditCounts:
    """Counts of one task. The task adds batches in the order of their txids, then reads the buckets."""

    def __init__(self) -> None:
        self._activity = [_ACTIVITY.empty_table()]
        self._written = [_WRITTEN.empty_table()]

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch with `EDIT_COLUMNS`."""
        directory = _directory_of(batch["path"])
        hour = pc.subtract(micros := batch["approximate_time"].cast(pa.int64()), _modulo(micros, _HOUR))
        rows = pa.table(
            {"op": batch["op"], "hour": hour, "directory": directory, "count": np.ones(len(hour), np.int64)}
        )
        self._activity.append(grouped(rows, ("op", "hour", "directory"), ("count",)))
        writing = pc.is_in(batch["op"], _WRITING)
        if writing.true_count:
            table = pa.table(batch).append_column("directory", directory).filter(writing)
            self._written.append(_opened_and_closed(table))

    def buckets(self, count: int) -> Iterator[tuple[int, dict[str, bytes]]]:
        """Yield (bucket, packed tables `activity` and `written`); all rows of a directory are in one bucket."""
        activity = grouped(pa.concat_tables(self._activity), ("op", "hour", "directory"), ("count",))
        tables = {"activity": activity, "written": _merge_written(pa.concat_tables(self._written))}
        bucket_of = {name: _buckets(table["directory"], count) for name, table in tables.items()}
        for number in range(count):
            chosen = {name: table.filter(pa.array(bucket_of[name] == number)) for name, table in tables.items()}
            if any(table.num_rows for table in chosen.values()):
                yield number, pack(chosen)


def count_bucket(parts: Iterable[Mapping[str, bytes]], rules: EditRules) -> dict[str, pa.Table]:
    """Return the tables of the directories of one bucket.

    The tables are:

    - `types`: op, count, directories (the number of touched directories);
    - `hours`: hour, the kinds of operations, other, count;
    - `busiest`: directory, the kinds of operations, other, count, at most `limit` rows;
    - `causes`: directory at `depth`, the kinds in `CHANGING`, and their sum `changes`;
    - `writers`: owner, machine, created, appended, length (bytes);
    - `made_by_directory` (at most `limit` rows), `made_by_client`: files, small_files, small_length, length of the new
      files that the edits both open and close, by directory, or by owner and machine.
    """
    found = unpack(parts)
    activity = grouped(found.get("activity", _ACTIVITY.empty_table()), ("op", "hour", "directory"), ("count",))
    written = _merge_written(found.get("written", _WRITTEN.empty_table()))
    tables = {**_activity_tables(activity, rules), **_written_tables(written, rules)}
    return _limited(tables, rules.limit)


_KEYS = {
    "types": ("op",),
    "hours": ("hour",),
    "busiest": ("directory",),
    "causes": ("directory",),
    "writers": ("owner", "machine"),
    "made_by_directory": ("directory",),
    "made_by_client": ("owner", "machine"),
}


def merge_buckets(tables: Mapping[str, pa.Table], limit: int) -> dict[str, pa.Table]:
    """Merge the tables of all buckets; see `count_bucket`."""
    merged = {}
    for name, keys in _KEYS.items():
        table = tables[name]
        merged[name] = grouped(table, keys, [each for each in table.column_names if each not in keys])
    return _limited(merged, limit)


def _limited(tables: dict[str, pa.Table], limit: int) -> dict[str, pa.Table]:
    """Keep the first rows of the tables in which each directory is complete."""
    return {**tables, **{name: first(tables[name], _ORDERS[name], limit) for name in ("busiest", "made_by_directory")}}


def _activity_tables(activity: pa.Table, rules: EditRules) -> dict[str, pa.Table]:
    counted = _by_kind(activity)
    named = counted.filter(pc.is_valid(counted["directory"]))
    touched = grouped(named, ("op", "directory"), ())
    types = pa.concat_tables(
        [
            with_columns(activity.select(["op", "count"]), {"directories": np.zeros(activity.num_rows, np.int64)}),
            with_columns(
                touched.select(["op"]),
                {"count": np.zeros(touched.num_rows, np.int64), "directories": np.ones(touched.num_rows, np.int64)},
            ),
        ]
    )
    above = named.set_column(
        named.column_names.index("directory"), "directory", _prefix(named["directory"], rules.depth)
    )
    changed = np.sum([numbers(above[kind]) for kind in CHANGING], axis=0)
    causes = grouped(above.append_column("changes", pa.array(changed)), ("directory",), (*CHANGING, "changes"))
    kinds = (*KINDS, OTHER, "count")
    return {
        "types": grouped(types, ("op",), ("count", "directories")),
        "hours": grouped(counted.filter(pc.is_valid(counted["hour"])), ("hour",), kinds),
        "busiest": grouped(named, ("directory",), kinds),
        "causes": more_than_none(causes, "changes"),
    }


def _by_kind(activity: pa.Table) -> pa.Table:
    """Add a column for each kind of operation."""
    codes, ops = codes_of(activity["op"])
    kinds = [kind_of(op) for op in ops.to_pylist()]
    count = numbers(activity["count"])
    for kind in (*KINDS, OTHER):
        chosen = np.array([each == kind for each in kinds], np.bool_)
        values = np.where(chosen[codes], count, 0) if len(ops) else count
        activity = activity.append_column(kind, pa.array(values))
    return activity


def _written_tables(written: pa.Table, rules: EditRules) -> dict[str, pa.Table]:
    length = numbers(written["length"], _NONE)
    closed = length != _NONE
    small = closed & (length < rules.small)
    made = closed & (numbers(written["created"]) > 0)
    values = {
        "files": closed.astype(np.int64),
        "small_files": small.astype(np.int64),
        "small_length": np.where(small, length, 0),
        "length": np.where(closed, length, 0),
    }
    keys = {name: written[name] for name in ("directory", "owner", "machine")}
    new = pa.table({**keys, **values}).filter(pa.array(made))
    total = pa.table(
        {**keys, "created": written["created"], "appended": written["appended"], "length": values["length"]}
    )
    by_client = grouped(new, ("owner", "machine"), values)
    return {
        "writers": grouped(total, ("owner", "machine"), ("created", "appended", "length")),
        "made_by_directory": more_than_none(grouped(new, ("directory",), values), "small_files"),
        "made_by_client": by_client,
    }


def _opened_and_closed(rows: pa.Table) -> pa.Table:
    """Return rows of `_WRITTEN` for operations that open or close a file.

    Only the opening operation contains the machine, and only OP_CLOSE, which has no inode id, contains the length.
    """
    txid, op = numbers(rows["txid"]), rows["op"]
    machine = rows["client_machine"].combine_chunks()
    machine = pc.if_else(pc.equal(machine, ""), pa.scalar(None, pa.string()), machine)
    is_close = pc.equal(op, "OP_CLOSE").to_numpy()
    length = numbers(rows["length"], _NONE)
    columns = {
        "path": rows["path"],
        "directory": rows["directory"],
        "owner": rows["owner"],
        "machine": machine,
        "machine_txid": np.where(machine.is_valid().to_numpy(zero_copy_only=False), txid, _NONE),
        "length": np.where(length == _NONE, _NONE, known_size(length)),
        "length_txid": np.where(is_close, txid, _NONE),
        "created": pc.equal(op, "OP_ADD").cast(pa.int64()),
        "appended": pc.equal(op, "OP_APPEND").cast(pa.int64()),
    }
    return pa.table({name: columns[name] for name in _WRITTEN.names}, schema=_WRITTEN)


def _merge_written(rows: pa.Table) -> pa.Table:
    """Return one row for each path; machine and length come from the last operation that contains the value.

    A file that is renamed while it is written yields two rows.
    """
    groups, firsts = groups_of([rows["path"]])
    codes, owners = codes_of(rows["owner"])
    ranks = {
        owner: rank for rank, owner in enumerate(sorted(owner for owner in owners.to_pylist() if owner is not None))
    }
    ranking = np.array([ranks.get(owner, _NONE) for owner in owners.to_pylist()], np.int64)
    of_owner = _last(ranking[codes] if ranking.size else codes, groups, firsts.size)
    of_machine = _last(numbers(rows["machine_txid"]), groups, firsts.size)
    lengths = numbers(rows["length_txid"])
    of_length = _last(lengths, groups, firsts.size)
    known = lengths[of_length] != _NONE
    columns = {
        "path": rows["path"].take(pa.array(firsts)),
        "directory": rows["directory"].take(pa.array(firsts)),
        "owner": rows["owner"].take(pa.array(of_owner)),
        "machine": rows["machine"].take(pa.array(of_machine)),
        "machine_txid": numbers(rows["machine_txid"])[of_machine],
        "length": np.where(known, numbers(rows["length"], _NONE)[of_length], _NONE),
        "length_txid": lengths[of_length],
        "created": highest(numbers(rows["created"]), groups, firsts.size),
        "appended": highest(numbers(rows["appended"]), groups, firsts.size),
    }
    return pa.table({name: columns[name] for name in _WRITTEN.names}, schema=_WRITTEN)


def _last(ranks: Numbers, groups: Numbers, count: int) -> Numbers:
    """Return the row with the highest rank of each group."""
    order = np.argsort(ranks, kind="stable")
    rows = np.zeros(count, np.int64)
    rows[groups[order]] = order
    return rows


def _directory_of(path: pa.Array) -> pa.Array:
    """Return the parents of absolute paths."""
    parent = pc.replace_substring_regex(path, pattern="/[^/]*$", replacement="")
    return pc.if_else(pc.equal(parent, ""), "/", parent)


def _prefix(paths: pa.ChunkedArray, depth: int) -> pa.Array:
    """Return the ancestors at `depth` of absolute paths; a path with fewer names remains unchanged."""
    codes, distinct = codes_of(paths)
    above = ["/".join(path.split("/")[: depth + 1]) or "/" for path in distinct.to_pylist()]
    return pa.array(above, pa.string()).take(pa.array(codes))


def _buckets(directories: pa.ChunkedArray, count: int) -> Numbers:
    codes, distinct = codes_of(directories)
    chosen = [zlib.crc32((directory or "").encode()) % count for directory in distinct.to_pylist()]
    return np.array(chosen, np.int64)[codes] if chosen else codes


def _modulo(values: pa.Array, divisor: int) -> pa.Array:
    """Return the remainder of a division, not negative; null for null."""
    rest = np.mod(numbers(values), divisor)
    return pa.array(rest, mask=values.is_null().to_numpy(zero_copy_only=False))


_ORDERS: dict[str, Order] = {
    "types": (("count", "descending"), ("op", "ascending")),
    "hours": (("hour", "descending"),),
    "busiest": (("count", "descending"), ("directory", "ascending")),
    "causes": (("changes", "descending"), ("directory", "ascending")),
    "writers": (("length", "descending"), ("created", "descending"), ("owner", "ascending"), ("machine", "ascending")),
    "made_by_directory": (("small_files", "descending"), ("directory", "ascending")),
    "made_by_client": (("small_files", "descending"), ("owner", "ascending"), ("machine", "ascending")),
}


def ordered(tables: Mapping[str, pa.Table], name: str, limit: int = MAX_LONG) -> pa.Table:
    """Return the first `limit` rows of a table, the largest first; in `hours`, the newest first."""
    table = tables[name]
    if name == "hours":
        table = table.set_column(0, "hour", table["hour"].cast(TIMESTAMP))
    elif name == "made_by_client":
        table = more_than_none(table, "small_files")  # after the merge, because a client's files may be in many buckets
    return first(table, _ORDERS[name], limit)
