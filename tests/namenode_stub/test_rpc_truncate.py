"""ClientProtocol over real sockets: truncation between and inside blocks."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.proto import client_namenode_pb2 as pb
from namenode_stub.node import NameNodeStub
from tests.namenode_stub.rpc_support import MASK64, Dfs, logged_since, refused, rpc_config, serving, without_clocks

ME = getpass.getuser()
BLOCK = 128 << 20


def truncate(dfs: Dfs, path: str, length: int, holder: str = "DFSClient_1") -> bool:
    request = pb.TruncateRequestProto(src=path, newLength=length & MASK64, clientName=holder)
    return dfs.call("truncate", request, pb.ResultProto).result


def write(stub: NameNodeStub, path: str, blocks: int = 3, last: int = 100) -> None:
    """Write a closed file of some blocks, the last with `last` bytes."""
    stub.namespace.create(path)
    for _ in range(blocks):
        stub.namespace.files.add_block(path)
    stub.namespace.files.close(path, last)


def lengths(stub: NameNodeStub, path: str) -> list[int]:
    return [length for _, length, _ in stub.namespace.status(path).blocks]


def summary(ops: list[Any]) -> list[str]:
    return [op.name.removeprefix("OP_") for op in ops]


@pytest.mark.parametrize("layout", [-63, -67])
def test_truncation_at_a_block_boundary_completes_at_once(tmp_path: Path, layout: int) -> None:
    config = rpc_config(tmp_path, layout)
    with serving(config, ME) as (stub, dfs):
        write(stub, "/f")
        first = stub.namespace.transactions.last_txid
        assert truncate(dfs, "/f", 2 * BLOCK + 100)
        assert stub.namespace.transactions.last_txid == first
        assert truncate(dfs, "/f", BLOCK)
        assert (lengths(stub, "/f"), stub.namespace.status("/f").open) == ([BLOCK], False)
        assert truncate(dfs, "/f", 0)
        assert lengths(stub, "/f") == []
        logged = logged_since(stub, first)
        assert summary(logged) == ["TRUNCATE", "TRUNCATE"]
        assert [(op.new_length, op.truncate_block) for op in logged] == [(BLOCK, None), (0, None)]
        before = stub.namespace.walk()
    with serving(config, ME) as (stub, _):
        assert stub.namespace.walk() == before


@pytest.mark.parametrize("layout", [-63, -67])
def test_truncation_inside_a_block_needs_a_datanode(tmp_path: Path, layout: int) -> None:
    config = rpc_config(tmp_path, layout)
    with serving(config, ME) as (stub, dfs):
        write(stub, "/f")
        first, blocks = stub.namespace.transactions.last_txid, stub.namespace.status("/f").blocks
        assert not truncate(dfs, "/f", BLOCK + 7)
        logged = logged_since(stub, first)
        assert summary(logged) == ["SET_GENSTAMP_V2", "TRUNCATE"]
        block_id, size, genstamp = blocks[1]
        # As Hadoop 2.7.3 logs it: the block with its previous length and the generation stamp of its recovery.
        assert logged[1].truncate_block == (block_id, size, logged[0].genstamp)
        assert logged[0].genstamp > genstamp
        status = stub.namespace.status("/f")
        assert (status.open, status.blocks) == (True, blocks[:2])
        assert not dfs.path("isFileClosed", "/f", pb.ResultProto).result
        # Repeating the call is not an error, but a call with another length is an error.
        assert not truncate(dfs, "/f", BLOCK + 7, "DFSClient_2")
        assert refused(dfs, lambda d: truncate(d, "/f", 5)) == "AlreadyBeingCreatedException"
        assert stub.namespace.transactions.last_txid == first + 2
        before = stub.namespace.walk()
    with serving(config, ME) as (stub, dfs):
        assert stub.namespace.walk() == before
        assert refused(dfs, lambda d: truncate(d, "/f", 5)) == "AlreadyBeingCreatedException"
        stub.namespace.files.close("/f", 7)
        assert lengths(stub, "/f") == [BLOCK, 7]
        write(stub, "/g", blocks=1)
        assert not truncate(dfs, "/g", 30)
        stub.namespace.files.close("/g", 30)
        stamps = [genstamp for _, _, genstamp in stub.namespace.status("/g").blocks]
        assert (lengths(stub, "/g"), stamps) == ([30], [logged_since(stub, 0)[-2].truncate_block.genstamp])
        before = stub.namespace.walk()
    with serving(config, ME) as (stub, _):
        assert stub.namespace.walk() == before


def in_a_snapshot(stub: NameNodeStub) -> None:
    stub.namespace.snapshots.allow("/d")
    stub.namespace.snapshots.create("/d", "one")


def in_a_rolling_upgrade(stub: NameNodeStub) -> None:
    stub.active.administration.set_safe_mode(on=True)
    stub.active.administration.start_rolling_upgrade()


@pytest.mark.parametrize("layout", [-63, -67])
@pytest.mark.parametrize("keep", [in_a_snapshot, in_a_rolling_upgrade])
def test_truncation_copies_a_block_that_a_snapshot_needs(tmp_path: Path, layout: int, keep: Any) -> None:
    config = rpc_config(tmp_path, layout)
    with serving(config, ME) as (stub, dfs):
        stub.namespace.mkdirs("/d")
        write(stub, "/d/f", blocks=2)
        keep(stub)
        first, blocks = stub.namespace.transactions.last_txid, stub.namespace.status("/d/f").blocks
        assert not truncate(dfs, "/d/f", BLOCK + 7)
        logged = logged_since(stub, first)
        assert summary(logged) == ["ALLOCATE_BLOCK_ID", "SET_GENSTAMP_V2", "TRUNCATE"]
        assert logged[2].truncate_block == (logged[0].block_id, 0, logged[1].genstamp)
        found = stub.namespace.status("/d/f").blocks
        assert found == (blocks[0], (logged[0].block_id, 7, logged[1].genstamp))
        stub.namespace.files.close("/d/f", 7)
        # A block that the snapshot no longer needs is truncated in place.
        first = stub.namespace.transactions.last_txid
        assert not truncate(dfs, "/d/f", BLOCK + 3)
        assert len(logged_since(stub, first)) == (2 if keep is in_a_snapshot else 3)
        if keep is in_a_snapshot:
            info = dfs.info("/d/.snapshot/one/f")
            assert info is not None
            assert info.length == BLOCK + 100
        before = stub.namespace.walk()
    with serving(config, ME) as (stub, _):
        assert without_clocks(stub.namespace.walk()) == without_clocks(before)


def test_invalid_truncations_are_refused(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (stub, dfs):
        dfs.mkdirs("/d")
        dfs.create("/open")
        dfs.touch("/f")
        dfs.create("/memory", flags=0x11)
        dfs.complete("/memory")
        dfs.allow("/d")
        dfs.snapshot("/d", "s")
        first = stub.namespace.transactions.last_txid
        calls = {
            ("/none", 0): "FileNotFoundException",
            ("/d", 0): "FileNotFoundException",
            ("/f", 1): "HadoopIllegalArgumentException",
            ("/f", -1): "HadoopIllegalArgumentException",
            ("/open", 0): "AlreadyBeingCreatedException",
            ("/memory", 0): "UnsupportedOperationException",
            ("/d/.snapshot/s/f", 0): "SnapshotAccessControlException",
        }
        found = {key: refused(dfs, lambda d, k=key: truncate(d, *k)) for key in calls}
        assert found == calls
        dfs.safe_mode(2)
        assert refused(dfs, lambda d: truncate(d, "/f", 0)) == "SafeModeException"
        assert stub.namespace.transactions.last_txid == first
