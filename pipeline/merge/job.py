"""The Spark jobs of a checkpoint: distribution of the tasks, and transfer of their results to the driver."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.errors import CheckpointCancelledError
from pipeline.errors import PipelineError
from pipeline.merge.faults import spark_errors
from pipeline.merge.tasks import Part
from pipeline.source_files import SourceFile
from pipeline.task_errors import mark_typed_errors

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.2


class CheckpointJob:
    """Runner of tasks over the image.

    The runner raises typed errors of tasks unchanged, and other failures of Spark as a one-line PipelineError.

    Args:
        image: the image, as tasks find it.
        cancelled: polled while a job runs; True stops the job with CheckpointCancelledError.
    """

    def __init__(self, context: SparkContext, image: SourceFile, cancelled: Callable[[], bool]) -> None:
        self._context = context
        self._image = image
        self._cancelled = cancelled
        self._group = f"checkpoint-{uuid.uuid4().hex}"

    def collect(self, task: Callable[[SourceFile, Part], Iterator[T]], parts: Sequence[Part]) -> list[T]:
        """Return the small results of `task`, one task for each part, in the order of the parts."""
        return self._run(self._tasks(task, parts).collect)

    def stream(self, task: Callable[[SourceFile, Part], Iterator[T]], parts: Sequence[Part]) -> Iterator[T]:
        """Yield results of any size, otherwise as `collect` does; executors keep the results on disk until the driver
        reads them.
        """
        from pyspark import StorageLevel

        kept = self._tasks(task, parts).persist(StorageLevel.DISK_ONLY)
        try:
            self._run(lambda: kept.foreachPartition(_consume))
            with spark_errors("a job of the checkpoint"):
                for item in kept.toLocalIterator(prefetchPartitions=True):
                    if self._cancelled():
                        raise CheckpointCancelledError("cancelled between two tasks")
                    yield item
        finally:
            _forget(kept)

    def _tasks(self, task: Callable[[SourceFile, Part], Iterator[T]], parts: Sequence[Part]) -> RDD[T]:
        image = self._image

        def run(items: Iterable[Part]) -> Iterator[T]:
            with mark_typed_errors():
                for part in items:
                    yield from task(image, part)

        return self._context.parallelize(parts, max(1, len(parts))).mapPartitions(run)

    def _run(self, action: Callable[[], T]) -> T:
        """Run an action in a separate thread, so that the caller can cancel the running action."""
        from pyspark import InheritableThread

        call = _ThreadedCall(action)

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


def _forget(results: RDD[Any]) -> None:
    try:
        with spark_errors("Spark"):
            results.unpersist()
    except PipelineError as error:
        # Log only a warning, because this failure must neither fail a finished checkpoint nor hide another error.
        _LOG.warning("results of tasks were not released: %s", error.message)


class _ThreadedCall(Generic[T]):
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
    """Consume all items: Spark discards a Python worker with unread input, and a new worker takes seconds to start."""
    deque(items, maxlen=0)
