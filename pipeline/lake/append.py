"""Appends images and transactions to the lake; existing rows never change.

The append of an image writes and commits the files table by table. The last commit adds the image's row in `images` and
makes the image complete. When a killed append is repeated, the run skips the tables that are already committed. The
append of edits commits batches: one commit adds the files of all days of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import LakeConflictError
from pipeline.job_results import collect_results
from pipeline.lake.delta import LakeFile, LakeTable
from pipeline.lake.inputs import LakeImage, LakeSegment, find_image, find_segments, in_batches
from pipeline.lake.lake import (
    ImageInLake,
    choose_cluster,
    edits_in,
    edits_table,
    image_table,
    images_in,
    images_table,
    namespace_of,
)
from pipeline.lake.ranges import TxidRange, holes, subtract
from pipeline.lake.set_back import COMPARED, check_edits, check_image, check_namespace, check_namespace_of_edits
from pipeline.lake.upkeep import join_files
from pipeline.lake.writing import EditsJob, ImageTablePart, LakeFileWriter, write_edits, write_image_parts
from pipeline.source_files import SourceFile, SourceKind
from pipeline.sources.edits import EditsDataSource
from pipeline.sources.fsimage import FsImageDataSource
from pipeline.staging import files_for_tasks
from pipeline.tables.catalogue import IMAGE_TABLES
from pipeline.tables.inodes import BLOCKS, INODES

if TYPE_CHECKING:
    from pyspark import SparkContext

DEFAULT_TABLES = tuple(name for name in IMAGE_TABLES if name != BLOCKS.name)
"""Tables of an image to append by default; `blocks` alone would be larger than all other tables."""

_PART_BYTES = 64 << 20
"""Bytes of edits per task; a task writes one file for each day of its edits."""
_CROWDED_IMAGES = 32
_LAST = "inodes"
_COMPARED_SEGMENTS = 4
_COMPARED_TXIDS = 1000


@dataclass(frozen=True, slots=True)
class AppendedEdits:
    """Result of an append of edits.

    Attributes:
        ranges: transactions that the append added.
        missing: transactions between the first and last of this cluster that are missing in the lake.
    """

    cluster: str
    ranges: Sequence[TxidRange]
    missing: Sequence[TxidRange]


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """Options for the append of an image.

    Attributes:
        cluster: name of the cluster; "" for the name in the VERSION file next to the image.
        tables: names of tables to append, in addition to `inodes`.
        time: time of the image's state, in ms since 1970; None for the file's modification time.
    """

    cluster: str = ""
    tables: Sequence[str] = DEFAULT_TABLES
    time: int | None = None


def append_image(
    context: SparkContext, image: str, root: str, options: ImageOptions | None = None
) -> ImageInLake | None:
    """Add an image's tables; return the image, or None if the lake already contains it.

    Args:
        image: an image, or a storage directory with its newest image, on any file system that Spark supports.
        root: the lake's directory; created if missing.

    Raises:
        SourceFileError: no image was found.
        LakeError: the lake cannot be read or written, the NameNode was set back, or the image does not belong to the
            namespace of its cluster in the lake.
        ImageFormatError: the image is damaged.
    """
    options = options or ImageOptions()
    found = find_image(context, image)
    register = images_table(root)
    known = images_in(register)
    cluster = _cluster_of(found, root, options.cluster)
    if (cluster, found.txid) in {(each.cluster, each.txid) for each in known}:
        return None
    found = replace(found, cluster=cluster, time=found.time if options.time is None else options.time)
    check_image(found, known, is_time_of_file=options.time is None)
    staged = files_for_tasks(context, found.path, SourceKind.IMAGE)
    check_namespace(found, staged[0].on_driver())
    names = [name for name in IMAGE_TABLES if name in options.tables and name != _LAST] + [_LAST]
    tables = [image_table(root, name) for name in names]
    _write_image(context, found, staged, tables)
    register.create()
    return _complete(register, found, tables)


def cluster_of_image(context: SparkContext, image: str, root: str, cluster: str = "") -> str:
    """Return the cluster to which `append_image` assigns an image; for the arguments and errors, see `append_image`."""
    return _cluster_of(find_image(context, image), root, cluster)


def _cluster_of(image: LakeImage, root: str, given: str) -> str:
    present = _clusters(root)
    # a lake whose only cluster has a name without a namespace id remains a lake of one cluster
    fetched = "" if len(present) == 1 and not namespace_of(present[0]) else image.fetched
    return choose_cluster(given, image.cluster or fetched, present)


def _clusters(root: str) -> list[str]:
    """Return the clusters of the lake's images and edits."""
    with_edits = {file.partition["cluster"] for file in edits_table(root).files()}
    return sorted(with_edits | {each.cluster for each in images_in(images_table(root))})


def _write_image(
    context: SparkContext, image: LakeImage, staged: Sequence[SourceFile], tables: Sequence[LakeTable]
) -> None:
    partition = {"cluster": image.cluster, "txid": str(image.txid)}
    parts = []
    for table in tables:
        table.create()
        if not _files_of(table, partition):
            source = FsImageDataSource({"path": image.path, "table": table.name})
            reader = source.reader(source.schema())
            parts += [
                ImageTablePart(table.name, table.uri, reader, part, partition) for part in reader.partitions_of(staged)
            ]
    by_table: dict[str, list[LakeFile]] = {}
    if parts:
        job = context.parallelize(parts, len(parts)).mapPartitions(write_image_parts)
        for name, file in collect_results(job, len(parts)):
            if file is not None:
                by_table.setdefault(name, []).append(file)
    for table in tables:
        if files := by_table.get(table.name):
            try:
                table.commit(files, f"{image.cluster}/{image.txid}", image.txid)
            except LakeConflictError:
                table.reload()
                if not _files_of(table, partition):
                    raise
                # Another process appended the same image at the same time, with the same rows.


def _files_of(table: LakeTable, partition: Mapping[str, str]) -> list[LakeFile]:
    return [file for file in table.files() if file.partition == partition]


def _complete(register: LakeTable, image: LakeImage, tables: Sequence[LakeTable]) -> ImageInLake | None:
    """Add the image's row to `images`; return None if another process has added it."""
    partition = {"cluster": image.cluster, "txid": str(image.txid)}
    files = {table.name: _files_of(table, partition) for table in tables}
    done = ImageInLake(
        image.cluster,
        image.txid,
        datetime.fromtimestamp(image.time / 1000, UTC),
        sum(file.rows for file in files[INODES.name]),
        sum(file.size for each in files.values() for file in each),
        ",".join(files),
    )
    try:
        _commit_row(register, done)
    except LakeConflictError:
        register.reload()
        if (image.cluster, image.txid) not in _images(register):
            raise
        return None
    join_files(register, _CROWDED_IMAGES, only={})
    return done


def _images(register: LakeTable) -> set[tuple[str, int]]:
    return {(each.cluster, each.txid) for each in images_in(register)}


def _commit_row(register: LakeTable, image: ImageInLake) -> None:
    register.reload()
    if (image.cluster, image.txid) in _images(register):
        raise LakeConflictError(f"the lake has image {image.txid}")
    row = {name: getattr(image, name) for name in ImageInLake.__slots__}
    writer = LakeFileWriter(register.uri, {}, register.schema)
    writer.add(pa.RecordBatch.from_pylist([row], register.schema))
    register.commit([writer.close()], f"{image.cluster}/{image.txid}", image.txid)


def append_edits(context: SparkContext, edits: str, root: str, cluster: str = "") -> AppendedEdits:
    """Add the transactions of finalized segments that the lake lacks, each to the partition of its day (UTC).

    Args:
        edits: a segment, a directory of segments or a storage directory, on any file system that Spark supports.
        root: the lake's directory; created if missing.
        cluster: name of the cluster; "" for the name in the VERSION file next to the segments.

    Raises:
        SourceFileError: `edits` does not exist.
        LakeError: the lake cannot be read or written, the NameNode was set back, or the edits belong to another
            namespace than their cluster in the lake.
    """
    segments, stored = find_segments(context, edits)
    table = edits_table(root)
    cluster = choose_cluster(cluster, stored, _clusters(root))
    check_namespace_of_edits(edits, stored, cluster)
    added: list[TxidRange] = []
    taken = edits_in(table).get(cluster, [])
    _check_history(context, table, cluster, segments, taken)
    while batches := in_batches(segments, taken):
        # The library compares a commit with the commits after the version that was read, so `taken` must come from this
        # version.
        if not table.create():
            files = _write_batch(context, table, cluster, batches[0], segments)
            try:
                table.commit(files, f"edits/{cluster}", batches[0].last)
                added.append(batches[0])
            except LakeConflictError:
                # Another process has appended edits of this cluster: subtract these edits and repeat.
                table.reload()
        taken = edits_in(table).get(cluster, [])
    if added:
        newest = max(file.partition["day"] for file in table.files() if file.partition["cluster"] == cluster)
        join_files(table, 2, only={"cluster": cluster}, but={"cluster": cluster, "day": newest})
    return AppendedEdits(cluster, added, holes(taken))


def _check_history(
    context: SparkContext, table: LakeTable, cluster: str, segments: Sequence[LakeSegment], taken: Sequence[TxidRange]
) -> None:
    """Compare the newest of `segments` that the lake contains, wholly or in part, with the lake's transactions."""
    known = [each for each in segments if subtract([each.txids], taken) != [each.txids]]
    for segment in known[-_COMPARED_SEGMENTS:]:
        last = min(segment.txids.last, segment.txids.first + _COMPARED_TXIDS - 1)
        options = {"path": segment.path, "columns": ",".join(COMPARED), "to_txid": str(last)}
        reader = EditsDataSource(options).edits_reader()
        parts = reader.partitions_of(files_for_tasks(context, segment.path, SourceKind.EDITS))
        given = pa.Table.from_batches(batch for part in parts for batch in reader.read(part)).select(list(COMPARED))
        files = [
            file
            for file in table.files()
            if file.partition["cluster"] == cluster
            and file.txids is not None
            and file.txids[0] <= last
            and file.txids[1] >= segment.txids.first
        ]
        present = table.read(COMPARED, files)
        near = pc.and_(pc.greater_equal(present["txid"], segment.txids.first), pc.less_equal(present["txid"], last))
        check_edits(segment.path, given, present.filter(near))


def _write_batch(
    context: SparkContext, table: LakeTable, cluster: str, batch: TxidRange, segments: Sequence[LakeSegment]
) -> list[LakeFile]:
    mine = [each for each in segments if each.txids.last >= batch.first and each.txids.first <= batch.last]
    options = {
        "path": mine[0].path,
        "from_txid": str(batch.first),
        "to_txid": str(batch.last),
        "partitions": str(max(1, -(-sum(each.size for each in mine) // _PART_BYTES))),
    }
    reader = EditsDataSource(options).edits_reader()
    files = [file for each in mine for file in files_for_tasks(context, each.path, SourceKind.EDITS)]
    parts = list(reader.partitions_of(files))
    job = EditsJob(table.uri, cluster, reader, {each.name: each.modified for each in mine})
    written = context.parallelize(parts, len(parts)).mapPartitions(partial(write_edits, job))
    return [file for files in collect_results(written, len(parts)) for file in files]
