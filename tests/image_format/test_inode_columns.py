"""The kernels that make columns of inodes and paths, each compared with a plain twin."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.java_numbers import signed64
from image_format.errors import BufferOrigin, RecordError
from image_format.inode_columns import InodeColumns, read_inode_columns
from image_format.kernels.directory_tree import (
    NOT_IN_TREE,
    directory_lengths,
    fill_directory_paths,
    fill_names,
    fill_paths,
)
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited
from tests.image_format.inode_table_support import inodes

PLACE = BufferOrigin("image", "INODE")
NAMES = ("id", "kind", "permission", "length", "mtime", "atime", "replication", "block_size", "block_count")
MORE = ("storage_policy", "ec_policy", "ns_quota", "ds_quota", "has_xattrs")


def section(messages: list[pb.INode]) -> tuple[np.ndarray, np.ndarray]:
    """Return records one after the other after a header, and the offset of each."""
    records = [encode_delimited(message) for message in messages]
    starts = np.cumsum([3, *map(len, records)])
    return np.frombuffer(b"\0\0\0" + b"".join(records), np.uint8), starts[:-1].astype(np.int64)


def twin(inode: pb.INode) -> dict[str, int]:
    """Return the expected row, as the protobuf library decodes it."""
    row = dict.fromkeys((*NAMES, *MORE), 0) | {"id": inode.id, "kind": inode.type}
    row |= {"storage_policy": -1, "ec_policy": -1}
    if inode.HasField("file"):
        file = inode.file
        row["length"] = sum(block.numBytes for block in file.blocks)
        row |= {"block_count": len(file.blocks), "block_size": file.preferredBlockSize}
        row |= {"replication": file.replication, "storage_policy": file.storagePolicyID}
        row["ec_policy"] = file.erasureCodingPolicyID if file.HasField("erasureCodingPolicyID") else -1
        row |= {"mtime": file.modificationTime, "atime": file.accessTime, "permission": file.permission}
    elif inode.HasField("directory"):
        directory = inode.directory
        row |= {"mtime": directory.modificationTime, "permission": directory.permission}
        row |= {"ns_quota": directory.nsQuota, "ds_quota": directory.dsQuota}
        row["has_xattrs"] = int(directory.HasField("xAttrs"))
    else:
        link = inode.symlink
        row |= {"mtime": link.modificationTime, "atime": link.accessTime, "permission": link.permission}
    return {name: signed64(value % (1 << 64)) for name, value in row.items()}


@given(st.lists(inodes(), max_size=8), st.none() | st.integers(0, 255))
def test_columns_equal_the_fields_that_protobuf_reads(messages: list[pb.INode], coding: int | None) -> None:
    for message in messages:
        if message.HasField("file") and coding is not None:
            message.file.erasureCodingPolicyID = coding
    buffer, offsets = section(messages)
    columns = read_inode_columns(buffer, offsets, PLACE)
    for row, message in enumerate(messages):
        assert {name: int(getattr(columns, name)[row]) for name in (*NAMES, *MORE)} == twin(message)
        start, size = int(columns.name_start[row]), int(columns.name_size[row])
        assert buffer[start : start + size].tobytes() == message.name


@given(inodes(), st.data())
def test_damage_gives_an_error_or_a_row_but_never_a_crash(message: pb.INode, data: st.DataObject) -> None:
    record = bytearray(encode_delimited(message))
    for _ in range(data.draw(st.integers(1, 4))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    cut = record[: data.draw(st.integers(0, len(record)))]
    with contextlib.suppress(RecordError):
        columns = read_inode_columns(np.frombuffer(bytes(cut), np.uint8), np.zeros(1, np.int64), PLACE)
        assert columns.id[0] > 0
        assert columns.name_start[0] + columns.name_size[0] <= len(cut)


def test_the_error_gives_the_offset_of_a_damaged_record() -> None:
    good = pb.INode(type=pb.INode.FILE, id=1, name=b"a", file=pb.INodeFile(permission=1))
    mixed = pb.INode(type=pb.INode.DIRECTORY, id=2, name=b"b", file=pb.INodeFile(permission=1))
    buffer, offsets = section([good, mixed])
    with pytest.raises(RecordError) as raised:
        read_inode_columns(buffer, offsets, PLACE)
    assert (raised.value.section, raised.value.offset) == ("INODE", offsets[1])


def test_every_field_of_empty_columns_is_an_array() -> None:
    columns = read_inode_columns(np.zeros(0, np.uint8), np.zeros(0, np.int64), PLACE)
    assert isinstance(columns, InodeColumns)
    assert {array.size for array in columns} == {0}


# ---- paths ---------------------------------------------------------------------------------------------------


def twin_path(row: int, parents: list[int], names: list[bytes], root: int) -> bytes | None:
    """Return the path of an inode, None outside the tree; raise RecursionError for a directory within itself."""
    if row == root:
        return b""
    above = parents[row]
    path = None if above < 0 else twin_path(above, parents, names, root)
    return None if path is None else path + b"/" + names[row]


def packed(names: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = np.array([len(name) for name in names], np.int64)
    return np.frombuffer(b"".join(names), np.uint8), np.cumsum(sizes) - sizes, sizes


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[int], list[bytes], int]:
    count = draw(st.integers(1, 20))
    parents = draw(st.lists(st.integers(-1, count - 1), min_size=count, max_size=count))
    names = draw(st.lists(st.binary(min_size=1, max_size=9), min_size=count, max_size=count))
    return parents, names, draw(st.integers(-1, count - 1))


@given(chains())
def test_paths_equal_those_of_a_walk_to_the_root(chain: tuple[list[int], list[bytes], int]) -> None:
    parents, names, root = chain
    count = len(names)
    lengths, order = np.empty(count, np.int64), np.empty(count, np.int64)
    above = np.array(parents, np.int64)
    buffer, starts, sizes = packed(names)
    cyclic = directory_lengths(above, sizes, root, lengths, order)
    try:
        expected = [twin_path(row, parents, names, root) for row in range(count)]
    except RecursionError:
        with pytest.raises(RecursionError):
            twin_path(int(cyclic), parents, names, root)
        return
    assert cyclic == -1
    assert lengths.tolist() == [NOT_IN_TREE if path is None else len(path) for path in expected]
    assert sorted(order.tolist()) == list(range(count))
    bounds = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))])
    paths = np.zeros(int(bounds[-1]), np.uint8)
    fill_directory_paths(buffer, above, starts, sizes, root, order, bounds, paths)
    assert [paths[bounds[i] : bounds[i + 1]].tobytes() for i in range(count)] == [path or b"" for path in expected]


@given(st.lists(st.tuples(st.integers(-1, 2), st.binary(max_size=9)), max_size=20))
def test_names_and_paths_are_concatenated_in_order(children: list[tuple[int, bytes]]) -> None:
    directories = [b"", b"/a", b"/a/bc"]
    paths, path_starts, path_sizes = packed(directories)
    bounds = np.append(path_starts, path_starts[-1] + path_sizes[-1])
    names = [name for _, name in children]
    rows = np.array([row for row, _ in children], np.int64)
    buffer, starts, sizes = packed(names)
    expected = [(b"" if row < 0 else directories[row]) + b"/" + name for row, name in children]
    for wanted, fill in ((names, False), (expected, True)):
        out, ends = np.zeros(sum(map(len, wanted)), np.uint8), np.empty(len(wanted) + 1, np.int32)
        if fill:
            fill_paths(buffer, rows, bounds, paths, starts, sizes, ends, out)
        else:
            fill_names(buffer, starts, sizes, ends, out)
        assert [out[ends[i] : ends[i + 1]].tobytes() for i in range(len(wanted))] == wanted
