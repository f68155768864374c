"""Free space of storage directories."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from checkpointer.storage.disk_space import MIN_FREE_SPACE
from hadoop_common.names import checkpoint_name
from tests.checkpointer.storage_support import NEW_TXID, OpenDirectories, recorded_directory


def test_unfinished_image_counts_as_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenDirectories([recorded_directory(tmp_path / "a")]) as storage:
        needed = MIN_FREE_SPACE + storage.latest_image().path.stat().st_size
        unfinished = tmp_path / "a" / "current" / checkpoint_name(NEW_TXID)
        unfinished.write_bytes(bytes(4096))
        free = needed - unfinished.stat().st_blocks * 512
        monkeypatch.setattr("checkpointer.storage.disk_space.shutil.disk_usage", lambda _: SimpleNamespace(free=free))
        assert storage.space_shortage() == ""
        unfinished.unlink()
        assert "no space" in storage.space_shortage()
