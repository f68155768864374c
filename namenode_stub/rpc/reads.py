"""ClientProtocol: reading calls, and constant responses for missing features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from checkpointer.serving.client_answers import ANSWERS
from hadoop_common.java_numbers import signed64
from hadoop_rpc.client_messages import inode_message
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from image_tools.namespace_browser import LocatedInode, Place
from namenode_stub.names.client_read import ClientRead
from namenode_stub.names.transactions import Transactions
from namenode_stub.rpc.handlers import EMPTY
from namenode_stub.server_settings import ServerDefaults

_PACKET_SIZE = 64 << 10
_CRC32C = 2
_ACTIVE = 1
_NO_TOKEN = pb.TokenProto(identifier=b"", password=b"", kind="", service="")
_OF_HADOOP3 = ("getStoragePolicy", "getErasureCodingPolicy", "getErasureCodingPolicies")


class Reads:
    """Handlers of calls without changes.

    Args:
        pool: block pool id.
    """

    def __init__(self, transactions: Transactions, defaults: ServerDefaults, pool: str) -> None:
        self._transactions = transactions
        self._defaults = defaults
        self._pool = pool

    def methods(self) -> dict[str, Handler]:
        hadoop3 = self._transactions.namespace.hadoop3
        answers: dict[str, Callable[[ClientRead, Any], Message]] = {
            **{name: answer for name, answer in ANSWERS.items() if hadoop3 or name not in _OF_HADOOP3},
            "getListing": self._listing,
            "getLocatedFileInfo": self._located_info,
            "getBlockLocations": self._block_locations,
        }
        return {
            "getServerDefaults": self.server_defaults,
            **{name: self._reading(answer) for name, answer in answers.items()},
            **_nothing_there(),
        }

    def server_defaults(self, _: pb.EmptyProto, __: CallContext) -> pb.GetServerDefaultsResponseProto:
        defaults = self._defaults
        return pb.GetServerDefaultsResponseProto(
            serverDefaults=pb.FsServerDefaultsProto(
                blockSize=defaults.block_size,
                bytesPerChecksum=defaults.bytes_per_checksum,
                writePacketSize=_PACKET_SIZE,
                replication=defaults.replication,
                fileBufferSize=defaults.buffer_size,
                trashInterval=defaults.trash_interval,
                checksumType=_CRC32C,
                # an empty value means no encryption; without the field, a Hadoop 3 client would use the client's
                # configuration
                keyProviderUri="",
            )
        )

    def _reading(self, answer: Callable[[ClientRead, Any], Message]) -> Handler:
        def read(request: Any, _: CallContext) -> Message:
            with self._transactions.reading() as found:
                return answer(found, request)

        return read

    # ---- blocks, which no DataNode stores here ------------------------------------------------------------------

    def _listing(self, read: ClientRead, request: pb.GetListingRequestProto) -> Message:
        answer = ANSWERS["getListing"](read, request)
        assert isinstance(answer, pb.GetListingResponseProto)
        if request.needLocation and answer.HasField("dirList"):
            place = read.find(request.src)
            for status in answer.dirList.partialListing:
                self._locate(read, status, place)
        return answer

    def _located_info(self, read: ClientRead, request: pb.GetLocatedFileInfoRequestProto) -> Message:
        answer = ANSWERS["getFileInfo"](read, pb.PathRequestProto(src=request.src))
        assert isinstance(answer, pb.FileStatusResponseProto)
        if answer.HasField("fs"):
            self._locate(read, answer.fs, read.find(request.src))
        return answer

    def _block_locations(self, read: ClientRead, request: pb.GetBlockLocationsRequestProto) -> Message:
        place = read.file(request.src)
        status = inode_message(read.reads.inode(place))
        self._locate(read, status, place)
        return pb.GetBlockLocationsResponseProto(locations=status.locations)

    def _locate(self, read: ClientRead, status: pb.HdfsFileStatusProto, place: Place) -> None:
        """Add the blocks of a file at or below a place, without blocks of snapshots."""
        if status.fileType != pb.HdfsFileStatusProto.IS_FILE:
            return
        is_present = isinstance(place, LocatedInode) and place.snapshot is None
        inode = read.browser.inode(signed64(status.fileId)) if is_present else None
        located, offset = status.locations, 0
        located.fileLength = status.length
        located.underConstruction = inode is not None and inode.file.HasField("fileUC")
        located.isLastBlockComplete = not located.underConstruction
        for block in () if inode is None else inode.file.blocks:
            named = pb.ExtendedBlockProto(
                poolId=self._pool, blockId=block.blockId, generationStamp=block.genStamp, numBytes=block.numBytes
            )
            located.blocks.add(b=named, offset=offset, corrupt=False, blockToken=_NO_TOKEN)
            offset += block.numBytes
        if located.blocks:
            located.lastBlock.CopyFrom(located.blocks[-1])


def _nothing_there() -> dict[str, Handler]:
    """Return the responses that are constant, because the stub has no DataNodes, security or encryption."""
    blocks = {"corrupt_blocks": 0, "missing_blocks": 0, "blocks_in_future": 0, "pending_deletion_blocks": 0}
    answers: dict[str, Message] = {
        "getFsStats": pb.GetFsStatsResponseProto(
            capacity=0, used=0, remaining=0, under_replicated=0, missing_repl_one_blocks=0, **blocks
        ),
        "getFsReplicatedBlockStats": pb.GetFsReplicatedBlockStatsResponseProto(
            low_redundancy=0, missing_repl_one_blocks=0, **blocks
        ),
        "getFsECBlockGroupStats": pb.GetFsECBlockGroupStatsResponseProto(low_redundancy=0, **blocks),
        "getDatanodeReport": pb.GetDatanodeReportResponseProto(),
        "getDatanodeStorageReport": EMPTY,
        "getSlowDatanodeReport": EMPTY,
        "getDataEncryptionKey": EMPTY,
        "getDelegationToken": pb.GetDelegationTokenResponseProto(),
        "getEZForPath": EMPTY,
        "getEnclosingRoot": pb.GetEnclosingRootResponseProto(enclosingRootPath="/"),
        "getHAServiceState": pb.HAServiceStateResponseProto(state=_ACTIVE),
        "msync": EMPTY,
    }
    return {name: _constant(answer) for name, answer in answers.items()}


def _constant(answer: Message) -> Handler:
    return lambda _, __: answer
