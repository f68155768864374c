"""Errors that tasks return to the driver as values, so that Spark neither repeats the task nor wraps the error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from hadoop_common.errors import HdfsError
from pipeline.errors import PipelineError

_PYTHON_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception)\b(?!.*\bat\b.*\.scala)")

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class TaskFault:
    """A picklable form of a typed error, independent of the signature of its constructor."""

    kind: type[HdfsError]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @classmethod
    def of(cls, error: HdfsError) -> TaskFault:
        return cls(type(error), error.args, dict(vars(error)))

    def error(self) -> HdfsError:
        """Rebuild the error as it was raised."""
        error = self.kind.__new__(self.kind)
        error.args = self.arguments
        vars(error).update(self.attributes)
        return error


def returning_faults(function: Callable[[T], Iterator[U]]) -> Callable[[Iterable[T]], Iterator[U | TaskFault]]:
    """Return `function` over the items of a partition; a typed error becomes the last item.

    Any other error fails the task, so that Spark retries it, possibly on another host.
    """

    def run(items: Iterable[T]) -> Iterator[U | TaskFault]:
        try:
            for item in items:
                yield from function(item)
        except HdfsError as error:
            yield TaskFault.of(error)

    return run


def raising_faults(items: Iterable[U | TaskFault]) -> Iterator[U]:
    """Yield the items before the first fault, then raise its error."""
    for item in items:
        if isinstance(item, TaskFault):
            raise item.error()
        yield item


def job_error(what: str, error: Exception) -> PipelineError:
    """Return an error of one line for a failed job, or for a JVM that has ended."""
    from py4j.protocol import Py4JNetworkError

    if isinstance(error, (Py4JNetworkError, ConnectionError, EOFError)):
        hint = "Check whether the system killed Java for lack of memory; nothing was written."
        return PipelineError(f"{what} failed: the driver's JVM ended ({str(error) or type(error).__name__})", hint=hint)
    lines = [line.strip() for line in str(getattr(error, "java_exception", "") or error).splitlines()]
    plain = [line for line in lines if line and not line.startswith(("at ", "File ", "Traceback", "Driver stacktrace"))]
    first = plain[0] if plain else type(error).__name__
    cause = next((line for line in reversed(plain) if _PYTHON_ERROR.match(line)), "")
    reason = first if not cause or cause in first else f"{first.partition('(')[0].strip()} ({cause})"
    return PipelineError(f"{what} failed: {reason}", hint="Read the executors' logs; nothing was written.")


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Convert errors of Spark, or of a JVM that has ended, to a PipelineError of one line."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError, EOFError) as error:
        raise job_error(what, error) from None
