"""The name and version of this product; `pyproject.toml` declares both, and the installed package provides them."""

from __future__ import annotations

PACKAGE = "hdfs-checkpointer"


def product_version() -> str:
    # this import is slow, and most commands do not need the version
    from importlib.metadata import version

    return version(PACKAGE)
