"""ClientProtocol: reading calls, and constant answers for missing features."""

from __future__ import annotations

from google.protobuf.message import Message

from hadoop_rpc.client_messages import unsigned
from hadoop_rpc.proto import client_namenode_pb2 as pb
from hadoop_rpc.service import CallContext, Handler
from image_format.kernels.inode import SYMLINK
from namenode_stub.names.views import Views
from namenode_stub.refusals import OperationRefusedError
from namenode_stub.rpc.handlers import EMPTY, client_path
from namenode_stub.rpc.statuses import located, status_message
from namenode_stub.server_settings import ServerDefaults

_PACKET_SIZE = 64 << 10
_CRC32C = 2
_ACTIVE = 1


class Reads:
    """Handlers of calls without changes.

    Args:
        pool: block pool id.
    """

    def __init__(self, views: Views, defaults: ServerDefaults, pool: str) -> None:
        self._views = views
        self._defaults = defaults
        self._pool = pool

    def methods(self) -> dict[str, Handler]:
        return {
            "getServerDefaults": self.server_defaults,
            "getFileInfo": self.file_info,
            "getFileLinkInfo": self.link_info,
            "getLocatedFileInfo": self.located_info,
            "getListing": self.listing,
            "getBlockLocations": self.block_locations,
            "getContentSummary": self.content_summary,
            "getQuotaUsage": self.quota_usage,
            "getPreferredBlockSize": self.preferred_block_size,
            "isFileClosed": self.is_file_closed,
            "getLinkTarget": self.link_target,
            "checkAccess": self.check_access,
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
                # empty means no encryption; without the field, a 3.x client would look elsewhere
                keyProviderUri="",
            )
        )

    # ---- one inode ---------------------------------------------------------------------------------------------

    def file_info(self, request: pb.PathRequestProto, _: CallContext) -> pb.FileStatusResponseProto:
        return self._info(request.src, follow=True)

    def link_info(self, request: pb.PathRequestProto, _: CallContext) -> pb.FileStatusResponseProto:
        return self._info(request.src, follow=False)

    def located_info(self, request: pb.GetLocatedFileInfoRequestProto, _: CallContext) -> pb.FileStatusResponseProto:
        return self._info(request.src, follow=True, locations=True)

    def _info(self, path: str, *, follow: bool, locations: bool = False) -> pb.FileStatusResponseProto:
        view = self._views.status(client_path(path), follow=follow)
        if view is None:
            return pb.FileStatusResponseProto()
        return pb.FileStatusResponseProto(fs=status_message(view, self._pool, locations=locations))

    def block_locations(
        self, request: pb.GetBlockLocationsRequestProto, _: CallContext
    ) -> pb.GetBlockLocationsResponseProto:
        view = self._views.file(client_path(request.src))
        return pb.GetBlockLocationsResponseProto(locations=located(view, self._pool))

    def preferred_block_size(
        self, request: pb.PathRequestProto, _: CallContext
    ) -> pb.GetPreferredBlockSizeResponseProto:
        return pb.GetPreferredBlockSizeResponseProto(bsize=self._views.file(client_path(request.src)).block_size)

    def is_file_closed(self, request: pb.PathRequestProto, _: CallContext) -> pb.ResultProto:
        return pb.ResultProto(result=not self._views.file(client_path(request.src)).is_open)

    def link_target(self, request: pb.PathRequestProto, _: CallContext) -> pb.GetLinkTargetResponseProto:
        view = self._views.existing(client_path(request.src), follow=False)
        if view.kind != SYMLINK:
            raise OperationRefusedError(f"Path {request.src} is not a symbolic link")
        return pb.GetLinkTargetResponseProto(targetPath=(view.target or b"").decode("utf-8", "replace"))

    def check_access(self, request: pb.CheckAccessRequestProto, _: CallContext) -> pb.EmptyProto:
        """Check only that the path exists: permissions are stored, but not enforced."""
        self._views.existing(client_path(request.path))
        return EMPTY

    # ---- directories -------------------------------------------------------------------------------------------

    def listing(self, request: pb.GetListingRequestProto, _: CallContext) -> pb.GetListingResponseProto:
        page = self._views.listing(client_path(request.src), request.startAfter)
        if page is None:
            return pb.GetListingResponseProto()
        entries = [status_message(view, self._pool, locations=request.needLocation) for view in page.entries]
        return pb.GetListingResponseProto(
            dirList=pb.DirectoryListingProto(partialListing=entries, remainingEntries=page.remaining)
        )

    def content_summary(self, request: pb.PathRequestProto, _: CallContext) -> pb.GetContentSummaryResponseProto:
        sums = self._views.sums(client_path(request.src))
        return pb.GetContentSummaryResponseProto(
            summary=pb.ContentSummaryProto(
                length=sums.length,
                fileCount=sums.files,
                directoryCount=sums.directories,
                quota=unsigned(sums.ns_quota),
                spaceConsumed=sums.space,
                spaceQuota=unsigned(sums.ds_quota),
            )
        )

    def quota_usage(self, request: pb.PathRequestProto, _: CallContext) -> pb.GetQuotaUsageResponseProto:
        sums = self._views.sums(client_path(request.src))
        return pb.GetQuotaUsageResponseProto(
            usage=pb.QuotaUsageProto(
                fileAndDirectoryCount=sums.files + sums.directories,
                quota=unsigned(sums.ns_quota),
                spaceConsumed=sums.space,
                spaceQuota=unsigned(sums.ds_quota),
            )
        )


def _nothing_there() -> dict[str, Handler]:
    """Return the constant answers: there are no DataNodes, no security, no encryption."""
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
