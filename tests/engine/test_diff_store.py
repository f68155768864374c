"""Snapshot diffs that Hadoop wrote are decoded and encoded again byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.merge import load_image
from image_format.errors import InconsistentSnapshotsError
from image_format.reader import ImageFile
from image_format.snapshot_check import check_snapshots
from tests.recorded_cases import ALL_CASES

pytestmark = pytest.mark.recorded

# Inodes whose diffs a NameNode, and our loader, change while loading.
LOADED_OTHERWISE = {
    # a diff keeps no more blocks than its length needs, given the current lengths of the file's own blocks
    "hadoop-3.4.1/compress-lz4/before": {16409},
    "hadoop-3.4.1/compress-lz4/after": {16409},
    "hadoop-3.4.1/random-ec-5/before": {16402},
    # a created name that is listed twice
    "hadoop-3.4.1/random-capture-6/before": {16392},
}
IMAGES = [case.image(folder) for case in ALL_CASES if case.has_snapshots() for folder in ("before", "after")]


def image_id(path: Path) -> str:
    return "/".join(path.parts[-4:-1])


@pytest.mark.parametrize("whole", [False, True], ids=["as far as it takes", "whole"])
@pytest.mark.parametrize("path", IMAGES, ids=image_id)
def test_diffs_are_encoded_with_the_bytes_of_hadoop(path: Path, whole: bool) -> None:
    with ImageFile.open(path) as image:
        try:
            loaded = load_image(image)
            check_snapshots(loaded.index)
        except InconsistentSnapshotsError:
            if image_id(path).endswith("/after"):
                # no NameNode loads this image (docs/snapshots.md)
                return
            loaded = load_image(image)
        recorder, base = loaded.namespace.recorder, loaded.index.snapshot_index
        section = image.section("SNAPSHOT_DIFF")
        otherwise = LOADED_OTHERWISE.get(image_id(path), set()) | set(base.quota_copy_owners().tolist())
        expected = b""
        for inode_id in base.owners.tolist():
            if inode_id in otherwise:
                continue
            row = recorder.lookup.load_detached(inode_id)
            if whole:
                recorder.diffs.read(row)
            assert recorder.diffs.get(row) is not None
            recorder.diffs.touch(row)
            start, end = base.diff_span(inode_id)
            assert section is not None
            expected += section[start:end].tobytes()
        numbering = loaded.namespace.tree.references.number([], bool)
        assert b"".join(recorder.diffs.encode_changed(numbering)) == expected
