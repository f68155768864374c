"""The merge on Spark of the recorded storage directories, compared with Hadoop's images and the local engine's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from checkpointer.merging.engines import EngineError
from checkpointer.merging.offline import merge_directory, plan_directory
from engine.settings import MergeSettings
from hadoop_common.configuration import Configuration
from image_format.known_digests import identity_at, is_known_loadable
from image_format.md5_file import md5_of_file, read_md5_file
from image_tools.verify.checker import verify_image
from site_config.merge_settings import replay_rules
from tests.pipeline.merge_support import AUTO, merge_on_spark
from tests.recorded_cases import ALL_CASES, RECORDED, Case, same_layout

pytestmark = [pytest.mark.recorded, pytest.mark.usefixtures("spark")]

SAME_LAYOUT = [case for case in ALL_CASES if same_layout(case)]
UPGRADES = [case for case in ALL_CASES if not same_layout(case)]


@pytest.mark.parametrize("case", SAME_LAYOUT, ids=lambda case: case.id)
def test_the_image_equals_those_of_hadoop_and_the_local_engine(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # During replay, Hadoop 2.7 reads a snapshot's time from the clock, so both engines must use the same time.
    now = time.time_ns() // 1_000_000
    monkeypatch.setattr("engine.replay.snapshots.now", lambda: now)
    rules = replay_rules(Configuration.load(case.write_configuration(tmp_path / "conf"), environment={}))
    for engine in ("spark", "local"):
        case.copy_to(tmp_path / engine)
    made = merge_on_spark(tmp_path / "spark", rules=rules)
    expected = merge_directory(plan_directory(tmp_path / "local"), MergeSettings(rules=rules))
    # an image that must be healed before it is read is merged by the local engine
    engine = "spark" if verify_image(case.image("before")).findings.clean else "local"
    assert (made.engine, made.txid) == (engine, case.info["txid_after"])
    image = made.saved.paths[0]
    assert image.read_bytes() == expected.saved.paths[0].read_bytes()
    assert md5_of_file(image) == read_md5_file(image)
    # the local engine verifies the image completely
    assert is_known_loadable(identity_at(image), whole=False)
    assert is_known_loadable(identity_at(image), whole=True) is (engine == "local")
    assert made.healed == expected.healed
    assert made.healed or case.differences(image) == []
    assert (made.inodes, made.warnings) == (expected.inodes, expected.warnings)
    assert sorted(path.name for path in (tmp_path / "spark").iterdir()) == ["current"]


def test_an_image_to_heal_before_reading_is_merged_locally(tmp_path: Path) -> None:
    case = Case(RECORDED / "hadoop-3.4.1" / "odd" / "namenode-own-image-fails-1")
    folder = case.copy_to(tmp_path)
    last = max(int(path.name.rpartition("-")[2]) for path in folder.glob("edits_*"))
    (folder / "seen_txid").write_text(f"{last}\n")
    made = merge_on_spark(tmp_path)
    assert made.engine == "local"
    assert "diff-deleted" in {healed.code for healed in made.healed}
    assert verify_image(made.saved.paths[0]).valid


@pytest.mark.parametrize("case", UPGRADES[:1], ids=lambda case: case.id)
def test_a_layout_conversion_requires_the_local_engine(case: Case, tmp_path: Path) -> None:
    folder = case.copy_to(tmp_path)
    before = sorted(folder.iterdir())
    with pytest.raises(EngineError, match="cannot convert an image of layout"):
        merge_on_spark(tmp_path, layout_version=case.new_layout)
    assert sorted(folder.iterdir()) == before
    made = merge_on_spark(tmp_path, AUTO, layout_version=case.new_layout)
    assert made.engine == "local"
    assert made.healed or case.differences(made.saved.paths[0]) == []
