"""Pruning removes only objects that retention rules do not keep."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.adding import AddOptions, add_directory
from archive.archive import Archive
from archive.catalogue import MAIN, EditsRecord, ImageRecord
from archive.checking import check_archive
from archive.moments import moments, plan_restore, view_of
from archive.pruning import prune
from archive.retention import plan_prune
from hadoop_common.names import image_name
from site_config.archive_settings import parse_rules
from tests.archive.records import catalogue, edits, image
from tests.archive.restored import restored
from tests.archive.storage import saved, segment, storage
from tests.cli_runner import fingerprint, run_cli
from tests.depth import examples
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import LATER, mkdir

HOUR = 3_600_000


def test_prune_removes_only_objects_that_no_kept_moment_needs(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    restored_at = last
    add_directory(archive, nn)
    restored(archive, last, tmp_path / "made")
    for name in (image_name(last), f"{image_name(last)}.md5"):
        shutil.copy(tmp_path / "made" / "current" / name, nn / "current")
    last = segment(nn, last, mkdir("/b", 16387, LATER + 2 * HOUR))
    add_directory(archive, nn, AddOptions(restore_target=0))
    words = ("--archive", tmp_path / "archive", "--keep", "all for 1h", "--json")
    dry = json.loads(run_cli("archive", "prune", *words, "--dry-run").out)
    before = fingerprint(tmp_path / "archive")
    assert sorted(each["name"].partition("/")[0] for each in dry["removed"]) == ["edits", "images"]
    assert fingerprint(tmp_path / "archive") == before
    done = json.loads(run_cli("archive", "prune", *words).out)
    assert (done["removed"], done["bytes"]) == (dry["removed"], dry["bytes"])
    assert moments(view_of(archive.catalogue(), MAIN)) == [range(restored_at, last + 1)]
    assert "/a" in saved(restored(archive, last, tmp_path / "out"), last)


def test_prune_keeps_objects_that_replace_a_missing_one(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    middle = segment(nn, BASE_TXID, mkdir("/a", 16386))
    add_directory(archive, nn)
    restored(archive, middle, tmp_path / "made")
    for name in (image_name(middle), f"{image_name(middle)}.md5"):
        shutil.copy(tmp_path / "made" / "current" / name, nn / "current")
    last = segment(nn, middle, mkdir("/b", 16387, LATER + 2 * HOUR))
    added = add_directory(archive, nn, AddOptions(restore_target=0))
    archive.store.remove(added.images[0].name)
    assert prune(archive, parse_rules("all for 1h")).remove == ()
    assert check_archive(archive).lost == []
    assert "/b" in saved(restored(archive, last, tmp_path / "out"), last)


def test_prune_with_a_fast_clock_removes_nothing(archive: Archive, nn: Path) -> None:
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    segment(nn, last, mkdir("/b", 16387, LATER + 2 * HOUR))
    add_directory(archive, nn)
    before = moments(view_of(archive.catalogue(), MAIN))
    with mock.patch("archive.pruning.time.time_ns", return_value=4_000_000_000 * 10**9):
        assert prune(archive, parse_rules("all for 3h")).remove == ()
    assert moments(view_of(archive.catalogue(), MAIN)) == before


DAY = 86_400_000


@given(st.integers(0, 1 << 30))
@examples(100)
def test_every_moment_kept_by_retention_is_restorable(seed: int) -> None:
    rng = random.Random(seed)
    records: list[ImageRecord | EditsRecord] = [image(0)]
    txid = 0
    for day in range(rng.randint(1, 60)):
        last = txid + rng.randint(1, 5)
        records.append(edits(txid + 1, last, at=day * DAY + 1))
        if rng.random() < 0.2:
            records.append(image(last))
        txid = last
    found, now = catalogue(*records), 60 * DAY
    plan = plan_prune(found, parse_rules("all for 5d, daily for 20d, monthly for 1y"), now)
    assert {each.name for each in (*plan.keep, *plan.remove)} == found.names
    left = view_of(catalogue(*plan.keep), MAIN)
    assert plan_restore(left, txid).txid == txid
    for record in found.edits:
        if record.last_time >= now - 5 * DAY:
            for each in range(record.first, record.last + 1):
                assert plan_restore(left, each).txid == each
    months = {each.last_time // (31 * DAY) for each in found.edits}
    assert len(months) <= len(moments(left)) + len(left.pieces)


def test_edits_after_a_gap_and_of_unknown_branches_are_kept() -> None:
    old: list[ImageRecord | EditsRecord] = [
        image(100),
        edits(101, 200, at=DAY),
        edits(301, 400, at=DAY),
        edits(401, 410, "lost", at=DAY),
    ]
    plan = plan_prune(catalogue(*old), parse_rules("all for 1d"), 400 * DAY)
    assert plan.remove == ()
    bare = plan_prune(catalogue(edits(101, 200, at=DAY)), parse_rules("all for 1d"), 400 * DAY)
    assert bare.remove == ()


def test_invalid_retention_rules_are_rejected() -> None:
    with pytest.raises(ValueError, match="'some for 7d' is not a retention rule"):
        parse_rules("all for 7d, some for 7d")
