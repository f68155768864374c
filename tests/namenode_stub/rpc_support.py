"""A stub with an RPC server, and a client that uses ClientProtocol as Hadoop's client does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import Message

from hadoop_rpc.client import NO_RETRY, RpcClient
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.errors import RemoteError
from hadoop_rpc.proto import client_namenode_pb2 as pb
from journal.segment_copies import read_log
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from tests.namenode_stub.stub_support import formatted, uris

M = TypeVar("M", bound=Message)
CREATE, OVERWRITE, APPEND = 1, 2, 4
MASK64 = (1 << 64) - 1


def rpc_config(root: Path, layout: int = -67, **changes: Any) -> StubConfig:
    """Format a stub with an RPC server on a free port and without shared edits."""
    wanted = {"edits": uris(root / "name"), "shared_edits": "", **changes}
    return formatted(root, layout, rpc_address=("127.0.0.1", 0), **wanted)


class Dfs:
    """The calls of ClientProtocol with Python arguments; refusals are RemoteErrors."""

    def __init__(self, stub: NameNodeStub, user: str) -> None:
        assert stub.rpc_address is not None
        self.rpc = RpcClient(*stub.rpc_address, CLIENT_PROTOCOL.name, user=user, retry=NO_RETRY)

    def call(self, method: str, request: Message, response: type[M]) -> M:
        return self.rpc.call(method, request, response)

    def path(self, method: str, path: str, response: type[M]) -> M:
        return self.call(method, pb.PathRequestProto(src=path), response)

    def mkdirs(self, path: str, mode: int = 0o755, *, create_parent: bool = True) -> bool:
        request = pb.MkdirsRequestProto(src=path, masked=mode_message(mode), createParent=create_parent)
        return self.call("mkdirs", request, pb.ResultProto).result

    def create(
        self, path: str, *, holder: str = "DFSClient_1", flags: int = CREATE, create_parent: bool = True, **more: Any
    ) -> pb.HdfsFileStatusProto:
        options: dict[str, Any] = {"replication": 3, "blockSize": 1 << 27, **more}
        request = pb.CreateRequestProto(
            src=path,
            masked=mode_message(0o644),
            clientName=holder,
            createFlag=flags,
            createParent=create_parent,
            **options,
        )
        return self.call("create", request, pb.FileStatusResponseProto).fs

    def complete(self, path: str, *, holder: str = "DFSClient_1", inode_id: int = 0) -> bool:
        request = pb.CompleteRequestProto(src=path, clientName=holder, fileId=inode_id)
        return self.call("complete", request, pb.ResultProto).result

    def touch(self, path: str) -> None:
        self.create(path)
        assert self.complete(path)

    def delete(self, path: str, *, recursive: bool = True) -> bool:
        return self.call("delete", pb.DeleteRequestProto(src=path, recursive=recursive), pb.ResultProto).result

    def rename(self, source: str, target: str) -> bool:
        return self.call("rename", pb.RenameRequestProto(src=source, dst=target), pb.ResultProto).result

    def rename2(self, source: str, target: str, *, overwrite: bool = False) -> None:
        self.call("rename2", pb.Rename2RequestProto(src=source, dst=target, overwriteDest=overwrite), pb.EmptyProto)

    def info(self, path: str, method: str = "getFileInfo") -> pb.HdfsFileStatusProto | None:
        answer = self.path(method, path, pb.FileStatusResponseProto)
        return answer.fs if answer.HasField("fs") else None

    def page(self, path: str, after: bytes = b"", *, locations: bool = False) -> pb.DirectoryListingProto | None:
        request = pb.GetListingRequestProto(src=path, startAfter=after, needLocation=locations)
        answer = self.call("getListing", request, pb.GetListingResponseProto)
        return answer.dirList if answer.HasField("dirList") else None

    def names(self, path: str) -> list[str]:
        page = self.page(path)
        assert page is not None
        assert page.remainingEntries == 0
        return [entry.path.decode() for entry in page.partialListing]

    def snapshot(self, root: str, name: str = "") -> str:
        request = pb.CreateSnapshotRequestProto(snapshotRoot=root, snapshotName=name)
        return self.call("createSnapshot", request, pb.CreateSnapshotResponseProto).snapshotPath

    def allow(self, root: str) -> None:
        self.path("allowSnapshot", root, pb.EmptyProto)

    def safe_mode(self, action: int) -> bool:
        return self.call("setSafeMode", pb.SetSafeModeRequestProto(action=action), pb.ResultProto).result


def mode_message(mode: int) -> pb.FsPermissionProto:
    return pb.FsPermissionProto(perm=mode)


def refused(dfs: Dfs, call: Any) -> str:
    """Return the simple name of a refusal's Java class."""
    try:
        call(dfs)
    except RemoteError as error:
        return error.class_name.rpartition(".")[2]
    raise AssertionError("the call was not refused")


def logged_since(stub: NameNodeStub, txid: int) -> list[Any]:
    """Return the operations after a transaction, as read from the open segment."""
    return list(read_log(stub.active.journals.segments(txid + 1, in_progress=True), txid + 1))


@contextmanager
def serving(config: StubConfig, user: str) -> Iterator[tuple[NameNodeStub, Dfs]]:
    """Yield the stub and a client, both closed at the end."""
    with NameNodeStub(config) as stub:
        dfs = Dfs(stub, user)
        try:
            yield stub, dfs
        finally:
            dfs.rpc.close()


def without_clocks(tree: list[Any]) -> list[Any]:
    """Return the tree without the times that replay of Hadoop 2.7 reads from its clock."""
    return [dataclasses.replace(each, mtime=0) if each.type == "DIRECTORY" else each for each in tree]
