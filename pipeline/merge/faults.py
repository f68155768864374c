"""Errors that travel from a task to the driver as values: Spark neither repeats the task nor dresses them up."""

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
class Fault:
    """A typed error as it can be pickled, whatever its constructor takes."""

    kind: type[HdfsError]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @classmethod
    def of(cls, error: HdfsError) -> Fault:
        return cls(type(error), error.args, dict(vars(error)))

    def error(self) -> HdfsError:
        """The error as it was raised."""
        error = self.kind.__new__(self.kind)
        error.args = self.arguments
        vars(error).update(self.attributes)
        return error


def guarded(function: Callable[[T], Iterator[U]]) -> Callable[[Iterable[T]], Iterator[U | Fault]]:
    """`function` over the items of a partition; a typed error becomes the last item.

    What else goes wrong in a task fails it, so that Spark tries again, elsewhere if need be.
    """

    def run(items: Iterable[T]) -> Iterator[U | Fault]:
        try:
            for item in items:
                yield from function(item)
        except HdfsError as error:
            yield Fault.of(error)

    return run


def unwrapped(items: Iterable[U | Fault]) -> Iterator[U]:
    """The items before the first fault; raises that."""
    for item in items:
        if isinstance(item, Fault):
            raise item.error()
        yield item


def job_error(what: str, error: Exception) -> PipelineError:
    """What Spark says of a job that failed, or that it says nothing any more, in one line."""
    from py4j.protocol import Py4JNetworkError

    if isinstance(error, (Py4JNetworkError, ConnectionError, EOFError)):
        hint = "Check whether the system killed it for lack of memory; nothing was written."
        return PipelineError(
            f"{what} failed: the driver's Java has ended ({str(error) or type(error).__name__})", hint=hint
        )
    lines = [line.strip() for line in str(getattr(error, "java_exception", "") or error).splitlines()]
    plain = [line for line in lines if line and not line.startswith(("at ", "File ", "Traceback", "Driver stacktrace"))]
    first = plain[0] if plain else type(error).__name__
    cause = next((line for line in reversed(plain) if _PYTHON_ERROR.match(line)), "")
    reason = first if not cause or cause in first else f"{first.partition('(')[0].strip()} ({cause})"
    return PipelineError(f"{what} failed: {reason}", hint="Look at the executors' logs; nothing was written.")


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Make a PipelineError of one line of what Spark, or a Java that has gone, raises within."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError, EOFError) as error:
        raise job_error(what, error) from None
