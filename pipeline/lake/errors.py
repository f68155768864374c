"""Errors of the lake."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_STORAGE
from pipeline.errors import PipelineError


class LakeError(PipelineError):
    """Failure to read or write the lake's directory, or an unexpected file in it."""

    exit_code: ClassVar[int] = EXIT_STORAGE


class LakeBusyError(LakeError):
    """Conflict with another process that writes to the lake."""

    def __init__(self, root: str) -> None:
        super().__init__(
            f"another process writes to the lake {root}", hint="Wait until that process has ended, then retry."
        )
