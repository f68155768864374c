"""Detects that a NameNode was set back: the new history reuses the transaction ids of the lost history.

The lake keeps one history of each cluster, so it refuses to append another history, or an image of another namespace.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from image_format.reader import ImageFile
from pipeline.errors import LakeError
from pipeline.lake.inputs import LakeImage
from pipeline.lake.lake import ImageInLake, namespace_of
from pipeline.source_files import is_local

COMPARED = ("txid", "op", "inode_id", "time")
"""Columns of edits that distinguish two histories; two histories seldom contain the same times in milliseconds."""
_HINT = (
    "If the NameNode was set back, keep this lake, and append to a new lake, or to this lake with another --cluster."
)


def check_image(image: LakeImage, known: Iterable[ImageInLake], *, is_time_of_file: bool) -> None:
    """Raise LakeError if an image of the same cluster is older than `image` but has a larger txid.

    Args:
        is_time_of_file: whether the time of `image` is its file's modification time.
    """
    time = datetime.fromtimestamp(image.time / 1000, UTC)
    doubt, remedy = "one of the two times is wrong", ""
    if is_time_of_file:
        doubt, remedy = ("the file's modification time is wrong", f" If the file is a copy, {_set_time(image.path)}")
    for each in known:
        if each.cluster == image.cluster and each.txid > image.txid and each.time < time:
            raise LakeError(
                f"{image.path} of {time:%Y-%m-%dT%H:%M:%SZ} is newer than image {each.txid} of the lake"
                f" ({each.time:%Y-%m-%dT%H:%M:%SZ}), but its transaction id is smaller: the NameNode was set back, or"
                f" {doubt}",
                hint=_HINT + remedy,
            )


def _set_time(path: str) -> str:
    if is_local(path):
        return f"set the original time: `touch -d TIME {path}`."
    return "append a local copy that has the original time (`touch -d TIME COPY`)."


def check_namespace(image: LakeImage, file: Path) -> None:
    """Raise LakeError if the namespace id of an image is not the id in the name of the image's cluster.

    Args:
        file: the image on the driver's disk.
    """
    if namespace_of(image.cluster):
        with ImageFile.open(file, verify_md5=False) as opened:
            _compare_namespaces(image.path, str(opened.ns_info().namespaceId), image.cluster)


def check_namespace_of_edits(edits: str, stored: str, cluster: str) -> None:
    """Raise LakeError if the namespace id of edits is not the id in the name of the cluster that receives the edits.

    Args:
        edits: location of the edits.
        stored: cluster in the VERSION file next to the edits, "" if there is none.
    """
    if stored:
        _compare_namespaces(edits, stored.rpartition(".")[2], cluster)


def _compare_namespaces(path: str, found: str, cluster: str) -> None:
    expected = namespace_of(cluster)
    if expected and found != expected:
        raise LakeError(
            f"{path} belongs to namespace {found}, but the cluster {cluster} of the lake to namespace {expected}",
            hint="Append it to another lake, or in a separate run with the name of its cluster: --cluster.",
        )


def check_edits(name: str, given: pa.Table, present: pa.Table) -> None:
    """Raise LakeError if transactions of a segment differ from the lake's transactions with the same txids.

    Args:
        name: name of the segment, for errors.
        given, present: the columns COMPARED; the function compares only transactions in both tables.
    """
    known = {row["txid"]: row for row in present.to_pylist()}
    for row in given.to_pylist():
        if known.get(row["txid"], row) != row:
            raise LakeError(
                f"{name}: transaction {row['txid']} differs from the same transaction in the lake: "
                "the NameNode was set back",
                hint=_HINT,
            )
