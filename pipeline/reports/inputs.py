"""Inputs of a report: an image or a lake, and edits, on any file system that Spark knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hadoop_common.errors import HdfsError
from hadoop_common.names import VERSION, parse_image
from hadoop_common.storage_info import parse_version
from image_format.reader import ImageFile
from image_tools.dump.records import ImageRecords
from pipeline.lake.lake import ImageInLake
from pipeline.lake.reading import find_lake_image, parse_lake_uri
from pipeline.reports.counts.edits import EDIT_COLUMNS
from pipeline.reports.counts.namespace import Rules
from pipeline.reports.lake_inputs import edit_files, image_files
from pipeline.reports.tasks import BatchSource, InodesTask, ParquetPart, ReportTask, RowsTask, SegmentsPart
from pipeline.source_files import SourceFile, SourceKind, is_local, local_files, only_file
from pipeline.sources.edits import EditsDataSource
from pipeline.sources.table_reader import parts_of_inodes
from pipeline.staging import stager_of

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class ImageInput:
    """An image to report on.

    Attributes:
        path: the given path, with the image's name or txid.
        time: modification time of the file, UTC; None if unknown.
        file: the image file; None for an image in a lake, which has only the table `inodes`.
        rows: files of that table; empty for an image file.
        cluster: cluster id in the VERSION file next to a local image; "" if unknown.
    """

    path: str
    txid: int
    time: datetime | None = None
    file: SourceFile | None = None
    rows: tuple[SourceFile, ...] = ()
    cluster: str = ""

    def tasks(self, name: str, rules: Rules) -> list[ReportTask]:
        """Divide the image among tasks. The driver reads only headers."""
        if self.file is None:
            return [RowsTask(name, 0, ParquetPart(file), rules) for file in self.rows]
        with ImageFile.open(self.file.on_driver(), verify_md5=False) as image:
            size = self.file.on_driver().stat().st_size
            parts = parts_of_inodes(image, None)
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
    file = only_file(_files(context, path, SourceKind.IMAGE), path)
    uri = file.path if is_local(path) else path
    time = datetime.fromtimestamp(file.on_driver().stat().st_mtime, UTC) if is_local(path) else None
    cluster = _cluster_beside(file.on_driver()) if is_local(path) else ""
    return ImageInput(uri, _txid(file), time, file, cluster=cluster)


def _from_lake(context: SparkContext, root: str, image: ImageInLake) -> ImageInput:
    rows = tuple(image_files(context, root, image))
    return ImageInput(f"{root}@{image.txid}", image.txid, image.time, rows=rows, cluster=image.cluster)


def open_edits(context: SparkContext, path: str, image: ImageInput) -> Sequence[BatchSource]:
    """Divide the transactions of a directory of segments, a segment or a lake among tasks.

    Args:
        image: the reported image, whose cluster in a lake selects the edits of a lake.

    Raises:
        HdfsError: the edits do not exist, their segments have a gap, or their cluster in the lake is not clear.
    """
    if lake := parse_lake_uri(path):
        cluster = image.cluster if image.file is None else ""
        return [ParquetPart(file) for file in edit_files(context, lake, cluster)]
    reader = EditsDataSource({"path": path, "columns": ",".join(EDIT_COLUMNS)}).edits_reader()
    parts = reader.partitions_of(_files(context, path, SourceKind.EDITS))
    return [SegmentsPart(reader, part) for part in parts]


def _files(context: SparkContext, uri: str, kind: SourceKind) -> list[SourceFile]:
    return local_files(uri, kind) if is_local(uri) else stager_of(context).stage(uri, kind)


def _cluster_beside(image: Path) -> str:
    version = image.with_name(VERSION)
    try:
        return parse_version(version.read_bytes(), str(version)).cluster_id
    except (OSError, HdfsError):
        return ""


def _txid(file: SourceFile) -> int:
    """Return the txid of the file's name, otherwise the txid in the image."""
    name = parse_image(file.on_driver().name)
    if name is not None:
        return name.txid
    with ImageFile.open(file.on_driver(), verify_md5=False) as image:
        return image.txid
