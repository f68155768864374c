"""A real Hadoop 3.5.0 loads generated images and replays generated edits; the resulting image is the same as ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.edits import MIXES
from bench.hadoop_merge import merge_by_hadoop
from checkpointer.merging.offline import merge_directory, plan_directory
from tests.bench.differences import differences
from tests.bench.made import make
from tests.interop.hadoop import Hadoop

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_namenode_loads_and_saves_generated_images(hadoop_3: Hadoop, tmp_path: Path, snapshots: bool) -> None:
    base = make(tmp_path, snapshots=snapshots, inodes=40_000)
    saved = hadoop_3.load_and_save(base.path, base.path.parent / "VERSION")
    assert differences(base.path, saved) == []


@pytest.mark.deep
@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize("mix", MIXES)
def test_our_merge_equals_hadoops(hadoop_3: Hadoop, tmp_path: Path, mix: str, snapshots: bool) -> None:
    base = make(tmp_path / "ours", mix, snapshots=snapshots)
    run, theirs = merge_by_hadoop(base.path.parent, tmp_path / "hadoop", "512m")
    assert list(run.parts) == ["load", "replay", "write", "whole"]
    assert run.resident > run.parts["whole"].anonymous > 0
    ours = merge_directory(plan_directory(tmp_path / "ours")).saved.paths[0]
    assert differences(theirs, ours) == []
