"""A checkpoint on Spark: the driver replays the edits on its index of the image, tasks merge ranges of the image, and
the driver joins the parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from checkpointer.merging.engines import MergeTask
from engine.compaction import write_image
from engine.errors import CheckpointCancelledError
from engine.image_steps import cancellable, image_warnings, write_verified
from engine.image_verification import ImageVerification
from engine.namespace import Namespace
from engine.observer import Observer
from engine.replay import compiled_replay, replay
from engine.saver import MergeResult, Sink, Timings, save_image
from image_format.codec_choice import codec_to_write
from image_format.index import ImageIndex
from image_format.known_digests import identity_at, is_known_loadable, remember_loadable
from image_format.reader import ImageFile
from image_format.snapshot_check import check_snapshots
from image_format.writer import ImageWriter
from image_tools.loadable import check_loadable
from journal.segment_file import SegmentTransactions
from pipeline.host_image import HostImage
from pipeline.host_scratch import host_scratch
from pipeline.merge.job import CheckpointJob
from pipeline.merge.parallel_merger import PART_BYTES, ParallelMerger, work_folder
from pipeline.source_files import SourceFile
from pipeline.staging import stager_of
from site_config.engine_settings import SparkSettings

if TYPE_CHECKING:
    from pyspark import SparkContext


def make_checkpoint(context: SparkContext, settings: SparkSettings, task: MergeTask, observer: Observer) -> MergeResult:
    """Make a checkpoint; the new image equals the local engine's image byte for byte.

    Raises:
        HdfsError: see `engine.merge.merge`; nothing was written.
    """
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
        index = HostImage.indexed(image, host_scratch()).index
        check_snapshots(index)
        namespace = Namespace(index, image.string_table(), task.settings.rules, None, compiled_replay)
        if observer.cancelled():
            raise CheckpointCancelledError("cancelled after the image was indexed")
        timer.lap()
        observer.phase("replay", task.last_txid - task.base_txid)
        ops = SegmentTransactions(task.segments, task.base_txid + 1).limited(task.settings.max_op_size)
        replay(namespace, ops, progress=observer.advance, cancelled=observer.cancelled)
        timer.lap()
        digest.confirm()
        observer.phase("save", image.size)
        job = CheckpointJob(context, _task_file(context, task.image, shared), observer.cancelled)
        merger = ParallelMerger(job, index, _parts(index, settings, context), folder)

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


def _task_file(context: SparkContext, path: Path, shared: bool) -> SourceFile:
    """Return the driver's file as tasks read it: by its path, or as a copy that Spark sends to each host once."""
    if shared:
        return SourceFile(str(path.absolute()))
    return stager_of(context).send(f"file://{path.absolute()}")


def _parts(index: ImageIndex, settings: SparkSettings, context: SparkContext) -> int:
    return settings.partitions or max(context.defaultParallelism, -(-index.inode_buffer.size // PART_BYTES), 1)


class _Timer:
    """Durations of consecutive phases, in seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.laps: list[float] = []

    def lap(self) -> None:
        now = time.monotonic()
        self.laps.append(now - self._last)
        self._last = now
