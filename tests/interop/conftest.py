"""The Hadoop that tests share; without it they are skipped, or fail where it is required."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.hadoop import Hadoop
from tests.interop.hadoop_home import MissingHadoopError, required


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    try:
        running = Hadoop(tmp_path_factory.mktemp("hadoop"))
    except MissingHadoopError as error:
        if required():
            raise
        pytest.skip(str(error))
    with running:
        yield running
