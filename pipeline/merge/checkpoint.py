"""A checkpoint on Spark: tasks decode the edits and fetch their closure, the driver replays them and joins the merged
parts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from checkpointer.merging.engines import MergeTask
from engine.compaction import write_image
from engine.image_verification import ImageVerification
from engine.namespace import Namespace
from engine.namespace.paths import encode_name
from engine.observer import Observer
from engine.replay import replay
from engine.saver import MergeResult, Sink, Timings, save_image
from engine.saving import cancellable, image_warnings, write_verified
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from image_format.codec_choice import codec_to_write
from image_format.known_digests import identity_at, is_known_loadable, remember_loadable
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.writer import ImageWriter
from image_tools.loadable import check_loadable
from journal.segment import HEADER_SIZE
from journal.segment_file import EditLogSegment
from pipeline.errors import SourceFileError
from pipeline.merge.closure import ImageRequest, PathLookup
from pipeline.merge.fetched_image import ClosureImage, ImageFacts
from pipeline.merge.job import CheckpointJob
from pipeline.merge.parallel_merger import PART_BYTES, ParallelMerger, work_folder
from pipeline.source_files import SourceFile
from pipeline.sources.edit_plan import PlacedRange, share
from pipeline.sources.edit_ranges import EditsRange
from site_config.engine_settings import SparkSettings

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _LoadedBase:
    """The part of the image that the edits touch, and the namespace on top of it."""

    base: ClosureImage
    description: ImageFacts
    namespace: Namespace


def make_checkpoint(spark: SparkSession, settings: SparkSettings, task: MergeTask, observer: Observer) -> MergeResult:
    """Make a checkpoint; the new image equals that of the local engine byte for byte.

    Raises:
        HdfsError: see `engine.merge.merge`; nothing was written.
    """
    context = spark.sparkContext
    shared = str(context.master).startswith("local") if settings.shared_storage is None else settings.shared_storage
    timer = _Timer()
    with ExitStack() as resources:
        observer.phase("load", None)
        spool = task.settings.memory.folder
        image = resources.enter_context(ImageFile.open(task.image, verify_md5=False, spool_dir=spool))
        digest = resources.enter_context(ImageVerification(image))
        if not is_known_loadable(image.identity, whole=False):
            digest.then = partial(_check_loadable, image)
        digest.start()
        folder = resources.enter_context(work_folder(task.folders[0])) if shared else None
        image_file = _task_file(context, task.image, shared)
        job = resources.enter_context(CheckpointJob(context, image_file, observer.cancelled))
        loaded = _load(job, image, task, settings, context, shared)
        namespace = loaded.namespace
        timer.lap()
        observer.phase("replay", task.last_txid - task.base_txid)
        replay(namespace, job.ops(), progress=observer.advance, cancelled=observer.cancelled)
        timer.lap()
        _LOG.info(
            "the driver received %d of %d inode records, %d fetches were on demand",
            loaded.base.record_count,
            loaded.base.slot_count,
            loaded.base.on_demand,
        )
        digest.confirm()
        observer.phase("save", image.size)
        merger = ParallelMerger(job, loaded.description, _parts(loaded.description, settings, context), folder)

        def write(sink: Sink) -> None:
            settings = task.settings
            codec = codec_to_write(settings.codec, image.codec, image.layout_version)
            writer = ImageWriter(cancellable(sink, observer), image.layout_version, codec, template=image.summary)
            write_image(namespace, image, merger, writer, sub_sections=settings.sub_sections, progress=observer.advance)

        saved = save_image(
            task.folders,
            namespace.last_txid,
            lambda sink: write_verified(namespace, write, sink, task.folders[0], spool_dir=spool),
            confirm=digest.confirm,
        )
        observer.saved()
        for path in saved.paths:
            remember_loadable(identity_at(path), whole=False)
        timer.lap()
    return MergeResult(
        base_txid=task.base_txid,
        txid=namespace.last_txid,
        transactions=namespace.last_txid - task.base_txid,
        inodes=namespace.tree.inode_count,
        saved=saved,
        layout_version=namespace.base.layout_version,
        warnings=tuple(image_warnings(namespace)),
        healed=tuple(namespace.healing_log),
        ignored=namespace.ignored,
        timings=Timings(*timer.laps),
        engine="spark",
    )


def _check_loadable(image: ImageFile, before_section: Callable[[], None]) -> None:
    check_loadable(image, before_section=before_section)
    remember_loadable(image.identity, whole=False)


def _load(
    job: CheckpointJob, image: ImageFile, task: MergeTask, settings: SparkSettings, context: SparkContext, shared: bool
) -> _LoadedBase:
    """Index the image on every host, decode the edits, and bring the closure of the touched inodes to the driver."""
    ranges = [_range(_task_file(context, each.path, shared), each, task.base_txid + 1) for each in task.segments]
    try:
        runs = share(ranges, settings.partitions or None)
    except OSError as error:
        raise SourceFileError(f"a segment cannot be read: {error}", hint="Check its disk and permissions.") from error
    description = job.describe(settings.partitions or max(1, context.defaultParallelism))
    base = ClosureImage(image, description, job)
    job.decode(runs, task.settings.max_op_size)
    base.add(job.fetch(_of_small_sections(image, description)))
    for fetched in job.closure(settings.partitions or len(runs)):
        base.add(fetched)
    return _LoadedBase(base, description, Namespace(base, image.string_table(), task.settings.rules))


def _of_small_sections(image: ImageFile, description: ImageFacts) -> ImageRequest:
    """Return the inodes that every replay needs: the root, open files, snapshottable directories."""
    ids = [ROOT_INODE_ID, *description.type_quota_ids.tolist()]
    if image.has_section("SNAPSHOT") and len(image.section_bytes("SNAPSHOT")):
        header = next(image.records("SNAPSHOT"))
        ids.extend(pb.SnapshotSection.FromString(bytes(header.body)).snapshottableDir)
    return ImageRequest(walks=list(_open_files(image)), inode_ids=ids)


def _open_files(image: ImageFile) -> Iterator[PathLookup]:
    if image.has_section("FILES_UNDERCONSTRUCTION"):
        for record in image.records("FILES_UNDERCONSTRUCTION"):
            entry = pb.FileUnderConstructionEntry.FromString(bytes(record.body))
            yield PathLookup(ROOT_INODE_ID, encode_name(entry.fullPath))


def _range(source: SourceFile, segment: EditLogSegment, from_txid: int) -> PlacedRange:
    size = source.on_driver().stat().st_size
    piece = EditsRange(segment.path.name, HEADER_SIZE, size, segment.first, segment.last, size)
    return PlacedRange(source, piece, from_txid)


def _task_file(context: SparkContext, path: Path, shared: bool) -> SourceFile:
    """Return how tasks find a file of the driver: by its path, or as a copy that Spark sends to each host once."""
    if shared:
        return SourceFile(str(path.absolute()))
    context.addFile(str(path.absolute()))
    return SourceFile(str(path.absolute()), path.name)


def _parts(description: ImageFacts, settings: SparkSettings, context: SparkContext) -> int:
    return settings.partitions or max(context.defaultParallelism, -(-description.inode_bytes // PART_BYTES), 1)


class _Timer:
    """Durations of consecutive phases, in seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.laps: list[float] = []

    def lap(self) -> None:
        now = time.monotonic()
        self.laps.append(now - self._last)
        self._last = now
