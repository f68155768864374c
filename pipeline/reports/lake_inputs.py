"""Files of a lake that a report reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.errors import LakeError
from pipeline.lake.delta import LakeFile, LakeTable
from pipeline.lake.lake import ImageInLake, edits_table, image_table, namespace_of
from pipeline.lake.reading import LakeUri
from pipeline.source_files import SourceFile, is_local
from pipeline.staging import stager_of
from pipeline.tables.inodes import INODES

if TYPE_CHECKING:
    from pyspark import SparkContext


def image_files(context: SparkContext, root: str, image: ImageInLake) -> list[SourceFile]:
    """Return the files with the inodes of an image."""
    table = image_table(root, INODES.name)
    return [_placed(context, table, file) for file in table.files() if file.partition == image.partition]


def edit_files(context: SparkContext, lake: LakeUri, cluster: str, namespace: str = "") -> list[SourceFile]:
    """Return the files with the transactions of one cluster of a lake.

    Args:
        cluster: cluster of the reported image in a lake, "" for an image file.
        namespace: namespace id of the reported image, "" if unknown.

    Raises:
        LakeError: the lake contains several clusters, and no argument identifies one; or it contains only edits of
            another namespace.
    """
    table = edits_table(lake.root)
    files = table.files()
    present = sorted({file.partition["cluster"] for file in files})
    chosen = lake.cluster or _cluster_of_edits(lake.root, cluster, namespace, present)
    files = [file for file in files if file.partition["cluster"] == chosen]
    return [_placed(context, table, file) for file in files]


def _cluster_of_edits(root: str, cluster: str, namespace: str, present: Sequence[str]) -> str:
    same = [each for each in present if namespace and namespace_of(each) == namespace]
    if cluster in present or len(same) == 1:
        return cluster if cluster in present else same[0]
    if len(present) > 1:
        raise LakeError(
            f"the lake {root} contains edits of the clusters {', '.join(present)}",
            hint="Specify one of them: --edits LAKE@CLUSTER.",
        )
    if not present:
        return ""
    if namespace and namespace_of(present[0]):
        raise LakeError(
            f"the lake {root} contains only edits of the cluster {present[0]}, but the image belongs to namespace "
            f"{namespace}",
            hint="Specify a lake or a directory with the edits of the image's cluster.",
        )
    return present[0]


def _placed(context: SparkContext, table: LakeTable, file: LakeFile) -> SourceFile:
    """Return a file that tasks can read; Spark sends a remote file to the executors."""
    if is_local(table.uri):
        return SourceFile(f"{table.uri}/{file.path}")
    (uri,) = table.uris([file])
    return stager_of(context).send(uri)
