"""Read-only WebHDFS of an image: the operations that `hdfs dfs` needs to list and show files (`hdfs oiv -p Web`)."""

from __future__ import annotations

import base64
import itertools
import json
import logging
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from flask import Blueprint, Response, request
from flask.blueprints import BlueprintSetupState
from werkzeug.routing import PathConverter

from hadoop_common.errors import HdfsError
from hadoop_common.hdfs_constants import DEFAULT_POLICY, ROOT_INODE_ID, UNSPECIFIED_POLICY, storage_policy
from image_format.proto import fsimage_pb2 as pb
from image_tools.browse import ImageBrowser, LocatedInode, SnapshotFolder
from image_tools.dump.values import Owner, java_text, signed32, signed64

_LOG = logging.getLogger(__name__)

_PREFIX: Final = "/webhdfs/v1"
_JSON: Final = "application/json; charset=utf-8"
_BATCH: Final = 1000
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

_Object = dict[str, Any]


class _RefusalError(Exception):
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


def _not_found(message: str, path: bytes) -> _RefusalError:
    text = message.format(java_text(path) or "/")
    return _RefusalError(HTTPStatus.NOT_FOUND, "java.io.FileNotFoundException", text)


def _bad_parameter(name: str, what: str) -> _RefusalError:
    message = f'Invalid value for webhdfs parameter "{name}": {what}'
    return _RefusalError(HTTPStatus.BAD_REQUEST, "java.lang.IllegalArgumentException", message)


class _Attribute(NamedTuple):
    name: str
    value: bytes | None


def webhdfs_blueprint(browser: ImageBrowser) -> Blueprint:
    """Make the blueprint of GET /webhdfs/v1/PATH?op=OPERATION.

    GETFILESTATUS, LISTSTATUS, LISTSTATUS_BATCH, GETCONTENTSUMMARY, GETQUOTAUSAGE, GETSTORAGEPOLICY, GETACLSTATUS,
    GETXATTRS, LISTXATTRS, GETHOMEDIRECTORY and GETSERVERDEFAULTS; other operations are refused. Every caller sees
    everything, as there are no users here. Paths may lead into snapshots (`.snapshot/NAME`) and begin at an inode
    (`/.reserved/.inodes/ID`). A refusal is a RemoteException as JSON, with Hadoop's status.
    """
    blueprint = Blueprint("webhdfs", __name__)
    blueprint.record_once(_register_converter)
    view = _View(browser)

    @blueprint.route(_PREFIX, methods=["GET", "PUT", "POST", "DELETE"])
    @blueprint.route(f"{_PREFIX}/", methods=["GET", "PUT", "POST", "DELETE"])
    @blueprint.route(f"{_PREFIX}/<anything:path>", methods=["GET", "PUT", "POST", "DELETE"])
    def answer(path: str = "") -> Response:
        if request.method != "GET":
            what = "an image can only be read"
            raise _RefusalError(HTTPStatus.METHOD_NOT_ALLOWED, "java.lang.UnsupportedOperationException", what)
        # the path as bytes, since names need not be text
        raw = request.environ["PATH_INFO"].encode("latin-1")[len(_PREFIX) :]
        return Response(view.answer(raw.rstrip(b"/")), content_type=_JSON)

    @blueprint.errorhandler(_RefusalError)
    def refused(fault: _RefusalError) -> Response:
        return _remote(fault.status, fault.exception, str(fault))

    @blueprint.errorhandler(HdfsError)
    def damaged(fault: HdfsError) -> Response:
        _LOG.error("%s %s failed: %s", request.method, request.path, fault)
        return _remote(HTTPStatus.FORBIDDEN, "java.io.IOException", str(fault))

    return blueprint


class _AnythingConverter(PathConverter):
    """Converter as `path`, but names may contain a line feed."""

    regex = r"(?s:[^/].*?)"


def _register_converter(state: BlueprintSetupState) -> None:
    state.app.url_map.converters["anything"] = _AnythingConverter


def _remote(status: HTTPStatus, exception: str, message: str) -> Response:
    content = {"exception": exception.rpartition(".")[2], "javaClassName": exception, "message": message}
    return Response(json.dumps({"RemoteException": content}), status, content_type=_JSON)


class _View:
    """The answers, as JSON."""

    def __init__(self, browser: ImageBrowser) -> None:
        self._browser = browser
        self._operations: dict[str, Callable[[LocatedInode], _Object | Iterator[str]]] = {
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

    def answer(self, path: bytes) -> str | Iterator[str]:
        """Return the answer to the request's `op` for a path; raises `_RefusalError`."""
        operation = request.args.get("op", "").upper()
        if operation == "GETHOMEDIRECTORY":
            return json.dumps({"Path": f"/user/{request.args.get('user.name', 'dr.who')}"})
        if operation == "GETSERVERDEFAULTS":
            return json.dumps({"FsServerDefaults": _SERVER_DEFAULTS})
        if operation not in self._operations:
            what = f"No enum constant {operation}; the image of a namespace has no more than its inodes"
            raise _bad_parameter("op", what)
        found = self._answer(operation, path)
        return json.dumps(found, ensure_ascii=False) if isinstance(found, dict) else found

    def _answer(self, operation: str, path: bytes) -> _Object | Iterator[str]:
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

    def _find(self, names: list[bytes], path: bytes) -> LocatedInode | SnapshotFolder | None:
        """Resolve a path (FSDirectory.resolvePath, resolveDotInodesPath)."""
        browser = self._browser
        match names:
            case [b".reserved", b"raw", *rest]:
                return browser.below(browser.root(), rest)
            case [b".reserved", b".inodes", number, *rest]:
                if not number.isdigit():
                    raise _not_found("Invalid inode path: {}", path)
                place = browser.with_id(int(number), parent=rest == [b".."])
                if place is None:
                    raise _not_found("File for given inode path does not exist: {}", path)
                return place if rest == [b".."] else browser.below(place, rest)
        return browser.below(browser.root(), names)

    def _snapshot_folder(self, operation: str, folder: SnapshotFolder, path: bytes) -> _Object | Iterator[str]:
        """Answer a request for a path that ends with `.snapshot`."""
        above = path[: path.rindex(b"/")]
        if operation in ("LISTSTATUS", "LISTSTATUS_BATCH"):
            if folder.directory is None:
                raise _not_found("Directory does not exist: {}", above)
            if folder.snapshots is None:
                what = f"Directory is not a snapshottable directory: {java_text(above) or '/'}"
                raise _RefusalError(HTTPStatus.FORBIDDEN, _NOT_SNAPSHOTTABLE, what)
            # a NameNode counts the present children
            count = {"childrenNum": self._browser.child_count(folder.directory)}
            statuses = [self._status(each, java_text(each.inode.name)) | count for each in folder.snapshots]
            return _listing(statuses) if operation == "LISTSTATUS" else _batch(statuses, 0)
        if folder.snapshots is not None and operation == "GETFILESTATUS":
            return {"FileStatus": _virtual("", "777")}
        if folder.snapshots is not None and operation == "GETACLSTATUS":
            return {"AclStatus": {"entries": [], "group": "", "owner": "", "stickyBit": False}}
        raise _not_found(_MISSING.get(operation, _NOT_THERE), path)

    def _list(self, place: LocatedInode) -> _Object | Iterator[str]:
        if not place.inode.HasField("directory"):
            return _listing([self._status(place, "")])
        children = self._browser.children(place)
        # errors in the first batch are still answered as errors
        first = [self._text(child) for child in itertools.islice(children, _BATCH)]
        return itertools.chain(
            ['{"FileStatuses":{"FileStatus":[\n', ",\n".join(first)],
            (f",\n{self._text(child)}" for child in children),
            ["\n]}}\n"],
        )

    def _list_batch(self, place: LocatedInode) -> _Object:
        behind = request.args.get("startAfter", "").encode("utf-8", "surrogateescape")
        if not place.inode.HasField("directory"):
            return _batch([self._status(place, "")], 0)
        children = self._browser.children(place, behind)
        statuses = [self._status(child, java_text(child.inode.name)) for child in itertools.islice(children, _BATCH)]
        return _batch(statuses, sum(1 for _ in children))

    def _text(self, child: LocatedInode) -> str:
        return json.dumps(self._status(child, java_text(child.inode.name)), ensure_ascii=False)

    def _status(self, place: LocatedInode, suffix: str) -> _Object:
        inode = place.inode
        file, directory, link = inode.file, inode.directory, inode.symlink
        owner = self._owner(inode)
        attributes = {attribute.name for attribute in self._attributes(inode)}
        status: _Object = {
            "accessTime": signed64(file.accessTime or link.accessTime),
            "blockSize": signed64(file.preferredBlockSize),
            "childrenNum": self._browser.child_count(place),
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

    def _coding(self, place: LocatedInode) -> _Object:
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

    def _summary(self, place: LocatedInode) -> _Object:
        content = self._browser.content(place)
        replicated = place.inode.HasField("file") and not place.coding
        counts = {
            "directoryCount": content.directories,
            "ecPolicy": _REPLICATED if replicated else place.coding,
            "fileCount": content.files,
            "length": content.length,
            "spaceConsumed": content.space,
        }
        return {"ContentSummary": counts | _quotas(place.inode.directory)}

    def _quota_usage(self, place: LocatedInode) -> _Object:
        content = self._browser.content(place)
        counts = {"fileAndDirectoryCount": content.files + content.directories, "spaceConsumed": content.space}
        return {"QuotaUsage": counts | _quotas(place.inode.directory)}

    def _storage_policy(self, place: LocatedInode) -> _Object:
        found = storage_policy(place.policy or DEFAULT_POLICY)
        if found is None:
            what = f"Cannot find a block policy with the ID {place.policy}"
            raise _RefusalError(HTTPStatus.FORBIDDEN, "java.io.IOException", what)
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

    def _acl(self, place: LocatedInode) -> _Object:
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

    def _xattrs(self, place: LocatedInode) -> _Object:
        encoding = request.args.get("encoding", "text").lower()
        if encoding not in _ENCODINGS:
            raise _bad_parameter("encoding", f"No enum constant {encoding}")
        wanted = request.args.getlist("xattr.name")
        found = [attribute for attribute in self._attributes(place.inode) if not wanted or attribute.name in wanted]
        if len(found) < len(set(wanted)):
            what = "At least one of the attributes provided was not found."
            raise _RefusalError(HTTPStatus.FORBIDDEN, "java.io.IOException", what)
        encode = _ENCODINGS[encoding]
        shown = [{"name": name, "value": None if value is None else encode(value)} for name, value in found]
        return {"XAttrs": shown}

    def _xattr_names(self, place: LocatedInode) -> _Object:
        names = [attribute.name for attribute in self._attributes(place.inode)]
        # a list as text, as a NameNode returns it
        return {"XAttrNames": json.dumps(names, ensure_ascii=False, separators=(",", ":"))}


_ENCODINGS: dict[str, Callable[[bytes], str]] = {
    "text": lambda value: f'"{java_text(value)}"',
    "hex": lambda value: f"0x{value.hex()}",
    "base64": lambda value: f"0s{base64.b64encode(value).decode('ascii')}",
}


def _quotas(directory: pb.INodeDirectory) -> _Object:
    quota, space_quota = (
        signed64(getattr(directory, field)) if directory.HasField(field) else -1 for field in ("nsQuota", "dsQuota")
    )
    limits = {pb.StorageTypeProto.Name(entry.storageType): entry.quota for entry in directory.typeQuotas.quotas}
    return {
        "quota": quota,
        "spaceQuota": space_quota,
        "typeQuota": {name: {"consumed": 0, "quota": signed64(limit)} for name, limit in limits.items()},
    }


def _listing(statuses: list[_Object]) -> _Object:
    return {"FileStatuses": {"FileStatus": statuses}}


def _batch(statuses: list[_Object], left: int) -> _Object:
    return {"DirectoryListing": {"partialListing": _listing(statuses), "remainingEntries": left}}


def _reserved(operation: str) -> _Object | None:
    """Return the answer for `/.reserved`; None if the operation is not supported there."""
    inner = [_virtual(name, "770", group=_SUPERGROUP) for name in (".inodes", "raw")]
    return {
        "GETFILESTATUS": {"FileStatus": _virtual("", "1770")},
        "LISTSTATUS": _listing(inner),
        "LISTSTATUS_BATCH": _batch(inner, 0),
    }.get(operation)


def _virtual(suffix: str, permission: str, *, group: str = "") -> _Object:
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
