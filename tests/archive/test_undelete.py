"""`undelete` in a storage directory and in an archive."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hadoop_common.names import SEEN_TXID, image_name, md5_name
from tests.archive.storage import FOLLOWING, PREPARED, saved, segment, storage
from tests.cli_runner import run_cli
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import add, close, delete, mkdir
from tests.hadoop_common.lock_support import held_elsewhere


def test_undelete_works_without_an_archive(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, *PREPARED, delete("/d", 6000), mkdir("/later", 16390))
    answer = run_cli("undelete", nn, "--path", "/d/sub", "--out", tmp_path / "out", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out)["without"] == [FOLLOWING]
    image = saved(tmp_path / "out", last + 1)
    assert ("/d/sub/f" in image, "/later" in image) == (True, True)
    missing = run_cli("undelete", nn, "--path", "/never", "--out", tmp_path / "none")
    assert (missing.code, "deletes /never" in missing.err) == (2, True)


def test_undelete_rejects_a_directory_without_the_newest_edits(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    current = nn / "current"
    end = segment(nn, BASE_TXID, *PREPARED, delete("/d", 6000))
    words = ("undelete", nn, "--path", "/d/sub", "--out", tmp_path / "out")
    (current / SEEN_TXID).write_text(f"{end + 1}\n")
    refused = run_cli(*words)
    assert (refused.code, f"edits from txid {end + 1} on are missing" in refused.err) == (6, True)
    (current / SEEN_TXID).write_text(f"{end}\n")
    newer = current / image_name(end + 3)
    shutil.copy(current / image_name(BASE_TXID), newer)
    newer.with_name(md5_name(newer.name)).touch()
    refused = run_cli(*words)
    assert (refused.code, f"image of transaction {end + 3}, but its edits end at {end}" in refused.err) == (6, True)
    assert not (tmp_path / "out").exists()


def test_undelete_rejects_a_directory_in_use(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    segment(nn, BASE_TXID, *PREPARED, delete("/d", 6000))
    words = ("undelete", nn, "--path", "/d/sub", "--out", tmp_path / "out")
    with held_elsewhere(nn) as owner:
        refused = run_cli(*words)
    assert (refused.code, f"is in use by {owner.pid}@" in refused.err) == (6, True)
    assert not (tmp_path / "out").exists()
    # a killed NameNode leaves the lock file without a lock
    assert run_cli(*words).code == 0


@pytest.mark.parametrize("one_segment", [True, False])
def test_undelete_restores_an_overwritten_file(tmp_path: Path, one_segment: bool) -> None:
    again = (add("/d/sub/f", 16390, overwrite=True), close("/d/sub/f"))
    nn = storage(tmp_path / "nn")
    if one_segment:
        segment(nn, BASE_TXID, *PREPARED, *again)
        replaced = FOLLOWING
    else:
        end = segment(nn, BASE_TXID, *PREPARED)
        segment(nn, end, mkdir("/other", 16391), *again)
        replaced = end + 3
    answer = run_cli("undelete", nn, "--path", "/d/sub/f", "--out", tmp_path / "out", "--json")
    assert (answer.code, json.loads(answer.out)["without"]) == (0, [replaced])
