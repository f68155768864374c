"""Every kernel also runs uncompiled, with the same results and the same effects on its arrays."""

from __future__ import annotations

import copy
import importlib
import itertools
import pkgutil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import image_format.kernels
from image_format.errors import RecordError
from image_format.inode_table import InodeTable
from image_format.kernels import inode, jit, prefetch, scan, tables
from image_format.name_order import name_key
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, encode_varint, read_record
from tests.image_format import record_cases, snapshot_cases
from tests.image_format.inode_cases import INODE_CASES, PLAIN_FILES, a_directory, a_file
from tests.image_format.kernel_values import numbers, octets, zeros
from tests.image_format.table_cases import TABLE_CASES

MODULES = [
    importlib.import_module(f"image_format.kernels.{module.name}")
    for module in pkgutil.iter_modules(image_format.kernels.__path__)
]
KERNELS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, jit.Kernel) and value.__module__ == module.__name__
}
CASES = {
    **snapshot_cases.SNAPSHOT_CASES,
    **snapshot_cases.CHECK_CASES,
    **record_cases.CASES,
    **INODE_CASES,
    **TABLE_CASES,
}


def plain(value: Any) -> Any:
    """Convert a result or an argument to a value that `==` compares."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def test_every_kernel_has_a_test_case() -> None:
    assert {name for name in KERNELS if name not in CASES} == set()
    assert set(CASES) <= set(KERNELS)


@pytest.mark.parametrize("name", CASES)
def test_compiled_and_uncompiled_kernels_agree(name: str) -> None:
    kernel = KERNELS[name]
    for make in CASES[name]:
        compiled, interpreted = make(), copy.deepcopy(make())
        assert plain(kernel(*compiled)) == plain(kernel.plainly(*interpreted))
        assert plain(compiled) == plain(interpreted)


# ---- damaged records must not lead a kernel out of its arrays ----------------------------------------------


def test_blocks_without_their_fields_are_damage() -> None:
    """Otherwise, the empty blocks of a record could exceed the space that the table reserves for blocks."""
    body = b"\x32\x00" * 5000
    record = b"\x08\x01\x10\x05\x22" + encode_varint(len(body)) + body
    with pytest.raises(RecordError, match="no inode record"):
        InodeTable(-63).load(octets(encode_varint(len(record)), record), 0, 0)


@pytest.mark.parametrize("tag", [0x11, 0x15, 0x19, 0x1D])
def test_children_of_another_wire_type_are_unknown_fields(tag: int) -> None:
    body = b"\x08\x01" + bytes([tag]) + b"\x01" * (8 if tag & 7 == 1 else 4)
    buffer = octets(bytes([len(body)]), body)
    assert scan.count_children(buffer, 0) == (0, 0)
    guard = zeros(16)
    assert scan.collect_children(buffer, 0, guard[:0], guard[:0]) == (1, False)
    assert guard.tolist() == [0] * 16


@pytest.mark.parametrize("value", [0, (1 << 64) - 5])
def test_inode_ids_must_be_positive(value: int) -> None:
    for message in (a_directory(1, b"d"), a_file(1, b"f")):
        message.id = value
        data = octets(encode_delimited(message), PLAIN_FILES[0])
        assert scan.scan_inodes(data, 0, data.size, zeros(4), zeros(4), 0, zeros(4), 0) == (0, 0, 0, True)
        with pytest.raises(RecordError):
            InodeTable(-63).load(data, 0, 0)
    entry = octets(encode_delimited(pb.DirEntry(parent=value)))
    assert scan.scan_directories(entry, 0, zeros(4), zeros(4), 0)[3]


@pytest.mark.parametrize("record", PLAIN_FILES[:3], ids=["usual", "smallest", "largest"])
def test_the_fast_path_reads_plain_files_and_skips_damaged_ones(record: bytes) -> None:
    inode = pb.INode.FromString(_body(record))
    assert scan._plain_file(octets(record), 0, len(record)) == (inode.id, len(record))
    for cut in range(len(record)):
        assert scan._plain_file(octets(record), 0, cut) == (0, 0)
    longer = encode_delimited(pb.INode.FromString(_body(record) + b"\xf8\x07\x01"))
    assert scan._plain_file(octets(longer), 0, len(longer)) == (0, 0)


@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=40), st.data())
def test_the_fast_path_for_plain_files_does_not_change_a_scan(ids: list[int], data: st.DataObject) -> None:
    """An unknown field makes the slow path read the same record."""
    names = [data.draw(st.binary(max_size=140)) for _ in ids]
    short = [encode_delimited(a_file(i, name)) for i, name in zip(ids, names, strict=True)]
    long = [encode_delimited(pb.INode.FromString(_body(record) + b"\xf8\x07\x01")) for record in short]
    found = []
    for chosen in (short, long):
        buffer, slots, offsets = octets(*chosen), zeros(50), zeros(50)
        walked = scan.scan_inodes(buffer, 0, buffer.size, slots, offsets, 0, zeros(9), 0)
        assert walked == (len(ids), 0, buffer.size, False)
        assert offsets[: len(ids)].tolist() == [0, *itertools.accumulate(map(len, chosen[:-1]))]
        found.append(slots[: len(ids)].tolist())
    assert found == [ids, ids]


@given(st.binary(max_size=140), st.integers(1, 1 << 62), st.data())
def test_fast_path_and_slow_path_find_the_same_name(name: bytes, inode_id: int, data: st.DataObject) -> None:
    """An unknown field, or a name in another place, makes the slow path read the same record."""
    body = _body(encode_delimited(data.draw(st.sampled_from([a_file, a_directory]))(inode_id, name)))
    again = b"\x1a" + encode_varint(19) + b"the last one counts"
    bodies = {body: name, body + b"\xf8\x07\x01": name, body + again: b"the last one counts"}
    for each, expected in bodies.items():
        record = octets(encode_varint(len(each)), each, data.draw(st.binary(max_size=20)))
        start, size = scan.name_span(record, 0)
        assert record[start : start + size].tobytes() == expected
        short = scan._plain_name(record, 0)
        assert short in ((start, size), (0, -1))
        if each != body:
            assert short == (0, -1)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_names_are_in_the_order_of_signed_bytes(common: bytes, a: bytes, b: bytes) -> None:
    a, b = common + a, common + b
    found = scan.compare_names(octets(b"x", a), 1, len(a), octets(b), 0, len(b))
    assert np.sign(found) == (name_key(a) > name_key(b)) - (name_key(a) < name_key(b))


def _body(record: bytes) -> bytes:
    return bytes(read_record(memoryview(record)).body)


@given(st.integers(0, 9000), st.data())
def test_equal_ids_are_not_strictly_increasing(size: int, data: st.DataObject) -> None:
    ids = np.arange(1, size + 1)
    assert scan.strictly_increasing(ids)
    if size > 1:
        at = data.draw(st.integers(1, size - 1))
        ids[at] = ids[at - 1]
        assert not scan.strictly_increasing(ids)


@jit.kernel
def _prefetched(array, row):
    prefetch.prefetch(array, row)
    return row


@pytest.mark.parametrize("row", [0, 2, 3, 1 << 20, -1, (1 << 62) + 5, -(1 << 63)])
def test_kernels_can_prefetch_any_row(row: int) -> None:
    for array in (octets(b"abc"), numbers(1, 2, 3), np.zeros((3, 2), np.int64), np.zeros(3, inode.INODE_DTYPE)):
        before = array.copy()
        assert _prefetched(array, row) == _prefetched.plainly(array, row) == row
        assert (array == before).all()


@pytest.mark.parametrize("size", range(7, 27))
def test_numbered_names_have_different_hashes(size: int) -> None:
    """The hashes also differ in the bits that select a bucket in a small table, whatever follows the numbers."""
    count = 5000
    for form in ("{:0{size}d}", "{:0{size}d}_0"):
        names = [form.format(number, size=size - len(form.format(0, size=1)) + 1).encode() for number in range(count)]
        assert {len(name) for name in names} == {size}
        hashes = {int(tables.hash_name(5, np.frombuffer(name, np.uint8), 0, size)) for name in names}
        assert len(hashes) > 0.99 * count
        assert len({value >> 32 & 0x1FFF for value in hashes}) > 0.9 * 0x2000 * (1 - np.exp(-count / 0x2000))
