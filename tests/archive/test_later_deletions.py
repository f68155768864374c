"""Files of a restored moment that later operations deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.adding import add_directory
from archive.archive import open_archive
from archive.catalogue import MAIN
from archive.later_deletions import LaterPlaces, MomentBrowser, later_losses
from archive.moments import view_of
from image_format.reader import ImageFile
from journal.operation import EditOp
from tests.archive.random_history import cut_merge, random_ops, written
from tests.archive.storage import storage
from tests.depth import SEED, scaled
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder, Saved
from tests.engine.op_makers import delete, rename, rename_old

TRANSACTIONS = 80
FILES = ("/d/f", "/d/e/g", "/h")


@pytest.fixture
def places(tmp_path: Path) -> Iterator[LaterPlaces]:
    """An image with `FILES`."""
    builder = ImageBuilder(HADOOP3)
    for path in ("/d", "/d/e", "/t"):
        builder.directory(path)
    for path in FILES:
        builder.file(path)
    with ImageFile.open(builder.save(tmp_path), verify_md5=False) as image:
        yield LaterPlaces(MomentBrowser(image))


def lost(places: LaterPlaces, *ops: EditOp) -> list[int]:
    return [places.after(op).files for op in ops]


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        # through the trash, whose folder is renamed
        ([rename("/d", "/t/now/d"), rename("/t/now", "/t/1"), delete("/t/1")], [0, 0, 2]),
        ([delete("/d/e"), delete("/d")], [1, 1]),
        ([rename("/d/f", "/f"), delete("/d"), delete("/f")], [0, 1, 1]),
        ([rename_old("/d", "/t"), delete("/t/d/f"), rename_old("/h", "/t/d/new"), delete("/t/d")], [0, 1, 0, 2]),
        # later inodes at the paths of the image's inodes
        ([rename("/h", "/k"), delete("/h"), delete("/k"), delete("/k")], [0, 0, 1, 0]),
        ([rename("/d", "/k"), rename("/h", "/d/e"), delete("/d"), delete("/k")], [0, 0, 1, 2]),
        ([rename("/new", "/h", overwrite=True), delete("/h")], [1, 0]),
        ([rename("/d/f", "/h", overwrite=True), delete("/h"), delete("/d/f")], [1, 1, 0]),
        ([delete("/d"), rename("/new", "/d"), delete("/d/e"), delete("/d")], [2, 0, 0, 0]),
        # the root stays
        ([delete("/"), delete("//"), rename("/", "/k"), rename("/h", "/"), rename_old("/", "/k")], [0, 0, 0, 0, 0]),
        ([rename_old("/h", "/"), delete("/h"), delete("/d")], [0, 1, 2]),
    ],
)
def test_deleted_files_counted_for_each_operation(places: LaterPlaces, ops: list[EditOp], expected: list[int]) -> None:
    assert lost(places, *ops) == expected


def test_deep_paths(tmp_path: Path) -> None:
    """HDFS allows 999 levels, and a directory that is moved can become deeper."""
    builder = ImageBuilder(HADOOP3)
    builder.directory("/top")
    path = ""
    for _ in range(1200):
        path += "/d"
        builder.directory(path)
    builder.file(f"{path}/f")
    builder.file(f"{path}/g")
    with ImageFile.open(builder.save(tmp_path), verify_md5=False) as image:
        places = LaterPlaces(MomentBrowser(image))
        ops = [delete(f"{path}/f"), rename(f"{path}/g", f"{path}/h"), rename("/d/d", "/top/d"), delete("/top")]
        assert lost(places, *ops) == [1, 0, 0, 1]


def test_later_inodes_are_not_kept_in_memory(places: LaterPlaces) -> None:
    for number in range(100):
        assert lost(places, rename(f"/t/tmp-{number}", f"/d/{number}"), delete(f"/d/{number}")) == [0, 0]
    assert not places._root.children


@pytest.mark.parametrize("seed", range(SEED, SEED + scaled(100, quick=3)))
def test_losses_of_random_histories_equal_the_difference_of_images(seed: int, tmp_path: Path) -> None:
    """Lost files have inodes in the image at `moment`, but not in the newest image."""
    nn = storage(tmp_path / "nn")
    last = written(nn, random_ops(seed, TRANSACTIONS), seed)
    moment = (BASE_TXID + last) // 2
    image = cut_merge(nn, moment, tmp_path / "moment")
    before, after = Saved(image.read_bytes()), Saved(cut_merge(nn, last, tmp_path / "newest").read_bytes())
    gone = before.inodes.keys() - after.inodes.keys()
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
        found = later_losses(archive, view_of(archive.catalogue(), MAIN), moment, image, tmp_path)
    files = [before.inodes[each].file for each in gone if before.inodes[each].HasField("file")]
    assert found.files == len(files)
    assert found.length == sum(block.numBytes for file in files for block in file.blocks)
    assert bool(found.deletions) == bool(gone)
