"""Restores typed errors of Spark's Python processes, which Spark transfers only as text."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from hadoop_common.errors import HdfsError

_MARK = "hdfs-checkpointer error: "
_TYPED = "raises_typed_errors"
_CALL = "An error occurred while calling "
_PACKAGES = {"checkpointer", "hadoop_common", "hadoop_rpc", "image_format", "journal", "pipeline"}


@contextlib.contextmanager
def mark_typed_errors() -> Iterator[None]:
    """Add a note to an `HdfsError`; `typed_error` finds the note in the text of Spark's error and rebuilds the
    `HdfsError`.

    In a generator, this context must enclose the whole body.
    """
    try:
        yield
    except HdfsError as error:
        if not any(note.startswith(_MARK) for note in getattr(error, "__notes__", ())):
            kind = type(error)
            state = {"module": kind.__module__, "type": kind.__qualname__, "fields": _fields(error)}
            error.add_note(_MARK + json.dumps(state))
        raise


def _fields(error: HdfsError) -> dict[str, object]:
    simple = (str, int, float, bool, type(None))
    return {
        name: value if isinstance(value, simple) else str(value)
        for name, value in vars(error).items()
        if not name.startswith("__")
    }


def typed_error(error: BaseException) -> HdfsError | None:
    """Return the typed error that made a Spark job fail, or None for any other cause.

    The function searches the text of `error` and of its causes for the first mark; later marks are repetitions.
    """
    if isinstance(error, HdfsError):
        return error
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        for line in str(current).splitlines():
            _, found, text = line.partition(_MARK)
            if found:
                return _rebuild(text)
        current = current.__cause__ or current.__context__
    return None


def raise_typed_errors() -> None:
    """Make PySpark raise the typed errors of our data sources, with hints as notes, until the process ends.

    PySpark's errors contain the message between stacks of Python and Java. Every call to Java in every session uses the
    replaced function; if a release of PySpark lacks this function, PySpark's errors remain.
    """
    from pyspark.errors.exceptions import captured

    original = getattr(captured, "convert_exception", None)
    if original is None or hasattr(original, _TYPED):
        return

    @functools.wraps(original)
    def convert(error: Any) -> Any:
        converted = original(error)
        typed = typed_error(converted)
        if typed is None:
            return converted
        if typed.hint:
            typed.add_note(f"next: {typed.hint}")
        return typed

    setattr(convert, _TYPED, True)
    captured.convert_exception = convert  # type: ignore[assignment]


def error_reason(error: BaseException) -> str:
    """Return the reason for a Spark or Java error: the first line that contains more than the failed call."""
    lines = (line.strip().removeprefix(": ") for line in str(error).splitlines())
    return next((line for line in lines if line and not line.startswith(_CALL)), type(error).__name__)


def _rebuild(text: str) -> HdfsError | None:
    try:
        # Spark or Java may have appended text to the JSON in this line.
        state, _ = json.JSONDecoder().raw_decode(text)
        kind = getattr(_ours(state["module"]), state["type"], None)
        fields = dict(state["fields"])
        if not (isinstance(kind, type) and issubclass(kind, HdfsError) and {"message", "hint"} <= set(fields)):
            return None
    except (ValueError, TypeError, LookupError, ImportError):
        return None
    error = kind.__new__(kind, fields["message"])
    vars(error).update(fields)
    return error


def _ours(module: str) -> ModuleType:
    if module.partition(".")[0] not in _PACKAGES:
        raise ImportError(module)
    return importlib.import_module(module)
