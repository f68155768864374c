"""A NameNode replays our ignored operations without effect, and resolves odd paths as our replay does."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from engine.errors import CheckpointError
from hadoop_common.names import image_name
from image_format.md5_file import md5_path
from journal.ops import EditOp
from journal.segment_output import write_ops
from tests.engine.ignored_ops import IGNORED, SCENE, Ignored, scene
from tests.engine.image_builder import BASE_TXID, HADOOP2, HADOOP3, numbered
from tests.engine.odd_paths import CASES, LEASES, REFUSED, reported
from tests.interop.hadoop import Hadoop, HadoopRefusedError
from tests.recorded_cases import imgcmp

pytestmark = [pytest.mark.interop]

_VERSION = """namespaceID=7
clusterID=CID-paths
cTime=0
storageType=NAME_NODE
blockpoolID=BP-7-127.0.0.1-1
layoutVersion={layout}
"""
_CLOCK_FROM = 1_600_000_000_000
LOADERS = {HADOOP2: "hadoop_2", HADOOP3: "hadoop_3"}


@pytest.fixture
def hadoop(request: pytest.FixtureRequest, layout: int) -> Hadoop:
    """Return the loader of a layout's generation."""
    loader: Hadoop = request.getfixturevalue(LOADERS[layout])
    return loader


def named(value: int | tuple[EditOp, ...]) -> str:
    """Return the text of a parameter: a layout, or operations."""
    return str(value) if isinstance(value, int) else reported(value)


class _Clock:
    """The snapshot times, which Hadoop 2.7 takes from its clock during replay."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and _CLOCK_FROM < value < 1 << 62


def storage(folder: Path, ops: Sequence[EditOp], layout: int) -> Path:
    """Make a storage directory with an empty image and these operations."""
    current = folder / "name" / "current"
    base = scene(current, layout)
    (current / "VERSION").write_text(_VERSION.format(layout=layout))
    (current / "seen_txid").write_text(f"{BASE_TXID + 1}\n")
    write_ops(current, numbered(ops, BASE_TXID), layout)
    assert md5_path(base).exists()
    return current.parent


def theirs(hadoop: Hadoop, name: Path) -> Path:
    """Return the image that a NameNode makes of a copy of a storage directory, in which it begins a segment."""
    copy, out = name.parent / "copy", name.parent / "hadoop"
    shutil.copytree(name, copy)
    txid = hadoop.replay(copy, out)
    image = out / "current" / image_name(txid)
    image.with_name(f"fsimage.ckpt_{txid:019d}").rename(image)
    return image


def differences(*images: Path, counters: bool = True) -> list[str]:
    """Return the differences between two images.

    Args:
        counters: whether to compare the counters of the image, such as its txid.
    """
    sides = [imgcmp.Image(str(image)) for image in images]
    found: list[str] = imgcmp.compare(*sides, ignore_ns=not counters, clock=_Clock())
    return [line for line in found if counters or not line.startswith("INODE header")]


@pytest.mark.parametrize(("layout", "case"), [(layout, case) for case in IGNORED for layout in case.layouts], ids=str)
def test_a_namenode_also_ignores_our_ignored_operations(
    hadoop: Hadoop, tmp_path: Path, layout: int, case: Ignored
) -> None:
    name = storage(tmp_path / "with", [*SCENE, *case.before, case.op], layout)
    made = theirs(hadoop, name)
    result = merge_directory(plan_directory(name))
    assert result.ignored == 1
    assert differences(made, result.saved.paths[0]) == []
    without = theirs(hadoop, storage(tmp_path / "without", [*SCENE, *case.before], layout))
    assert differences(without, made, counters=False) == []


REPLAYED = [
    (layout, given, change) for given, *changes in CASES for layout, change in zip(LOADERS, changes, strict=True)
]
REFUSALS = [(layout, given) for layout, given, change in REPLAYED if change == REFUSED]
TAKEN = [(layout, given) for layout, given, change in REPLAYED if change != REFUSED]
TAKEN += [(layout, given) for given, _ in LEASES for layout in LOADERS]


@pytest.mark.parametrize(("layout", "given"), TAKEN, ids=named)
def test_a_namenode_resolves_odd_paths_as_we_do(
    hadoop: Hadoop, tmp_path: Path, layout: int, given: tuple[EditOp, ...]
) -> None:
    name = storage(tmp_path, [*SCENE, *given], layout)
    made = theirs(hadoop, name)
    assert differences(made, merge_directory(plan_directory(name)).saved.paths[0]) == []


@pytest.mark.parametrize(("layout", "given"), REFUSALS, ids=named)
def test_a_namenode_refuses_what_we_refuse(
    hadoop: Hadoop, tmp_path: Path, layout: int, given: tuple[EditOp, ...]
) -> None:
    name = storage(tmp_path, [*SCENE, *given], layout)
    with pytest.raises(HadoopRefusedError):
        theirs(hadoop, name)
    with pytest.raises(CheckpointError):
        merge_directory(plan_directory(name))
