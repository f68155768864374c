"""Archives, empty or with a deletion, and the storage directory of a NameNode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.adding import add_directory
from archive.archive import Archive, open_archive
from tests.archive.storage import segment, storage
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import add, close, delete, mkdir, rename


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with open_archive(str(tmp_path / "archive")) as opened:
        yield opened


@pytest.fixture
def nn(tmp_path: Path) -> Path:
    return storage(tmp_path / "nn")


@pytest.fixture
def deletion_by_mistake(archive: Archive, tmp_path: Path) -> tuple[Archive, Path, int]:
    """An archive in which /data/tmp is renamed to /data/warehouse and /data is deleted at time 9000, together with the
    deletion's txid.
    """
    nn = storage(tmp_path / "nn")
    middle = segment(
        nn, BASE_TXID, mkdir("/data", 16386), mkdir("/data/tmp", 16387), add("/data/tmp/f", 16388), close("/data/tmp/f")
    )
    last = segment(
        nn,
        middle,
        rename("/data/tmp", "/data/warehouse", 8000),
        mkdir("/x", 16389, 8500),
        delete("/data", 9000),
        mkdir("/y", 16390, 9500),
    )
    add_directory(archive, nn)
    return archive, tmp_path, last - 2
