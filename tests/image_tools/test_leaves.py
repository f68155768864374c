"""Sizes that kernels read from inode records, with a shorter code path for usual records."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.erasure_policies import ErasurePolicy
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import encode_delimited, encode_varint
from image_tools.directory_sums import policy_units
from image_tools.kernels import leaves
from image_tools.namespace_browser import leaf_totals
from tests.depth import examples

POLICIES = {1: ErasurePolicy("RS-6-3-1024k", "rs", 6, 3, 1 << 20)}
UNITS = policy_units(POLICIES)
AFTER = bytes(leaves.MAX_READ_AFTER)


def inode(chance: random.Random) -> pb.INode:
    """Return an inode, mostly in the form that NameNodes write most often."""
    kinds = pb.INode.FILE, pb.INode.FILE, pb.INode.FILE, pb.INode.DIRECTORY, pb.INode.SYMLINK
    made = pb.INode(type=chance.choice(kinds), id=chance.randrange(1 << chance.choice((14, 40, 64))))
    made.name = b"n" * chance.choice((0, 1, 40, 127, 128, 255))
    if made.type == pb.INode.DIRECTORY:
        made.directory.modificationTime = chance.randrange(1 << 41)
        made.directory.nsQuota = made.directory.dsQuota = (1 << 64) - 1
    elif made.type == pb.INode.SYMLINK:
        made.symlink.target = b"/t"
    else:
        _fill(made.file, chance)
    return made


def _fill(file: pb.INodeFile, chance: random.Random) -> None:
    for name, most in (("replication", 9), ("modificationTime", 1 << 41), ("accessTime", 1 << 41), ("permission", 99)):
        if chance.random() < 0.95:
            setattr(file, name, chance.randrange(most))
    file.preferredBlockSize = chance.choice((128 << 20, 1 << 50))
    for _ in range(chance.choice((0, 1, 1, 2, 9))):
        stamp, size = chance.randrange(1 << chance.choice((10, 30))), chance.randrange(1 << chance.choice((7, 27, 40)))
        file.blocks.add(blockId=chance.randrange(1 << chance.choice((31, 64))), genStamp=stamp, numBytes=size)
    if chance.random() < 0.2:
        file.replication = chance.choice((0, 127, 128, 512))
    if chance.random() < 0.2:
        file.fileUC.clientName = "c"
    if chance.random() < 0.2:
        file.acl.entries.extend(range(chance.choice((1, 40))))
    if chance.random() < 0.2:
        file.xAttrs.xAttrs.add(name=1, value=b"v" * chance.choice((3, 200)))
    if chance.random() < 0.5:
        file.storagePolicyID = chance.choice((7, 200))
    if chance.random() < 0.5:
        file.blockType = pb.STRIPED if chance.random() < 0.5 else pb.CONTIGUOUS
    if chance.random() < 0.2:
        file.erasureCodingPolicyID = chance.choice((1, 2))


def read(data: bytes, *, compiled: bool = True) -> list[int]:
    found = np.empty((1, 3), np.int64)
    kernel = leaves.read_leaves if compiled else leaves.read_leaves.plainly
    damaged = kernel(np.frombuffer(data, np.uint8), np.zeros(1, np.int64), UNITS, found)
    return [-1] if damaged == 0 else found[0].tolist()


@pytest.mark.parametrize("compiled", [True, False])
def test_sizes_equal_those_of_the_protobuf_message(compiled: bool) -> None:
    chance = random.Random(1)
    for _ in range(2000 if compiled else 100):
        made = inode(chance)
        totals = leaf_totals(made, POLICIES) if made.type != pb.INode.DIRECTORY else None
        expected = [made.type, 0, 0] if totals is None else [made.type, totals.length, totals.space]
        data = encode_delimited(made)
        assert read(data, compiled=compiled) == expected
        assert read(data + AFTER, compiled=compiled) == expected


@examples(2_000)
@given(seed=st.integers(0, 1 << 32), changes=st.integers(0, 4))
def test_both_paths_read_damaged_records_alike(seed: int, changes: int) -> None:
    """Only the last records of a section are never read by the shorter path."""
    chance = random.Random(seed)
    body = bytearray(inode(chance).SerializeToString())
    for _ in range(changes):
        body[chance.randrange(len(body))] = chance.choice((0, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    data = encode_varint(len(body)) + bytes(body)
    assert read(data) == read(data + AFTER)
