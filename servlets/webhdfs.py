"""WebHDFS of an image, read only: what `hdfs dfs` asks to list files and to show what they have (`hdfs oiv -p Web`)."""

from __future__ import annotations

import base64
import itertools
import json
import logging
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from flask import Blueprint, Response, request

from hadoop_common.errors import HdfsError
from image_format.proto import fsimage_pb2 as pb
from image_tools.browse import ImageBrowser
from image_tools.dump.values import Owner, java_text, signed32, signed64

_LOG = logging.getLogger(__name__)

_PREFIX: Final = "/webhdfs/v1"
_JSON: Final = "application/json; charset=utf-8"
_BATCH: Final = 1000
_MODE: Final = 0o1777
_STICKY: Final = 0o1000
_POLICY: Final = "system.hdfs.block.storage.policy.id"
_ZONE: Final = "raw.hdfs.crypto.encryption.zone"
_ENCRYPTED: Final = "raw.hdfs.crypto.file.encryption.info"

_Object = dict[str, Any]


class _RefusalError(Exception):
    """A request that Hadoop would answer with a RemoteException.

    Attributes:
        exception: name of Java's class.
    """

    def __init__(self, status: HTTPStatus, exception: str, message: str) -> None:
        super().__init__(message)
        self.status, self.exception = status, exception


def _not_found(path: bytes) -> _RefusalError:
    return _RefusalError(
        HTTPStatus.NOT_FOUND, "java.io.FileNotFoundException", f"File does not exist: {java_text(path) or '/'}"
    )


def _bad_parameter(name: str, what: str) -> _RefusalError:
    message = f'Invalid value for webhdfs parameter "{name}": {what}'
    return _RefusalError(HTTPStatus.BAD_REQUEST, "java.lang.IllegalArgumentException", message)


class _Attribute(NamedTuple):
    name: str
    value: bytes | None


def webhdfs_blueprint(browser: ImageBrowser) -> Blueprint:
    """GET /webhdfs/v1/PATH?op=OPERATION.

    GETFILESTATUS, LISTSTATUS, LISTSTATUS_BATCH, GETCONTENTSUMMARY, GETACLSTATUS, GETXATTRS, LISTXATTRS and
    GETHOMEDIRECTORY; all else is refused. Whoever asks sees all, as there are no users here. A refusal is a
    RemoteException as JSON, with Hadoop's status.
    """
    blueprint = Blueprint("webhdfs", __name__)
    view = _View(browser)

    @blueprint.route(_PREFIX, methods=["GET", "PUT", "POST", "DELETE"])
    @blueprint.route(f"{_PREFIX}/", methods=["GET", "PUT", "POST", "DELETE"])
    @blueprint.route(f"{_PREFIX}/<path:path>", methods=["GET", "PUT", "POST", "DELETE"])
    def answer(path: str = "") -> Response:
        if request.method != "GET":
            what = "an image can only be read"
            raise _RefusalError(HTTPStatus.METHOD_NOT_ALLOWED, "java.lang.UnsupportedOperationException", what)
        # the bytes of the path, as names need not be text
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


def _remote(status: HTTPStatus, exception: str, message: str) -> Response:
    content = {"exception": exception.rpartition(".")[2], "javaClassName": exception, "message": message}
    return Response(json.dumps({"RemoteException": content}), status, content_type=_JSON)


class _View:
    """The answers, as JSON."""

    def __init__(self, browser: ImageBrowser) -> None:
        self._browser = browser
        self._operations: dict[str, Callable[[bytes, pb.INode], _Object | Iterator[str]]] = {
            "GETFILESTATUS": lambda _, inode: {"FileStatus": self._status(inode, "")},
            "LISTSTATUS": self._list,
            "LISTSTATUS_BATCH": self._list_batch,
            "GETCONTENTSUMMARY": self._summary,
            "GETACLSTATUS": self._acl,
            "GETXATTRS": self._xattrs,
            "LISTXATTRS": self._xattr_names,
        }

    def answer(self, path: bytes) -> str | Iterator[str]:
        """What the request's `op` asks of a path; raises `_RefusalError`."""
        name = request.args.get("op", "").upper()
        if name == "GETHOMEDIRECTORY":
            return json.dumps({"Path": f"/user/{request.args.get('user.name', 'dr.who')}"})
        if name not in self._operations:
            raise _bad_parameter("op", f"No enum constant {name}; the image of a namespace has no more than its inodes")
        inode = self._browser.find(path)
        if inode is None:
            raise _not_found(path)
        found = self._operations[name](path, inode)
        return json.dumps(found, ensure_ascii=False) if isinstance(found, dict) else found

    def _list(self, path: bytes, inode: pb.INode) -> Iterator[str]:
        if not inode.HasField("directory"):
            return iter([json.dumps({"FileStatuses": {"FileStatus": [self._status(inode, "")]}}, ensure_ascii=False)])
        children = self._browser.children(inode)
        # errors at the beginning are still told as such
        first = [self._text(child) for child in itertools.islice(children, _BATCH)]
        return itertools.chain(
            ['{"FileStatuses":{"FileStatus":[\n', ",\n".join(first)],
            (f",\n{self._text(child)}" for child in children),
            ["\n]}}\n"],
        )

    def _list_batch(self, path: bytes, inode: pb.INode) -> _Object:
        behind = request.args.get("startAfter", "").encode("utf-8", "surrogateescape")
        if not inode.HasField("directory"):
            statuses, left = [self._status(inode, "")], 0
        else:
            children = self._browser.children(inode, behind)
            statuses = [self._status(child, java_text(child.name)) for child in itertools.islice(children, _BATCH)]
            left = sum(1 for _ in children)
        listing = {"partialListing": {"FileStatuses": {"FileStatus": statuses}}, "remainingEntries": left}
        return {"DirectoryListing": listing}

    def _text(self, child: pb.INode) -> str:
        return json.dumps(self._status(child, java_text(child.name)), ensure_ascii=False)

    def _status(self, inode: pb.INode, suffix: str) -> _Object:
        file, directory, link = inode.file, inode.directory, inode.symlink
        owner = self._owner(inode)
        attributes = {attribute.name: attribute.value for attribute in self._attributes(inode)}
        policy = attributes.get(_POLICY)
        status: _Object = {
            "accessTime": signed64(file.accessTime or link.accessTime),
            "blockSize": signed64(file.preferredBlockSize),
            "childrenNum": self._browser.child_count(inode),
            "fileId": signed64(inode.id),
            "group": _name(owner.group),
            "length": sum(block.numBytes for block in file.blocks),
            "modificationTime": signed64(file.modificationTime or directory.modificationTime or link.modificationTime),
            "owner": _name(owner.user),
            "pathSuffix": suffix,
            "permission": f"{owner.mode & _MODE:o}",
            "replication": signed32(file.replication),
            "storagePolicy": policy[0] if policy else file.storagePolicyID,
            "type": pb.INode.Type.Name(inode.type),
        }
        if inode.HasField("symlink"):
            status["symlink"] = java_text(link.target)
        if file.acl.entries or directory.acl.entries:
            status["aclBit"] = True
        if _ZONE in attributes or _ENCRYPTED in attributes:
            status["encBit"] = True
        if file.HasField("erasureCodingPolicyID"):
            status["ecBit"] = True
        return status

    def _owner(self, inode: pb.INode) -> Owner:
        return self._browser.names.owner(
            inode.file.permission or inode.directory.permission or inode.symlink.permission
        )

    def _summary(self, path: bytes, inode: pb.INode) -> _Object:
        content = self._browser.content(inode)
        directory = inode.directory
        quota, space_quota = (
            signed64(getattr(directory, field)) if directory.HasField(field) else -1 for field in ("nsQuota", "dsQuota")
        )
        limits = {pb.StorageTypeProto.Name(entry.storageType): entry.quota for entry in directory.typeQuotas.quotas}
        return {
            "ContentSummary": {
                "directoryCount": content.directories,
                "fileCount": content.files,
                "length": content.length,
                "quota": quota,
                "spaceConsumed": content.space,
                "spaceQuota": space_quota,
                "typeQuota": {name: {"consumed": 0, "quota": signed64(limit)} for name, limit in limits.items()},
            }
        }

    def _acl(self, path: bytes, inode: pb.INode) -> _Object:
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

    def _xattrs(self, path: bytes, inode: pb.INode) -> _Object:
        encoding = request.args.get("encoding", "text").lower()
        if encoding not in _ENCODINGS:
            raise _bad_parameter("encoding", f"No enum constant {encoding}")
        wanted = request.args.getlist("xattr.name")
        found = [attribute for attribute in self._attributes(inode) if not wanted or attribute.name in wanted]
        if len(found) < len(set(wanted)):
            what = "At least one of the attributes provided was not found."
            raise _RefusalError(HTTPStatus.FORBIDDEN, "java.io.IOException", what)
        encode = _ENCODINGS[encoding]
        shown = [{"name": name, "value": None if value is None else encode(value)} for name, value in found]
        return {"XAttrs": shown}

    def _xattr_names(self, path: bytes, inode: pb.INode) -> _Object:
        names = [attribute.name for attribute in self._attributes(inode)]
        # a list as a text, which is how a NameNode gives it
        return {"XAttrNames": json.dumps(names, ensure_ascii=False, separators=(",", ":"))}


_ENCODINGS: dict[str, Callable[[bytes], str]] = {
    "text": lambda value: f'"{java_text(value)}"',
    "hex": lambda value: f"0x{value.hex()}",
    "base64": lambda value: f"0s{base64.b64encode(value).decode('ascii')}",
}


def _name(name: str | None) -> str:
    return "" if name is None else java_text(name)
