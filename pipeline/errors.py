"""Errors of the pipeline and of the lake."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import HdfsError
from hadoop_common.exit_codes import ExitCode


class PipelineError(HdfsError):
    """Failure of a Spark job."""


class PipelineSetupError(PipelineError):
    """Failure to start Spark: Java or PySpark is missing, or the master is unreachable."""

    exit_code: ClassVar[int] = ExitCode.USAGE


class SourceFileError(PipelineError):
    """Failure to read a source at a path."""

    exit_code: ClassVar[int] = ExitCode.STORAGE


class SourceOptionError(PipelineError):
    """Refusal of an invalid option of `spark.read` for a data source."""

    exit_code: ClassVar[int] = ExitCode.USAGE


class PathRulesError(PipelineError):
    """Refusal of an unusable file of path sets and tables."""

    exit_code: ClassVar[int] = ExitCode.USAGE


class OutputError(PipelineError):
    """Failure to write the output of a command."""

    exit_code: ClassVar[int] = ExitCode.STORAGE


class LakeError(PipelineError):
    """Failure to read or write the lake's directory, or an unexpected file in it."""

    exit_code: ClassVar[int] = ExitCode.STORAGE


class LakeConflictError(LakeError):
    """Conflict with another process that appends the same content to the lake."""
