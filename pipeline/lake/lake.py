"""The tables of a lake, and the images and transactions in these tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pipeline.errors import LakeError
from pipeline.lake.delta import LakeTable, is_delta_table
from pipeline.lake.ranges import CountedRange, TxidRange, contained, holes, merge, ranges_of
from pipeline.schema import TIMESTAMP, Table
from pipeline.tables.catalogue import IMAGE_TABLES
from pipeline.tables.edits import EDITS

IMAGES = "images"
CLUSTER = re.compile(r"[A-Za-z0-9._-]+")
"""A cluster's name, which is part of paths in the lake."""
_CLUSTER_OF_VERSION = re.compile(r".+\.(?!(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:[0-9]{2})?$)([1-9][0-9]{5,9})")
"""Form of the names that `pipeline.lake.inputs.cluster_of` returns.

A cluster id may be any text. A namespace id is a random number of 31 bits, so a user chose a name with fewer digits,
such as `prod.2`, or with a month or a date, such as `prod.202612`.
"""
_MAX_NAMESPACE_ID = (1 << 31) - 1
DEFAULT_CLUSTER = "default"
"""Name of a cluster whose VERSION file is unknown."""

_CLUSTER = pa.field("cluster", pa.string())
_IMAGE_PARTITIONS = (_CLUSTER, pa.field("txid", pa.int64()))
_EDITS_PARTITIONS = (_CLUSTER, pa.field("day", pa.date32()))
_IMAGES_SCHEMA = pa.schema(
    [
        pa.field("cluster", pa.string(), False),
        pa.field("txid", pa.int64(), False),
        pa.field("time", TIMESTAMP),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("tables", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class ImageInLake:
    """A complete image of the lake: a row of the `images` table.

    Attributes:
        time: time of the image's state, UTC: modification time of its file, or the moment in an archive.
        rows: number of inodes; bytes: size of all files of the image in the lake.
        tables: comma-separated names of its tables.
    """

    cluster: str
    txid: int
    time: datetime
    rows: int
    bytes: int
    tables: str

    @property
    def partition(self) -> dict[str, str]:
        """The partition of the image in each of its tables."""
        return {"cluster": self.cluster, "txid": str(self.txid)}

    def as_dict(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "txid": self.txid,
            "time": self.time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "rows": self.rows,
            "bytes": self.bytes,
            "tables": self.tables.split(","),
        }


def image_table(root: str, name: str) -> LakeTable:
    """Return the lake's table that contains the rows of table `name` from all images."""
    return _table(root, IMAGE_TABLES[name], _IMAGE_PARTITIONS)


def edits_table(root: str) -> LakeTable:
    return _table(root, EDITS, _EDITS_PARTITIONS)


def images_table(root: str) -> LakeTable:
    return LakeTable(root, IMAGES, _IMAGES_SCHEMA, ())


def all_tables(root: str) -> list[LakeTable]:
    """Return the tables of the lake; some may be missing."""
    return [images_table(root), edits_table(root), *(image_table(root, name) for name in IMAGE_TABLES)]


def _table(root: str, table: Table, partitions: Sequence[pa.Field]) -> LakeTable:
    schema = pa.schema([*table.arrow_schema(), *partitions])
    return LakeTable(root, table.name, schema, [field.name for field in partitions])


def is_lake(uri: str) -> bool:
    return any(is_delta_table(f"{uri.rstrip('/')}/{name}") for name in (IMAGES, EDITS.name))


def require_lake(uri: str) -> None:
    """Raise LakeError if no lake exists at `uri`."""
    if not is_lake(uri):
        raise LakeError(
            f"no lake exists at {uri}", hint="Check the path, or create a lake: `checkpointer lake append`."
        )


def images_in(table: LakeTable, cluster: str = "") -> list[ImageInLake]:
    """Return the images in the `images` table, sorted by cluster and txid; include all clusters if `cluster` is ""."""
    rows = table.read(_IMAGES_SCHEMA.names).to_pylist()
    images = [ImageInLake(**row) for row in rows if cluster in {"", row["cluster"]}]
    return sorted(images, key=lambda image: (image.cluster, image.txid))


def edits_in(table: LakeTable) -> dict[str, list[TxidRange]]:
    """Return the transactions of each cluster in the `edits` table, in as few ranges as possible."""
    by_cluster: dict[str, list[CountedRange]] = {}
    files = {file.path: file for file in table.files()}
    for file in files.values():
        first, last = file.txids or (0, -1)
        ranges = by_cluster.setdefault(file.partition["cluster"], [])
        ranges.append(CountedRange(file.path, first, last, file.rows if file.txids else -1))
    found = {}
    for cluster, ranges in by_cluster.items():
        certain, unclear = contained(ranges)
        if unclear:
            txids = table.read(["txid"], [files[path] for path in unclear]).column("txid").to_pylist()
            certain += ranges_of(txids)
        found[cluster] = merge(certain)
    return found


@dataclass(frozen=True, slots=True)
class LakeContents:
    """Content of a lake.

    Attributes:
        edits: transactions of each cluster, in contiguous ranges.
    """

    images: list[ImageInLake]
    edits: dict[str, list[TxidRange]]

    @property
    def missing(self) -> dict[str, list[TxidRange]]:
        """The missing transactions between the first and the last transaction of each cluster."""
        return {cluster: gaps for cluster, ranges in self.edits.items() if (gaps := holes(ranges))}

    def as_dict(self) -> dict[str, Any]:
        return {
            "images": [image.as_dict() for image in self.images],
            "edits": _as_rows(self.edits),
            "missing": _as_rows(self.missing),
        }


def _as_rows(found: dict[str, list[TxidRange]]) -> list[dict[str, Any]]:
    return [{"cluster": cluster, **each._asdict()} for cluster, ranges in found.items() for each in ranges]


def lake_contents(root: str) -> LakeContents:
    """Return the content of the lake; empty if no lake exists.

    Raises:
        LakeError: the lake cannot be read.
    """
    return LakeContents(images_in(images_table(root)), edits_in(edits_table(root)))


def namespace_of(cluster: str) -> str:
    """Return the namespace id in the name of a cluster; "" for a name that a user chose."""
    found = _CLUSTER_OF_VERSION.fullmatch(cluster)
    return found[1] if found and int(found[1]) <= _MAX_NAMESPACE_ID else ""


def choose_cluster(given: str, stored: str, present: Sequence[str]) -> str:
    """Return the name of an input's cluster in the lake.

    Args:
        given: name that the user gave, "" if there is none.
        stored: name in the VERSION file next to the input, "" if there is none.
        present: clusters that the lake contains.

    Raises:
        LakeError: no name is known, and the lake contains several clusters; or the name is not allowed.
    """
    chosen = given or stored
    if not chosen and len(present) > 1:
        raise LakeError(
            f"the input's cluster is unknown: no VERSION file is next to it; the lake contains {', '.join(present)}",
            hint="Specify the cluster with --cluster.",
        )
    chosen = chosen or (present[0] if present else DEFAULT_CLUSTER)
    if not CLUSTER.fullmatch(chosen):
        raise LakeError(
            f"{chosen!r} is not a valid cluster name", hint="Use letters, digits, '.', '_' and '-' in --cluster."
        )
    return chosen
