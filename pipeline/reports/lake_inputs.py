"""Files of a lake that a report reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.lake.delta import LakeFile, LakeTable
from pipeline.lake.lake import ImageInLake, edits_table, image_table
from pipeline.lake.reading import LakeUri
from pipeline.source_files import SourceFile, is_local
from pipeline.tables.inodes import INODES

if TYPE_CHECKING:
    from pyspark import SparkContext


def image_files(context: SparkContext, root: str, image: ImageInLake) -> list[SourceFile]:
    """Return the files with the inodes of an image."""
    table = image_table(root, INODES.name)
    return [_placed(context, table, file) for file in table.files() if file.partition == image.partition]


def edit_files(context: SparkContext, lake: LakeUri) -> list[SourceFile]:
    """Return the files with the transactions of a lake, or of one of its clusters."""
    table = edits_table(lake.root)
    files = [file for file in table.files() if lake.cluster in {"", file.partition["cluster"]}]
    return [_placed(context, table, file) for file in files]


def _placed(context: SparkContext, table: LakeTable, file: LakeFile) -> SourceFile:
    """Return a file that tasks can read; Spark sends a remote one to the executors."""
    if is_local(table.uri):
        return SourceFile(f"{table.uri}/{file.path}")
    (uri,) = table.uris([file])
    context.addFile(uri)
    return SourceFile("", Path(uri).name)
