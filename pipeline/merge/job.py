"""The Spark jobs of a checkpoint: distribution of the tasks, and transfer of their results to the driver."""

from __future__ import annotations

import functools
import logging
import pickle
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.errors import CheckpointCancelledError
from image_format.history_sections import Ids
from journal.operation import EditOp
from pipeline.errors import PipelineError
from pipeline.merge import tasks
from pipeline.merge.closure import ImageAnswer, ImageRequest
from pipeline.merge.faults import TaskFault, raising_faults, returning_faults, spark_errors
from pipeline.merge.fetched_image import ImageFacts
from pipeline.merge.tasks import OpBlock
from pipeline.source_files import SourceFile
from pipeline.sources.edit_plan import PlacedRange

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

T = TypeVar("T")
U = TypeVar("U")

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.2


class CheckpointJob:
    """Runner of tasks over the image and the edits; a context manager that releases results kept by Spark.

    Typed errors of tasks are raised unchanged; other failures of Spark become a PipelineError of one line.

    Args:
        image: the image, as tasks find it.
        cancelled: polled while a job runs; True stops the job with CheckpointCancelledError.
    """

    def __init__(self, context: SparkContext, image: SourceFile, cancelled: Callable[[], bool]) -> None:
        self._context = context
        self._image = image
        self._cancelled = cancelled
        self._group = f"checkpoint-{uuid.uuid4().hex}"
        self._kept: list[RDD[Any]] = []
        self._blocks: RDD[OpBlock | TaskFault] = context.emptyRDD()

    def __enter__(self) -> CheckpointJob:
        return self

    def __exit__(self, *_: object) -> None:
        while self._kept:
            self._forget(self._kept[-1])

    # ---- edits -----------------------------------------------------------------------------------------------------

    def decode(self, runs: Sequence[Sequence[PlacedRange]], max_op_size: int) -> None:
        """Plan the decoding of the edits, one task for each run. The first job that needs the operations runs the
        tasks; the executors keep the operations on disk. An operation of more than `max_op_size` bytes is an error.
        """
        if runs:
            shared = self._context.parallelize([list(run) for run in runs], len(runs))
            self._blocks = self._keep(
                shared.mapPartitions(returning_faults(functools.partial(tasks.decode, max_op_size)))
            )

    def closure(self, buckets: int) -> Iterator[ImageAnswer]:
        """Yield the part of the image that the edits touch. Keys are distributed by directory; each bucket is joined
        with a host's index level by level.
        """
        renamed = self._blocks.flatMap(_renames)
        known = self._context.broadcast(self._run(renamed.collect))
        keys = self._blocks.mapPartitions(lambda blocks: _keys(blocks, known.value, buckets))
        by_bucket = keys.groupByKey(buckets, int).values()
        image = self._image
        yield from self._stream(by_bucket.mapPartitions(returning_faults(functools.partial(tasks.answer, image))))
        known.unpersist()

    def ops(self) -> Iterator[EditOp]:
        """Yield the operations in order, one partition at a time."""
        packed = self._blocks.map(_packed)
        for item in raising_faults(self._iterate(packed)):
            yield from pickle.loads(item)

    # ---- the image -------------------------------------------------------------------------------------------------

    def describe(self, directory_ranges: int) -> ImageFacts:
        """Return facts about the whole image."""
        return self._one(tasks.describe, directory_ranges)

    def fetch(self, wanted: ImageRequest) -> ImageAnswer:
        """See `pipeline.merge.resolver.resolve`."""
        return self._one(tasks.answer, [wanted])

    def open_file_ids(self) -> Ids:
        ids: Ids = self._one(tasks.ask, "open_file_ids", ())
        return ids

    def holders(self) -> Ids:
        ids: Ids = self._one(tasks.ask, "holders", ())
        return ids

    def chains(self, inode_ids: Ids) -> list[Ids]:
        chains: list[Ids] = self._one(tasks.ask, "chains", (inode_ids,))
        return chains

    def on_the_way_to(self, inode_ids: Ids) -> Ids:
        slots: Ids = self._one(tasks.ask, "on_the_way_to", (inode_ids,))
        return slots

    def deleters(self, inode_ids: Ids) -> Ids:
        ids: Ids = self._one(tasks.ask, "deleters", (inode_ids,))
        return ids

    def _one(self, task: Callable[..., Iterator[T]], *arguments: Any) -> T:
        """Return the result of a single task over the image."""
        image = self._image
        found = self._context.parallelize([arguments], 1).mapPartitions(
            returning_faults(lambda each: task(image, *each))
        )
        return next(raising_faults(self._run(found.collect)))

    def collect(self, task: Callable[..., Iterator[T]], items: Sequence[Any], *arguments: Any) -> list[T]:
        """Return the small results of `task(image, item, *arguments)`, one task for each item, in the order of the
        items.
        """
        return list(raising_faults(self._run(self._tasks(task, items, *arguments).collect)))

    def stream(self, task: Callable[..., Iterator[T]], items: Sequence[Any], *arguments: Any) -> Iterator[T]:
        """Yield results of any size, otherwise like `collect`; executors keep them on disk until the
        driver reads them.
        """
        yield from self._stream(self._tasks(task, items, *arguments))

    def _tasks(self, task: Callable[..., Iterator[T]], items: Sequence[Any], *arguments: Any) -> RDD[T | TaskFault]:
        image = self._image
        shared = self._context.parallelize(items, max(1, len(items)))
        return shared.mapPartitions(returning_faults(lambda item: task(image, item, *arguments)))

    # ---- Spark -----------------------------------------------------------------------------------------------------

    def _keep(self, results: RDD[T]) -> RDD[T]:
        from pyspark import StorageLevel

        self._kept.append(results)
        return results.persist(StorageLevel.DISK_ONLY)

    def _forget(self, results: RDD[Any]) -> None:
        self._kept.remove(results)
        try:
            with spark_errors("Spark"):
                results.unpersist()
        except PipelineError as error:
            # A warning only: it must neither fail a finished checkpoint nor hide another error.
            _LOG.warning("results of tasks were not released: %s", error.message)

    def _stream(self, results: RDD[T | TaskFault]) -> Iterator[T]:
        """Run all tasks, then yield their results partition by partition."""
        kept = self._keep(results)
        try:
            self._make(kept)
            yield from raising_faults(self._iterate(kept))
        finally:
            self._forget(kept)

    def _make(self, kept: RDD[Any]) -> None:
        self._run(lambda: kept.foreachPartition(_consume))

    def _iterate(self, results: RDD[T]) -> Iterator[T]:
        with spark_errors("a job of the checkpoint"):
            for item in results.toLocalIterator(prefetchPartitions=True):
                if self._cancelled():
                    raise CheckpointCancelledError("cancelled between two tasks")
                yield item

    def _run(self, action: Callable[[], T]) -> T:
        """Run an action in its own thread, so that it can be cancelled while it runs."""
        from pyspark import InheritableThread

        call = _Call(action)

        def run() -> None:
            self._context.setJobGroup(self._group, "checkpoint", interruptOnCancel=False)
            call.run()

        thread = InheritableThread(run)
        thread.start()
        stopped = False
        while not call.done.wait(_POLL_SECONDS):
            if not stopped and self._cancelled():
                stopped = True
                self._context.cancelJobGroup(self._group)
        thread.join()
        if stopped:
            raise CheckpointCancelledError("cancelled while tasks were running")
        with spark_errors("a job of the checkpoint"):
            return call.result()


class _Call(Generic[T]):
    """A call in another thread, and its result or error."""

    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self._error: BaseException | None = None
        self._results: list[T] = []
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._results.append(self._action())
        except BaseException as error:
            self._error = error
        finally:
            self.done.set()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._results[0]


def _consume(items: Iterable[Any]) -> None:
    """Consume all items: Spark discards a Python worker with unread input, and starting a new one takes seconds."""
    deque(items, maxlen=0)


def _renames(block: OpBlock | TaskFault) -> Iterable[Any]:
    return () if isinstance(block, TaskFault) else block.renames


def _packed(block: OpBlock | TaskFault) -> bytes | TaskFault:
    return block if isinstance(block, TaskFault) else block.ops


def _keys(
    blocks: Iterable[OpBlock | TaskFault], renamed: list[Any], buckets: int
) -> Iterator[tuple[int, ImageRequest]]:
    whole = (block for block in blocks if not isinstance(block, TaskFault))
    return tasks.split_by_bucket(whole, renamed, buckets)
