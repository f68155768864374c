"""Hadoop 3.5.0 for benchmark tests, because the benchmarks write images and edits of its layout."""

from __future__ import annotations

from tests.interop.conftest import hadoop, hadoop_3

__all__ = ["hadoop", "hadoop_3"]
