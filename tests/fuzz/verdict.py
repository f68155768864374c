"""The form of a refusal."""

from __future__ import annotations

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode


def check_error(error: HdfsError) -> None:
    """Assert that a typed error has a reason, a next step and an exit status."""
    assert error.message
    assert error.hint
    assert error.exit_code > ExitCode.FAILURE
