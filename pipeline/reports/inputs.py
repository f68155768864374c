"""Inputs of a report: an image or a lake, and edits, on any file system that Spark supports."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hadoop_common.errors import HdfsError
from hadoop_common.names import FETCHED_VERSION_SUFFIX, VERSION
from hadoop_common.storage_info import StorageInfo, parse_version
from image_format.reader import ImageFile
from image_tools.dump.records import ImageRecords
from pipeline.errors import SourceFileError
from pipeline.lake.lake import ImageInLake, namespace_of
from pipeline.lake.reading import find_lake_image, parse_lake_uri
from pipeline.reports.counts.edits import EDIT_COLUMNS
from pipeline.reports.counts.namespace import Rules
from pipeline.reports.lake_inputs import edit_files, image_files
from pipeline.reports.tasks import BatchSource, InodesTask, ParquetPart, ReportTask, RowsTask, SegmentsPart
from pipeline.source_files import SourceFile, SourceKind, is_local, only_file
from pipeline.sources.edits import EditsDataSource
from pipeline.sources.table_reader import parts_of_inodes
from pipeline.staging import files_for_tasks

if TYPE_CHECKING:
    from pyspark import SparkContext


_PARTS_PER_CORE = 4
_SMALL_PARTS = 16
"""Maximum size of a part, as a multiple of the default size, for an image that is large for the number of cores."""


@dataclass(frozen=True, slots=True)
class ImageInput:
    """An image to report on.

    Attributes:
        path: the given path, with the image's name or txid.
        time: modification time of the file, UTC; None if unknown.
        file: the image file; None for an image in a lake, which has only the `inodes` table.
        rows: files of the `inodes` table; empty for an image file.
        cluster: cluster id in the VERSION file next to a local image, or the cluster's name in a lake; "" if unknown.
        namespace: id of the namespace; "" if unknown.
    """

    path: str
    txid: int
    time: datetime | None = None
    file: SourceFile | None = None
    rows: tuple[SourceFile, ...] = ()
    cluster: str = ""
    namespace: str = ""

    def tasks(self, name: str, rules: Rules, cores: int) -> list[ReportTask]:
        """Divide the image among tasks. The driver reads only headers.

        Each part may contain children of every directory, so fewer parts leave less to merge. However, several parts
        per core balance the load.
        """
        if self.file is None:
            return [RowsTask(name, 0, ParquetPart(file), rules) for file in self.rows]
        with ImageFile.open(self.file.on_driver(), verify_md5=False) as image:
            size = self.file.on_driver().stat().st_size
            small = len(parts_of_inodes(image, None))
            parts = parts_of_inodes(image, min(small, max(_PARTS_PER_CORE * cores, small // _SMALL_PARTS)))
        return [InodesTask(name, size // len(parts), self.file, part, rules) for part in parts]

    def has_snapshots(self) -> bool:
        """Return whether the image is a file with snapshots."""
        if self.file is None:
            return False
        with ImageFile.open(self.file.on_driver(), verify_md5=False) as image:
            return ImageRecords(image).snapshot_header().numSnapshots > 0


def open_image(context: SparkContext, path: str, *, before: int | None = None) -> ImageInput:
    """Open an image file, the newest image of a storage directory or a lake, or the image N of a lake as `LAKE@N`
    (see `pipeline.lake.reading.LakeUri`).

    Args:
        before: open the newest image of a lake before this txid.

    Raises:
        HdfsError: the image does not exist or cannot be read.
    """
    if lake := parse_lake_uri(path):
        return _from_lake(context, lake.root, find_lake_image(lake, before))
    file = only_file(files_for_tasks(context, path, SourceKind.IMAGE), path)
    uri = file.path if is_local(path) else path
    time = datetime.fromtimestamp(file.on_driver().stat().st_mtime, UTC) if is_local(path) else None
    version = _version_of(file.on_driver()) if is_local(path) else None
    cluster = "" if version is None else version.cluster_id
    with ImageFile.open(file.on_driver(), verify_md5=False) as image:
        return ImageInput(uri, image.txid, time, file, cluster=cluster, namespace=str(image.ns_info().namespaceId))


def _from_lake(context: SparkContext, root: str, image: ImageInLake) -> ImageInput:
    rows = tuple(image_files(context, root, image))
    return ImageInput(
        f"{root}@{image.txid}",
        image.txid,
        image.time,
        rows=rows,
        cluster=image.cluster,
        namespace=namespace_of(image.cluster),
    )


def check_series(older: Sequence[ImageInput], after: ImageInput) -> None:
    """Check that older images, sorted by txid, belong to the same namespace as the reported image, and are older.

    Raises:
        SourceFileError: an image belongs to another namespace, is not older, or is given twice.
    """
    for image in older:
        ours, theirs = after.namespace, image.namespace
        if not (ours and theirs) and after.file is image.file is None:
            ours, theirs = after.cluster, image.cluster
        if ours and theirs and ours != theirs:
            raise SourceFileError(
                f"{image.path} belongs to namespace {theirs}, but {after.path} to namespace {ours}",
                hint="Specify an older image of the same namespace with --before.",
            )
        if image.txid >= after.txid:
            raise SourceFileError(
                f"{image.path} has transaction {image.txid} and is not older than {after.path} with {after.txid}",
                hint="Specify an older image with --before, and the newest as IMAGE.",
            )
    for first, second in itertools.pairwise(older):
        if first.txid == second.txid:
            raise SourceFileError(
                f"{first.path} and {second.path} are both images of transaction {first.txid}",
                hint="Specify each older image once with --before.",
            )


def open_edits(context: SparkContext, path: str, image: ImageInput) -> Sequence[BatchSource]:
    """Divide the transactions of a directory of segments, a segment or a lake among tasks.

    Args:
        image: the reported image, whose cluster in a lake selects the edits of a lake.

    Raises:
        HdfsError: the edits do not exist, their segments have a gap, they belong to another namespace, or their cluster
            in the lake is ambiguous.
    """
    if lake := parse_lake_uri(path):
        cluster = image.cluster if image.file is None else ""
        return [ParquetPart(file) for file in edit_files(context, lake, cluster, image.namespace)]
    files = files_for_tasks(context, path, SourceKind.EDITS)
    stored = _version_of(files[0].on_driver()) if is_local(path) else None
    if stored is not None and image.namespace not in {"", str(stored.namespace_id)}:
        raise SourceFileError(
            f"{path} belongs to namespace {stored.namespace_id}, but {image.path} to namespace {image.namespace}",
            hint="Specify the edits of the same namespace with --edits.",
        )
    reader = EditsDataSource({"path": path, "columns": ",".join(EDIT_COLUMNS)}).edits_reader()
    parts = reader.partitions_of(files)
    return [SegmentsPart(reader, part) for part in parts]


def _version_of(file: Path) -> StorageInfo | None:
    """Return the content of the VERSION file next to an image or a segment; None if none can be read."""
    for name in (VERSION, file.name + FETCHED_VERSION_SUFFIX):
        version = file.with_name(name)
        try:
            return parse_version(version.read_bytes(), str(version))
        except (OSError, HdfsError):
            continue
    return None
