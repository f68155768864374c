"""An image as JSON lines: one object for each record, complete and in loading order.

Every object has the keys `section` and `record`. The other keys are the present fields of fsimage.proto. `diffs` and
`created` are the records that follow a DiffEntry and a DirectoryDiff:

    SUMMARY           summary: layoutVersion, onDiskVersion, codec, sections
    NS_INFO           info
    STRING_TABLE      header (maskBits, numEntry), then string: id, str
    ERASURE_CODING    policy
    INODE             header, then inode: id, type, name and one of file, directory, symlink
    INODE_REFERENCE   reference: index (used in refChildren and deletedINodeRef), referredId, name ...
    SNAPSHOT          header, then snapshot: snapshotId, root (an inode; its name is the snapshot's)
    INODE_DIR         directory: parent, children (inode ids), refChildren
    FILES_UNDERCONSTRUCTION  file: inodeId, fullPath
    SNAPSHOT_DIFF     fileDiffs or directoryDiffs: inodeId, diffs (newest first)
    SECRET_MANAGER    header, then key and token
    CACHE_MANAGER     header, then pool and directive

Numbers are signed as in Java, enumerations are names, times are milliseconds since 1970. `permission` becomes `user`,
`group` and `mode` (octal digits). `acl` is a list of strings such as `default:user:erin:r-x`. `xAttrs` is a list of
objects with `name`, such as `user.origin`, and `value`. UTF-8 bytes are text; other bytes, and all master keys, are in
base64 under the field's name with the suffix `Base64`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from hadoop_common.java_numbers import signed64
from image_format.proto import fsimage_pb2 as pb
from image_format.summary import SectionName
from image_format.varint import parse_message
from image_tools.dump.kernels.program import BASE64
from image_tools.dump.record_text import inode_texts, record_texts
from image_tools.dump.records import FileDiffRecords, ImageRecords
from image_tools.dump.template import (
    PrintStep,
    RecordTemplate,
    WordFunction,
    decide_utf8,
    each,
    inside,
    literal,
    put_data,
    put_number,
    put_word,
    separate,
    when,
)
from image_tools.dump.values import SerialNames, java_text

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_TEXTS = (FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_STRING)


def dump_json(records: ImageRecords) -> Iterator[str | bytes]:
    """Yield pieces of the text, one line for each record; bytes are UTF-8.

    Raises:
        RecordError: a record is damaged.
    """
    writer = _Writer(records)
    yield _summary(records)
    for section in records.sections:
        yield from writer.section(section)


def _summary(records: ImageRecords) -> str:
    image = records.image
    summary = {
        "section": "SUMMARY",
        "record": "summary",
        "layoutVersion": image.layout_version,
        "onDiskVersion": image.summary.ondiskVersion,
        "codec": image.codec,
        "sections": [{"name": entry.name, "offset": entry.offset, "length": entry.length} for entry in image.sections],
    }
    return _encode(summary) + "\n"


def _escaped(value: str) -> str:
    """Return the content of a JSON string without its quotes."""
    return _encode(value)[1:-1]


# ---- templates of messages: all present fields ----------------------------------------------------------------


def _members(message: Any) -> tuple[PrintStep, ...]:
    """Return steps for all fields, separated by commas."""
    fields = sorted(message.fields, key=lambda field: field.number)
    return tuple(step for field in fields for step in _member(field))


def _member(field: FieldDescriptor) -> tuple[PrintStep, ...]:
    name = field.name
    if name == "permission":
        return when(separate(), put_word("owner", name), present=[name])
    if name == "acl":
        entries = inside(name, each("entries", put_word("acl"), between=","))
        return when(separate(), literal('"acl":['), entries, literal("]"), present=[name])
    if name == "xAttrs" and not field.is_repeated:
        attributes = inside(name, each(name, *_XATTR, between=","))
        return when(separate(), literal('"xAttrs":['), attributes, literal("]"), present=[name])
    if field.type in _TEXTS and not field.is_repeated:
        return _text(field)
    return when(separate(), literal(f'"{name}":'), *_value(field), present=[name])


def _text(field: FieldDescriptor) -> tuple[PrintStep, ...]:
    name = field.name
    in_base64 = literal(f'"{name}Base64":"'), put_data(name, BASE64), literal('"')
    if name == "key" and field.type == FieldDescriptor.TYPE_BYTES:
        return when(separate(), *in_base64, present=[name])
    plain = literal(f'"{name}":"'), put_data(name), literal('"')
    if field.type == FieldDescriptor.TYPE_STRING:
        return when(separate(), *plain, present=[name])
    odd = tuple(when(step, present=[name], absent=[f"{name}?"])[0] for step in in_base64)
    return *when(separate(), decide_utf8(name), present=[name]), *when(*plain, present=[name, f"{name}?"]), *odd


def _value(field: FieldDescriptor) -> tuple[PrintStep, ...]:
    name, inner = field.name, field.message_type
    if field.is_repeated:
        item = (put_number(),) if inner is None else (literal("{"), *_members(inner), literal("}"))
        return literal("["), each(name, *item, between=","), literal("]")
    if inner is not None:
        return literal("{"), inside(name, *_members(inner)), literal("}")
    if field.enum_type is not None:
        return literal('"'), put_word("", name), literal('"')
    return (put_word("truth", name),) if field.type == FieldDescriptor.TYPE_BOOL else (put_number(name),)


_XATTR = (
    literal("{"),
    put_word("attribute", "name"),
    decide_utf8("value"),
    *when(literal(',"value":"'), put_data("value"), literal('"'), present=["value?"]),
    *when(literal(',"valueBase64":"'), put_data("value", BASE64), literal('"'), absent=["value?"]),
    literal("}"),
)


class _Writer:
    def __init__(self, records: ImageRecords) -> None:
        self._records = records
        names = SerialNames(records.image.string_table())

        def owner(packed: int) -> str:
            user, group, mode = names.owner(packed)
            return f'"user":{_encode(_java(user))},"group":{_encode(_java(group))},"mode":"{mode:04o}"'

        def attribute(packed: int) -> str:
            namespace, name = names.xattr(packed)
            return '"name":' + _encode(java_text(f"{namespace.lower()}.{name or ''}"))

        self._known: dict[tuple[str, type[Message]], RecordTemplate] = {}
        self._words: dict[str, WordFunction] = {
            "owner": owner,
            "acl": lambda packed: _encode(java_text(names.acl_entry(packed))),
            "attribute": attribute,
            "truth": lambda value: "true" if value else "false",
        }

    def section(self, name: SectionName) -> Iterator[str | bytes]:
        records = self._records
        match name:
            case "NS_INFO":
                yield self._line(name, "info", records.image.ns_info())
            case "STRING_TABLE":
                yield from self._strings()
            case "ERASURE_CODING":
                yield from self._each(name, "policy", records.erasure_coding().policies)
            case "INODE":
                yield self._line(name, "header", records.inode_header())
                yield from inode_texts(records, self._lines(name, "inode", pb.INode))
            case "INODE_REFERENCE":
                reference = self._object(pb.INodeReference)
                for index, message in enumerate(records.references()):
                    head = f'{{"section":"{name}","record":"reference","index":{index}'
                    yield f"{head},{reference.render(message)[1:]}\n"
            case "SNAPSHOT":
                yield self._line(name, "header", records.snapshot_header())
                yield from self._each(name, "snapshot", records.snapshots())
            case "INODE_DIR":
                lines = self._lines(name, "directory", pb.DirEntry)
                yield from record_texts(records, name, pb.DirEntry, lines)
            case "FILES_UNDERCONSTRUCTION":
                lines = self._lines(name, "file", pb.FileUnderConstructionEntry)
                yield from record_texts(records, name, pb.FileUnderConstructionEntry, lines)
            case "SNAPSHOT_DIFF":
                yield from self._snapshot_diffs()
            case "SECRET_MANAGER":
                secrets = records.secrets()
                yield self._line(name, "header", secrets.header)
                yield from self._each(name, "key", secrets.keys)
                yield from self._each(name, "token", secrets.tokens)
            case "CACHE_MANAGER":
                caches = records.caches()
                yield self._line(name, "header", caches.header)
                yield from self._each(name, "pool", caches.pools)
                yield from self._each(name, "directive", caches.directives)
            case _:
                assert_never(name)

    def _each(self, section: str, kind: str, messages: Iterable[Message]) -> Iterator[str]:
        for message in messages:
            yield self._line(section, kind, message)

    def _line(self, section: str, kind: str, message: Message) -> str:
        return self._lines(section, kind, type(message)).render(message)

    def _lines(self, section: str, kind: str, message: type[Message]) -> RecordTemplate:
        return self._template(message, f'{{"section":"{section}","record":"{kind}"', "}\n")

    def _object(self, message: type[Message]) -> RecordTemplate:
        return self._template(message, "{", "}")

    def _template(self, message: type[Message], head: str, tail: str) -> RecordTemplate:
        key = head, message
        if key not in self._known:
            steps = literal(head), *_members(message.DESCRIPTOR), literal(tail)
            self._known[key] = RecordTemplate(message, steps, escape=_escaped, words=self._words)
        return self._known[key]

    def _strings(self) -> Iterator[str]:
        image = self._records.image
        place = image.place("STRING_TABLE")
        for number, record in enumerate(image.records("STRING_TABLE")):
            if number == 0:
                yield self._line("STRING_TABLE", "header", parse_message(pb.StringTableSection, record, place))
            else:
                yield self._line("STRING_TABLE", "string", parse_message(pb.StringTableEntry, record, place))

    def _snapshot_diffs(self) -> Iterator[str]:
        file_diff, directory_diff = self._object(pb.FileDiff), self._object(pb.DirectoryDiff)
        created_entry = self._object(pb.CreatedListEntry)
        for of_inode in self._records.snapshot_diffs():
            if isinstance(of_inode, FileDiffRecords):
                kind, diffs = "fileDiffs", [file_diff.render(diff) for diff in of_inode.diffs]
            else:
                kind, diffs = "directoryDiffs", []
                for diff, created in of_inode.diffs:
                    text = directory_diff.render(diff)
                    if created:
                        entries = ",".join([created_entry.render(pb.CreatedListEntry(name=name)) for name in created])
                        text = f'{text[:-1]}{"," if len(text) > 2 else ""}"created":[{entries}]}}'
                    diffs.append(text)
            head = f'{{"section":"SNAPSHOT_DIFF","record":"{kind}","inodeId":{signed64(of_inode.inode_id)}'
            yield f'{head},"diffs":[{",".join(diffs)}]}}\n'


def _java(value: str | None) -> str | None:
    return None if value is None else java_text(value)
