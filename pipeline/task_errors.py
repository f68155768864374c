"""Brings typed errors of Spark's Python processes to the user: they leave those processes as text alone."""

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
def legible() -> Iterator[None]:
    """Let an `HdfsError` that is raised within be found again by `unwrap` in the text of Spark's error.

    A generator needs it around its whole body.
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


def unwrap(error: BaseException) -> HdfsError | None:
    """The typed error that made a Spark job fail, None where it failed of something else.

    It looks at the text of `error` and of its causes: the first mark is taken, as the later ones are repetitions.
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


def raise_typed() -> None:
    """From now on let PySpark raise the typed errors of our data sources: the sentence, and what to do next as a note.

    Its own errors have that sentence among the stacks of Python and Java. Every call to Java of every session goes
    through the function that is replaced here; where a release of PySpark lacks it, its own errors stay.
    """
    from pyspark.errors.exceptions import captured

    original = getattr(captured, "convert_exception", None)
    if original is None or hasattr(original, _TYPED):
        return

    @functools.wraps(original)
    def convert(error: Any) -> Any:
        converted = original(error)
        typed = unwrap(converted)
        if typed is None:
            return converted
        if typed.hint:
            typed.add_note(f"next: {typed.hint}")
        return typed

    setattr(convert, _TYPED, True)
    captured.convert_exception = convert  # type: ignore[assignment]


def reason(error: BaseException) -> str:
    """What Spark or its Java says, in one line: the first that says more than which call failed."""
    lines = (line.strip().removeprefix(": ") for line in str(error).splitlines())
    return next((line for line in lines if line and not line.startswith(_CALL)), type(error).__name__)


def _rebuild(text: str) -> HdfsError | None:
    try:
        # What follows the JSON was put there by who printed the line.
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
