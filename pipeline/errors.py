"""Errors of the pipeline."""

from __future__ import annotations

from typing import ClassVar

from hadoop_common.errors import EXIT_STORAGE, EXIT_USAGE, HdfsError


class PipelineError(HdfsError):
    """A job on Spark failed."""


class PipelineSetupError(PipelineError):
    """Spark cannot be run here: no Java, no PySpark, or a master that is not to be reached."""

    exit_code: ClassVar[int] = EXIT_USAGE


class SourceFileError(PipelineError):
    """A path leads to nothing that can be read."""

    exit_code: ClassVar[int] = EXIT_STORAGE


class SourceOptionError(PipelineError):
    """An option of `spark.read` has no meaning for the data source."""

    exit_code: ClassVar[int] = EXIT_USAGE


class OutputError(PipelineError):
    """What a command makes cannot be written."""

    exit_code: ClassVar[int] = EXIT_STORAGE
