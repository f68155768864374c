"""An image as JSON lines: one object a record, whole and in the order of loading.

Every object has `section` and `record`; the other keys are the fields of fsimage.proto under their own names, only
those that the record has, `diffs` and `created` being the records that follow a DiffEntry and a DirectoryDiff:

    SUMMARY           summary: layoutVersion, onDiskVersion, codec, sections
    NS_INFO           info
    STRING_TABLE      header (maskBits, numEntry), then string: id, str
    ERASURE_CODING    policy
    INODE             header, then inode: id, type, name and one of file, directory, symlink
    INODE_REFERENCE   reference: index (what refChildren and deletedINodeRef name), referredId, name ...
    SNAPSHOT          header, then snapshot: snapshotId, root (an inode; its name is the snapshot's)
    INODE_DIR         directory: parent, children (inode ids), refChildren
    FILES_UNDERCONSTRUCTION  file: inodeId, fullPath
    SNAPSHOT_DIFF     fileDiffs or directoryDiffs: inodeId, diffs (newest first)
    SECRET_MANAGER    header, then key and token
    CACHE_MANAGER     header, then pool and directive

Numbers are signed as in Java, enumerations are their names, times are milliseconds since 1970. `permission` becomes
`user`, `group` and `mode` (octal digits); `acl` is a list of texts such as `default:user:erin:r-x`; `xAttrs` is a
list of objects with `name`, such as `user.origin`, and `value`. Bytes that are UTF-8 are text; others, and master
keys always, stand in base64 under the field's name with `Base64` behind it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from image_format.proto import fsimage_pb2 as pb
from image_format.varint import parse_message
from image_tools.dump.records import FileDiffs, ImageRecords
from image_tools.dump.values import Names, signed32, signed64

__all__ = ["dump_json"]

_Object = dict[str, Any]
_SIGNED = {FieldDescriptor.TYPE_UINT64: signed64, FieldDescriptor.TYPE_UINT32: signed32}


def dump_json(records: ImageRecords) -> Iterator[str]:
    """One line a record.

    Raises:
        RecordError: a record is damaged.
    """
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    writer = _Writer(records)
    yield encode({"section": "SUMMARY", "record": "summary", **_summary(records)}) + "\n"
    for section in records.sections:
        for kind, fields in writer.section(section):
            yield encode({"section": section, "record": kind, **fields}) + "\n"


def _summary(records: ImageRecords) -> _Object:
    image = records.image
    return {
        "layoutVersion": image.layout_version,
        "onDiskVersion": image.summary.ondiskVersion,
        "codec": image.codec,
        "sections": [{"name": entry.name, "offset": entry.offset, "length": entry.length} for entry in image.sections],
    }


class _Writer:
    def __init__(self, records: ImageRecords) -> None:
        self._records = records
        self._names = Names(records.image.string_table())

    def section(self, name: str) -> Iterator[tuple[str, _Object]]:
        """(record kind, its fields) of every record of a section."""
        records = self._records
        match name:
            case "NS_INFO":
                yield "info", self._fields(records.image.ns_info())
            case "STRING_TABLE":
                yield from self._strings()
            case "ERASURE_CODING":
                yield from self._each("policy", records.erasure_coding().policies)
            case "INODE":
                yield "header", self._fields(records.inode_header())
                yield from self._each("inode", records.inodes())
            case "INODE_REFERENCE":
                for index, reference in enumerate(records.references()):
                    yield "reference", {"index": index, **self._fields(reference)}
            case "SNAPSHOT":
                yield "header", self._fields(records.snapshot_header())
                yield from self._each("snapshot", records.snapshots())
            case "INODE_DIR":
                yield from self._each("directory", records.directories())
            case "FILES_UNDERCONSTRUCTION":
                yield from self._each("file", records.files_under_construction())
            case "SNAPSHOT_DIFF":
                yield from self._snapshot_diffs()
            case "SECRET_MANAGER":
                secrets = records.secrets()
                yield "header", self._fields(secrets.header)
                yield from self._each("key", secrets.keys)
                yield from self._each("token", secrets.tokens)
            case "CACHE_MANAGER":
                caches = records.caches()
                yield "header", self._fields(caches.header)
                yield from self._each("pool", caches.pools)
                yield from self._each("directive", caches.directives)

    def _each(self, kind: str, messages: Iterable[Message]) -> Iterator[tuple[str, _Object]]:
        for message in messages:
            yield kind, self._fields(message)

    def _strings(self) -> Iterator[tuple[str, _Object]]:
        image = self._records.image
        place = image.place("STRING_TABLE")
        for number, record in enumerate(image.records("STRING_TABLE")):
            if number == 0:
                yield "header", self._fields(parse_message(pb.StringTableSection, record, place))
            else:
                yield "string", self._fields(parse_message(pb.StringTableEntry, record, place))

    def _snapshot_diffs(self) -> Iterator[tuple[str, _Object]]:
        for of_inode in self._records.snapshot_diffs():
            inode_id = signed64(of_inode.inode_id)
            if isinstance(of_inode, FileDiffs):
                yield "fileDiffs", {"inodeId": inode_id, "diffs": [self._fields(diff) for diff in of_inode.diffs]}
                continue
            diffs = []
            for diff, created in of_inode.diffs:
                fields = self._fields(diff)
                for name in created:
                    _put_list(fields, "created", name)
                diffs.append(fields)
            yield "directoryDiffs", {"inodeId": inode_id, "diffs": diffs}

    def _fields(self, message: Message) -> _Object:
        out: _Object = {}
        for field, value in message.ListFields():
            name = field.name
            if name == "permission":
                owner = self._names.owner(value)
                out["user"], out["group"], out["mode"] = owner.user, owner.group, f"{owner.mode:04o}"
            elif name == "acl":
                out["acl"] = [self._names.acl_entry(entry) for entry in value.entries]
            elif name == "xAttrs":
                out["xAttrs"] = [self._xattr(attribute) for attribute in value.xAttrs]
            elif name == "key" and isinstance(value, bytes):
                out["keyBase64"] = _base64(value)
            elif field.type == FieldDescriptor.TYPE_BYTES or isinstance(value, bytes):
                _put(out, name, value)
            elif field.is_repeated:
                out[name] = [self._value(field, item) for item in value]
            else:
                out[name] = self._value(field, value)
        return out

    def _value(self, field: FieldDescriptor, value: Any) -> Any:
        signed = _SIGNED.get(field.type)
        if signed is not None:
            return signed(value)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            return self._fields(value)
        if field.enum_type is not None:
            return field.enum_type.values_by_number[value].name
        return value

    def _xattr(self, attribute: pb.XAttrCompactProto) -> _Object:
        namespace, name = self._names.xattr(attribute.name)
        out: _Object = {"name": f"{namespace.lower()}.{name or ''}"}
        _put(out, "value", attribute.value)
        return out


def _put(out: _Object, name: str, value: bytes) -> None:
    try:
        out[name] = value.decode("utf-8")
    except UnicodeDecodeError:
        out[name + "Base64"] = _base64(value)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _put_list(out: _Object, name: str, value: bytes) -> None:
    item: _Object = {}
    _put(item, "name", value)
    out.setdefault(name, []).append(item)
