"""An image of a layout that does not exist yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.image_builder import ImageBuilder


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    builder = ImageBuilder(-70)
    builder.file("/f")
    return builder.save(tmp_path / "new")
