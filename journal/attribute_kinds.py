"""Field kinds of ACLs and extended attributes, in their own encoding and as protobuf messages."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from hadoop_common.java_utf8 import decode_java_utf8
from journal import primitives
from journal.compound_kinds import json_of_tuple, list_from_json, list_to_json, tuple_of_json
from journal.errors import CorruptOpError, OpEncodingError
from journal.kinds import FieldGroup, FieldKind, Json, XmlSink
from journal.primitives import PrimitiveReader
from journal.proto import editlog_pb2
from journal.values import ACL_SCOPES, ACL_TYPES, XATTR_NAMESPACES, AclEntry, XAttr
from journal.xml_element import MissingElementError, XmlElement

_MessageT = TypeVar("_MessageT", bound=Message)


_ACL_NAMED = 1 << 6
_ACL_PERMISSIONS = ("---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx")


def _read_acl(reader: PrimitiveReader) -> tuple[AclEntry, ...] | None:
    size = reader.count(reader.i32(), 1, "ACL entries")
    return tuple([_read_acl_entry(reader) for _ in range(size)]) or None


def _read_acl_entry(reader: PrimitiveReader) -> AclEntry:
    bits = reader.u8()
    if bits & 0x80:
        raise CorruptOpError(f"an ACL entry has unknown bits in 0x{bits:02x}")
    name = reader.string() if bits & _ACL_NAMED else None
    return AclEntry(bits >> 3 & 3, bits >> 5 & 1, bits & 7, name)


def _write_acl(out: bytearray, value: tuple[AclEntry, ...] | None) -> None:
    primitives.write_int(out, len(value or ()))
    for entry in value or ():
        _check_acl_entry(entry)
        named = _ACL_NAMED if entry.name is not None else 0
        out.append(named | entry.scope << 5 | entry.type << 3 | entry.permission)
        if entry.name is not None:
            primitives.write_str(out, entry.name)


def _check_acl_entry(entry: AclEntry) -> None:
    if not (0 <= entry.type <= 3 and 0 <= entry.scope <= 1 and 0 <= entry.permission <= 7):
        raise OpEncodingError(f"{entry} has a type, scope or permission out of range")


def _xml_acl(sink: XmlSink, tag: str, value: tuple[AclEntry, ...] | None) -> None:
    for entry in value or ():
        sink.open(tag)
        sink.leaf("SCOPE", ACL_SCOPES[entry.scope])
        sink.leaf("TYPE", ACL_TYPES[entry.type])
        if entry.name is not None:
            sink.leaf("NAME", entry.name)
        sink.leaf("PERM", _ACL_PERMISSIONS[entry.permission])
        sink.close(tag)


def _acl_from_xml(element: XmlElement, tag: str) -> tuple[AclEntry, ...] | None:
    entries = tuple(
        AclEntry(
            item.index("TYPE", ACL_TYPES),
            item.index("SCOPE", ACL_SCOPES),
            item.index("PERM", _ACL_PERMISSIONS),
            item.optional_string("NAME"),
        )
        for item in element.every(tag)
    )
    if not entries:
        raise MissingElementError(f"{element.tag} has no {tag} element", line=element.line)
    return entries


ACL_ENTRIES = FieldKind("ACLS", _read_acl, _write_acl, _xml_acl, _acl_from_xml, list_to_json, list_from_json(AclEntry))


def _parse(reader: PrimitiveReader, message: _MessageT) -> _MessageT:
    try:
        message.ParseFromString(reader.delimited())
    except DecodeError as error:
        raise CorruptOpError(f"a {message.DESCRIPTOR.name} cannot be parsed: {error}") from None
    if not message.IsInitialized():
        raise CorruptOpError(f"a {message.DESCRIPTOR.name} lacks a required member, or has an unknown value for one")
    return message


def _raw_of(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise OpEncodingError(f"a protobuf message cannot contain this string: {error}") from None


def _read_acl_edit_log(reader: PrimitiveReader) -> tuple[str, tuple[AclEntry, ...]]:
    message = _parse(reader, editlog_pb2.AclEditLogProto())
    entries = tuple(
        AclEntry(
            entry.type, entry.scope, entry.permissions, decode_java_utf8(entry.name) if entry.HasField("name") else None
        )
        for entry in message.entries
    )
    return decode_java_utf8(message.src), entries


def _write_acl_edit_log(out: bytearray, src: str, entries: tuple[AclEntry, ...] | None) -> None:
    message = editlog_pb2.AclEditLogProto(src=_raw_of(src))
    for entry in entries or ():
        _check_acl_entry(entry)
        message.entries.add(
            type=editlog_pb2.AclEntryProto.AclEntryTypeProto.Name(entry.type),
            scope=editlog_pb2.AclEntryProto.AclEntryScopeProto.Name(entry.scope),
            permissions=editlog_pb2.AclEntryProto.FsActionProto.Name(entry.permission),
            name=None if entry.name is None else _raw_of(entry.name),
        )
    primitives.write_delimited(out, message.SerializeToString())


ACL_EDIT_LOG = FieldGroup("AclEditLogProto", _read_acl_edit_log, _write_acl_edit_log)


def _read_xattr_message(reader: PrimitiveReader) -> tuple[str | None, tuple[XAttr, ...]]:
    message = _parse(reader, editlog_pb2.XAttrEditLogProto())
    xattrs = tuple(
        XAttr(item.namespace, decode_java_utf8(item.name), item.value if item.HasField("value") else None)
        for item in message.xAttrs
    )
    return decode_java_utf8(message.src) if message.HasField("src") else None, xattrs


def _write_xattr_message(out: bytearray, src: str | None, xattrs: tuple[XAttr, ...]) -> None:
    message = editlog_pb2.XAttrEditLogProto(src=None if src is None else _raw_of(src))
    for xattr in xattrs:
        if not 0 <= xattr.namespace < len(XATTR_NAMESPACES):
            raise OpEncodingError(f"{xattr.namespace} is not a namespace of an extended attribute")
        message.xAttrs.add(
            namespace=editlog_pb2.XAttrProto.XAttrNamespaceProto.Name(xattr.namespace),
            name=_raw_of(xattr.name),
            value=xattr.value,
        )
    primitives.write_delimited(out, message.SerializeToString())


def _read_xattr_edit_log(reader: PrimitiveReader) -> tuple[str, tuple[XAttr, ...]]:
    src, xattrs = _read_xattr_message(reader)
    if src is None:
        raise CorruptOpError("an XAttrEditLogProto has no src")
    return src, xattrs


def _read_xattrs(reader: PrimitiveReader) -> tuple[XAttr, ...]:
    return _read_xattr_message(reader)[1]


def _write_xattrs(out: bytearray, value: tuple[XAttr, ...]) -> None:
    _write_xattr_message(out, None, value)


def _xml_xattrs(sink: XmlSink, tag: str, value: tuple[XAttr, ...]) -> None:
    for xattr in value:
        sink.open(tag)
        sink.leaf("NAMESPACE", XATTR_NAMESPACES[xattr.namespace])
        sink.leaf("NAME", xattr.name)
        if xattr.value is not None:
            sink.leaf("VALUE", "0x" + xattr.value.hex())
        sink.close(tag)


def _xattr_to_json(value: tuple[XAttr, ...]) -> Json:
    return [
        {**json_of_tuple(xattr), **({} if xattr.value is None else {"value": xattr.value.hex()})} for xattr in value
    ]


_xattr_of_json = tuple_of_json(XAttr)


def _xattr_from_json(value: Json) -> tuple[XAttr, ...]:
    return tuple(
        _xattr_of_json({**item, **({"value": bytes.fromhex(item["value"])} if "value" in item else {})})
        for item in value
    )


def _xattrs_from_xml(element: XmlElement, tag: str) -> tuple[XAttr, ...]:
    return tuple(
        XAttr(item.index("NAMESPACE", XATTR_NAMESPACES), item.string("NAME"), _xattr_value(item))
        for item in element.every(tag)
    )


def _xattr_value(element: XmlElement) -> bytes | None:
    text = element.optional_string("VALUE")
    if text is None:
        return None
    if not text.startswith(("0x", "0X")):
        raise element.fault(f"the value {text[:40]!r} of an extended attribute does not begin with 0x")
    return element.hexadecimal(text[2:])


XATTRS = FieldKind(
    "XATTRS", _read_xattrs, _write_xattrs, _xml_xattrs, _xattrs_from_xml, _xattr_to_json, _xattr_from_json
)
XATTR_EDIT_LOG = FieldGroup("XAttrEditLogProto", _read_xattr_edit_log, _write_xattr_message)
