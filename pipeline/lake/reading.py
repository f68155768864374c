"""Reads the lake with Spark, without a connector: Spark's Parquet reader receives the file list of each Delta table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from pipeline.errors import LakeError, SourceFileError
from pipeline.lake.delta import LakeFile, LakeTable
from pipeline.lake.lake import ImageInLake, edits_table, image_table, images_in, images_table, is_lake
from pipeline.tables.catalogue import IMAGE_TABLES
from pipeline.tables.edits import EDITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GLOB_SIGN = re.compile(r"[][{}*?\\]")
"""A character that Hadoop's patterns interpret; Spark accepts patterns as paths."""
_LIST = "List its images: checkpointer lake list."


@dataclass(frozen=True, slots=True)
class LakeUri:
    """A lake, or one of its images: `LAKE`, `LAKE@TXID`, `LAKE@TIME`, each also as `LAKE@CLUSTER…`.

    Attributes:
        at: text of a txid or of a time, "" for the newest image.
    """

    root: str
    cluster: str = ""
    at: str = ""


def parse_lake_uri(uri: str) -> LakeUri | None:
    parts = uri.split("@")
    for count in range(min(3, len(parts))):
        root = "@".join(parts[: len(parts) - count])
        if is_lake(root):
            suffix = parts[len(parts) - count :]
            if count == 2:
                return LakeUri(root, *suffix)
            if count == 1:
                return LakeUri(root, at=suffix[0]) if _is_moment(suffix[0]) else LakeUri(root, cluster=suffix[0])
            return LakeUri(root)
    return None


def _is_moment(text: str) -> bool:
    return text.isdecimal() or parse_time(text) is not None


def parse_time(text: str) -> datetime | None:
    """Parse an ISO time; a time without an offset is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def images_in_lake(root: str, cluster: str = "") -> list[ImageInLake]:
    """Return the complete images of `cluster`, or of the lake's only cluster, sorted by txid; empty if no lake exists.

    Raises:
        LakeError: the lake has several clusters, and none is named.
    """
    images = images_in(images_table(root), cluster)
    clusters = sorted({image.cluster for image in images})
    if len(clusters) > 1:
        raise LakeError(
            f"the lake {root} contains the clusters {', '.join(clusters)}",
            hint="Specify one of them: LAKE@CLUSTER, or --cluster of `lake report`.",
        )
    return images


def find_lake_image(uri: LakeUri, before: int | None = None) -> ImageInLake:
    """Return the image of a txid, or the newest image that existed at a time and whose txid is less than `before`.

    Raises:
        SourceFileError: the lake does not have this image.
        LakeError: the lake cannot be read, or its cluster is ambiguous.
    """
    images = images_in_lake(uri.root, uri.cluster)
    if uri.at.isdecimal():
        chosen = [image for image in images if image.txid == int(uri.at)]
        missing = f"image {uri.at}"
    else:
        time = parse_time(uri.at)
        if uri.at and time is None:
            raise SourceFileError(f"{uri.at!r} is neither a txid nor a time", hint="Use LAKE@42 or LAKE@2026-11-28.")
        chosen = [image for image in images if time is None or image.time <= time]
        chosen = [image for image in chosen if before is None or image.txid < before]
        missing = "image" + (f" at {uri.at}" if uri.at else "") + ("" if before is None else f" older than {before}")
    if not chosen:
        raise SourceFileError(f"the lake {uri.root} has no {missing}", hint=_LIST)
    return chosen[-1]


def read_lake_images(spark: SparkSession, root: str, table: str = "inodes", cluster: str = "") -> DataFrame:
    """Return a table of all complete images, with the columns `cluster` and `txid`; `where("txid = N")` reads only that
    image's files.

    Raises:
        LakeError: the lake has no image, or no image with this table.
    """
    images = images_in(images_table(root), cluster)
    if not images:
        raise _empty(root, "image")
    complete = {(image.cluster, str(image.txid)) for image in images if table in image.tables.split(",")}
    if not complete:
        present = sorted({name for image in images for name in image.tables.split(",")})
        raise LakeError(
            f"no image of the lake {root} has the table {table}, but only {', '.join(present)}",
            hint="Append a new image with the table: `checkpointer lake append --table NAME`, repeated for each table.",
        )
    found = image_table(root, table)
    files = [each for each in found.files() if (each.partition["cluster"], each.partition["txid"]) in complete]
    fields = [StructField("cluster", StringType()), StructField("txid", LongType())]
    return _frame(spark, found, files, StructType([*IMAGE_TABLES[table].spark_schema().fields, *fields]))


def read_lake_edits(spark: SparkSession, root: str, cluster: str = "") -> DataFrame:
    """Return all transactions, with the columns `cluster` and `day` (UTC).

    Raises:
        LakeError: the lake has no edits.
    """
    found = edits_table(root)
    files = [each for each in found.files() if cluster in {"", each.partition["cluster"]}]
    if not files:
        raise _empty(root, "edits")
    fields = [StructField("cluster", StringType()), StructField("day", DateType())]
    return _frame(spark, found, files, StructType([*EDITS.spark_schema().fields, *fields]))


def _frame(spark: SparkSession, table: LakeTable, files: list[LakeFile], schema: StructType) -> DataFrame:
    if not files:
        return spark.createDataFrame([], schema)
    paths = [_GLOB_SIGN.sub(r"\\\g<0>", uri) for uri in table.uris(files)]
    return spark.read.schema(schema).option("basePath", table.spark_uri()).parquet(*paths)


def _empty(root: str, what: str) -> LakeError:
    return LakeError(f"the lake {root} has no {what}", hint="Append: checkpointer lake append.")
