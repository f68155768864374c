"""The directories of edits for `checkpointer lake append --conf`."""

from __future__ import annotations

from pathlib import Path

import pytest

from archive.adding import add_directory
from archive.archive import open_archive
from pipeline.cli.lake_job import LakeJob, PastState, edits_directories, image_of
from tests.archive.storage import segment, storage
from tests.checkpointer.service_support import standby_config
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir


def test_edits_are_read_from_the_shared_directory() -> None:
    assert edits_directories(standby_config()) == ("/shared",)


def test_edits_in_journal_nodes_are_reported_and_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    config = standby_config(**{"dfs.namenode.shared.edits.dir": "qjournal://a;b;c/ns"})
    assert edits_directories(config) == ()
    assert "qjournal://a:8485;b:8485;c:8485/ns are not in a directory" in capsys.readouterr().err


def test_a_past_image_has_the_time_of_its_edits(tmp_path: Path) -> None:
    place, nn = tmp_path / "archive", storage(tmp_path / "nn")
    segment(nn, BASE_TXID, mkdir("/a", 16386, 5000), mkdir("/b", 16387, 6000))
    with open_archive(str(place)) as archive:
        add_directory(archive, nn)
    for txid, time in ((BASE_TXID, 5000), (BASE_TXID + 3, 6000)):
        with image_of(LakeJob(None, (), PastState(str(place), str(txid), None, None))) as (_, found):
            assert found == time
