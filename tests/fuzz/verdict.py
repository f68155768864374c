"""What a refusal must be like."""

from __future__ import annotations

from hadoop_common.errors import EXIT_FAILURE, HdfsError


def check_error(error: HdfsError) -> None:
    """A typed error says what is wrong and what to do, and has an exit status of its own."""
    assert error.message
    assert error.hint
    assert error.exit_code > EXIT_FAILURE
