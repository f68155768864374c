"""A scan of the INODE section by several threads finds the same inodes as one walk from start to end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format import inode_scan
from image_format.array_allocator import ArrayAllocator
from image_format.errors import RecordError
from image_format.kernels.scan import find_record
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import encode_delimited
from tests.depth import examples
from tests.image_format.image_support import build_image, image_id, minimal_sections, recorded_images

WHOLE = 1 << 40
Outcome = tuple[list[int], list[int], list[int]] | str


def a_file(inode_id: int, name: bytes, xattr: bytes = b"") -> bytes:
    inode = pb.INode(type=pb.INode.FILE, id=inode_id, name=name)
    inode.file.replication = 3
    if xattr:
        inode.file.xAttrs.xAttrs.add(name=1, value=xattr)
    return encode_delimited(inode)


def a_directory(inode_id: int, name: bytes, limited: bool) -> bytes:
    inode = pb.INode(type=pb.INode.DIRECTORY, id=inode_id, name=name)
    inode.directory.permission = 0o755
    if limited:
        inode.directory.typeQuotas.quotas.add(storageType=pb.SSD, quota=3)
    return encode_delimited(inode)


FORGED = b"".join(a_file(number, b"forged") for number in range(1, 20))
"""Records within a record, which a scan that starts in the middle could accept as real records."""


def section(records: Sequence[bytes], count: int | None = None) -> bytes:
    header = pb.INodeSection(lastInodeId=1 << 30, numInodes=len(records) if count is None else count)
    return b"".join([encode_delimited(header), *records])


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(build_image([(name, data if name == "INODE" else body) for name, body in minimal_sections()]))
    return path


def scan(path: Path, piece: int, threads: int) -> Outcome:
    with (
        patch.object(inode_scan, "PIECE", piece),
        ImageFile.open(path, verify_md5=False) as image,
        ThreadPoolExecutor(threads) as executor,
    ):
        try:
            found = inode_scan.scan_inode_section(image, executor, ArrayAllocator())
            ids = found.ids.all().tolist()
            assert found.ascending == all(a < b for a, b in itertools.pairwise(ids))
            return ids, found.offsets.all().tolist(), found.limited.tolist()
        except RecordError as error:
            return str(error)


records = st.builds(
    lambda kind, inode_id, name, limited: (
        a_directory(inode_id, name, limited)
        if kind == "directory"
        else a_file(inode_id, name, FORGED if kind == "forged" else b"")
    ),
    st.sampled_from(["file", "file", "file", "directory", "forged"]),
    st.integers(1, 1 << 40),
    st.binary(max_size=30),
    st.booleans(),
)


@examples(150)
@given(
    records=st.lists(records, max_size=60),
    piece=st.integers(1, 700),
    threads=st.integers(1, 4),
    more=st.sampled_from([0, 0, 0, 1, -1]),
    fault=st.none() | st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)),
)
def test_a_scan_in_pieces_equals_a_scan_of_the_whole_section(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[bytes],
    piece: int,
    threads: int,
    more: int,
    fault: tuple[int, int] | None,
) -> None:
    data = bytearray(section(records, max(0, len(records) + more)))
    start = len(data) - sum(map(len, records))
    if fault is not None and records:
        data[start + fault[0] % (len(data) - start)] = fault[1]
    path = write(tmp_path_factory.mktemp("scan") / "fsimage_7", bytes(data))
    whole = scan(path, WHOLE, 1)
    assert scan(path, piece, threads) == whole
    if fault is None and not more and records:
        assert isinstance(whole, tuple)
        assert whole[1] == (start + np.cumsum([0, *map(len, records)])[:-1]).tolist()


def test_a_record_may_be_larger_than_a_piece(tmp_path: Path) -> None:
    sizes = [a_file(number, b"f", b"x" * 1000 if number % 3 else b"") for number in range(1, 30)]
    path = write(tmp_path / "fsimage_7", section(sizes))
    assert scan(path, 100, 3) == scan(path, WHOLE, 1)


def test_the_first_fault_is_reported(tmp_path: Path) -> None:
    data = section([a_file(number, b"name") for number in range(1, 100)])
    size = len(a_file(1, b"name"))
    start = len(data) - 99 * size
    damaged = bytearray(data)
    for number in (30, 31, 80):
        damaged[start + number * size + 1] = 0xFF
    path = write(tmp_path / "fsimage_7", bytes(damaged))
    found = scan(path, 3 * size, 4)
    assert isinstance(found, str)
    assert "damaged inode record" in found
    assert found == scan(path, WHOLE, 1)


def test_a_scan_does_not_search_for_a_record_in_the_first_piece(tmp_path: Path) -> None:
    """The Python form of the search would walk a damaged section byte by byte."""
    path = write(tmp_path / "fsimage_7", section([b"\0" * 1000], 1))
    with patch.object(inode_scan, "find_record", side_effect=find_record) as searched:
        assert "damaged inode record" in str(scan(path, WHOLE, 1))
    ((_, pos, stop),) = (call.args for call in searched.call_args_list)
    assert pos == stop


def test_the_search_can_mistake_forged_records_for_real_ones() -> None:
    data = np.frombuffer(a_file(5, b"n", FORGED), np.uint8)
    inside = data.tobytes().index(FORGED)
    assert find_record(data, 1, data.size) == inside
    assert find_record(data, 0, data.size) == 0


@pytest.mark.parametrize("path", recorded_images()[::5], ids=image_id)
def test_recorded_images_can_be_scanned_in_small_pieces(path: Path) -> None:
    assert scan(path, 200, 2) == scan(path, WHOLE, 1)


def test_smallest_records_are_found_and_wrong_counts_reported(tmp_path: Path) -> None:
    smallest = b"\x04\x08\x01\x10\x05"
    assert scan(write(tmp_path / "fsimage_7", section([smallest] * 1000)), 300, 2) == scan(
        tmp_path / "fsimage_7", WHOLE, 1
    )
    for count in (999, 836, 1001):
        found = scan(write(tmp_path / "fsimage_7", section([smallest] * 1000, count)), WHOLE, 1)
        assert isinstance(found, str)
        assert f"header counts {count} inodes, found" in found
