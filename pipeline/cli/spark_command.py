"""The Spark context of one command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError
from pipeline.libraries import SPARK, require_libraries
from pipeline.session import SAFE_PATH, build_context, early_daemon, stop_context, suppress_py4j_logs

if TYPE_CHECKING:
    from pyspark import SparkContext


@contextmanager
def context_for(master: str | None, driver_memory: str, *, small: bool = False) -> Iterator[SparkContext]:
    """Start a context that ends with the block; raise errors of tasks as the original typed errors.

    Args:
        small: see `pipeline.session.build_context`.

    Raises:
        PipelineSetupError: Spark did not start.
        HdfsError: raised by a task.
        PipelineError: Spark failed for another reason, or its JVM ended.
        KeyboardInterrupt: on SIGINT, after Spark has ended.
    """
    require_libraries(SPARK)
    start = partial(build_context, master=master, driver_memory=driver_memory, conf=SAFE_PATH, small=small)
    with early_daemon(master), _ending(start) as context:
        yield context


@contextmanager
def _ending(start: Callable[[], SparkContext]) -> Iterator[SparkContext]:
    suppress_py4j_logs()
    spark = _started(start)
    try:
        with _interrupt(signal.default_int_handler):
            yield spark
    except Exception as error:
        from pipeline.task_errors import error_reason, typed_error

        typed = typed_error(error)
        if typed is None:
            hint = "Check memory and disk; --driver-memory gives more heap."
            raise PipelineError(f"Spark failed: {error_reason(error)}", hint=hint) from error
        raise typed from None
    finally:
        stop_context(spark)


def _started(start: Callable[[], SparkContext]) -> SparkContext:
    """Start Spark. The first interrupt takes effect only once Spark has started, because an interrupted start would
    leave a JVM running. A second interrupt takes effect immediately.
    """
    interrupts: list[int] = []

    def remember(number: int, frame: object) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            raise KeyboardInterrupt

    with _interrupt(remember):
        spark = start()
    if interrupts:
        stop_context(spark)
        raise KeyboardInterrupt
    return spark


@contextmanager
def _interrupt(handler: signal._HANDLER) -> Iterator[None]:
    """Handle SIGINT with `handler`. PySpark's handler would fail, because it calls Java during another call. The end of
    the session also ends its jobs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
