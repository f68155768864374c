"""Field kinds of delegation tokens, their keys, cache directives, cache pools and erasure coding options."""

from __future__ import annotations

from typing import Any, cast

from hadoop_common.quantities import counted
from journal import primitives
from journal.compound_kinds import json_of_tuple, tuple_of_json
from journal.errors import CorruptOpError, OpEncodingError
from journal.kinds import FieldKind, Json, XmlSink, json_exactly
from journal.primitives import PrimitiveReader
from journal.values import CacheDirectiveInfo, CachePoolInfo, DelegationKey, DelegationTokenIdent
from journal.xml_element import XmlElement

_TOKEN_VERSION = 0
_TOKEN_KIND = "HDFS_DELEGATION_TOKEN"
_MAX_KEY_LENGTH = 1024 * 1024

# delegation tokens (AbstractDelegationTokenIdentifier, DelegationKey)


def _read_token(reader: PrimitiveReader) -> DelegationTokenIdent:
    version = reader.u8()
    if version != _TOKEN_VERSION:
        raise CorruptOpError(f"a delegation token has version {version} instead of {_TOKEN_VERSION}")
    return DelegationTokenIdent(
        reader.text(), reader.text(), reader.text(), reader.vlong(), reader.vlong(), reader.vint(), reader.vint()
    )


def _write_token(out: bytearray, value: DelegationTokenIdent) -> None:
    out.append(_TOKEN_VERSION)
    for text in value[:3]:
        primitives.write_text(out, text)
    primitives.write_vlong(out, value.issue_date)
    primitives.write_vlong(out, value.max_date)
    primitives.write_vint(out, value.sequence_number)
    primitives.write_vint(out, value.master_key_id)


def _xml_token(sink: XmlSink, tag: str, value: DelegationTokenIdent) -> None:
    sink.open(tag)
    sink.leaf("KIND", _TOKEN_KIND)
    sink.leaf("SEQUENCE_NUMBER", str(value.sequence_number))
    sink.leaf("OWNER", value.owner)
    sink.leaf("RENEWER", value.renewer)
    sink.leaf("REALUSER", value.real_user)
    sink.leaf("ISSUE_DATE", str(value.issue_date))
    sink.leaf("MAX_DATE", str(value.max_date))
    sink.leaf("MASTER_KEY_ID", str(value.master_key_id))
    sink.close(tag)


def _token_from_xml(element: XmlElement, tag: str) -> DelegationTokenIdent:
    found = element.one(tag)
    found.index("KIND", (_TOKEN_KIND,))
    return DelegationTokenIdent(
        found.string("OWNER"),
        found.string("RENEWER"),
        found.string("REALUSER"),
        found.integer("ISSUE_DATE"),
        found.integer("MAX_DATE"),
        found.integer("SEQUENCE_NUMBER"),
        found.integer("MASTER_KEY_ID"),
    )


DELEGATION_TOKEN = FieldKind(
    "DTID", _read_token, _write_token, _xml_token, _token_from_xml, json_of_tuple, tuple_of_json(DelegationTokenIdent)
)


def _read_key(reader: PrimitiveReader) -> DelegationKey:
    key_id, expiry_date, size = reader.vint(), reader.vlong(), reader.vint()
    if size > _MAX_KEY_LENGTH:
        raise CorruptOpError(f"a delegation key of {size} bytes is longer than {_MAX_KEY_LENGTH}")
    return DelegationKey(key_id, expiry_date, None if size == -1 else reader.take(size))


def _write_key(out: bytearray, value: DelegationKey) -> None:
    primitives.write_vint(out, value.key_id)
    primitives.write_vlong(out, value.expiry_date)
    if value.key is None:
        primitives.write_vint(out, -1)
        return
    if len(value.key) > _MAX_KEY_LENGTH:
        raise OpEncodingError(f"a delegation key of {len(value.key)} bytes is longer than {_MAX_KEY_LENGTH}")
    primitives.write_vint(out, len(value.key))
    out += value.key


def _xml_key(sink: XmlSink, tag: str, value: DelegationKey) -> None:
    sink.open(tag)
    sink.leaf("KEY_ID", str(value.key_id))
    sink.leaf("EXPIRY_DATE", str(value.expiry_date))
    if value.key is not None:
        sink.leaf("KEY", value.key.hex())
    sink.close(tag)


def _key_to_json(value: DelegationKey) -> Json:
    return json_of_tuple(value._replace(key=None)) | ({} if value.key is None else {"key": value.key.hex()})


_key_of_json = tuple_of_json(DelegationKey)


def _key_from_json(value: Json) -> DelegationKey:
    key = value.get("key")
    return cast(DelegationKey, _key_of_json({**value, "key": None if key is None else bytes.fromhex(key)}))


def _key_from_xml(element: XmlElement, tag: str) -> DelegationKey:
    found = element.one(tag)
    key = found.optional_string("KEY")
    return DelegationKey(
        found.integer("KEY_ID"), found.integer("EXPIRY_DATE"), None if key is None else found.hexadecimal(key)
    )


DELEGATION_KEY = FieldKind("DKEY", _read_key, _write_key, _xml_key, _key_from_xml, _key_to_json, _key_from_json)

# cache pools and directives (FSImageSerialization): an integer with flags determines which members follow

_Member = tuple[int, Any, Any, str]  # flag, read, write, tag; a string if `read` is PrimitiveReader.string

_DIRECTIVE_MEMBERS: tuple[_Member, ...] = (
    (0x1, PrimitiveReader.string, primitives.write_str, "PATH"),
    (0x2, PrimitiveReader.i16, primitives.write_short, "REPLICATION"),
    (0x4, PrimitiveReader.string, primitives.write_str, "POOL"),
    (0x8, PrimitiveReader.i64, primitives.write_long, "EXPIRATION"),
)
_POOL_MEMBERS: tuple[_Member, ...] = (
    (0x1, PrimitiveReader.string, primitives.write_str, "OWNERNAME"),
    (0x2, PrimitiveReader.string, primitives.write_str, "GROUPNAME"),
    (0x4, PrimitiveReader.u16, primitives.write_unsigned_short, "MODE"),
    (0x8, PrimitiveReader.i64, primitives.write_long, "LIMIT"),
    (0x10, PrimitiveReader.i64, primitives.write_long, "MAXRELATIVEEXPIRY"),
    (0x20, PrimitiveReader.i16, primitives.write_short, "DEFAULTREPLICATION"),
)


def _read_members(reader: PrimitiveReader, members: tuple[_Member, ...], what: str) -> list[Any]:
    flags = reader.i32()
    unknown = flags & ~sum(member[0] for member in members)
    if unknown:
        raise CorruptOpError(f"a {what} has unknown flags 0x{unknown & 0xFFFFFFFF:x}")
    return [read(reader) if flags & flag else None for flag, read, _, _ in members]


def _write_members(out: bytearray, members: tuple[_Member, ...], values: tuple[Any, ...]) -> None:
    present = [
        (flag, write, value) for (flag, _, write, _), value in zip(members, values, strict=True) if value is not None
    ]
    primitives.write_int(out, sum(flag for flag, _, _ in present))
    for _, write, value in present:
        write(out, value)


def _xml_members(sink: XmlSink, members: tuple[_Member, ...], values: tuple[Any, ...]) -> None:
    for (_, _, _, tag), value in zip(members, values, strict=True):
        if value is not None:
            sink.leaf(tag, str(value))


def _members_from_xml(element: XmlElement, members: tuple[_Member, ...]) -> list[Any]:
    return [
        element.optional_string(tag) if read is PrimitiveReader.string else element.optional_integer(tag)
        for _, read, _, tag in members
    ]


def _read_directive(reader: PrimitiveReader) -> CacheDirectiveInfo:
    return CacheDirectiveInfo(reader.i64(), *_read_members(reader, _DIRECTIVE_MEMBERS, "cache directive"))


def _write_directive(out: bytearray, value: CacheDirectiveInfo) -> None:
    primitives.write_long(out, value.id)
    _write_members(out, _DIRECTIVE_MEMBERS, value[1:])


def _xml_directive(sink: XmlSink, tag: str, value: CacheDirectiveInfo) -> None:
    sink.leaf(tag, str(value.id))
    _xml_members(sink, _DIRECTIVE_MEMBERS, value[1:])


def _directive_from_xml(element: XmlElement, tag: str) -> CacheDirectiveInfo:
    return CacheDirectiveInfo(element.integer(tag), *_members_from_xml(element, _DIRECTIVE_MEMBERS))


CACHE_DIRECTIVE = FieldKind(
    "CDI",
    _read_directive,
    _write_directive,
    _xml_directive,
    _directive_from_xml,
    json_of_tuple,
    tuple_of_json(CacheDirectiveInfo),
)


def _read_pool(reader: PrimitiveReader) -> CachePoolInfo:
    return CachePoolInfo(reader.string(), *_read_members(reader, _POOL_MEMBERS, "cache pool"))


def _write_pool(out: bytearray, value: CachePoolInfo) -> None:
    primitives.write_str(out, value.pool_name)
    _write_members(out, _POOL_MEMBERS, value[1:])


def _xml_pool(sink: XmlSink, tag: str, value: CachePoolInfo) -> None:
    sink.leaf(tag, value.pool_name)
    shown = value if value.mode is None else value._replace(mode=value.mode & 0o1777)
    _xml_members(sink, _POOL_MEMBERS, shown[1:])


def _pool_from_xml(element: XmlElement, tag: str) -> CachePoolInfo:
    return CachePoolInfo(element.string(tag), *_members_from_xml(element, _POOL_MEMBERS))


CACHE_POOL = FieldKind(
    "CPI", _read_pool, _write_pool, _xml_pool, _pool_from_xml, json_of_tuple, tuple_of_json(CachePoolInfo)
)


def _read_options(reader: PrimitiveReader) -> tuple[tuple[str, str], ...]:
    size = reader.count(reader.i32(), 4, "erasure coding options")
    return tuple((reader.string(), reader.string()) for _ in range(size))


def _write_options(out: bytearray, value: tuple[tuple[str, str], ...]) -> None:
    primitives.write_int(out, len(value))
    for name, text in value:
        primitives.write_str(out, name)
        primitives.write_str(out, text)


def _xml_options(sink: XmlSink, tag: str, value: tuple[tuple[str, str], ...]) -> None:
    sink.leaf(tag + "S", str(len(value)))
    for name, text in value:
        sink.open(tag)
        sink.leaf("KEY", name)
        sink.leaf("VALUE", text)
        sink.close(tag)


def _options_from_xml(element: XmlElement, tag: str) -> tuple[tuple[str, str], ...]:
    promised = element.integer(tag + "S")
    options = tuple((item.string("KEY"), item.string("VALUE")) for item in element.every(tag))
    if promised != len(options):
        raise element.fault(f"{tag}S is {promised}, but {counted(len(options), 'option')} follow")
    return options


_text = json_exactly(str)

EXTRA_OPTIONS = FieldKind(
    "EC options",
    _read_options,
    _write_options,
    _xml_options,
    _options_from_xml,
    lambda value: [list(pair) for pair in value],
    lambda value: tuple((_text(name), _text(text)) for name, text in value),
)
