"""Hadoop 2.7.3 for benchmark tests, because the benchmarks write images and edits of its layout."""

from __future__ import annotations

import pytest

from tests.interop.conftest import hadoop_2
from tests.interop.hadoop import Hadoop

__all__ = ["hadoop", "hadoop_2"]


@pytest.fixture(scope="session")
def hadoop(hadoop_2: Hadoop) -> Hadoop:
    return hadoop_2
