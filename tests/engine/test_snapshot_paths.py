"""Deletion of a snapshot along the paths to its diffs, compared with a deletion that reads everything."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.reader import ImageFile
from image_tools.compare.comparison import ImageComparison
from journal.ops import EditOp
from tests.depth import examples
from tests.engine.image_builder import BASE_TXID, LAYOUTS, merge_bytes, store
from tests.engine.snapshot_model import BEGINNINGS, base
from tests.engine.snapshot_twin import SnapshotTwin, Step

_OFTEN = [
    SnapshotTwin.make_create_snapshot,
    SnapshotTwin.make_delete_snapshot,
    SnapshotTwin.make_rename_snapshot,
    SnapshotTwin.make_create,
    SnapshotTwin.make_mkdir,
    SnapshotTwin.make_rename,
    SnapshotTwin.make_delete,
    SnapshotTwin.make_set_permissions,
]
KINDS = st.sampled_from([SnapshotTwin.MAKERS.index(maker) for maker in _OFTEN]) | st.integers(0, 255)
STEPS = st.lists(st.tuples(KINDS, *[st.integers(0, 255)] * 3), min_size=15, max_size=90)


def merged_both_ways(source: Path, edits: list[EditOp]) -> bytes:
    """Return the image of a merge, which must be the same without the paths."""
    with patch("time.time_ns", lambda: 1_700_000_000_000_000_000):
        image = merge_bytes(source, edits)
        with patch("engine.namespace.reclaim.find_snapshot_paths", lambda *_: None):
            looked_at_all = merge_bytes(source, edits)
    with TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ways", Path(folder) / "all"
        ours.write_bytes(image)
        theirs.write_bytes(looked_at_all)
        with ImageFile.open(ours, verify_md5=False) as a, ImageFile.open(theirs, verify_md5=False) as b:
            assert [str(each) for each in ImageComparison(a, b).differences()] == []
    return image


@pytest.mark.parametrize("layout", LAYOUTS)
@examples(60)
@given(beginning=BEGINNINGS, steps=STEPS, first_merge=st.integers(0, 90))
def test_deletion_along_paths_equals_deletion_that_reads_everything(
    layout: int, beginning: list[Step], steps: list[Step], first_merge: int
) -> None:
    builder, twin = base(layout)
    steps = [*beginning, *steps]
    done = 0
    with TemporaryDirectory() as folder:
        source = builder.save(Path(folder))
        for part in (steps[:first_merge], steps[first_merge:]):
            edits = [op for step in part for op in twin.apply(step)]
            done += len(edits)
            source = store(Path(folder) / "second", merged_both_ways(source, edits), BASE_TXID + done)
