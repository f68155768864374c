"""Errors of Spark and of its tasks as one-line errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import PipelineError
from pipeline.task_errors import typed_error

_PYTHON_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception)\b(?!.*\bat\b.*\.scala)")


def job_error(what: str, error: Exception) -> PipelineError:
    """Return a one-line error for a failed job, or for a JVM that has ended."""
    from py4j.protocol import Py4JNetworkError

    if isinstance(error, (Py4JNetworkError, ConnectionError, EOFError)):
        hint = "Check whether the kernel's OOM killer ended Java; nothing was written."
        return PipelineError(f"{what} failed: the driver's JVM ended ({str(error) or type(error).__name__})", hint=hint)
    lines = [line.strip() for line in str(getattr(error, "java_exception", "") or error).splitlines()]
    plain = [line for line in lines if line and not line.startswith(("at ", "File ", "Traceback", "Driver stacktrace"))]
    first = plain[0] if plain else type(error).__name__
    cause = next((line for line in reversed(plain) if _PYTHON_ERROR.match(line)), "")
    reason = first if not cause or cause in first else f"{first.partition('(')[0].strip()} ({cause})"
    return PipelineError(f"{what} failed: {reason}", hint="Read the executors' logs; nothing was written.")


@contextmanager
def spark_errors(what: str) -> Iterator[None]:
    """Raise the typed error of a task, or a one-line PipelineError for another failure of Spark or its JVM."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError, EOFError) as error:
        raise typed_error(error) or job_error(what, error) from None
