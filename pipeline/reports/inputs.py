"""Inputs of a report: an image or a lake, and edits, on any file system that Spark knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from hadoop_common.errors import HdfsError
from hadoop_common.names import VERSION, parse_image
from hadoop_common.storage_info import parse_version
from pipeline import read_edits, read_image
from pipeline.errors import SourceFileError
from pipeline.input_checks import LAKE_COMMITS, is_local_lake
from pipeline.lake import images_in_lake, read_lake_edits, read_lake_images
from pipeline.lake.files import HadoopFiles
from pipeline.reports.rows import collect
from pipeline.reports.work import EditTable, ImageTables
from pipeline.source_files import SourceFile, SourceKind, is_local, only_file
from pipeline.staging import Stager, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ImageInput:
    """An image to report on.

    Attributes:
        path: the given path, with the image's name or txid.
        time: modification time of the file, UTC; None if unknown.
        file: the image file; None for an image in a lake, which has only the table `inodes`.
        cluster: cluster id in the VERSION file next to a local image; "" if unknown.
    """

    path: str
    txid: int
    time: datetime | None
    tables: ImageTables
    file: SourceFile | None
    cluster: str = ""


def open_image(spark: SparkSession, path: str, *, before: int | None = None) -> ImageInput:
    """Open an image file, the newest image of a storage directory or a lake, or the image N of a lake as `LAKE@N`.

    Args:
        before: open the newest image of a lake before this txid.

    Raises:
        HdfsError: the image does not exist or cannot be read.
    """
    root, _, number = path.rpartition("@")
    if number.isdecimal() and _is_lake(spark, root):
        return _from_lake(spark, root, int(number))
    if _is_lake(spark, path):
        txids = [txid for txid in images_in_lake(spark, path) if before is None or txid < before]
        if not txids:
            older = "" if before is None else f" older than {before}"
            raise SourceFileError(
                f"the lake {path} has no image{older}", hint="List its images: checkpointer lake list."
            )
        return _from_lake(spark, path, txids[-1])
    files = resolve(path, SourceKind.IMAGE) if is_local(path) else Stager(spark).stage(path, SourceKind.IMAGE)
    file = only_file(files, path)
    uri = file.path if is_local(path) else path

    def tables(table: str, columns: Sequence[str]) -> DataFrame:
        return read_image(spark, uri, table, columns)

    time = datetime.fromtimestamp(file.on_driver().stat().st_mtime, UTC) if is_local(path) else None
    cluster = _cluster_beside(file.on_driver()) if is_local(path) else ""
    return ImageInput(uri, _txid(file, tables), time, tables, file, cluster)


def open_edits(spark: SparkSession, path: str, first: int | None = None, last: int | None = None) -> EditTable:
    """Open the transactions `first` .. `last` (None for no limit) of a directory of segments, a segment or a lake."""
    lake = _is_lake(spark, path)

    def edits(columns: Sequence[str]) -> DataFrame:
        found = read_lake_edits(spark, path).select(*columns) if lake else read_edits(spark, path, columns)
        if first is not None:
            found = found.where(sql.col("txid") >= first)
        return found if last is None else found.where(sql.col("txid") <= last)

    return edits


def _cluster_beside(image: Path) -> str:
    version = image.with_name(VERSION)
    try:
        return parse_version(version.read_bytes(), str(version)).cluster_id
    except (OSError, HdfsError):
        return ""


def _txid(file: SourceFile, tables: ImageTables) -> int:
    """Return the txid of the file's name, which saves a job, otherwise the txid in the image."""
    name = parse_image(file.on_driver().name)
    if name is not None:
        return name.txid
    values = tables("summary", ("section", "name", "value"))
    found = collect(values.where("section = 'NS_INFO' AND name = 'transactionId'"), limit=1)
    return int(found[0]["value"]) if found else 0


def _from_lake(spark: SparkSession, root: str, txid: int) -> ImageInput:
    if txid not in images_in_lake(spark, root):
        raise SourceFileError(f"the lake {root} has no image {txid}", hint="List its images: checkpointer lake list.")

    def tables(table: str, columns: Sequence[str]) -> DataFrame:
        assert table == "inodes", table
        return read_lake_images(spark, root).where(sql.col("txid") == txid).select(*columns)

    return ImageInput(f"{root}@{txid}", txid, None, tables, None)


def _is_lake(spark: SparkSession, uri: str) -> bool:
    return is_local_lake(uri) if is_local(uri) else bool(HadoopFiles(spark, uri).names(LAKE_COMMITS))
