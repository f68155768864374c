"""ClientProtocol over real sockets: snapshots and the trees in them."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.proto import client_namenode_pb2 as pb
from tests.namenode_stub.rpc_support import Dfs, refused, rpc_config, serving

ME = getpass.getuser()


def tree(dfs: Dfs, path: str) -> dict[str, tuple[int, str, int]]:
    """Return everything below a path, as a client that walks it sees it."""
    found: dict[str, tuple[int, str, int]] = {}
    page = dfs.page(path)
    assert page is not None
    for entry in page.partialListing:
        below = f"{path}/{entry.path.decode()}"
        info = dfs.info(below)
        assert info is not None
        assert info.fileId == entry.fileId
        assert (info.permission.perm, info.owner, info.length) == (entry.permission.perm, entry.owner, entry.length)
        found[below] = entry.fileId, entry.owner, entry.permission.perm
        if entry.fileType == entry.IS_DIR:
            assert entry.childrenNum == len(dfs.names(below))
            found |= tree(dfs, below)
    return found


def inside(found: dict[str, tuple[int, str, int]], root: str) -> dict[str, tuple[int, str, int]]:
    return {path.removeprefix(root): value for path, value in found.items()}


@pytest.mark.parametrize("layout", [-63, -67])
def test_snapshots_keep_their_tree(tmp_path: Path, layout: int) -> None:
    config = rpc_config(tmp_path, layout)
    states: dict[str, dict[str, tuple[int, str, int]]] = {}
    with serving(config, ME) as (_, dfs):
        dfs.mkdirs("/s/d/e")
        dfs.mkdirs("/z")
        for file in ("/s/f", "/s/d/g", "/s/d/e/h"):
            dfs.touch(file)
        dfs.allow("/s")

        def snap(name: str) -> None:
            states[name] = inside(tree(dfs, "/s"), "/s")
            assert dfs.snapshot("/s", name) == f"/s/.snapshot/{name}"

        snap("s0")
        dfs.rename2("/s/f", "/z/f")
        dfs.call("setOwner", pb.SetOwnerRequestProto(src="/s/d", username="bob"), pb.EmptyProto)
        dfs.touch("/s/new")
        snap("s1")
        dfs.delete("/s/d/e")
        dfs.call("setOwner", pb.SetOwnerRequestProto(src="/z/f", username="carl"), pb.EmptyProto)
        dfs.rename2("/s/d", "/z/d")
        dfs.rename2("/s/new", "/s/newer")
        snap("s2")
        dfs.delete("/s/newer")
        for name, state in states.items():
            assert inside(tree(dfs, f"/s/.snapshot/{name}"), f"/s/.snapshot/{name}") == state
        summary = dfs.path("getContentSummary", "/s/.snapshot/s0", pb.GetContentSummaryResponseProto).summary
        assert (summary.fileCount, summary.directoryCount) == (3, 3)
    with serving(config, ME) as (stub, dfs):
        for name, state in states.items():
            assert inside(tree(dfs, f"/s/.snapshot/{name}"), f"/s/.snapshot/{name}") == state
        dfs.safe_mode(2)
        dfs.call("saveNamespace", pb.SaveNamespaceRequestProto(), pb.SaveNamespaceResponseProto)
        assert stub.namespace.transactions.last_txid == stub.images.checkpoint_txid + 1
    with serving(config, ME) as (_, dfs):
        for name, state in states.items():
            assert inside(tree(dfs, f"/s/.snapshot/{name}"), f"/s/.snapshot/{name}") == state
        dfs.call("deleteSnapshot", pb.DeleteSnapshotRequestProto(snapshotRoot="/s", snapshotName="s1"), pb.EmptyProto)
        for name in ("s0", "s2"):
            assert inside(tree(dfs, f"/s/.snapshot/{name}"), f"/s/.snapshot/{name}") == states[name]


def test_a_file_in_a_snapshot_keeps_its_length(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (stub, dfs):
        stub.namespace.mkdirs("/s")
        stub.namespace.create("/s/f")
        stub.namespace.files.add_block("/s/f")
        stub.namespace.files.close("/s/f", 7)
        dfs.allow("/s")
        dfs.snapshot("/s", "a")
        stub.namespace.attributes.set_owner("/s/f", "bob")
        stub.namespace.create("/s/f", overwrite=True)
        info, now = dfs.info("/s/.snapshot/a/f"), dfs.info("/s/f")
        assert info is not None
        assert now is not None
        assert (info.length, info.owner, now.length) == (7, "hdfs", 0)


def test_listing_of_the_snapshot_directory(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (_, dfs):
        nothing = dfs.call("getSnapshottableDirListing", pb.EmptyProto(), pb.GetSnapshottableDirListingResponseProto)
        assert not nothing.HasField("snapshottableDirList")
        dfs.mkdirs("/p/s")
        assert dfs.info("/p/s/.snapshot") is None
        dfs.allow("/p/s")
        assert dfs.names("/p/s/.snapshot") == []
        path = dfs.snapshot("/p/s")
        assert re.fullmatch(r"/p/s/\.snapshot/s\d{8}-\d{6}\.\d{3}", path)
        dfs.snapshot("/p/s", "b")
        rename = pb.RenameSnapshotRequestProto(snapshotRoot="/p/s", snapshotOldName="b", snapshotNewName="a")
        dfs.call("renameSnapshot", rename, pb.EmptyProto)
        assert dfs.names("/p/s/.snapshot") == ["a", path.rpartition("/")[2]]
        found = dfs.info("/p/s/.snapshot")
        assert found is not None
        assert found.fileType == found.IS_DIR
        assert dfs.info("/p/s/.snapshot/nothing") is None
        listed = dfs.call("getSnapshottableDirListing", pb.EmptyProto(), pb.GetSnapshottableDirListingResponseProto)
        (only,) = listed.snapshottableDirList.snapshottableDirListing
        assert (only.dirStatus.path, only.parent_fullpath, only.snapshot_number) == (b"s", b"/p", 2)
        snapshots = dfs.path("getSnapshotListing", "/p/s", pb.GetSnapshotListingResponseProto).snapshotList
        assert [(s.snapshotID, s.dirStatus.path) for s in snapshots.snapshotListing] == [
            (1, b"a"),
            (0, path.rpartition("/")[2].encode()),
        ]
        directory = dfs.info("/p/s")
        assert directory is not None
        assert directory.flags == 8


def call_of(method: str, request: Any) -> Callable[[Dfs], Any]:
    return lambda dfs: dfs.call(method, request, pb.EmptyProto)


def test_refused_snapshot_calls_have_hadoops_exception(tmp_path: Path) -> None:
    rename, delete = pb.RenameSnapshotRequestProto, pb.DeleteSnapshotRequestProto
    refusals: list[tuple[str, Callable[[Dfs], Any]]] = [
        ("SnapshotException", lambda d: d.allow("/s/d")),
        ("SnapshotException", lambda d: d.allow("/")),
        ("FileNotFoundException", lambda d: d.allow("/nothing")),
        ("ParentNotDirectoryException", lambda d: d.allow("/s/f")),
        ("SnapshotException", lambda d: d.path("disallowSnapshot", "/s", pb.EmptyProto)),
        ("SnapshotException", lambda d: d.snapshot("/z", "x")),
        ("SnapshotException", lambda d: d.snapshot("/s", "a")),
        ("HadoopIllegalArgumentException", lambda d: d.snapshot("/s", "a/b")),
        ("InvalidPathException", lambda d: d.snapshot("/s", ".snapshot")),
        (
            "SnapshotException",
            call_of("renameSnapshot", rename(snapshotRoot="/s", snapshotOldName="x", snapshotNewName="y")),
        ),
        (
            "SnapshotException",
            call_of("renameSnapshot", rename(snapshotRoot="/s", snapshotOldName="a", snapshotNewName="b")),
        ),
        ("SnapshotException", call_of("deleteSnapshot", delete(snapshotRoot="/s", snapshotName="x"))),
        ("SnapshotException", lambda d: d.delete("/s")),
        ("SnapshotException", lambda d: d.rename("/s", "/t")),
        ("SnapshotException", lambda d: d.rename2("/s", "/t")),
        ("SnapshotAccessControlException", lambda d: d.delete("/s/.snapshot/a/f")),
        ("SnapshotAccessControlException", lambda d: d.mkdirs("/s/.snapshot/a/x")),
        ("SnapshotAccessControlException", lambda d: d.create("/s/.snapshot/x")),
        ("SnapshotAccessControlException", lambda d: d.rename2("/z", "/s/.snapshot/a/z")),
        ("SnapshotException", lambda d: d.path("getSnapshotListing", "/z", pb.GetSnapshotListingResponseProto)),
    ]
    with serving(rpc_config(tmp_path), ME) as (stub, dfs):
        dfs.mkdirs("/s/d")
        dfs.mkdirs("/z")
        dfs.touch("/s/f")
        dfs.allow("/s")
        for name in ("a", "b"):
            dfs.snapshot("/s", name)
        last = stub.namespace.transactions.last_txid
        assert [refused(dfs, call) for _, call in refusals] == [name for name, _ in refusals]
        assert stub.namespace.transactions.last_txid == last
        for name in ("a", "b"):
            dfs.call("deleteSnapshot", delete(snapshotRoot="/s", snapshotName=name), pb.EmptyProto)
        dfs.path("disallowSnapshot", "/s", pb.EmptyProto)
        assert dfs.delete("/s")
