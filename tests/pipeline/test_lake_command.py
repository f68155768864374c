"""The directories of edits for `checkpointer lake append --conf`."""

from __future__ import annotations

import pytest

from pipeline.cli.lake_job import edits_directories
from tests.checkpointer.service_support import standby_config


def test_a_shared_directory() -> None:
    assert edits_directories(standby_config()) == ("/shared",)


def test_edits_that_lie_in_no_directory(capsys: pytest.CaptureFixture[str]) -> None:
    config = standby_config(**{"dfs.namenode.shared.edits.dir": "qjournal://a;b;c/ns"})
    assert edits_directories(config) == ()
    assert "qjournal://a:8485;b:8485;c:8485/ns are not in a directory" in capsys.readouterr().err
