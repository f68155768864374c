"""Repeated writes of one namespace: a write computes numbers for the image, and does not change the namespace."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.merge import LoadedImage, load_image
from engine.replay import replay
from image_format.reader import ImageFile
from journal.ops import EditOp
from tests.depth import examples
from tests.engine.image_builder import LAYOUTS, Saved, merge_bytes, numbered, store
from tests.engine.op_makers import delete, mkdir, rename, set_permissions
from tests.engine.snapshot_model import BEGINNINGS, STEPS, base, check
from tests.engine.snapshot_reader import SnapshotReader
from tests.engine.snapshot_support import NEW, Setting, allow, create, remove
from tests.engine.snapshot_twin import Step

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def image_of(loaded: LoadedImage) -> bytes:
    out = bytearray()
    loaded.write(out.extend)
    return bytes(out)


def play(loaded: LoadedImage, given_ops: list[EditOp]) -> None:
    replay(loaded.namespace, numbered(given_ops, loaded.namespace.last_txid))


PARTS: list[list[EditOp]] = [
    [allow(), create("s0"), mkdir("/y", NEW), rename("/s/f", "/z/a"), rename("/s/d/f", "/y/b")],
    [rename("/s/d/e", "/y/c"), delete("/z/a"), set_permissions("/y/c", 0o700)],
    [rename("/y/b", "/s/d/f"), create("s1"), delete("/y/c"), mkdir("/s/d/n", NEW + 1)],
    [remove("s0"), delete("/s/d")],
    [remove("s1")],
]


@layouts
@pytest.mark.parametrize("renamed_before", [False, True])
def test_each_written_image_equals_a_single_merge(tmp_path: Path, layout: int, renamed_before: bool) -> None:
    """The base image has references, whose numbers change, or has none."""
    source = Setting(tmp_path, layout).builder.save(tmp_path)
    parts = PARTS
    if renamed_before:
        source = store(tmp_path / "first", merge_bytes(source, PARTS[0]), 100 + len(PARTS[0]))
        parts = PARTS[1:]
    played: list[EditOp] = []
    with ImageFile.open(source) as image:
        loaded = load_image(image)
        for part in parts:
            play(loaded, part)
            played += part
            written = [image_of(loaded) for _ in range(2)]
            assert written[0] == written[1]
            if layout == -67:
                # During replay, Hadoop 2.7 reads a snapshot's time from the clock.
                assert written[0] == merge_bytes(source, played)
            SnapshotReader(Saved(written[0])).check()


@layouts
@examples(40)
@given(beginning=BEGINNINGS, steps=STEPS, cuts=st.lists(st.integers(0, 80), min_size=2, max_size=4))
def test_random_operations_between_writes(
    tmp_path_factory: pytest.TempPathFactory, layout: int, beginning: list[Step], steps: list[Step], cuts: list[int]
) -> None:
    builder, twin = base(layout)
    steps = [*beginning, *steps]
    bounds = [0, *sorted(cuts), len(steps)]
    with ImageFile.open(builder.save(tmp_path_factory.mktemp("image"))) as image:
        loaded = load_image(image)
        for first, behind in itertools.pairwise(bounds):
            play(loaded, [op for step in steps[first:behind] for op in twin.apply(step)])
            check(SnapshotReader(Saved(image_of(loaded))), twin)
