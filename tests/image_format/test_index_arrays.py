"""The arrays of an index for images with ids in any order, and the memory that their creation requires."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.index import ImageIndex
from image_format.index_arrays import IndexArrays
from image_format.packed import Packed
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited
from tests.image_format.index_support import ROOT, directory, file, write


@given(st.lists(st.integers(1, 1 << 20) | st.integers(1, 1 << 62), unique=True, max_size=200), st.data())
def test_ids_may_be_in_any_order(tmp_path_factory: pytest.TempPathFactory, ids: list[int], data: st.DataObject) -> None:
    path = write(tmp_path_factory.mktemp("order") / "fsimage_7", [file(each) for each in ids])
    with ImageFile.open(path, verify_md5=False) as image:
        arrays = IndexArrays.scan(image)
        assert arrays.ids.all().tolist() == sorted(ids)
        assert (arrays.slots.size == 0) == (ids == sorted(ids))
        slots = data.draw(st.lists(st.integers(0, len(ids) - 1), max_size=20)) if ids else []
        assert arrays.ids_at(np.array(slots, np.int64)).tolist() == [ids[slot] for slot in slots]
        assert arrays.slots_of(np.array(ids, np.int64)).tolist() == list(range(len(ids)))
        assert arrays.slot(1 << 63 - 1) == (ids.index(1 << 62) if 1 << 62 in ids else -1)


def test_a_duplicate_inode_id_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "fsimage_7", [file(9), file(5), file(9)])
    with ImageFile.open(path, verify_md5=False) as image, pytest.raises(RecordError, match="inode 9 has two records"):
        IndexArrays.scan(image)


class WatchedRoom(ArrayAllocator):
    """Allocator that records its maximum."""

    most = 0

    def block(self, size: int):
        made = super().block(size)
        self.most = max(self.most, self.in_memory)
        return made

    def longer(self, block, size: int):
        made = super().longer(block, size)
        self.most = max(self.most, self.in_memory)
        return made


def test_memory_limit_for_ids_in_hash_table_order(tmp_path: Path) -> None:
    """A NameNode writes inodes in this order: the ids of neighbours differ by the size of its hash table."""
    count, table = 100_000, 1 << 17
    ids = np.arange(count) % 10 * table + np.arange(count) // 10 + ROOT
    path = write(tmp_path / "fsimage_7", [file(int(each)) for each in ids])
    allocator = WatchedRoom(smallest=0)
    with ImageFile.open(path, verify_md5=False) as image:
        arrays = IndexArrays.scan(image, allocator)
        assert arrays.ids.nbytes + arrays.offsets.nbytes + arrays.slots.nbytes < 8.5 * count
        assert arrays.slots_of(ids[::1000].copy()).tolist() == list(range(0, count, 1000))
    assert allocator.most < 21 * count


@pytest.mark.parametrize("children", [[16386, 16387, 16388], [16388, 16387], [16387, 16386, -5 & (1 << 64) - 1]])
def test_unordered_children_with_a_missing_inode_are_an_error(tmp_path: Path, children: list[int]) -> None:
    records = [directory(ROOT, b""), file(16386, b"b"), file(16387, b"a"), file(16390, b"c")]
    entry = encode_delimited(pb.DirEntry(parent=ROOT, children=children))
    with ImageFile.open(write(tmp_path / "fsimage_7", records, entry), verify_md5=False) as image:
        index = ImageIndex(image)
        with pytest.raises(RecordError, match=f"directory {ROOT} has a child that is not an inode") as caught:
            index.children(ROOT)
        assert "INODE_DIR" in str(caught.value)


def test_rows_outside_a_column_raise_index_error() -> None:
    column = Packed.of(np.arange(5))
    for row in (-1, 5):
        with pytest.raises(IndexError):
            column.item(row)
        with pytest.raises(IndexError):
            column.at(np.array([0, row]))
    with pytest.raises(IndexError):
        column.part(-1, 3)
    assert column.part(4, 9).tolist() == [4]
    assert column.part(7, 9).size == 0
