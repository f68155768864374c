"""ClientProtocol over real sockets: differences between snapshots."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.proto import client_namenode_pb2 as pb
from namenode_stub.rpc import snapshot_diffs
from tests.namenode_stub.rpc_support import Dfs, refused, rpc_config, serving

ME = getpass.getuser()
HADOOP_2, HADOOP_3 = -63, -67


def report(dfs: Dfs, path: str, first: str, second: str) -> list[str]:
    """Return a report as `hdfs snapshotDiff` prints it."""
    request = pb.GetSnapshotDiffReportRequestProto(snapshotRoot=path, fromSnapshot=first, toSnapshot=second)
    found = dfs.call("getSnapshotDiffReport", request, pb.GetSnapshotDiffReportResponseProto).diffReport
    assert (found.fromSnapshot, found.toSnapshot) == (first, second)
    return [
        f"{each.modificationLabel} ./{each.fullpath.decode()}"
        + (f" -> ./{each.targetPath.decode()}" if each.HasField("targetPath") else "")
        for each in found.diffReportEntries
    ]


def listing(dfs: Dfs, path: str, first: str, second: str) -> tuple[list[pb.SnapshotDiffReportListingProto], bool]:
    """Return all pages, requested as Hadoop 3's client does, and whether the first state is the earlier state."""
    pages = []
    cursor = pb.SnapshotDiffReportCursorProto(startPath=b"", index=-1)
    while True:
        request = pb.GetSnapshotDiffReportListingRequestProto(
            snapshotRoot=path, fromSnapshot=first, toSnapshot=second, cursor=cursor
        )
        answer = dfs.call("getSnapshotDiffReportListing", request, pb.GetSnapshotDiffReportListingResponseProto)
        pages.append(answer.diffReport)
        cursor = answer.diffReport.cursor
        if not cursor.startPath and cursor.index == -1:
            return pages, answer.diffReport.isFromEarlier


def as_listed(pages: list[pb.SnapshotDiffReportListingProto]) -> set[str]:
    """Return the entries from the view of the earlier state, as in SnapshotDiffReportGenerator."""
    found = set()
    moved = {entry.fileId for page in pages for entry in page.deletedEntries if entry.isReference}
    for page in pages:
        found |= {f"M ./{entry.fullpath.decode()}" for entry in page.modifiedEntries}
        found |= {f"+ ./{entry.fullpath.decode()}" for entry in page.createdEntries if entry.fileId not in moved}
        for entry in page.deletedEntries:
            target = f" -> ./{entry.targetPath.decode()}" if entry.isReference else ""
            found.add(f"{'R' if entry.isReference else '-'} ./{entry.fullpath.decode()}{target}")
    return found


def change(dfs: Dfs) -> None:
    """Make two snapshots s0 and s1 of /s, with changes before, between and after."""
    for path in ("/s/a/b/c", "/s/x", "/out"):
        dfs.mkdirs(path)
    for path in ("/s/a/f", "/s/a/b/g", "/s/x/k", "/s/top", "/s/same"):
        dfs.touch(path)
    dfs.allow("/s")
    dfs.snapshot("/s", "s0")
    dfs.rename("/s/a/f", "/s/moved")
    dfs.rename("/s/a/b", "/s/x/b")
    dfs.touch("/s/x/b/new")
    permission = pb.SetPermissionRequestProto(src="/s/x/k", permission=pb.FsPermissionProto(perm=0o600))
    dfs.call("setPermission", permission, pb.EmptyProto)
    dfs.delete("/s/top")
    dfs.mkdirs("/s/top")
    dfs.snapshot("/s", "s1")
    dfs.rename("/s/moved", "/out/moved")
    dfs.delete("/s/x/b/new")
    dfs.touch("/s/x/late")


FORWARD = [
    "M ./", "+ ./top", "- ./top",
    "M ./a", "R ./a/b -> ./x/b", "R ./a/f -> ./moved",
    "M ./x", "M ./x/k",
    "M ./a/b", "+ ./a/b/new",
]  # fmt: skip
LATER = ["M ./", "- ./moved", "M ./x", "+ ./x/late", "M ./x/b", "- ./x/b/new"]


@pytest.mark.parametrize("layout", [HADOOP_2, HADOOP_3])
def test_snapshot_diff_report(tmp_path: Path, layout: int) -> None:
    config = rpc_config(tmp_path, layout)
    for turn in range(2):
        # The second time, the namespace is loaded from image and edits.
        with serving(config, ME) as (_, dfs):
            if not turn:
                change(dfs)
            assert sorted(report(dfs, "/s", "s0", "s1")) == sorted(FORWARD)
            backward = report(dfs, "/s", "s1", "s0")
            assert {"- ./a/b/new", "R ./x/b -> ./a/b", "R ./moved -> ./a/f", "- ./top", "+ ./top"} < set(backward)
            assert sorted(report(dfs, "/s", "s1", "")) == sorted(LATER)
            assert "- ./a/f" in report(dfs, "/s", "s0", "")
            assert report(dfs, "/s", "s0", "s0") == report(dfs, "/s", "", "") == []
            calls = {
                "SnapshotException": lambda d: report(d, "/s", "none", ""),
                "ParentNotDirectoryException": lambda d: report(d, "/s/same", "s0", ""),
                "FileNotFoundException": lambda d: report(d, "/none", "s0", ""),
            }
            assert {name: refused(dfs, call) for name, call in calls.items()} == {name: name for name in calls}
            below: Any = lambda d: report(d, "/s/a", "s0", "s1")  # noqa: E731
            if layout == HADOOP_2:
                assert refused(dfs, below) == "SnapshotException"
                assert refused(dfs, lambda d: listing(d, "/s", "s0", "s1")) == "RpcNoSuchMethodException"
                continue
            # Hadoop 3 also compares directories below the root; moved inodes are reported as deleted.
            assert sorted(below(dfs)) == ["- ./b", "- ./f", "M ./"]
            pages, forward = listing(dfs, "/s", "s0", "s1")
            assert (len(pages), forward, as_listed(pages)) == (1, True, set(FORWARD))
            assert not listing(dfs, "/s", "s1", "s0")[1]
            dfs.safe_mode(2)
            dfs.call("saveNamespace", pb.SaveNamespaceRequestProto(), pb.SaveNamespaceResponseProto)


def test_a_long_diff_listing_is_paged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_diffs, "_PAGE", 3)
    with serving(rpc_config(tmp_path), ME) as (_, dfs):
        change(dfs)
        pages, forward = listing(dfs, "/s", "s0", "s1")
        sizes = [len(p.modifiedEntries) + len(p.createdEntries) + len(p.deletedEntries) for p in pages]
        assert (sizes[:-1], forward) == ([3] * (len(sizes) - 1), True)
        assert len(sizes) == 4
        assert as_listed(pages) == set(FORWARD)


def test_modified_files_and_directories_are_reported(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (stub, dfs):
        dfs.mkdirs("/s/d/e")
        for name in ("longer", "coded", "touched", "replicated"):
            dfs.touch(f"/s/{name}")
        stub.namespace.create("/s/cut")
        stub.namespace.files.add_block("/s/cut")
        stub.namespace.files.close("/s/cut", 100)
        dfs.allow("/s")
        dfs.snapshot("/s", "s0")
        # Times are not compared, but permissions, replication, attributes and lengths are.
        dfs.call("setTimes", pb.SetTimesRequestProto(src="/s/touched", mtime=5, atime=5), pb.EmptyProto)
        dfs.call("setTimes", pb.SetTimesRequestProto(src="/s/d/e", mtime=5, atime=5), pb.EmptyProto)
        dfs.call("setReplication", pb.SetReplicationRequestProto(src="/s/replicated", replication=2), pb.ResultProto)
        xattr = pb.XAttrProto(namespace=0, name="color", value=b"blue")
        dfs.call("setXAttr", pb.SetXAttrRequestProto(src="/s/d", xAttr=xattr, flag=3), pb.EmptyProto)
        dfs.call("truncate", pb.TruncateRequestProto(src="/s/cut", newLength=0, clientName="c"), pb.ResultProto)
        assert sorted(report(dfs, "/s", "s0", "")) == ["M ./cut", "M ./d", "M ./replicated"]
