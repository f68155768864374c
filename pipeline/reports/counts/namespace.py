"""Counts of the inodes of an image: one pass over batches of the table `inodes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.reports.counts.classes import NO_TIME, age_class, days_before, known_size, raw_space, size_class
from pipeline.reports.counts.grouping import Mask, Numbers, add_up, codes_of, grouped, groups_of, highest, numbers

FACT_COLUMNS = (
    "parent",
    "type",
    "owner",
    "group",
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

DIRECTORY_COLUMNS = ("id", "parent", "path", "owner", "storage_policy", "ns_quota", "ds_quota")
"""Columns of `inodes` that the counts need of directories."""

BOTH_COLUMNS = tuple(dict.fromkeys((*FACT_COLUMNS, *DIRECTORY_COLUMNS)))

MEASURES = ("files", "directories", "symlinks", "length", "raw", "blocks")
"""Sums: counts, bytes of files, bytes on DataNodes, blocks."""

PARTS = ("small_files", "small_length", "small_blocks", "cold_files", "cold_length", "cold_raw", "read_files")
"""Sums of small files, of cold files, and of files whose access time is later than the modification time."""

DIMENSIONS = ("owner", "group", "size_class", "mtime_class", "use_class", "replication", "ec_policy")
OF_ALL = frozenset({"owner", "group"})
"""Dimensions that count all inodes; the others count only files."""

OF_FILES = ("files", "length", "raw", "blocks")

SMALL_PART = 8
"""A file below one part in this many of its block size is small, unless the user sets a size."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits for small and cold files.

    Attributes:
        as_of: reference time for ages.
        small: bytes below which a file is small; None for an eighth of its block size.
        cold_days: days without use after which a file is cold.
    """

    as_of: datetime
    small: int | None = None
    cold_days: int = 365


class NamespaceCounts:
    """Counts of the inodes below the root; batches are added, then the tables are taken.

    The last use of a file is the later of its access and modification times; if access times are off, the modification
    time. An impossible length counts as 0.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._found: dict[str, list[pa.Table]] = {"direct": [], "dimensions": [], "policies": [], "tree": []}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch with `FACT_COLUMNS`."""
        batch = batch.filter(pc.is_valid(batch["parent"]))
        if not batch.num_rows:
            return
        sums, classes = _measured(batch, self._rules)
        self._found["direct"].append(_direct(batch, sums))
        self._found["dimensions"] += [_dimension(name, batch, sums, classes) for name in DIMENSIONS]
        own = pc.and_(pc.is_valid(batch["storage_policy"]), pc.equal(batch["type"], "FILE"))
        if own.true_count:
            rows = pa.table(
                {"parent": batch["parent"], "policy": batch["storage_policy"], **{n: sums[n] for n in OF_FILES}}
            )
            self._found["policies"].append(rows.filter(own))

    def add_directories(self, batch: pa.RecordBatch) -> None:
        """Record the directories of a batch with `DIRECTORY_COLUMNS`."""
        self._found["tree"].append(pa.table(batch.select(list(DIRECTORY_COLUMNS))))

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables.

        - `direct`: by `parent` (inode id) and `owner`, the `MEASURES` and `PARTS` of the direct children, and the
          largest `block_size` of small files;
        - `dimensions`: by `dimension` and `value` (text, null for none), `MEASURES` and `PARTS`;
        - `policies`: by `parent` and `policy`, `OF_FILES` of the files with a storage policy of their own;
        - `tree`: `DIRECTORY_COLUMNS` of directories.
        """
        return merge_counts({name: pa.concat_tables(parts) for name, parts in self._found.items() if parts})


_LONGS = [(name, pa.int64()) for name in (*MEASURES, *PARTS)]
_KEYS = {"direct": ("parent", "owner"), "dimensions": ("dimension", "value"), "policies": ("parent", "policy")}
_SCHEMAS = {
    "direct": pa.schema([("parent", pa.int64()), ("owner", pa.string()), *_LONGS, ("block_size", pa.int64())]),
    "dimensions": pa.schema([("dimension", pa.string()), ("value", pa.string()), *_LONGS]),
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


def _measured(batch: pa.RecordBatch, rules: Rules) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
    """Return (the measures of each row, the classes of each row)."""
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
    raw = np.where(is_file, raw_space(length, numbers(batch["replication"]), batch["ec_policy"]), 0)
    blocks = numbers(batch["block_count"])
    sums = {
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
        "block_size": np.where(is_small, block_size, 0),
    }
    classes = {
        "size_class": size_class(length),
        "mtime_class": age_class(mtime, rules.as_of),
        "use_class": age_class(used, rules.as_of),
    }
    return sums, classes


def _ones(mask: Mask) -> Numbers:
    return mask.astype(np.int64)


def _direct(batch: pa.RecordBatch, sums: Mapping[str, Numbers]) -> pa.Table:
    groups, firsts = groups_of([batch["parent"], batch["owner"]])
    keys = {key: batch[key].take(pa.array(firsts)) for key in ("parent", "owner")}
    largest = highest(sums["block_size"], groups, firsts.size)
    return pa.table({**keys, **_sums(sums, groups, firsts.size), "block_size": largest})


def _dimension(
    name: str, batch: pa.RecordBatch, sums: Mapping[str, Numbers], classes: Mapping[str, Numbers]
) -> pa.Table:
    """Return the sums of one dimension; the values of classes are their positions."""
    if name in classes:
        codes, values = _class_codes(classes[name])
    else:
        codes, found = codes_of(batch[name])
        values = found.cast(pa.string())
    counted = _sums(sums, codes, len(values))
    chosen = np.ones(len(values), np.bool_) if name in OF_ALL else counted["files"] > 0
    if name not in OF_ALL:
        # Only files have a length, blocks or a part.
        counted["directories"], counted["symlinks"] = np.zeros((2, len(values)), np.int64)
    rows = pa.table({"dimension": [name] * len(values), "value": values, **counted})
    return rows.filter(pa.array(chosen))


def _class_codes(positions: Numbers) -> tuple[Numbers, pa.Array]:
    """Return (codes, values) of classes, of which -1 is null."""
    count = int(positions.max()) + 1
    values = [None, *map(str, range(count))]
    return positions + 1, pa.array(values, pa.string())


def _sums(sums: Mapping[str, Numbers], groups: Numbers, count: int) -> dict[str, Numbers]:
    return {name: add_up(sums[name], groups, count) for name in (*MEASURES, *PARTS)}
