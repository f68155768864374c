"""Contents of a storage directory that was not in use: images that are kept, and images that are never the newest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.storage.directory_restoration import restore
from checkpointer.storage.inspector import StorageDirectory, StorageState, StoredImage
from checkpointer.storage.stale_contents import stale_contents
from engine.saver import save_image
from hadoop_common.names import image_name, md5_name, segment_name
from image_format.md5_file import md5_path, read_md5_file, write_md5_file
from tests.checkpointer.storage_support import (
    IMAGE_TXID,
    INFO,
    NEW_TXID,
    OpenDirectories,
    put_image,
    recorded_directory,
    recorded_image,
    save,
)


@pytest.mark.parametrize("restarted", [False, True])
def test_images_of_a_returned_directory_are_never_the_newest(tmp_path: Path, restarted: bool) -> None:
    """The NameNode was set back in the meantime, so images in the directory belong to a lost past and have higher
    txids.
    """
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    lost = NEW_TXID + 1000
    with OpenDirectories(roots) as storage:
        put_image(roots[0] / "current", lost)
        (roots[0] / "current" / segment_name(lost + 1, lost + 2)).write_bytes(b"edits")
        storage.drop(roots[0], "gone")
        save(storage)
        if not restarted:
            assert restore(storage) == [roots[0]]
            assert storage.latest_image().txid == NEW_TXID
    if restarted:
        with OpenDirectories(roots) as storage:
            assert storage.roots == roots
            assert storage.latest_image().txid == NEW_TXID
    (aside,) = (roots[0] / "lost_past").iterdir()
    names = {path.name for path in aside.iterdir()}
    assert {image_name(lost), md5_name(image_name(lost)), segment_name(lost + 1, lost + 2)} <= names
    # files that exist in both directories remain
    assert (roots[0] / "current" / image_name(IMAGE_TXID)).is_file()
    assert not (roots[1] / "lost_past").exists()


def test_images_purged_elsewhere_are_kept_in_a_returned_directory(tmp_path: Path) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        storage.drop(roots[0], "gone")
        save(storage)
        for path in (roots[1] / "current").glob(f"{image_name(IMAGE_TXID)}*"):
            path.unlink()
        for path in (roots[1] / "current").glob("edits_*"):
            path.unlink()
        rollback = roots[0] / "current" / image_name(IMAGE_TXID, rollback=True)
        plain = roots[0] / "current" / image_name(IMAGE_TXID)
        shutil.copy(plain, rollback)
        write_md5_file(rollback, read_md5_file(plain))
        names = {path.name for path in (roots[0] / "current").glob("fsimage_*")}
        assert restore(storage) == [roots[0]]
        assert {path.name for path in (roots[0] / "current").glob("fsimage_*")} == names


@pytest.mark.parametrize("lost", ["last bytes", "digest file"])
def test_intact_copy_of_an_image_damaged_elsewhere_is_kept(tmp_path: Path, lost: str) -> None:
    roots = [recorded_directory(tmp_path / name) for name in "ab"]
    with OpenDirectories(roots) as storage:
        copies = [put_image(root / "current", NEW_TXID) for root in roots]
        storage.drop(roots[0], "gone")
        if lost == "digest file":
            md5_path(copies[1]).unlink()
        else:
            copies[1].write_bytes(copies[1].read_bytes()[:-5])
        assert storage.latest_image().txid == IMAGE_TXID
        assert restore(storage) == [roots[0]]
        assert storage.latest_image() == (copies[0], NEW_TXID)
        # an image of another past, which nothing proves
        storage.drop(roots[0], "gone")
        copies[0].unlink()
        save_image([roots[0] / "current"], NEW_TXID, lambda sink: sink(recorded_image()))
        restore(storage)
        assert storage.latest_image().txid == IMAGE_TXID


@given(
    working=st.dictionaries(st.integers(1, 6), st.integers(0, 1), min_size=1, max_size=4),
    found=st.dictionaries(st.integers(1, 6), st.integers(0, 1), max_size=4),
)
def test_stale_directory_keeps_only_images_that_others_have(working: dict[int, int], found: dict[int, int]) -> None:
    """The arguments are images by txid; each image is from one of two pasts."""

    def listed(name: str, images: dict[int, int]) -> StorageDirectory:
        root = Path("/", name)
        stored = tuple(StoredImage(txid, root / f"{past}" / image_name(txid), True) for txid, past in images.items())
        return StorageDirectory(root, StorageState.NORMAL, INFO, stored)

    def same(path: Path, other: Path) -> bool:
        return (path.name, path.parent.name) == (other.name, other.parent.name)

    stale = stale_contents(listed("found", found), [listed("working", working)], min(working), same, same)
    left = {txid: past for txid, past in found.items() if image_name(txid) not in stale}
    assert left == {txid: past for txid, past in found.items() if txid < min(working) or working.get(txid) == past}
