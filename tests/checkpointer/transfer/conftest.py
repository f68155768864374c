"""An image to upload."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from image_format.md5_file import write_md5_file
from tests.servlets.support import NEW_IMAGE


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / NEW_IMAGE.name
    shutil.copyfile(NEW_IMAGE, path)
    write_md5_file(path, hashlib.md5(path.read_bytes()).digest())
    return path
