"""WebHDFS responses from a namespace, for the operations with which `hdfs dfs` lists and shows files."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from hadoop_common.storage_policies import DEFAULT_POLICY
from hadoop_rpc.client_values import ClientAcl, ClientInode
from image_format.erasure_policies import ErasurePolicy
from image_tools.dump.values import acl_entry_text, java_text
from image_tools.namespace_browser import LocatedInode, NamespaceBrowser, SnapshotFolder
from image_tools.namespace_reads import (
    CANNOT_FIND,
    IN_RESERVED,
    NO_INODE,
    NOT_THERE,
    RESERVED,
    SNAPSHOT_FOLDER,
    SNAPSHOT_FOLDER_ACL,
    InodePage,
    NamespaceReads,
    Quotas,
    is_reserved,
    not_found,
)
from image_tools.permission_checker import Access, PermissionChecker
from servlets.webhdfs_parameters import webhdfs_parameters

_STICKY: Final = 0o1000
_CRC32C: Final = 2
_SERVER_DEFAULTS: Final = {
    "blockSize": 134217728,
    "bytesPerChecksum": 512,
    "checksumType": _CRC32C,
    "defaultStoragePolicyId": DEFAULT_POLICY,
    "encryptDataTransfer": False,
    "fileBufferSize": 4096,
    "keyProviderUri": "",
    "replication": 3,
    "trashInterval": 0,
    "writePacketSize": 65536,
}
"""Defaults of a NameNode without configuration, because an image does not contain the configuration."""

JsonObject = dict[str, Any]


class WebHdfsRefusedError(Exception):
    """A request to which Hadoop would respond with a RemoteException.

    Attributes:
        exception: full name of the Java class.
    """

    def __init__(self, status: HTTPStatus, exception: str, message: str) -> None:
        super().__init__(message)
        self.status, self.exception = status, exception


_MISSING: Final = {
    "LISTSTATUS": "File {} does not exist.",
    "LISTSTATUS_BATCH": "File {} does not exist.",
    "GETSTORAGEPOLICY": NO_INODE,
    "GETQUOTAUSAGE": NO_INODE,
    "GETACLSTATUS": CANNOT_FIND,
    "GETXATTRS": CANNOT_FIND,
    "LISTXATTRS": CANNOT_FIND,
}
"""A NameNode's message for a missing path, by operation; other operations use `NOT_THERE`."""


def bad_parameter(name: str, what: str) -> WebHdfsRefusedError:
    message = f'Invalid value for webhdfs parameter "{name}": {what}'
    return WebHdfsRefusedError(HTTPStatus.BAD_REQUEST, "java.lang.IllegalArgumentException", message)


class ListedPage(NamedTuple):
    """One page of LISTSTATUS; the listing continues after the name `behind`, or ends if `behind` is None."""

    statuses: list[JsonObject]
    behind: bytes | None


class WebHdfsView:
    """The responses to one caller, as JSON.

    Args:
        permissions: permissions of the caller; None if any user may see everything, as in an image.
    """

    def __init__(self, browser: NamespaceBrowser, permissions: PermissionChecker | None) -> None:
        self._reads = NamespaceReads(browser, permissions)
        self._is_image = permissions is None
        self._operations: dict[str, Callable[[LocatedInode], JsonObject | ListedPage]] = {
            "GETFILESTATUS": lambda place: {"FileStatus": _status(self._reads.inode(place))},
            "LISTSTATUS": self._list,
            "LISTSTATUS_BATCH": self._list_batch,
            "GETCONTENTSUMMARY": self._summary,
            "GETQUOTAUSAGE": self._quota_usage,
            "GETSTORAGEPOLICY": self._storage_policy,
            "GETACLSTATUS": lambda place: _acl(self._reads.acl(place)),
            "GETXATTRS": self._xattrs,
            "LISTXATTRS": self._xattr_names,
        }

    def answer(self, operation: str, path: bytes) -> JsonObject | ListedPage | None:
        """Return the response to an operation on a path, or None for an unknown operation.

        Raises:
            WebHdfsRefusedError, ReadRefusedError: the NameNode would respond with an exception.
        """
        if operation == "GETSERVERDEFAULTS" and self._is_image:
            return {"FsServerDefaults": _SERVER_DEFAULTS}
        if operation not in self._operations:
            return None
        missing = _MISSING.get(operation, NOT_THERE)
        if is_reserved(path):
            special = _reserved(operation)
            if special is None:
                raise not_found(missing, path)
            return special
        place = self._reads.find(path)
        if isinstance(place, SnapshotFolder):
            return self._snapshot_folder(operation, place, path)
        if place is None:
            raise not_found(missing, path)
        return self._operations[operation](place)

    def page(self, path: bytes, behind: bytes) -> ListedPage:
        """Return the page of LISTSTATUS after a name; raise the same errors as `answer`."""
        place = self._reads.find(path)
        if not isinstance(place, LocatedInode) or not place.inode.HasField("directory"):
            raise not_found(_MISSING["LISTSTATUS"], path)
        return _listed(self._reads.page(place, behind))

    def _snapshot_folder(self, operation: str, folder: SnapshotFolder, path: bytes) -> JsonObject:
        """Answer a request for a path that ends with `.snapshot`."""
        if operation in ("LISTSTATUS", "LISTSTATUS_BATCH"):
            statuses = _statuses(each.inode for each in self._reads.snapshots(folder, path[: path.rindex(b"/")]))
            return _listing(statuses) if operation == "LISTSTATUS" else _batch(statuses, 0)
        if folder.snapshots is not None and operation == "GETFILESTATUS":
            return {"FileStatus": _status(SNAPSHOT_FOLDER)}
        if folder.snapshots is not None and operation == "GETACLSTATUS":
            return _acl(SNAPSHOT_FOLDER_ACL)
        raise not_found(_MISSING.get(operation, NOT_THERE), path)

    def _list(self, place: LocatedInode) -> JsonObject | ListedPage:
        page = self._reads.page(place, b"")
        return _listed(page) if place.inode.HasField("directory") else _listing(_statuses(page.inodes))

    def _list_batch(self, place: LocatedInode) -> JsonObject:
        behind = webhdfs_parameters().get("startafter", "").encode("utf-8", "surrogateescape")
        page = self._reads.page(place, behind)
        return _batch(_statuses(page.inodes), page.remaining)

    def _summary(self, place: LocatedInode) -> JsonObject:
        found = self._reads.summary(place)
        content, past = found.totals, found.in_snapshots
        counts = {
            "directoryCount": content.directories,
            "ecPolicy": found.coding,
            "fileCount": content.files,
            "length": content.length,
            "snapshotDirectoryCount": past.directories,
            "snapshotFileCount": past.files,
            "snapshotLength": past.length,
            "snapshotSpaceConsumed": past.space,
            "spaceConsumed": content.space,
        }
        return {"ContentSummary": counts | _quotas(found.quotas)}

    def _quota_usage(self, place: LocatedInode) -> JsonObject:
        found = self._reads.summary(place)
        content = found.totals
        counts = {"fileAndDirectoryCount": content.files + content.directories, "spaceConsumed": content.space}
        return {"QuotaUsage": counts | _quotas(found.quotas)}

    def _storage_policy(self, place: LocatedInode) -> JsonObject:
        found = self._reads.storage_policy(place)
        return {
            "BlockStoragePolicy": {
                "copyOnCreateFile": found.copied,
                "creationFallbacks": list(found.creation_fallback),
                "id": found.id,
                "name": found.name,
                "replicationFallbacks": list(found.replication_fallback),
                "storageTypes": list(found.creation),
            }
        }

    def _xattrs(self, place: LocatedInode) -> JsonObject:
        self._reads.check(place, Access.READ)
        encoding = webhdfs_parameters().get("encoding", "text").lower()
        if encoding not in _ENCODINGS:
            raise bad_parameter("encoding", f"No enum constant {encoding}")
        encode = _ENCODINGS[encoding]
        found = self._reads.attributes(place, webhdfs_parameters().getlist("xattr.name"))
        shown = [
            {"name": each.full_name, "value": None if each.value is None else encode(each.value)} for each in found
        ]
        return {"XAttrs": shown}

    def _xattr_names(self, place: LocatedInode) -> JsonObject:
        names = [attribute.full_name for attribute in self._reads.attribute_names(place)]
        # a NameNode also returns the list as text
        return {"XAttrNames": json.dumps(names, ensure_ascii=False, separators=(",", ":"))}


_ENCODINGS: dict[str, Callable[[bytes], str]] = {
    "text": lambda value: f'"{java_text(value)}"',
    "hex": lambda value: f"0x{value.hex()}",
    "base64": lambda value: f"0s{base64.b64encode(value).decode('ascii')}",
}


def _status(inode: ClientInode) -> JsonObject:
    status: JsonObject = {
        "accessTime": inode.atime,
        "blockSize": inode.block_size,
        "childrenNum": inode.children,
        "fileId": inode.id,
        "group": inode.group,
        "length": inode.length,
        "modificationTime": inode.mtime,
        "owner": inode.owner,
        "pathSuffix": java_text(inode.name),
        "permission": f"{inode.mode:o}",
        "replication": inode.replication,
        "storagePolicy": inode.policy,
        "type": inode.type.name,
    }
    if inode.target is not None:
        status["symlink"] = java_text(inode.target)
    if inode.has_acl:
        status["aclBit"] = True
    if inode.encrypted:
        status["encBit"] = True
    if inode.coding is not None:
        status |= _coding(inode.coding)
    if inode.snapshottable:
        status["snapshotEnabled"] = True
    return status


def _coding(policy: ErasurePolicy) -> JsonObject:
    described = {
        "cellSize": policy.cell_size,
        "codecName": policy.codec,
        "extraOptions": dict(policy.options),
        "id": policy.id,
        "name": policy.name,
        "numDataUnits": policy.data_units,
        "numParityUnits": policy.parity_units,
    }
    return {"ecBit": True, "ecPolicy": policy.name, "ecPolicyObj": described}


def _acl(acl: ClientAcl) -> JsonObject:
    entries = [acl_entry_text(each.scope, each.type, each.name, each.permission) for each in acl.entries]
    status: JsonObject = {"entries": [java_text(each) for each in entries], "group": acl.group, "owner": acl.owner}
    if acl.mode is not None:
        status["permission"] = f"{acl.mode:o}"
    return {"AclStatus": status | {"stickyBit": bool((acl.mode or 0) & _STICKY)}}


def _quotas(quotas: Quotas) -> JsonObject:
    return {
        "quota": quotas.names,
        "spaceQuota": quotas.space,
        "typeQuota": {name: {"consumed": each.consumed, "quota": each.limit} for name, each in quotas.types.items()},
    }


def _statuses(inodes: Iterable[ClientInode]) -> list[JsonObject]:
    return [_status(inode) for inode in inodes]


def _listed(page: InodePage) -> ListedPage:
    more = page.inodes[-1].name if page.remaining and page.inodes else None
    return ListedPage(_statuses(page.inodes), more)


def _listing(statuses: list[JsonObject]) -> JsonObject:
    return {"FileStatuses": {"FileStatus": statuses}}


def _batch(statuses: list[JsonObject], left: int) -> JsonObject:
    return {"DirectoryListing": {"partialListing": _listing(statuses), "remainingEntries": left}}


def _reserved(operation: str) -> JsonObject | None:
    """Return the response for `/.reserved`; None if the operation is not supported there."""
    inner = _statuses(IN_RESERVED)
    return {
        "GETFILESTATUS": {"FileStatus": _status(RESERVED)},
        "LISTSTATUS": _listing(inner),
        "LISTSTATUS_BATCH": _batch(inner, 0),
    }.get(operation)
