"""Snapshots under random operations, compared with a twin that stores a full copy of the tree for each snapshot."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.ops import EditOp
from tests.depth import examples
from tests.engine.image_builder import BASE_TXID, LAYOUTS, Saved, merge_bytes, store
from tests.engine.snapshot_model import BEGINNINGS, STEPS, base, check
from tests.engine.snapshot_reader import Seen, SnapshotReader
from tests.engine.snapshot_twin import Step


def trees(reader: SnapshotReader) -> dict[object, dict[str, Seen]]:
    """Return the views of the current state and of every snapshot."""
    snapshots = {key: reader.tree(key[0], found.snapshotId) for key, found in reader.snapshots.items()}
    return {"present": reader.tree(), **snapshots}


@pytest.mark.parameters(1)
@pytest.mark.parametrize("layout", LAYOUTS)
@examples(150)
@given(beginning=BEGINNINGS, steps=STEPS, first_merge=st.integers(0, 80), unsorted=st.booleans())
def test_every_snapshot_equals_the_tree_at_its_creation(
    layout: int, beginning: list[Step], steps: list[Step], first_merge: int, unsorted: bool
) -> None:
    """Two merges, the second of which begins with the image of the first, give the same views as one merge of all
    edits.
    """
    builder, twin = base(layout)
    if unsorted:
        builder.order = lambda inode: inode.id * 7919 % 1009
        builder.unsorted = True
    steps = [*beginning, *steps]
    all_ops: list[EditOp] = []
    with TemporaryDirectory() as folder:
        first = source = builder.save(Path(folder))
        for part in (steps[:first_merge], steps[first_merge:]):
            given_ops = [op for step in part for op in twin.apply(step)]
            all_ops += given_ops
            image = merge_bytes(source, given_ops)
            in_two = SnapshotReader(Saved(image))
            check(in_two, twin)
            source = store(Path(folder) / "second", image, BASE_TXID + len(all_ops))
        at_once = SnapshotReader(Saved(merge_bytes(first, all_ops)))
        check(at_once, twin)
    assert trees(at_once) == trees(in_two)
