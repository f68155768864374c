"""Files of a lake that a report reads, on any file system that Spark knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pipeline.errors import SourceFileError
from pipeline.input_checks import LAKE_COMMITS, is_local_lake
from pipeline.lake.commits import EDITS, INODES, committed_edits, committed_images
from pipeline.lake.files import HadoopFiles
from pipeline.source_files import SourceFile, is_local

if TYPE_CHECKING:
    from pyspark import SparkContext


def is_lake(context: SparkContext, uri: str) -> bool:
    return is_local_lake(uri) if is_local(uri) else bool(_files(context, uri).names(LAKE_COMMITS))


def newest_image(context: SparkContext, root: str, before: int | None) -> int:
    """Return the txid of the newest image of a lake, or of the newest one before a txid.

    Raises:
        SourceFileError: the lake has no such image.
    """
    txids = [txid for txid in committed_images(_files(context, root)) if before is None or txid < before]
    if not txids:
        older = "" if before is None else f" older than {before}"
        raise SourceFileError(f"the lake {root} has no image{older}", hint="List its images: checkpointer lake list.")
    return txids[-1]


def image_files(context: SparkContext, root: str, txid: int) -> list[SourceFile]:
    """Return the files with the inodes of an image.

    Raises:
        SourceFileError: the lake does not have the image.
    """
    files = _files(context, root)
    if txid not in committed_images(files):
        raise SourceFileError(f"the lake {root} has no image {txid}", hint="List its images: checkpointer lake list.")
    folder = f"{INODES}/txid={txid}"
    return [_placed(context, files.uri(f"{folder}/{name}")) for name in files.names(folder) if _is_table(name)]


def edit_files(context: SparkContext, root: str) -> list[SourceFile]:
    """Return the files with the transactions of a lake."""
    files = _files(context, root)
    committed = tuple(f"edits_{each.first}-{each.last}_" for each in committed_edits(files))
    places = ((day, name) for day in files.names(EDITS) for name in files.names(f"{EDITS}/{day}"))
    chosen = [f"{EDITS}/{day}/{name}" for day, name in places if name.startswith(committed) and _is_table(name)]
    return [_placed(context, files.uri(name)) for name in chosen]


def _is_table(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(("_", "."))


def _placed(context: SparkContext, uri: str) -> SourceFile:
    """Return a file that tasks can read; Spark sends a remote one to the executors."""
    if is_local(uri):
        return SourceFile(urlsplit(uri).path)
    context.addFile(uri)
    return SourceFile("", Path(uri).name)


def _files(context: SparkContext, root: str) -> HadoopFiles:
    from pyspark.sql import SparkSession

    return HadoopFiles(SparkSession.builder.getOrCreate(), root)
