"""Tables of the lake: only committed content, without that of an unfinished append."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DateType, LongType, StructField, StructType

from pipeline.errors import LakeError
from pipeline.lake.commits import (
    EDITS,
    INODES,
    TxidRange,
    committed_edits,
    committed_images,
    holes,
    image_commit,
    merge,
)
from pipeline.lake.files import HadoopFiles
from pipeline.schema import Table
from pipeline.tables.edits import EDITS as EDITS_TABLE
from pipeline.tables.inodes import INODES as INODES_TABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class LakeContents:
    """Content of a lake.

    Attributes:
        images: for each image its txid, `rows` and `bytes`.
        edits: the transactions, in contiguous ranges.
        missing: the missing transactions between the first and the last.
    """

    images: list[dict[str, int]]
    edits: list[TxidRange]
    missing: list[TxidRange]

    def as_dict(self) -> dict[str, Any]:
        """Return the content for JSON."""
        ranges = {"edits": self.edits, "missing": self.missing}
        return {**asdict(self), **{name: [each._asdict() for each in found] for name, found in ranges.items()}}


def images_in_lake(spark: SparkSession, root: str) -> list[int]:
    """Return the txids of the images, ascending; empty if the lake does not exist."""
    return committed_images(HadoopFiles(spark, root))


def lake_contents(spark: SparkSession, root: str) -> LakeContents:
    """Return the content of the lake according to its commits.

    Raises:
        LakeError: the lake cannot be read.
    """
    files = HadoopFiles(spark, root)
    images = [files.read_json(image_commit(txid)) for txid in committed_images(files)]
    edits = committed_edits(files)
    return LakeContents(images, merge(edits), holes(edits))


def read_lake_images(spark: SparkSession, root: str) -> DataFrame:
    """Return the inodes of all images, with the column `txid` of their image; `where("txid = N")` reads only that
    image's files.

    Raises:
        LakeError: the lake has no image.
    """
    txids = images_in_lake(spark, root)
    if not txids:
        raise _empty(root, "image")
    return _parquet(spark, root, INODES, INODES_TABLE, StructField("txid", LongType())).where(_one_of("txid", txids))


def read_lake_edits(spark: SparkSession, root: str) -> DataFrame:
    """Return all transactions, with the column `day` (UTC) by which their files are partitioned.

    Raises:
        LakeError: the lake has no edits.
    """
    ranges = merge(committed_edits(HadoopFiles(spark, root)))
    if not ranges:
        raise _empty(root, "edits")
    found = _parquet(spark, root, EDITS, EDITS_TABLE, StructField("day", DateType()))
    return found.where(" OR ".join(f"txid BETWEEN {first} AND {last}" for first, last in ranges))


def _one_of(column: str, values: list[int]) -> str:
    return f"{column} IN ({', '.join(map(str, values))})"


def _parquet(spark: SparkSession, root: str, folder: str, table: Table, partition: StructField) -> DataFrame:
    schema = StructType([*table.spark_schema().fields, partition])
    return spark.read.schema(schema).parquet(HadoopFiles(spark, root).uri(folder))


def _empty(root: str, what: str) -> LakeError:
    return LakeError(f"the lake {root} has no {what}", hint="Append: checkpointer lake append.")
