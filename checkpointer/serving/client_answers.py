"""ClientProtocol responses from a served namespace, by method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from engine.live_browser import LiveBrowser
from engine.read_refusals import refused_read
from hadoop_common.java_numbers import unsigned64
from hadoop_rpc.client_messages import (
    acl_message,
    erasure_coding_message,
    inode_message,
    snapshot_message,
    snapshottable_message,
    storage_policy_message,
)
from hadoop_rpc.client_values import ClientInode
from hadoop_rpc.proto import client_namenode_pb2 as pb
from image_format.name_order import name_key
from image_format.permission import XAttrNamespace
from image_format.storage_policies import policies_of
from image_tools.namespace_browser import LocatedInode, Place, SnapshotFolder
from image_tools.namespace_reads import (
    CANNOT_FIND,
    IN_RESERVED,
    IO_EXCEPTION,
    NO_INODE,
    NOT_THERE,
    RESERVED,
    SNAPSHOT_FOLDER,
    SNAPSHOT_FOLDER_ACL,
    NamespaceReads,
    XAttrView,
    is_reserved,
    not_found,
)
from image_tools.permission_checker import Access, ReadRefusedError

_INVALID_PATH: Final = "org.apache.hadoop.fs.InvalidPathException"
_MAX_PATH: Final = 8000
_MAX_COMPONENTS: Final = 1000
_MAX_ATTRIBUTES: Final = 1000
"""Maximum number of attributes in a request; an inode has at most 32 unless dfs.namenode.fs-limits.max-xattrs-per-inode
allows more.
"""


def check_request(request: Message) -> None:
    """Check the size of a request without access to the namespace.

    Raises:
        ReadRefusedError: the path is longer or deeper than any possible path (HdfsConstants.MAX_PATH_LENGTH,
            MAX_PATH_DEPTH), or the request names too many attributes.
    """
    path = getattr(request, "src", "") or getattr(request, "path", "")
    if len(path) > _MAX_PATH or path.count("/") > _MAX_COMPONENTS:
        limits = f"Limit {_MAX_PATH} characters, {_MAX_COMPONENTS} levels."
        raise ReadRefusedError(IO_EXCEPTION, f"Pathname too long. {limits}")
    if len(getattr(request, "xAttrs", ())) > _MAX_ATTRIBUTES:
        raise ReadRefusedError(IO_EXCEPTION, f"a request may name at most {_MAX_ATTRIBUTES} attributes")


class NamespaceRead(NamedTuple):
    """Read access to the namespace for one call."""

    browser: LiveBrowser
    reads: NamespaceReads

    def find(self, text: str, *, follow: bool = True) -> Place:
        """Return the location of a path.

        Args:
            follow: whether to refuse a symbolic link at the end of the path, because the client must follow it.

        Raises:
            ReadRefusedError: the path is not absolute, or contains a symbolic link that the client must follow.
        """
        if not text.startswith("/"):
            raise ReadRefusedError(_INVALID_PATH, f"Invalid file name: {text}")
        place = self.reads.find(text.encode())
        ends_with_link = isinstance(place, LocatedInode) and place.inode.HasField("symlink")
        if self.reads.crossed_link or (follow and ends_with_link):
            raise self.link_refusal(text)
        return place

    def link_refusal(self, text: str) -> Exception:
        """Return the refusal of a path that contains a symbolic link for the client to follow."""
        return refused_read("following a symbolic link")

    def existing(self, text: str, missing: str = NOT_THERE, *, follow: bool = True) -> LocatedInode:
        """Return the inode at a path; `missing` is the message for a missing path, with a placeholder for the path."""
        place = self.find(text, follow=follow)
        if not isinstance(place, LocatedInode):
            raise not_found(missing, text.encode())
        return place

    def file(self, text: str, *, follow: bool = True) -> LocatedInode:
        place = self.existing(text, follow=follow)
        if not place.inode.HasField("file"):
            raise not_found("Path is not a file: {}", text.encode())
        return place


# ---- status --------------------------------------------------------------------------------------------------


def _file_info(read: NamespaceRead, request: pb.PathRequestProto) -> pb.FileStatusResponseProto:
    return _info(read, request.src, follow=True)


def _link_info(read: NamespaceRead, request: pb.PathRequestProto) -> pb.FileStatusResponseProto:
    return _info(read, request.src, follow=False)


def _info(read: NamespaceRead, path: str, *, follow: bool) -> pb.FileStatusResponseProto:
    found = _status(read, path, follow=follow)
    return pb.FileStatusResponseProto(fs=None if found is None else inode_message(found))


def _status(read: NamespaceRead, path: str, *, follow: bool) -> ClientInode | None:
    if is_reserved(path.encode()):
        return RESERVED
    place = read.find(path, follow=follow)
    if isinstance(place, SnapshotFolder):
        return None if place.snapshots is None else SNAPSHOT_FOLDER
    return None if place is None else read.reads.inode(place)


def _preferred_block_size(read: NamespaceRead, request: pb.PathRequestProto) -> pb.GetPreferredBlockSizeResponseProto:
    place = read.file(request.src, follow=False)
    return pb.GetPreferredBlockSizeResponseProto(bsize=place.inode.file.preferredBlockSize)


def _is_file_closed(read: NamespaceRead, request: pb.PathRequestProto) -> pb.ResultProto:
    return pb.ResultProto(result=not read.file(request.src).inode.file.HasField("fileUC"))


def _link_target(read: NamespaceRead, request: pb.PathRequestProto) -> pb.GetLinkTargetResponseProto:
    inode = read.existing(request.src, follow=False).inode
    if not inode.HasField("symlink"):
        raise ReadRefusedError(IO_EXCEPTION, f"Path {request.src} is not a symbolic link")
    return pb.GetLinkTargetResponseProto(targetPath=inode.symlink.target.decode("utf-8", "replace"))


def _check_access(read: NamespaceRead, request: pb.CheckAccessRequestProto) -> pb.EmptyProto:
    place = read.existing(request.path)
    read.reads.check(place, Access(request.mode & 7))
    return pb.EmptyProto()


# ---- directories ---------------------------------------------------------------------------------------------


def _listing(read: NamespaceRead, request: pb.GetListingRequestProto) -> pb.GetListingResponseProto:
    if request.needLocation:
        read.browser.refuse("a listing with block locations")
    path = request.src.encode()
    if is_reserved(path):
        return _listed(list(IN_RESERVED), 0)
    if request.startAfter.startswith(b"/"):
        read.browser.refuse("continuing a listing after an inode path")
    place = read.find(request.src)
    if isinstance(place, SnapshotFolder):
        roots = [each.inode for each in read.reads.snapshots(place, path[: path.rindex(b"/.snapshot")])]
        return _listed([each for each in roots if name_key(each.name) > name_key(request.startAfter)], 0)
    if place is None:
        return pb.GetListingResponseProto()
    page = read.reads.page(place, request.startAfter)
    return _listed(page.inodes, page.remaining)


def _listed(inodes: list[ClientInode], remaining: int) -> pb.GetListingResponseProto:
    listing = pb.DirectoryListingProto(partialListing=map(inode_message, inodes), remainingEntries=remaining)
    return pb.GetListingResponseProto(dirList=listing)


def _content_summary(read: NamespaceRead, request: pb.PathRequestProto) -> pb.GetContentSummaryResponseProto:
    found = read.reads.summary(read.existing(request.src, follow=False))
    content, past = found.totals, found.in_snapshots
    return pb.GetContentSummaryResponseProto(
        summary=pb.ContentSummaryProto(
            length=content.length,
            fileCount=content.files,
            directoryCount=content.directories,
            quota=unsigned64(found.quotas.names),
            spaceConsumed=content.space,
            spaceQuota=unsigned64(found.quotas.space),
            snapshotLength=past.length,
            snapshotFileCount=past.files,
            snapshotDirectoryCount=past.directories,
            snapshotSpaceConsumed=past.space,
            erasureCodingPolicy=found.coding,
        )
    )


def _quota_usage(read: NamespaceRead, request: pb.PathRequestProto) -> pb.GetQuotaUsageResponseProto:
    found = read.reads.summary(read.existing(request.src, NO_INODE, follow=False))
    return pb.GetQuotaUsageResponseProto(
        usage=pb.QuotaUsageProto(
            fileAndDirectoryCount=found.totals.files + found.totals.directories,
            quota=unsigned64(found.quotas.names),
            spaceConsumed=found.totals.space,
            spaceQuota=unsigned64(found.quotas.space),
        )
    )


def _snapshottable(read: NamespaceRead, _: pb.EmptyProto) -> pb.GetSnapshottableDirListingResponseProto:
    """Return the snapshottable directories; as in Hadoop, omit an empty list."""
    found = [snapshottable_message(*each) for each in read.reads.snapshottable()]
    listing = pb.SnapshottableDirectoryListingProto(snapshottableDirListing=found)
    return pb.GetSnapshottableDirListingResponseProto(snapshottableDirList=listing if found else None)


def _snapshots(read: NamespaceRead, request: pb.PathRequestProto) -> pb.GetSnapshotListingResponseProto:
    place, path = read.existing(request.src), request.src.encode()
    found = [snapshot_message(each.inode, each.id, path) for each in read.reads.snapshots_of(place, path)]
    return pb.GetSnapshotListingResponseProto(snapshotList=pb.SnapshotListingProto(snapshotListing=found))


# ---- attributes ----------------------------------------------------------------------------------------------


def _acl(read: NamespaceRead, request: pb.PathRequestProto) -> pb.GetAclStatusResponseProto:
    place = read.find(request.src)
    if isinstance(place, SnapshotFolder) and place.snapshots is not None:
        return pb.GetAclStatusResponseProto(result=acl_message(SNAPSHOT_FOLDER_ACL))
    if not isinstance(place, LocatedInode):
        raise not_found(CANNOT_FIND, request.src.encode())
    return pb.GetAclStatusResponseProto(result=acl_message(read.reads.acl(place)))


def _xattrs(read: NamespaceRead, request: pb.GetXAttrsRequestProto) -> pb.GetXAttrsResponseProto:
    place = read.existing(request.src, CANNOT_FIND)
    wanted = [XAttrView(_namespace(each.namespace), each.name, None).full_name for each in request.xAttrs]
    return pb.GetXAttrsResponseProto(xAttrs=map(_xattr, read.reads.attributes(place, wanted)))


def _namespace(number: int) -> str:
    try:
        return XAttrNamespace(number).name
    except ValueError as fault:
        raise ReadRefusedError(IO_EXCEPTION, f"there is no namespace {number} of attributes") from fault


def _xattr_names(read: NamespaceRead, request: pb.PathRequestProto) -> pb.GetXAttrsResponseProto:
    found = read.reads.attribute_names(read.existing(request.src, CANNOT_FIND))
    return pb.GetXAttrsResponseProto(xAttrs=[_xattr(each._replace(value=None)) for each in found])


def _xattr(attribute: XAttrView) -> pb.XAttrProto:
    number = XAttrNamespace[attribute.namespace]
    return pb.XAttrProto(namespace=number, name=attribute.name, value=attribute.value)


def _storage_policy(read: NamespaceRead, request: pb.PathRequestProto) -> pb.GetStoragePolicyResponseProto:
    found = read.reads.storage_policy(read.existing(request.src, NO_INODE, follow=False))
    return pb.GetStoragePolicyResponseProto(storagePolicy=storage_policy_message(found))


def _storage_policies(read: NamespaceRead, _: pb.EmptyProto) -> pb.GetStoragePoliciesResponseProto:
    found = policies_of(read.browser.index.layout_version)
    return pb.GetStoragePoliciesResponseProto(policies=map(storage_policy_message, found))


def _coding_policy(read: NamespaceRead, request: pb.PathRequestProto) -> pb.GetErasureCodingPolicyResponseProto:
    place = read.existing(request.src, "Path not found: {}")
    read.reads.check(place, Access.READ)
    found = read.reads.coding(place)
    return pb.GetErasureCodingPolicyResponseProto(ecPolicy=None if found is None else erasure_coding_message(found))


def _coding_policies(read: NamespaceRead, _: pb.EmptyProto) -> pb.GetErasureCodingPoliciesResponseProto:
    found = read.browser.namespace.erasure_coding.policies()
    return pb.GetErasureCodingPoliciesResponseProto(ecPolicies=map(erasure_coding_message, found))


ANSWERS: Final[Mapping[str, Callable[[NamespaceRead, Any], Message]]] = {
    "getFileInfo": _file_info,
    "getFileLinkInfo": _link_info,
    "getPreferredBlockSize": _preferred_block_size,
    "isFileClosed": _is_file_closed,
    "getLinkTarget": _link_target,
    "checkAccess": _check_access,
    "getListing": _listing,
    "getContentSummary": _content_summary,
    "getQuotaUsage": _quota_usage,
    "getSnapshottableDirListing": _snapshottable,
    "getSnapshotListing": _snapshots,
    "getAclStatus": _acl,
    "getXAttrs": _xattrs,
    "listXAttrs": _xattr_names,
    "getStoragePolicy": _storage_policy,
    "getStoragePolicies": _storage_policies,
    "getErasureCodingPolicy": _coding_policy,
    "getErasureCodingPolicies": _coding_policies,
}
"""Handlers by method, which raise ReadRefusedError where a NameNode responds with an exception."""
