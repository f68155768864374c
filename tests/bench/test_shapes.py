"""Generated namespaces of all shapes: our merge and Hadoop's accept the images and the edits."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.hadoop_merge import merge_by_hadoop
from bench.shape_layout import SHAPES
from bench.shapes import make_plain, make_shape
from checkpointer.merging.offline import merge_directory, plan_directory
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_tools.verify.checker import verify_image
from tests.bench.differences import differences
from tests.interop.hadoop import Hadoop

FILES, TRANSACTIONS = 3_000, 2_000
EVERY_SHAPE = pytest.mark.parametrize("label", SHAPES)


@pytest.mark.parameters(2)
@EVERY_SHAPE
def test_images_have_no_findings_before_and_after_a_merge(tmp_path: Path, label: str) -> None:
    image = make_shape(tmp_path / "scene", SHAPES[label], FILES, TRANSACTIONS)
    merged = merge_directory(plan_directory(tmp_path / "scene")).saved.paths[0]
    for path in (image, merged):
        assert [str(finding) for finding in verify_image(path).findings.listed] == []


@EVERY_SHAPE
def test_a_merge_without_edits_keeps_the_sections(tmp_path: Path, label: str) -> None:
    plain = make_plain(make_shape(tmp_path / "scene", SHAPES[label], FILES, TRANSACTIONS), tmp_path / "plain")
    merged = merge_directory(plan_directory(tmp_path / "plain")).saved.paths[0]
    with ImageFile.open(plain) as before, ImageFile.open(merged) as after:
        for section in before.sections:
            if section.name != "NS_INFO":
                assert before.stored_bytes(section) == after.stored_bytes(section)


def test_the_heavy_snapshots_shape_has_many_diffs(tmp_path: Path) -> None:
    image = make_shape(tmp_path / "scene", SHAPES["heavy snapshots"], FILES, TRANSACTIONS)
    with ImageFile.open(image) as opened:
        header = pb.SnapshotSection.FromString(bytes(next(opened.records("SNAPSHOT")).body))
        assert len(header.snapshottableDir) == FILES // 1_000
        assert header.numSnapshots == 10 * len(header.snapshottableDir)
        diffs = opened.section("SNAPSHOT_DIFF")
        assert diffs is not None
        assert diffs.size > 9 * FILES


@pytest.mark.deep
@pytest.mark.interop
@EVERY_SHAPE
def test_our_merge_equals_hadoops(hadoop_3: Hadoop, tmp_path: Path, label: str) -> None:
    image = make_shape(tmp_path / "ours", SHAPES[label], FILES, TRANSACTIONS)
    saved = hadoop_3.load_and_save(image, image.parent / "VERSION")
    assert differences(image, saved) == []
    _, theirs = merge_by_hadoop(image.parent, tmp_path / "hadoop", "512m")
    ours = merge_directory(plan_directory(tmp_path / "ours")).saved.paths[0]
    assert differences(theirs, ours) == []
