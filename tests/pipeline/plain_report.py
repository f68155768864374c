"""The tables of a report as plain sums over rows, and random images with their rows."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from image_format.proto import fsimage_pb2 as pb
from journal.ops import PermissionStatus
from pipeline.reports.counts.classes import AGE_DAYS, AGE_LABELS, SIZE_BOUNDS, SIZE_LABELS
from pipeline.reports.counts.directory_findings import TEMPORARY
from pipeline.reports.request import ReportOptions
from tests.engine.image_builder import HADOOP3, UINT64, ImageBuilder
from tests.pipeline.oiv_inodes import STORAGE_POLICIES
from tests.pipeline.oiv_tables import Row
from tests.pipeline.report_frames import AS_OF, MIB

Rows = Sequence[Row]
CHANGED = ("raw", "length", "files", "directories", "blocks")
ZONE = "hdfs.crypto.encryption.zone"
_CODES = {"RS-6-3-1024k": 1, "XOR-2-1-1024k": 4}
_SPACES = {"USER": 0, "SYSTEM": 3, "RAW": 4}
_SIZES = {"empty": 1, "below_1_mib": MIB, "below_32_mib": 32 * MIB, "below_128_mib": 128 * MIB, "below_4_gib": 4 << 30}
_UNLIMITED = (1 << 63) - 1


def _ancestors(path: str) -> Iterator[str]:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path


def _raw(row: Row) -> int:
    """Return the bytes of a file with all replicas, or with the parity of its scheme."""
    found = re.search(r"-(\d+)-(\d+)-(\d+)k$", row.get("ec_policy") or "")
    if row["replication"] or not found:
        return int(row["length"] * row["replication"])
    data, parity, cell = int(found[1]), int(found[2]), int(found[3]) * 1024
    cells, rest = divmod(row["length"], data * cell)
    return int(row["length"] + parity * (cells * cell + min(rest, cell)))


def _share(part: int, whole: int | None) -> float | None:
    return round(100 * part / whole, 2) if whole else None


def _class(value: float, bounds: Sequence[int]) -> int:
    return sum(value >= bound for bound in bounds)


def _by(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


@dataclass(frozen=True)
class PlainReport:
    """Tables of the report of an image, each with all its rows in any order.

    A row may have more columns than the table, and a missing number is 0.

    Attributes:
        rows: all inodes of the current tree, with the columns of the `inodes` table. The rows of `attributes` and
            `open_files` come from `random_rows`.
    """

    rows: Rows
    options: ReportOptions

    @cached_property
    def inner(self) -> list[Row]:
        return [row for row in self.rows if row["path"] != "/"]

    @cached_property
    def directories(self) -> list[Row]:
        return [row for row in self.rows if row["type"] == "DIRECTORY"]

    @cached_property
    def every_file(self) -> list[Row]:
        return [row for row in self.rows if row["type"] == "FILE"]

    @cached_property
    def children(self) -> dict[str, list[Row]]:
        return _by(self.inner, lambda row: next(_ancestors(row["path"])))

    @cached_property
    def below(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.inner:
            for path in _ancestors(row["path"]):
                found[path].append(row)
        return found

    @cached_property
    def total(self) -> Counter[str]:
        return self.sums(self.inner)

    def sums(self, rows: Iterable[Row]) -> Counter[str]:
        """Return the sums of some inodes; a missing sum is 0."""
        rows = list(rows)
        options, kinds = self.options, Counter(row["type"] for row in rows)
        found: Counter[str] = Counter(names=len(rows), directories=kinds["DIRECTORY"], symlinks=kinds["SYMLINK"])
        small: dict[Any, list[Row]] = defaultdict(list)
        for row in rows:
            if row["type"] != "FILE":
                continue
            length, raw = row["length"], _raw(row)
            found.update(files=1, length=length, raw=raw, blocks=row["block_count"], empty_files=length == 0)
            found.update(writable_files=row["permission"] >> 1 & 1)
            if length * 8 < row["block_size"] if options.small is None else length < options.small:
                small[next(_ancestors(row["path"])), row["owner"]].append(row)
                found.update(small_files=1, small_length=length)
            if max(row["mtime"], row["atime"]) <= options.as_of - timedelta(days=options.cold_days):
                found.update(cold_files=1, cold_length=length, cold_raw=raw)
            if row["replication"] not in {0, options.replication}:
                found.update(unlike_files=1, unlike_raw=raw)
        for files in small.values():
            size = max(1, *(row["block_size"] for row in files))
            left = max(1, -(-sum(row["length"] for row in files) // size))
            found["saved_inodes"] += max(0, len(files) - left)
            found["saved_blocks"] += max(0, sum(row["block_count"] for row in files) - left)
        found["saved_heap"] = 150 * (found["saved_inodes"] + found["saved_blocks"])
        return found

    # ---- sections ------------------------------------------------------------------------------------------

    def space(self) -> dict[str, list[Row]]:
        limit, total = self.options.max_items, self.total
        inodes = 1 + total["files"] + total["directories"] + total["symlinks"]
        numbers = {path: len(rows) for path, rows in self.children.items()}
        near = sum(number * 10 >= limit * 9 for number in numbers.values())
        full = sum(number >= limit for number in numbers.values())
        trees = self.trees(self.options.depth)
        for row in trees:
            row["share"] = _share(row.get("raw", 0), total["raw"])
        tables: dict[str, list[Row]] = {
            "totals": [{**total, "heap": 150 * (inodes + total["blocks"])}],
            "directories": trees,
            "names": trees,
            "directory_items": [
                {"near_limit": near, "at_limit": full, "most_children": max(numbers.values(), default=0)}
            ],
            "fullest_directories": [
                {"path": path, "children": number, "children_used": _share(number, limit)}
                for path, number in numbers.items()
            ],
        }
        if quotas := [row for row in map(self._quota, self.directories) if row]:
            tables |= {"quotas": quotas, "quota_levels": self._levels(quotas)}
        return tables

    def trees(self, depth: int) -> list[Row]:
        return [
            {**self.sums(self.below[row["path"]]), "path": row["path"], "owner": row["owner"]}
            for row in self.directories
            if self.below[row["path"]] and len([*_ancestors(row["path"])]) <= depth
        ]

    def _quota(self, row: Row) -> Row | None:
        limits = [None if row[key] in {-1, _UNLIMITED} else row[key] for key in ("ns_quota", "ds_quota")]
        if limits == [None, None]:
            return None
        names, raw = 1 + len(self.below[row["path"]]), self.sums(self.below[row["path"]])["raw"]
        used = {"names_used": _share(names, limits[0]), "space_used": _share(raw, limits[1])}
        return {"path": row["path"], "ns_quota": limits[0], "ds_quota": limits[1], "names": names, "raw": raw, **used}

    def _levels(self, quotas: list[Row]) -> list[Row]:
        found = defaultdict(list)
        for row in quotas:
            for kind, part, limit in (("names", "names", "ns_quota"), ("space", "raw", "ds_quota")):
                if row[limit] and row[part] * 10 >= row[limit] * 9:
                    level = "used up" if row[part] >= row[limit] else "nearly used up"
                    found[level].append((-row[part] / row[limit], row["path"], kind))
        return [
            {"level": level, "quotas": len(rows), "path": path, "kind": kind, "used": round(-part * 100, 2)}
            for level, rows in found.items()
            for part, path, kind in [min(rows)]
        ]

    def owners(self) -> dict[str, list[Row]]:
        tables: dict[str, list[Row]] = {}
        for key in ("owner", "group"):
            by = _by(self.inner, itemgetter(key))
            tables[f"by_{key}"] = [self._of(rows, value, "raw") for value, rows in by.items()]
            tables[f"sizes_by_{key}"] = [{"value": value, **self._sizes(rows)} for value, rows in by.items()]
        return tables

    def _of(self, rows: Rows, value: Any, share: str) -> Row:
        sums = self.sums(rows)
        return {**sums, "value": value, "share": _share(sums[share], self.total[share])}

    def _sizes(self, rows: Rows) -> Row:
        names = [*_SIZES, "from_4_gib"]
        found = Counter(names[_class(row["length"], [*_SIZES.values()])] for row in rows if row["type"] == "FILE")
        return {name: found[name] for name in names}

    def files(self) -> dict[str, list[Row]]:
        policies = {row["path"]: row.get("storage_policy") for row in self.directories}
        tables: dict[str, list[Row]] = {}

        def effective(row: Row) -> Any:
            above = (policies[path] for path in _ancestors(row["path"]))
            return row.get("storage_policy") or next(filter(None, above), "(NameNode's default)")

        plain: dict[str, Callable[[Row], Any]] = {
            "by_replication": lambda row: str(row["replication"] or "(erasure-coded)"),
            "by_storage_policy": effective,
            "by_erasure_coding": lambda row: row.get("ec_policy") or "(replicated)",
        }
        for name, key in plain.items():
            tables[name] = [self._of(rows, value, "files") for value, rows in _by(self.every_file, key).items()]
        sizes = _by(self.every_file, lambda row: _class(row["length"], SIZE_BOUNDS))
        tables["by_size"] = [self._of(sizes[at], label, "files") for at, label in enumerate(SIZE_LABELS)]
        ages = _by(self.every_file, lambda row: self.age(row["mtime"]))
        tables["by_age"] = [self._of(ages[at], label, "files") for at, label in enumerate(AGE_LABELS)]
        for policy, name in (("storage_policy", "storage_policy"), ("ec_policy", "erasure_coding")):
            begins = {row["path"]: row[policy] for row in self.directories if row.get(policy)}
            if begins:
                tables[f"{name}_directories"] = [
                    {**sums, policy: begins[path], "path": path} for path, sums in self._subtrees(begins)
                ]
        return {**tables, "unlike_default": [self.total], "unlike_default_by_directory": self.direct("unlike_files")}

    def age(self, time: Any) -> int:
        return _class((self.options.as_of - time) / timedelta(days=1), AGE_DAYS)

    def _subtrees(self, begins: Iterable[str]) -> Iterator[tuple[str, Row]]:
        """Yield each directory that begins a subtree, and its sums without the subtrees nested in it."""
        wanted = set(begins)
        nearest = _by(self.inner, lambda row: next((path for path in _ancestors(row["path"]) if path in wanted), None))
        for path in wanted:
            yield path, self.sums(nearest[path])

    def direct(self, positive: str) -> list[Row]:
        """Return the sums of each directory's children if the sum named `positive` is above 0."""
        rows = [{**self.sums(rows), "path": path} for path, rows in self.children.items()]
        return [row for row in rows if row.get(positive)]

    def by_owner(self, positive: str = "names") -> list[Row]:
        by = _by(self.inner, itemgetter("owner"))
        rows = [{**self.sums(rows), "owner": owner} for owner, rows in by.items()]
        return [row for row in rows if row.get(positive)]

    def small_files(self) -> dict[str, list[Row]]:
        return {
            "small_files": [self.total],
            "small_files_by_directory": self.direct("small_files"),
            "small_files_by_owner": self.by_owner("small_files"),
        }

    def cold(self) -> dict[str, list[Row]]:
        owners = {row["path"]: row["owner"] for row in self.directories}
        begins = [path for path in owners if path == "/" or owners[path] != owners[next(_ancestors(path))]]
        subtrees = [{**sums, "path": path, "owner": owners[path]} for path, sums in self._subtrees(begins)]
        tables = {
            "cold": [{**self.total}],
            "cold_by_directory": self.direct("cold_files"),
            "cold_by_subtree": [row for row in subtrees if row.get("cold_files")],
            "cold_by_owner": self.by_owner("cold_files"),
        }
        for rows in tables.values():
            for row in rows:
                row["share"] = _share(row.get("cold_raw", 0), row.get("raw", 0))
        return tables

    def cleanup(self) -> dict[str, list[Row]]:
        hollow = _by(
            [row for row in self.directories if row["path"] != "/" and not self.children.get(row["path"])],
            lambda row: next(_ancestors(row["path"])),
        )
        empty = {
            path: {"path": path, "empty_files": self.sums(rows)["empty_files"], "empty_directories": len(hollow[path])}
            for path, rows in self.children.items()
        }
        trees = [
            {**self.sums(self.below[row["path"]]), "path": row["path"], "owner": row["owner"], "name": name}
            for row in self.directories
            for name in [row["path"].rpartition("/")[2]]
            if name in TEMPORARY and not set(row["path"].split("/")[:-1]) & set(TEMPORARY)
        ]
        by_name = _by(trees, itemgetter("name"))
        sums = [{"name": name, **self._added(rows)} for name, rows in by_name.items()]
        return {
            "empty": [{"empty_files": self.total["empty_files"], "empty_directories": sum(map(len, hollow.values()))}],
            "empty_by_directory": [row for row in empty.values() if row["empty_files"] or row["empty_directories"]],
            "temporary": [self._added(trees)],
            "temporary_by_name": sums,
            "temporary_trees": trees,
        }

    def _added(self, rows: Rows) -> Row:
        found = {name: sum(row.get(name, 0) for row in rows) for name in CHANGED}
        return {**found, "share": _share(found["raw"], self.total["raw"])}

    def permissions(self) -> dict[str, list[Row]]:
        writable = [row for row in self.directories if row["permission"] & 2]
        return {
            "world_writable": [
                {
                    "writable_files": self.total["writable_files"],
                    "writable_directories": len(writable),
                    "without_sticky_bit": sum(not row["permission"] & 0o1000 for row in writable),
                }
            ],
            "writable_directories": [
                {**row, "mode": f"{row['permission']:04o}", "names": len(self.below[row["path"]])} for row in writable
            ],
            "writable_files_by_directory": self.direct("writable_files"),
        }

    def attributes(self) -> dict[str, list[Row]]:
        names = Counter(each for row in self.directories for each in row["xattrs"])
        zones = [row["path"] for row in self.directories if ("RAW", ZONE) in row["xattrs"]]
        total = {"encryption_zones": len(zones)}
        for feature, key in (("acl", "acl"), ("xattr", "xattrs")):
            for kind, rows in (("files", self.every_file), ("directories", self.directories)):
                total[f"{feature}_{kind}"] = sum(bool(row[key]) for row in rows)
        return {
            "attributes": [total],
            "attributes_of_directories": [
                {"namespace": space, "name": name, "directories": number} for (space, name), number in names.items()
            ],
            "encryption_zones": [{**self.sums(self.below[path]), "path": path} for path in zones],
        }

    def open_files(self) -> dict[str, list[Row]]:
        opened = [row for row in self.every_file if row["client_name"]]
        ages = _by(opened, lambda row: self.age(row["mtime"]))
        return {
            "open_files": [self.sums(opened)],
            "open_by_age": [{**self._of(ages[at], label, "files")} for at, label in enumerate(AGE_LABELS)],
            "oldest_open_files": opened,
        }

    def growth(self, before: PlainReport) -> dict[str, list[Row]]:
        """Return the changes since an older image."""
        depth = self.options.depth
        return {
            "growth": [_change(before.total, self.total)],
            "growth_by_directory": _changes("path", before.trees(depth), self.trees(depth)),
            "growth_by_owner": _changes("owner", before.by_owner(), self.by_owner()),
        }


def _change(before: Row, after: Row) -> Row:
    found = {name: after.get(name, 0) - before.get(name, 0) for name in CHANGED}
    return {**found, "raw_before": before.get("raw", 0), "raw_after": after.get("raw", 0)}


def _changes(key: str, before: Rows, after: Rows) -> list[Row]:
    old, new = ({row[key]: row for row in rows} for rows in (before, after))
    rows = [{key: value, **_change(old.get(value, {}), new.get(value, {}))} for value in {**old, **new}]
    return [row for row in rows if any(row[name] for name in CHANGED)]


# ---- random images -----------------------------------------------------------------------------------------


def random_rows(chance: random.Random) -> list[Row]:
    """Return the inodes of a tree that may contain everything that a report counts."""
    rows = [{**_row(chance, "DIRECTORY", "/"), "ns_quota": _UNLIMITED}]
    taken = {"/"}
    for number in range(chance.choice([0, 10, 60])):
        above = chance.choice([row["path"] for row in rows])
        name = chance.choice([*TEMPORARY, f"d{number}", "x.Trash", "_temporary2"])
        if (path := f"{above.rstrip('/')}/{name}") not in taken:
            taken.add(path)
            rows.append(_row(chance, "DIRECTORY", path))
    folders = [row["path"] for row in rows]
    for number in range(chance.choice([0, 5, 150])):
        kind = "SYMLINK" if chance.random() < 0.05 else "FILE"
        rows.append(_row(chance, kind, f"{chance.choice(folders).rstrip('/')}/f{number}"))
    return rows


def _row(chance: random.Random, kind: str, path: str) -> Row:
    days = [chance.choice([-1, 0, *AGE_DAYS, 3000]) + chance.choice([0, 0, 0.5, 1e-7]) for _ in range(2)]
    mtime, atime = (AS_OF - timedelta(milliseconds=round(each * 86_400_000)) for each in days)
    row: Row = {
        "path": path,
        "type": kind,
        "owner": chance.choice(["ann", "bob", "cyd"]),
        "group": chance.choice(["users", "staff"]),
        "permission": chance.choice([0o755, 0o644, 0o777, 0o1777, 0o702]),
        "mtime": mtime,
        "storage_policy": chance.choice([None] * 9 + [*STORAGE_POLICIES.values()][1:6]) if kind != "SYMLINK" else None,
        "ec_policy": chance.choice([None] * 9 + [*_CODES]) if kind != "SYMLINK" else None,
        "acl": kind != "SYMLINK" and chance.random() < 0.1,
        "xattrs": chance.choice([[], [], [], [("USER", "origin")]]) if kind != "SYMLINK" else [],
    }
    if kind == "DIRECTORY":
        quotas = [chance.choice([-1, -1, 1, 5, 40, 1 << 30]) for _ in range(2)]
        row |= {"ns_quota": quotas[0], "ds_quota": quotas[1]}
        own = {
            "storage_policy": ("SYSTEM", "hsm.block.storage.policy.id"),
            "ec_policy": ("SYSTEM", "hdfs.erasurecoding.policy"),
        }
        row["xattrs"] = [*row["xattrs"], *(attribute for key, attribute in own.items() if row[key])]
        row["xattrs"] += [("RAW", ZONE)] if chance.random() < 0.05 else []
    if kind == "FILE":
        sizes = [
            chance.choice([0, 1, 900, MIB // 8, MIB, 200 * MIB, 5 << 30]) for _ in range(chance.choice([0, 1, 1, 3]))
        ]
        replication = 0 if row["ec_policy"] else chance.choice([1, 3, 3, 10])
        more = {"length": sum(sizes), "block_count": len(sizes), "sizes": sizes, "replication": replication}
        client = chance.choice([""] * 9 + ["DFSClient_1"])
        row |= {**more, "atime": atime, "block_size": chance.choice([MIB, 128 * MIB]), "client_name": client}
        row["client_machine"] = "host" if client else ""
    return row


def save_rows(rows: Rows, folder: Path, txid: int) -> Path:
    """Write an image of `random_rows`."""
    builder = ImageBuilder(HADOOP3)
    builder.info.transactionId = txid
    blocks = iter(range(1 << 30, 1 << 31))
    policies = {name: number for number, name in STORAGE_POLICIES.items()}
    for row in rows:
        mtime = round(row["mtime"].timestamp() * 1000)
        permission = builder.permission(PermissionStatus(row["owner"], row["group"], row["permission"]))
        if row["type"] == "SYMLINK":
            builder.symlink(row["path"], "/target").symlink.permission = permission
            continue
        if row["type"] == "DIRECTORY":
            body: Any = builder.directory(row["path"], mtime=mtime).directory if row["path"] != "/" else None
            body = builder.inodes["/"].directory if body is None else body
            body.nsQuota, body.dsQuota = row["ns_quota"] & UINT64, row["ds_quota"] & UINT64
        else:
            sizes = [(next(blocks), size, 1001) for size in row["sizes"]]
            body = builder.file(row["path"], blocks=sizes, open_by=row["client_name"]).file
            body.accessTime = round(row["atime"].timestamp() * 1000)
            body.preferredBlockSize = row["block_size"]
            body.storagePolicyID = policies.get(row["storage_policy"], 0)
            body.replication = row["replication"]
            if row["ec_policy"]:
                body.ClearField("replication")
                body.blockType, body.erasureCodingPolicyID = pb.STRIPED, _CODES[row["ec_policy"]]
        body.modificationTime, body.permission = mtime, permission
        if row["acl"]:
            body.acl.entries.append(builder.acl_entry(0, 0, 6, "ann"))
        for space, name in row["xattrs"]:
            value = b"v"
            if name == "hsm.block.storage.policy.id":
                value = bytes([policies[row["storage_policy"]]])
            elif name == "hdfs.erasurecoding.policy":
                value = len(row["ec_policy"]).to_bytes(4, "big") + row["ec_policy"].encode()
            body.xAttrs.xAttrs.add(name=builder.xattr_name(_SPACES[space], name), value=value)
    return builder.save(folder)
