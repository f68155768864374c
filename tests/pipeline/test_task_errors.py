"""Typed errors survive the transfer as text through Spark."""

from __future__ import annotations

import traceback

import pytest

from hadoop_common.errors import HdfsError
from image_format.errors import RecordError
from pipeline.errors import SourceOptionError
from pipeline.task_errors import error_reason, mark_typed_errors, typed_error


def text_of(error: HdfsError) -> str:
    """Return the text that a task prints for an error."""
    with pytest.raises(type(error)) as raised, mark_typed_errors(), mark_typed_errors():
        raise error
    return "".join(traceback.format_exception(raised.value))


def test_an_error_is_rebuilt_with_all_its_fields() -> None:
    error = RecordError("no inode record", file="fsimage_1", section="INODE", offset=77, hint="Take another.")
    expected_message = dict(vars(error))
    found = typed_error(RuntimeError("Job aborted:\n" + text_of(error) + "\tat java.lang.Thread.run"))
    assert type(found) is RecordError
    assert (str(found), found.exit_code, vars(found)) == (str(error), error.exit_code, expected_message)


def test_the_mark_may_be_in_the_middle_of_a_line() -> None:
    text = text_of(SourceOptionError("no such table", hint='"quoted" {x}')).replace("\n", " ")
    found = typed_error(RuntimeError(text))
    assert isinstance(found, SourceOptionError)
    assert (found.message, found.hint) == ("no such table", '"quoted" {x}')


def test_causes_of_an_error_are_searched() -> None:
    outer = RuntimeError("Job aborted")
    outer.__cause__ = RuntimeError(text_of(HdfsError("that")))
    assert str(typed_error(outer)) == "that"


def test_unmarked_errors_are_not_typed() -> None:
    assert typed_error(RuntimeError("out of memory")) is None
    with pytest.raises(RuntimeError), mark_typed_errors():
        raise RuntimeError
    error = HdfsError("mine")
    assert typed_error(error) is error


@pytest.mark.parametrize("text", ["{", '{"module": "os", "type": "system", "fields": {"message": ""}}', "{}", "7"])
def test_a_malformed_mark_is_ignored(text: str) -> None:
    assert typed_error(RuntimeError("hdfs-checkpointer error: " + text)) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "An error occurred while calling o1.collect.\n: java.lang.OutOfMemoryError: Java heap space\n\tat x",
            "java.lang",
        ),
        ("\n  [FAILED] no\nmore", "[FAILED] no"),
        ("", "ValueError"),
    ],
)
def test_the_reason_is_the_line_with_the_cause(text: str, line: str) -> None:
    assert error_reason(ValueError(text)).startswith(line)
