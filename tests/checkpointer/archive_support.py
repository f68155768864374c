"""What the process of an archive reads: an operation, and a directory with an image and edits."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.archiving.messages import ArchiveSource
from hadoop_common.names import image_name
from journal.ops import EditOp
from tests.archive.storage import storage
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir


@pytest.fixture
def nn(tmp_path: Path) -> Path:
    return storage(tmp_path / "nn")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def number(txid: int) -> EditOp:
    return mkdir(f"/d{txid}", 16385 + txid)


def source_of(nn: Path, *, confirmed: bool = True) -> ArchiveSource:
    current = nn / "current"
    return ArchiveSource((current,), (current,), BASE_TXID, current / image_name(BASE_TXID) if confirmed else None)
