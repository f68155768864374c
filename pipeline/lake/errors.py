"""Errors of the lake."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_STORAGE
from pipeline.errors import PipelineError


class LakeError(PipelineError):
    """The lake's directory cannot be read or written, or holds what no append made."""

    exit_code: ClassVar[int] = EXIT_STORAGE


class LakeBusyError(LakeError):
    """Another process writes to the lake."""

    def __init__(self, root: str) -> None:
        super().__init__(f"another process writes to the lake {root}", hint="Wait until it has ended, then run again.")
