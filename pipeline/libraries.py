"""Detects missing libraries of the extra `spark`, which a command then reports instead of a traceback."""

from __future__ import annotations

from importlib.util import find_spec

from hadoop_common.extras import install_hint
from pipeline.errors import PipelineSetupError

SPARK = {"pyspark": "PySpark", "pyarrow": "PyArrow"}
LAKE = {"pyarrow": "PyArrow", "deltalake": "deltalake"}
"""Names of libraries in messages, by module."""
INSTALL_HINT = install_hint("spark")


def missing_library(libraries: dict[str, str]) -> str:
    """Return the name of the first of `libraries` that is not installed, or "" if all are installed."""
    return next((name for module, name in libraries.items() if find_spec(module) is None), "")


def require_libraries(libraries: dict[str, str]) -> None:
    """Raise PipelineSetupError if one of `libraries` is not installed."""
    if name := missing_library(libraries):
        raise PipelineSetupError(f"{name} is not installed", hint=INSTALL_HINT)
