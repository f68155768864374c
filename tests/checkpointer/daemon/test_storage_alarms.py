"""Alarms of image files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.storage.usable_images import UNUSABLE_HINT
from hadoop_common.names import image_name, md5_name
from tests.checkpointer.service_support import FakeRole
from tests.checkpointer.storage_support import IMAGE_TXID, recorded_directory


def test_unusable_image_files_are_alarms(
    service: CheckpointService, role: FakeRole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = recorded_directory(tmp_path / "name")
    monkeypatch.setattr(role, "image_folders", lambda: [root / "current"])
    edits = recorded_directory(tmp_path / "edits")
    (edits / "current" / md5_name(image_name(IMAGE_TXID))).unlink()
    # directories for edits are not listed
    monkeypatch.setattr(role, "storage", lambda: {str(root): "in use", str(edits): "in use"})
    assert service.status()["alarms"] == []
    (root / "current" / md5_name(image_name(IMAGE_TXID))).unlink()
    status = service.status()
    (alarm,) = status["alarms"]
    assert "1 file with the name of an image cannot be used" in alarm
    assert (status["alarmKinds"][alarm], status["nextSteps"][alarm]) == ("image", UNUSABLE_HINT)
    assert status["ready"]
