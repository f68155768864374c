"""An empty archive, and the storage directory of a NameNode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.archive import Archive, open_archive
from tests.archive.storage import storage


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(str(tmp_path / "archive")) as opened:
        yield opened


@pytest.fixture
def nn(tmp_path: Path) -> Path:
    return storage(tmp_path / "nn")
