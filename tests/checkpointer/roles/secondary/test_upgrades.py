"""A secondary after an upgrade of its NameNode: new images have the new layout, as with Hadoop's secondary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.storage.inspector import read_storage_info
from engine.healing import HealingMode
from hadoop_common.storage_info import parse_version
from image_format.layout import NEWEST_LAYOUT
from image_format.reader import ImageFile
from image_tools.verify.checker import verify_image
from servlets.status import TriggerState
from tests.checkpointer.secondary_support import Secondary, done, image_txids
from tests.checkpointer.upgrade_cases import UPGRADES, layout_after
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.recorded_cases import Case


def layout_of(path: Path) -> int:
    with ImageFile.open(path) as image:
        return image.layout_version


@pytest.mark.recorded
@pytest.mark.parametrize("c_time", [0, 5000], ids=["rolling upgrade finalized", "upgraded"])
@pytest.mark.parametrize("case", UPGRADES, ids=lambda case: case.id)
def test_checkpoint_with_old_edits_and_a_new_layout(case: Case, c_time: int, tmp_path: Path) -> None:
    """When the NameNode reports the new layout, its newest image and the following edits still have the old layout."""
    node = NamenodeDouble(tmp_path / "name", case.id, per_roll=8, release=3)
    layout = layout_after(case)
    with node:
        made = Secondary.of(tmp_path, node).config
        rules = replace(made.merge_settings.rules, healing=HealingMode.AS_HADOOP)
        config = replace(made, merge_settings=replace(made.merge_settings, rules=rules))
        with Secondary(config) as secondary:
            node.upgrade(layout_version=layout, c_time=node.info.c_time + c_time)
            result = secondary.checkpoint()
            assert (result.state, result.details["txid"]) == (TriggerState.DONE, node.recorded_end)
            newest = secondary.role.latest_image()
            # the stub refuses an image that no NameNode can load, even if Hadoop made this image
            accepted = "SUCCESS" if verify_image(newest).valid else "failed"
            assert list(result.details["uploads"].values()) == [accepted]
            assert case.differences(newest) == []
            assert read_storage_info(tmp_path / "secondary") == node.info


@pytest.mark.recorded
@pytest.mark.parametrize("c_time", [0, 5000], ids=["rolling upgrade finalized", "upgraded"])
def test_upgrade_between_two_checkpoints(c_time: int, tmp_path: Path) -> None:
    case = next(case for case in UPGRADES if "obsolete" in case.id)
    node = NamenodeDouble(tmp_path / "name", case.id, per_roll=1, release=3)
    before = node.info
    with node, Secondary.of(tmp_path, node) as secondary:
        assert secondary.checkpoint().state is TriggerState.DONE
        assert layout_of(secondary.role.latest_image()) == before.layout_version
        # During the rolling upgrade, images remain readable for the old release, and VERSION does not change.
        node.rolling_upgrade = True
        node.per_roll = 8
        assert secondary.checkpoint().state is TriggerState.DONE
        assert layout_of(secondary.role.latest_image()) == before.layout_version
        node.rolling_upgrade = False
        node.upgrade(layout_version=layout_after(case), c_time=before.c_time + c_time)
        # Later edits have the new layout.
        for _ in range(2):
            result = secondary.checkpoint()
            assert (result.state, list(result.details["uploads"].values())) == (TriggerState.DONE, ["SUCCESS"])
            newest = secondary.role.latest_image()
            assert layout_of(newest) == layout_after(case)
            assert verify_image(newest).valid
        assert read_storage_info(tmp_path / "secondary") == node.info
        assert image_txids(secondary.folder) == node.image_txids()


def test_unknown_layout_of_the_namenode_changes_no_file(tmp_path: Path) -> None:
    node = NamenodeDouble(tmp_path / "name", release=3)
    with node, Secondary.of(tmp_path, node) as secondary:
        assert secondary.checkpoint().state is TriggerState.DONE
        before = {path.name: path.read_bytes() for path in secondary.folder.iterdir()}
        node.upgrade(layout_version=NEWEST_LAYOUT - 1)
        result = secondary.checkpoint()
        assert (result.state, result.details["exitCode"]) == (TriggerState.FAILED, 5)
        assert f"{NEWEST_LAYOUT - 1} is newer than the newest known version" in result.message
        assert {path.name: path.read_bytes() for path in secondary.folder.iterdir()} == before


@pytest.mark.parametrize("layout", [-52, -70])
def test_unsupported_layout_is_rejected_before_the_roll(
    node: NamenodeDouble, secondary: Secondary, layout: int
) -> None:
    node.upgrade(layout_version=layout)
    result = secondary.checkpoint()
    assert (result.state, result.details["exitCode"]) == (TriggerState.FAILED, 5)
    assert node.steps == ["getTransactionId", "versionRequest"]
    assert not secondary.folder.exists()


def test_upgrade_of_the_namenode_is_adopted(node: NamenodeDouble, secondary: Secondary) -> None:
    done(secondary)
    node.upgrade(c_time=77)
    node.steps.clear()
    assert done(secondary) == 151
    assert "image" in node.steps
    assert parse_version((secondary.folder / "VERSION").read_bytes(), "").c_time == 77
    node.steps.clear()
    assert done(secondary) == 172
    assert "image" not in node.steps


def test_rolling_upgrade_does_not_change_version(tmp_path: Path) -> None:
    with (
        NamenodeDouble(tmp_path / "name", "hadoop-3.4.1/segments", release=3) as node,
        Secondary.of(tmp_path, node) as secondary,
    ):
        done(secondary)
        before = (secondary.folder / "VERSION").read_bytes()
        node.upgrade(c_time=77)
        node.rolling_upgrade = True
        done(secondary)
        assert (secondary.folder / "VERSION").read_bytes() == before
        node.rolling_upgrade = False
        node.steps.clear()
        done(secondary)
        assert "image" not in node.steps
        assert secondary.role.storage_info() == node.info
