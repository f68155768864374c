"""Answers of WebHDFS from a namespace: the operations that `hdfs dfs` needs to list and show files."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from flask import request

from hadoop_common.hdfs_constants import DEFAULT_POLICY, ROOT_INODE_ID, UNSPECIFIED_POLICY, storage_policy
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.values import Owner, java_text, signed32, signed64
from image_tools.namespace_browser import Enter, LocatedInode, NamespaceBrowser, Place, SnapshotFolder, places_along
from image_tools.permission_checker import Access, PermissionChecker

BATCH: Final = 1000
_MAX_LONG: Final = (1 << 63) - 1
_MODE: Final = 0o1777
_STICKY: Final = 0o1000
_SUPERGROUP: Final = "supergroup"
_NOT_SNAPSHOTTABLE: Final = "org.apache.hadoop.hdfs.protocol.SnapshotException"
_ZONE: Final = "raw.hdfs.crypto.encryption.zone"
_ENCRYPTED: Final = "raw.hdfs.crypto.file.encryption.info"
_REPLICATED: Final = "Replicated"
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
"""Defaults of a NameNode without configuration, since an image contains none."""

JsonObject = dict[str, Any]


class WebHdfsRefusedError(Exception):
    """A request that Hadoop would answer with a RemoteException.

    Attributes:
        exception: full name of the Java class.
    """

    def __init__(self, status: HTTPStatus, exception: str, message: str) -> None:
        super().__init__(message)
        self.status, self.exception = status, exception


_MISSING: Final = {
    "LISTSTATUS": "File {} does not exist.",
    "LISTSTATUS_BATCH": "File {} does not exist.",
    "GETSTORAGEPOLICY": "File/Directory does not exist: {}",
    "GETQUOTAUSAGE": "File/Directory does not exist: {}",
    "GETACLSTATUS": "cannot find {}",
    "GETXATTRS": "cannot find {}",
    "LISTXATTRS": "cannot find {}",
}
"""A NameNode's message for a missing path, by operation; other operations use `_NOT_THERE`."""
_NOT_THERE: Final = "File does not exist: {}"


def _not_found(message: str, path: bytes) -> WebHdfsRefusedError:
    text = message.format(java_text(path) or "/")
    return WebHdfsRefusedError(HTTPStatus.NOT_FOUND, "java.io.FileNotFoundException", text)


def bad_parameter(name: str, what: str) -> WebHdfsRefusedError:
    message = f'Invalid value for webhdfs parameter "{name}": {what}'
    return WebHdfsRefusedError(HTTPStatus.BAD_REQUEST, "java.lang.IllegalArgumentException", message)


def parse_long(text: str) -> int | None:
    """Return a number that is not negative as Java's Long.parseLong; None if the text is not one, or too large."""
    digits = text.lstrip("0")
    if not text.isascii() or not text.isdigit() or len(digits) > len(str(_MAX_LONG)):
        return None
    number = int(digits or "0")
    return number if number <= _MAX_LONG else None


class _Attribute(NamedTuple):
    name: str
    value: bytes | None


class ListedPage(NamedTuple):
    """Some entries of LISTSTATUS; the listing continues after the name `behind`, None if these are the last ones."""

    statuses: list[JsonObject]
    behind: bytes | None


class WebHdfsView:
    """The answers to one caller, as JSON.

    Args:
        permissions: of the caller; None if everybody sees everything.
    """

    def __init__(self, browser: NamespaceBrowser, permissions: PermissionChecker | None) -> None:
        self._browser = browser
        self._permissions = permissions
        # components of the path of the request, for refusals
        self._path: list[bytes] = []
        self._operations: dict[str, Callable[[LocatedInode], JsonObject | ListedPage]] = {
            "GETFILESTATUS": lambda place: {"FileStatus": self._status(place, "")},
            "LISTSTATUS": self._list,
            "LISTSTATUS_BATCH": self._list_batch,
            "GETCONTENTSUMMARY": self._summary,
            "GETQUOTAUSAGE": self._quota_usage,
            "GETSTORAGEPOLICY": self._storage_policy,
            "GETACLSTATUS": self._acl,
            "GETXATTRS": self._xattrs,
            "LISTXATTRS": self._xattr_names,
        }

    def answer(self, operation: str, path: bytes) -> JsonObject | ListedPage | None:
        """Return the answer to an operation on a path, None for an unknown operation.

        Raises:
            WebHdfsRefusedError, ReadRefusedError: the NameNode would answer with an exception.
        """
        if operation == "GETSERVERDEFAULTS":
            return {"FsServerDefaults": _SERVER_DEFAULTS}
        if operation not in self._operations:
            return None
        names = [name for name in path.split(b"/") if name]
        if names == [b".reserved"]:
            special = _reserved(operation)
            if special is None:
                raise _not_found(_MISSING.get(operation, _NOT_THERE), path)
            return special
        place = self._find(names, path)
        if isinstance(place, SnapshotFolder):
            return self._snapshot_folder(operation, place, path)
        if place is None:
            raise _not_found(_MISSING.get(operation, _NOT_THERE), path)
        return self._operations[operation](place)

    def page(self, path: bytes, behind: bytes) -> ListedPage:
        """Return the page of LISTSTATUS after a name; raise as `answer`."""
        place = self._find([name for name in path.split(b"/") if name], path)
        if not isinstance(place, LocatedInode) or not place.inode.HasField("directory"):
            raise _not_found(_MISSING["LISTSTATUS"], path)
        return self._page(place, behind)

    def _find(self, names: list[bytes], path: bytes) -> Place:
        """Resolve a path (FSDirectory.resolvePath, resolveDotInodesPath), and check that the caller may."""
        browser = self._browser
        match names:
            case [b".reserved", b"raw", *rest]:
                places: list[Place] = places_along(browser, browser.root(), rest)
            case [b".reserved", b".inodes", number, *rest]:
                inode_id = parse_long(number.decode("latin-1"))
                if inode_id is None:
                    raise _not_found("Invalid inode path: {}", path)
                above = list(browser.chain(inode_id))
                if not above:
                    raise _not_found("File for given inode path does not exist: {}", path)
                if rest == [b".."]:
                    rest, above = [], above[:-1] or above
                places = [*above[:-1], *places_along(browser, above[-1], rest)]
                rest = [*(each.inode.name for each in above[1:]), *rest]
            case rest:
                places = places_along(browser, browser.root(), rest)
        self._path = rest
        if self._permissions is not None:
            self._permissions.check_traverse(places, rest, browser.names)
        return places[-1]

    def _check(self, place: LocatedInode, access: Access) -> None:
        if self._permissions is not None:
            self._permissions.check(place.inode, self._path, access, self._browser.names)

    def _enter(self) -> Enter | None:
        """Return the check of each directory below a path, None without one."""
        if self._permissions is None or self._permissions.unlimited:
            return None
        permissions = self._permissions

        def enter(directory: LocatedInode) -> None:
            names = self._browser.names
            if not permissions.may(directory.inode, Access.READ_EXECUTE, names):
                chain = self._browser.chain(signed64(directory.inode.id))
                path = [each.inode.name for each in chain[1:]]
                permissions.check(directory.inode, path, Access.READ_EXECUTE, names)

        return enter

    def _snapshot_folder(self, operation: str, folder: SnapshotFolder, path: bytes) -> JsonObject:
        """Answer a request for a path that ends with `.snapshot`."""
        above = path[: path.rindex(b"/")]
        if operation in ("LISTSTATUS", "LISTSTATUS_BATCH"):
            if folder.directory is None:
                raise _not_found("Directory does not exist: {}", above)
            if folder.snapshots is None:
                what = f"Directory is not a snapshottable directory: {java_text(above) or '/'}"
                raise WebHdfsRefusedError(HTTPStatus.FORBIDDEN, _NOT_SNAPSHOTTABLE, what)
            # a NameNode counts the present children
            count = self._browser.child_count(folder.directory)
            statuses = [self._status(each, java_text(each.inode.name), count) for each in folder.snapshots]
            return _listing(statuses) if operation == "LISTSTATUS" else _batch(statuses, 0)
        if folder.snapshots is not None and operation == "GETFILESTATUS":
            return {"FileStatus": _virtual("", "777")}
        if folder.snapshots is not None and operation == "GETACLSTATUS":
            return {"AclStatus": {"entries": [], "group": "", "owner": "", "stickyBit": False}}
        raise _not_found(_MISSING.get(operation, _NOT_THERE), path)

    def _list(self, place: LocatedInode) -> JsonObject | ListedPage:
        if not place.inode.HasField("directory"):
            return _listing([self._status(place, "")])
        return self._page(place, b"")

    def _page(self, place: LocatedInode, behind: bytes) -> ListedPage:
        self._check(place, Access.READ_EXECUTE)
        entries, remaining = self._browser.page(place, behind, BATCH)
        more = entries[-1].inode.name if remaining and entries else None
        return ListedPage([self._status(child, java_text(child.inode.name)) for child in entries], more)

    def _list_batch(self, place: LocatedInode) -> JsonObject:
        behind = request.args.get("startAfter", "").encode("utf-8", "surrogateescape")
        if not place.inode.HasField("directory"):
            return _batch([self._status(place, "")], 0)
        self._check(place, Access.READ_EXECUTE)
        entries, remaining = self._browser.page(place, behind, BATCH)
        return _batch([self._status(child, java_text(child.inode.name)) for child in entries], remaining)

    def _status(self, place: LocatedInode, suffix: str, child_count: int | None = None) -> JsonObject:
        inode = place.inode
        file, directory, link = inode.file, inode.directory, inode.symlink
        owner = self._owner(inode)
        attributes = {attribute.name for attribute in self._attributes(inode)}
        status: JsonObject = {
            "accessTime": signed64(file.accessTime or link.accessTime),
            "blockSize": signed64(file.preferredBlockSize),
            "childrenNum": self._browser.child_count(place) if child_count is None else child_count,
            "fileId": signed64(inode.id),
            "group": _name(owner.group),
            "length": sum(block.numBytes for block in file.blocks),
            "modificationTime": signed64(file.modificationTime or directory.modificationTime or link.modificationTime),
            "owner": _name(owner.user),
            "pathSuffix": suffix,
            "permission": f"{owner.mode & _MODE:o}",
            # a striped file has one copy of its blocks
            "replication": 1 if file.HasField("erasureCodingPolicyID") else signed32(file.replication),
            "storagePolicy": UNSPECIFIED_POLICY if inode.HasField("symlink") else place.policy,
            "type": pb.INode.Type.Name(inode.type),
        }
        if inode.HasField("symlink"):
            status["symlink"] = java_text(link.target)
        if file.acl.entries or directory.acl.entries:
            status["aclBit"] = True
        if _ZONE in attributes or _ENCRYPTED in attributes:
            status["encBit"] = True
        status |= self._coding(place)
        if signed64(inode.id) == ROOT_INODE_ID or self._browser.is_snapshottable(place):
            status["snapshotEnabled"] = True
        return status

    def _coding(self, place: LocatedInode) -> JsonObject:
        """Return the erasure coding fields of a status; the policy `replication` counts as none."""
        for number, policy in self._browser.erasure_policies.items():
            if policy.name == place.coding:
                described = {
                    "cellSize": policy.cell_size,
                    "codecName": policy.codec,
                    "extraOptions": dict(policy.options),
                    "id": number,
                    "name": policy.name,
                    "numDataUnits": policy.data_units,
                    "numParityUnits": policy.parity_units,
                }
                return {"ecBit": True, "ecPolicy": policy.name, "ecPolicyObj": described}
        return {}

    def _owner(self, inode: pb.INode) -> Owner:
        return self._browser.names.owner(
            inode.file.permission or inode.directory.permission or inode.symlink.permission
        )

    def _summary(self, place: LocatedInode) -> JsonObject:
        content, past = self._browser.content(place, self._enter())
        replicated = place.inode.HasField("file") and not place.coding
        counts = {
            "directoryCount": content.directories,
            "ecPolicy": _REPLICATED if replicated else place.coding,
            "fileCount": content.files,
            "length": content.length,
            "snapshotDirectoryCount": past.directories,
            "snapshotFileCount": past.files,
            "snapshotLength": past.length,
            "snapshotSpaceConsumed": past.space,
            "spaceConsumed": content.space,
        }
        return {"ContentSummary": counts | _quotas(place.inode.directory)}

    def _quota_usage(self, place: LocatedInode) -> JsonObject:
        content, _ = self._browser.content(place, self._enter())
        counts = {"fileAndDirectoryCount": content.files + content.directories, "spaceConsumed": content.space}
        return {"QuotaUsage": counts | _quotas(place.inode.directory)}

    def _storage_policy(self, place: LocatedInode) -> JsonObject:
        found = storage_policy(place.policy or DEFAULT_POLICY)
        if found is None:
            what = f"Cannot find a block policy with the ID {place.policy}"
            raise WebHdfsRefusedError(HTTPStatus.FORBIDDEN, "java.io.IOException", what)
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

    def _acl(self, place: LocatedInode) -> JsonObject:
        inode = place.inode
        owner = self._owner(inode)
        packed = [*inode.file.acl.entries, *inode.directory.acl.entries]
        status = {
            "entries": [java_text(self._browser.names.acl_entry(entry)) for entry in packed],
            "group": _name(owner.group),
            "owner": _name(owner.user),
            "permission": f"{owner.mode & _MODE:o}",
            "stickyBit": bool(owner.mode & _STICKY),
        }
        return {"AclStatus": status}

    def _attributes(self, inode: pb.INode) -> list[_Attribute]:
        found = []
        for attribute in (*inode.file.xAttrs.xAttrs, *inode.directory.xAttrs.xAttrs):
            namespace, name = self._browser.names.xattr(attribute.name)
            value = attribute.value if attribute.HasField("value") else None
            found.append(_Attribute(java_text(f"{namespace.lower()}.{name or ''}"), value))
        return found

    def _visible(self, inode: pb.INode) -> list[_Attribute]:
        """Return the attributes that the caller sees (XAttrPermissionFilter)."""
        found = self._attributes(inode)
        if self._permissions is None:
            return found
        prefixes = ("user.", "trusted.") if self._permissions.superuser else ("user.",)
        return [attribute for attribute in found if attribute.name.startswith(prefixes)]

    def _xattrs(self, place: LocatedInode) -> JsonObject:
        self._check(place, Access.READ)
        encoding = request.args.get("encoding", "text").lower()
        if encoding not in _ENCODINGS:
            raise bad_parameter("encoding", f"No enum constant {encoding}")
        wanted = request.args.getlist("xattr.name")
        found = [attribute for attribute in self._visible(place.inode) if not wanted or attribute.name in wanted]
        if len(found) < len(set(wanted)):
            what = "At least one of the attributes provided was not found."
            raise WebHdfsRefusedError(HTTPStatus.FORBIDDEN, "java.io.IOException", what)
        encode = _ENCODINGS[encoding]
        shown = [{"name": name, "value": None if value is None else encode(value)} for name, value in found]
        return {"XAttrs": shown}

    def _xattr_names(self, place: LocatedInode) -> JsonObject:
        names = [attribute.name for attribute in self._visible(place.inode)]
        # a list as text, as a NameNode returns it
        return {"XAttrNames": json.dumps(names, ensure_ascii=False, separators=(",", ":"))}


_ENCODINGS: dict[str, Callable[[bytes], str]] = {
    "text": lambda value: f'"{java_text(value)}"',
    "hex": lambda value: f"0x{value.hex()}",
    "base64": lambda value: f"0s{base64.b64encode(value).decode('ascii')}",
}


def _quotas(directory: pb.INodeDirectory) -> JsonObject:
    quota, space_quota = (
        signed64(getattr(directory, field)) if directory.HasField(field) else -1 for field in ("nsQuota", "dsQuota")
    )
    limits = {pb.StorageTypeProto.Name(entry.storageType): entry.quota for entry in directory.typeQuotas.quotas}
    return {
        "quota": quota,
        "spaceQuota": space_quota,
        "typeQuota": {name: {"consumed": 0, "quota": signed64(limit)} for name, limit in limits.items()},
    }


def _listing(statuses: list[JsonObject]) -> JsonObject:
    return {"FileStatuses": {"FileStatus": statuses}}


def _batch(statuses: list[JsonObject], left: int) -> JsonObject:
    return {"DirectoryListing": {"partialListing": _listing(statuses), "remainingEntries": left}}


def _reserved(operation: str) -> JsonObject | None:
    """Return the answer for `/.reserved`; None if the operation is not supported there."""
    inner = [_virtual(name, "770", group=_SUPERGROUP) for name in (".inodes", "raw")]
    return {
        "GETFILESTATUS": {"FileStatus": _virtual("", "1770")},
        "LISTSTATUS": _listing(inner),
        "LISTSTATUS_BATCH": _batch(inner, 0),
    }.get(operation)


def _virtual(suffix: str, permission: str, *, group: str = "") -> JsonObject:
    """Return the status of a directory without an inode."""
    return {
        "accessTime": 0,
        "blockSize": 0,
        "childrenNum": 0,
        "fileId": -1,
        "group": group,
        "length": 0,
        "modificationTime": 0,
        "owner": "",
        "pathSuffix": suffix,
        "permission": permission,
        "replication": 0,
        "storagePolicy": UNSPECIFIED_POLICY,
        "type": "DIRECTORY",
    }


def _name(name: str | None) -> str:
    return "" if name is None else java_text(name)
