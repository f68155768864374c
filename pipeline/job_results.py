"""Results of a Spark job, checked for completeness."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark import RDD

T = TypeVar("T")


def collect_results(job: RDD[T], tasks: int) -> list[T]:
    """Return the results of a job, one from each task.

    Raises:
        PipelineError: see `complete`.
    """
    return complete(job.collect(), tasks)


def complete(results: list[T], tasks: int, hint: str = "Repeat the command.") -> list[T]:
    """Return `results` if they contain one result from each of the `tasks` tasks.

    Raises:
        PipelineError: results are missing. For PySpark, a closed connection, for example to a killed JVM, looks like
            the end of the results.
    """
    if len(results) != tasks:
        raise PipelineError(f"Spark returned the results of {len(results)} of {tasks} tasks", hint=hint)
    return results
