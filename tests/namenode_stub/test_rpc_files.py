"""ClientProtocol over real sockets: operations on files and directories, client views, and refusals."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.errors import RemoteError, RetriableError, StandbyError
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import Service
from namenode_stub.names.files import Files
from namenode_stub.names.new_inode import CreateModes
from namenode_stub.node import NameNodeStub
from namenode_stub.refusals import OperationRefusedError
from namenode_stub.rpc.reads import Reads
from namenode_stub.rpc.service_switch import ServiceSwitch
from namenode_stub.server_settings import ServerDefaults
from tests.namenode_stub.rpc_support import (
    APPEND,
    CREATE,
    MASK64,
    OVERWRITE,
    Dfs,
    refused,
    rpc_config,
    serving,
    without_clocks,
)

ME = getpass.getuser()
Pair = tuple[NameNodeStub, Dfs]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with serving(rpc_config(tmp_path), "alice") as found:
        yield found


@pytest.fixture
def dfs(pair: Pair) -> Dfs:
    return pair[1]


@pytest.mark.parametrize("layout", [-63, -67])
def test_changes_by_clients_survive_a_restart(tmp_path: Path, layout: int) -> None:
    config = rpc_config(tmp_path, layout)
    with serving(config, ME) as (stub, dfs):
        assert dfs.mkdirs("/a/b")
        dfs.touch("/a/f")
        assert dfs.rename("/a/f", "/a/b")
        dfs.rename2("/a/b/f", "/a/g")
        dfs.touch("/a/h")
        dfs.rename2("/a/g", "/a/h", overwrite=True)
        request = pb.SetOwnerRequestProto(src="/a/h", username="bob")
        dfs.call("setOwner", request, pb.EmptyProto)
        dfs.allow("/a")
        dfs.snapshot("/a", "s")
        assert dfs.delete("/a/b")
        link = pb.CreateSymlinkRequestProto(
            target="/a/h", link="/l/link", dirPerm=pb.FsPermissionProto(perm=0o755), createParent=True
        )
        dfs.call("createSymlink", link, pb.EmptyProto)
        before = stub.namespace.walk()
    with serving(config, ME) as (stub, dfs):
        assert without_clocks(stub.namespace.walk()) == without_clocks(before)
        assert dfs.names("/a/.snapshot/s") == ["b", "h"]
        info = dfs.info("/a/h")
        assert info is not None
        assert (info.owner, info.group, info.length) == ("bob", "supergroup", 0)


def test_owner_group_and_modes_are_set_as_in_hdfs(dfs: Dfs) -> None:
    dfs.call("setOwner", pb.SetOwnerRequestProto(src="/", groupname="staff"), pb.EmptyProto)
    dfs.mkdirs("/x/y", 0o1500)
    dfs.touch("/x/y/f")
    upper, lower, file = dfs.info("/x"), dfs.info("/x/y/"), dfs.info("/x/y/f")
    assert upper is not None
    assert lower is not None
    assert file is not None
    assert (upper.owner, upper.group, upper.permission.perm) == ("alice", "staff", 0o1700)
    assert (lower.permission.perm, lower.childrenNum, lower.fileType) == (0o1500, 1, lower.IS_DIR)
    assert (file.group, file.block_replication, file.blocksize) == ("staff", 3, 1 << 27)
    assert file.fileId == lower.fileId + 1
    assert file.path == b""
    assert dfs.info("/x/nothing") is None
    assert dfs.info("/x/y/f/nothing") is None


def test_listings_are_paged_in_the_order_of_names(tmp_path: Path) -> None:
    names = ["B", "a", "b", "ä", "z10", "z9"]
    with serving(rpc_config(tmp_path, list_limit=4), ME) as (_, dfs):
        for name in names:
            dfs.touch(f"/d/{name}")
        first = dfs.page("/d")
        assert first is not None
        assert [entry.path.decode() for entry in first.partialListing] == ["ä", "B", "a", "b"]
        assert first.remainingEntries == 2
        second = dfs.page("/d", first.partialListing[-1].path, locations=True)
        assert second is not None
        assert [entry.path.decode() for entry in second.partialListing] == ["z10", "z9"]
        assert second.remainingEntries == 0
        assert all(entry.HasField("locations") for entry in second.partialListing)
        alone = dfs.page("/d/a")
        assert alone is not None
        assert [entry.path for entry in alone.partialListing] == [b""]
        assert dfs.page("/nothing") is None


def link_to(target: str, path: str) -> pb.CreateSymlinkRequestProto:
    return pb.CreateSymlinkRequestProto(
        target=target, link=path, dirPerm=pb.FsPermissionProto(perm=0o755), createParent=False
    )


REFUSED: list[tuple[str, Callable[[Dfs], Any]]] = [
    ("FileAlreadyExistsException", lambda d: d.mkdirs("/f")),
    ("ParentNotDirectoryException", lambda d: d.mkdirs("/f/x")),
    ("FileNotFoundException", lambda d: d.mkdirs("/no/x", create_parent=False)),
    ("InvalidPathException", lambda d: d.mkdirs("/a:b")),
    ("InvalidPathException", lambda d: d.mkdirs("/d/../x")),
    ("InvalidPathException", lambda d: d.mkdirs("relative")),
    ("FSLimitException$PathComponentTooLongException", lambda d: d.mkdirs("/" + "x" * 256)),
    ("IOException", lambda d: d.mkdirs("/x" * 1001)),
    ("HadoopIllegalArgumentException", lambda d: d.mkdirs("/d/.snapshot/x")),
    ("HadoopIllegalArgumentException", lambda d: d.mkdirs("/.reserved/x")),
    ("NSQuotaExceededException", lambda d: d.mkdirs("/small/b")),
    ("NSQuotaExceededException", lambda d: d.create("/small/b")),
    ("NSQuotaExceededException", lambda d: d.rename("/full", "/small")),
    ("FileAlreadyExistsException", lambda d: d.create("/f")),
    ("FileAlreadyExistsException", lambda d: d.create("/d", flags=CREATE | OVERWRITE)),
    ("AlreadyBeingCreatedException", lambda d: d.create("/open")),
    ("AlreadyBeingCreatedException", lambda d: d.create("/open", holder="other")),
    ("FileNotFoundException", lambda d: d.create("/no/x", create_parent=False)),
    ("FileNotFoundException", lambda d: d.create("/x", flags=OVERWRITE)),
    ("ParentNotDirectoryException", lambda d: d.create("/f/x")),
    ("IOException", lambda d: d.create("/x", blockSize=1)),
    ("IOException", lambda d: d.create("/x", replication=513)),
    ("HadoopIllegalArgumentException", lambda d: d.create("/x", ecPolicyName="XOR-2-1-1024k")),
    ("IOException", lambda d: d.create("/f", flags=APPEND)),
    ("FileNotFoundException", lambda d: d.create("/nothing", flags=APPEND)),
    ("IOException", lambda d: d.call("append", pb.AppendRequestProto(src="/f", clientName="c"), pb.EmptyProto)),
    (
        "IOException",
        lambda d: d.call("addBlock", pb.AddBlockRequestProto(src="/open", clientName="DFSClient_1"), pb.EmptyProto),
    ),
    (
        "LeaseExpiredException",
        lambda d: d.call("addBlock", pb.AddBlockRequestProto(src="/f", clientName="DFSClient_1"), pb.EmptyProto),
    ),
    ("LeaseExpiredException", lambda d: d.complete("/open", holder="other")),
    ("LeaseExpiredException", lambda d: d.complete("/open", inode_id=1)),
    ("LeaseExpiredException", lambda d: d.complete("/nothing")),
    ("LeaseExpiredException", lambda d: d.complete("/d")),
    ("PathIsNotEmptyDirectoryException", lambda d: d.delete("/full", recursive=False)),
    ("FileNotFoundException", lambda d: d.rename2("/nothing", "/x")),
    ("FileNotFoundException", lambda d: d.rename2("/f", "/no/x")),
    ("ParentNotDirectoryException", lambda d: d.rename2("/f", "/open/x")),
    ("FileAlreadyExistsException", lambda d: d.rename2("/f", "/open")),
    ("FileAlreadyExistsException", lambda d: d.rename2("/f", "/f")),
    ("FileAlreadyExistsException", lambda d: d.rename2("/link", "/f")),
    ("IOException", lambda d: d.rename2("/f", "/d", overwrite=True)),
    ("IOException", lambda d: d.rename2("/d", "/full", overwrite=True)),
    ("IOException", lambda d: d.rename2("/d", "/d/x")),
    ("IOException", lambda d: d.rename2("/", "/d/x")),
    ("IOException", lambda d: d.rename2("/d", "/")),
    ("FileAlreadyExistsException", lambda d: d.call("createSymlink", link_to("/x", "/f"), pb.EmptyProto)),
    ("FileNotFoundException", lambda d: d.call("createSymlink", link_to("/x", "/no/l"), pb.EmptyProto)),
    ("UnresolvedPathException", lambda d: d.info("/link")),
    ("UnresolvedPathException", lambda d: d.info("/link/x")),
    ("UnresolvedPathException", lambda d: d.mkdirs("/link/x")),
    ("FileNotFoundException", lambda d: d.path("getContentSummary", "/nothing", pb.GetContentSummaryResponseProto)),
    ("FileNotFoundException", lambda d: d.path("isFileClosed", "/d", pb.ResultProto)),
    ("IOException", lambda d: d.path("getLinkTarget", "/f", pb.GetLinkTargetResponseProto)),
    (
        "FileNotFoundException",
        lambda d: d.call("checkAccess", pb.CheckAccessRequestProto(path="/no", mode=4), pb.EmptyProto),
    ),
    ("RpcNoSuchMethodException", lambda d: d.call("satisfyStoragePolicy", pb.EmptyProto(), pb.EmptyProto)),
]


def test_refused_calls_have_hadoops_exception_and_no_effect(pair: Pair) -> None:
    stub, dfs = pair
    for directory in ("/d", "/full/x", "/small"):
        dfs.mkdirs(directory)
    dfs.touch("/f")
    dfs.create("/open")
    dfs.call("createSymlink", link_to("/f", "/link"), pb.EmptyProto)
    stub.namespace.attributes.set_quota("/small", 1, -1)
    before, last = stub.namespace.walk(), stub.namespace.transactions.last_txid
    assert [refused(dfs, call) for _, call in REFUSED] == [name for name, _ in REFUSED]
    assert stub.namespace.walk() == before
    assert stub.namespace.transactions.last_txid == last


def test_the_old_rename_moves_into_directories_or_returns_false(dfs: Dfs) -> None:
    for directory in ("/d/e", "/there"):
        dfs.mkdirs(directory)
    for file in ("/f", "/g"):
        dfs.touch(file)
    for source, target in (
        ("/nothing", "/x"),
        ("/", "/x"),
        ("/f", "/g"),
        ("/f", "/no/x"),
        ("/f", "/g/x"),
        ("/d", "/d/e"),
        ("/d", "/d/x"),
    ):
        assert not dfs.rename(source, target)
    assert dfs.rename("/f", "/f")
    assert dfs.rename("/f", "/there/")
    assert dfs.rename("/d", "/there")
    assert dfs.rename("/there/d/e", "/new")
    assert dfs.names("/") == ["g", "new", "there"]
    assert dfs.names("/there") == ["d", "f"]


def test_delete_returns_whether_something_was_deleted(dfs: Dfs) -> None:
    dfs.touch("/d/f")
    assert not dfs.delete("/nothing")
    assert not dfs.delete("/")
    assert dfs.delete("/d/f", recursive=False)
    assert dfs.delete("/d", recursive=False)
    assert not dfs.delete("/d")


def test_a_completed_file_stays_closed(dfs: Dfs) -> None:
    made = dfs.create("/f")
    assert not dfs.path("isFileClosed", "/f", pb.ResultProto).result
    fsync = pb.FsyncRequestProto(src="/f", client="DFSClient_1", fileId=made.fileId)
    dfs.call("fsync", fsync, pb.EmptyProto)
    assert dfs.complete("/f", inode_id=made.fileId)
    assert dfs.complete("/f", inode_id=made.fileId)
    assert dfs.path("isFileClosed", "/f", pb.ResultProto).result
    again = dfs.create("/f", flags=CREATE | OVERWRITE, holder="other")
    assert again.fileId > made.fileId
    recover = pb.RecoverLeaseRequestProto(src="/f", clientName="third")
    assert dfs.call("recoverLease", recover, pb.ResultProto).result
    assert dfs.call("recoverLease", recover, pb.ResultProto).result
    assert dfs.path("isFileClosed", "/f", pb.ResultProto).result


def test_an_expired_lease_passes_to_the_next_writer(pair: Pair) -> None:
    stub, _ = pair
    now = [0.0]
    files = Files(stub.namespace.transactions, clock=lambda: now[0])
    files.create("/f", CreateModes(0o644), holder="first")
    now[0] = 59.0
    files.renew_lease("first")
    now[0] = 100.0
    for holder in ("first", "second"):
        with pytest.raises(Exception, match=r"/f"):
            files.create("/f", CreateModes(0o644), holder=holder)
        assert stub.namespace.status("/f").open
    now[0] = 120.0
    # As in Hadoop, the file is closed, and then the call fails because the file exists.
    with pytest.raises(Exception, match="exists"):
        files.create("/f", CreateModes(0o644), holder="second")
    assert not stub.namespace.status("/f").open


def test_the_minimum_block_size_is_configurable(pair: Pair) -> None:
    stub, _ = pair
    files = Files(stub.namespace.transactions, min_block_size=512)
    files.create("/small", CreateModes(0o644), holder="first", block_size=512)
    with pytest.raises(OperationRefusedError, match=r"min-block-size\): 511 < 512"):
        files.create("/smaller", CreateModes(0o644), holder="first", block_size=511)


def test_expired_lease_holders_are_removed_but_not_at_each_call(pair: Pair) -> None:
    stub, _ = pair
    now, looks = [0.0], [0]

    class Counted(dict[str, float]):
        def items(self) -> Any:
            looks[0] += 1
            return super().items()

    files = Files(stub.namespace.transactions, clock=lambda: now[0])
    files._renewed = Counted()
    for number in range(6000):
        files.renew_lease(f"alive {number}")
        files._renewed = Counted(files._renewed) if type(files._renewed) is dict else files._renewed
    assert looks[0] == 1
    now[0] = 100.0
    for number in range(3000):
        files.renew_lease(f"later {number}")
    assert len(files._renewed) < 6000


def test_queries_with_constant_responses(dfs: Dfs) -> None:
    """Every query with a constant response is answered in the form that clients parse."""
    dfs.touch("/d/f")
    dfs.mkdirs("/d/e")
    defaults = dfs.call("getServerDefaults", pb.EmptyProto(), pb.GetServerDefaultsResponseProto).serverDefaults
    assert (defaults.blockSize, defaults.replication, defaults.trashInterval) == (1 << 27, 3, 0)
    assert dfs.call("getFsStats", pb.EmptyProto(), pb.GetFsStatsResponseProto).capacity == 0
    summary = dfs.path("getContentSummary", "/d", pb.GetContentSummaryResponseProto).summary
    assert (summary.fileCount, summary.directoryCount, summary.quota) == (1, 2, MASK64)
    usage = dfs.path("getQuotaUsage", "/d", pb.GetQuotaUsageResponseProto).usage
    assert (usage.fileAndDirectoryCount, usage.spaceQuota) == (3, MASK64)
    assert dfs.path("getPreferredBlockSize", "/d/f", pb.GetPreferredBlockSizeResponseProto).bsize == 1 << 27
    where = pb.GetBlockLocationsRequestProto(src="/d/f", offset=0, length=1)
    located = dfs.call("getBlockLocations", where, pb.GetBlockLocationsResponseProto).locations
    assert (located.fileLength, located.underConstruction, located.isLastBlockComplete) == (0, False, True)
    dfs.call("checkAccess", pb.CheckAccessRequestProto(path="/d", mode=7), pb.EmptyProto)
    dfs.call("renewLease", pb.RenewLeaseRequestProto(clientName="c"), pb.EmptyProto)
    assert dfs.call("getHAServiceState", pb.EmptyProto(), pb.HAServiceStateResponseProto).state == 1
    report = pb.GetDatanodeReportRequestProto(type=1)
    assert not dfs.call("getDatanodeReport", report, pb.GetDatanodeReportResponseProto).di
    assert not dfs.call("getDelegationToken", pb.EmptyProto(), pb.GetDelegationTokenResponseProto).HasField("token")
    for method in ("msync", "getDataEncryptionKey"):
        dfs.call(method, pb.EmptyProto(), pb.EmptyProto)
    dfs.path("getEZForPath", "/d", pb.EmptyProto)


def test_blocks_are_reported_without_locations(pair: Pair) -> None:
    stub, dfs = pair
    stub.namespace.create("/f")
    block = stub.namespace.files.add_block("/f")
    stub.namespace.files.close("/f", 7)
    info = dfs.call("getLocatedFileInfo", pb.GetLocatedFileInfoRequestProto(src="/f"), pb.FileStatusResponseProto).fs
    assert info.length == 7
    assert [(each.b.blockId, each.b.numBytes, len(each.locs)) for each in info.locations.blocks] == [(block, 7, 0)]
    summary = dfs.path("getContentSummary", "/", pb.GetContentSummaryResponseProto).summary
    assert (summary.length, summary.spaceConsumed) == (7, 21)


def test_symlinks_are_reported_but_not_followed(dfs: Dfs) -> None:
    dfs.call("createSymlink", link_to("/else/where", "/link"), pb.EmptyProto)
    info = dfs.info("/link", "getFileLinkInfo")
    assert info is not None
    assert (info.fileType, info.symlink) == (info.IS_SYMLINK, b"/else/where")
    assert dfs.path("getLinkTarget", "/link", pb.GetLinkTargetResponseProto).targetPath == "/else/where"


def test_no_read_is_redirected_to_another_namenode(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    stub, dfs = pair
    monkeypatch.setattr("engine.live_inodes._MAX_CHANGED", 1)
    monkeypatch.setattr("engine.past_diffs._MAX_ENTRIES", 1)
    for name in ("a", "b", "c"):
        dfs.touch(f"/d/{name}")
    stub.namespace.snapshots.allow("/d")
    dfs.snapshot("/d", "s")
    dfs.delete("/d/a")
    assert dfs.names("/d") == ["b", "c"]
    assert dfs.names("/d/.snapshot/s") == ["a", "b", "c"]
    summary = dfs.path("getContentSummary", "/d", pb.GetContentSummaryResponseProto).summary
    assert (summary.fileCount, summary.snapshotFileCount) == (3, 1)


def test_clients_are_refused_while_the_node_starts_or_stops(pair: Pair) -> None:
    stub, _ = pair
    switch = ServiceSwitch("root", "supergroup")
    service = CLIENT_PROTOCOL.served_by(Reads(stub.namespace.transactions, ServerDefaults(), "BP-1").methods())
    (served,) = switch.services([CLIENT_PROTOCOL.name])
    request = pb.PathRequestProto(src="/")
    context: Any = None
    assert list(served.methods) == []
    with pytest.raises(RetriableError, match="still not started"):
        served.methods["getFileInfo"].handler(request, context)
    switch.open([service])
    assert len(served.methods) == len(list(served.methods)) == len(service.methods)
    assert served.methods["getFileInfo"].handler(request, context)
    assert "mkdirs" not in served.methods
    switch.narrow([Service(CLIENT_PROTOCOL.name, {"getListing": service.methods["getListing"]})], "it is elsewhere")
    assert served.methods["getListing"].request is service.methods["getListing"].request
    for name in ("getFileInfo", "mkdirs", "of a later release"):
        with pytest.raises(StandbyError, match="elsewhere"):
            served.methods[name].handler(request, context)


def test_a_failed_node_answers_with_standby_exception(pair: Pair) -> None:
    stub, dfs = pair
    stub.fail_stop.trip("a disk is gone")
    assert refused(dfs, lambda d: d.info("/")) == "StandbyException"
    assert refused(dfs, lambda d: d.mkdirs("/x")) == "StandbyException"


def test_connections_are_closed_when_the_node_stops(tmp_path: Path) -> None:
    with serving(rpc_config(tmp_path), ME) as (stub, dfs):
        dfs.mkdirs("/x")
        stub.stop()
        with pytest.raises(Exception, match=r".") as found:
            dfs.mkdirs("/y")
        assert not isinstance(found.value, RemoteError)


def test_redundant_slashes_in_paths_are_ignored(dfs: Dfs) -> None:
    assert dfs.mkdirs("/w/d/")
    assert dfs.mkdirs("/w/x")
    assert dfs.rename("/w//d/", "/w/e//")
    assert dfs.names("/w") == ["e", "x"]
    assert dfs.info("//w/e/") is not None
    assert refused(dfs, lambda d: d.mkdirs("/w//n")) == "InvalidPathException"
    assert refused(dfs, lambda d: d.rename("/w/e", "//w/n")) == "InvalidPathException"
    assert dfs.delete("//w//e")
    assert dfs.names("/w/") == ["x"]


def test_a_path_below_a_file_does_not_exist(dfs: Dfs) -> None:
    dfs.touch("/f")
    assert dfs.info("/f/x") is None
    assert not dfs.delete("/f/x/y")
