"""Elements common to the XML dumps of all Hadoop releases, with the escapes of XMLUtils.mangleXmlString."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, assert_never

from google.protobuf.message import Message

from hadoop_common.java_numbers import signed32, signed64
from image_format.erasure_policies import BUILT_IN
from image_format.proto import fsimage_pb2 as pb
from image_format.summary import SectionName
from image_tools.dump.record_text import inode_texts, record_texts
from image_tools.dump.records import DirectoryDiffRecords, FileDiffRecords, ImageRecords
from image_tools.dump.template import (
    PrintStep,
    RecordTemplate,
    WordFunction,
    each,
    inside,
    literal,
    put_data,
    put_number,
    put_word,
    when,
)
from image_tools.dump.values import java_text, utc_millis

_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\\\\&\"'<>\ud800-\udfff\ufffe\uffff]")
_ENTITIES = {"&": "&amp;", '"': "&quot;", "'": "&apos;", "<": "&lt;", ">": "&gt;"}


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return _ENTITIES.get(character) or f"\\{ord(character):04x};"


def escaped(value: str) -> str:
    """Escape characters that XML does not allow, and the backslash, as `\\hhhh;`."""
    return _ODD.sub(_escape, value)


def text(tag: str, value: str | bytes) -> str:
    return f"<{tag}>{escaped(java_text(value))}</{tag}>"


def number(tag: str, value: int) -> str:
    return f"<{tag}>{value}</{tag}>"


def number_steps(tag: str, field: str) -> tuple[PrintStep, ...]:
    return literal(f"<{tag}>"), put_number(field), literal(f"</{tag}>")


def text_steps(tag: str, field: str) -> tuple[PrintStep, ...]:
    return literal(f"<{tag}>"), put_data(field), literal(f"</{tag}>")


def word_steps(tag: str, kind: str, field: str = "") -> tuple[PrintStep, ...]:
    """Return steps for an element with the word for a number."""
    return literal(f"<{tag}>"), put_word(kind, field), literal(f"</{tag}>")


BLOCKS = when(
    literal("<blocks>"),
    each(
        "blocks",
        literal("<block>"),
        *number_steps("id", "blockId"),
        *number_steps("genstamp", "genStamp"),
        *number_steps("numBytes", "numBytes"),
        literal("</block>\n"),
    ),
    literal("</blocks>\n"),
    present=["blocks"],
)
"""The blocks of a file or of a file diff."""

UNDER_CONSTRUCTION = inside(
    "fileUC",
    literal("<file-under-construction>"),
    *text_steps("clientName", "clientName"),
    *text_steps("clientMachine", "clientMachine"),
    literal("</file-under-construction>\n"),
)
"""The client that writes an open file."""

QUOTAS = when(*number_steps("nsquota", "nsQuota"), *number_steps("dsquota", "dsQuota"), present=["nsQuota", "dsQuota"])
"""Both quotas of a directory, printed only if both are present."""

REFERENCE = (
    literal("<ref>"),
    *number_steps("referredId", "referredId"),
    *text_steps("name", "name"),
    *number_steps("dstSnapshotId", "dstSnapshotId"),
    *number_steps("lastSnapshotId", "lastSnapshotId"),
    literal("</ref>\n"),
)
"""A record of INODE_REFERENCE; absent numbers print as 0."""

OPEN_FILE = (literal("<inode>"), *number_steps("id", "inodeId"), *text_steps("path", "fullPath"), literal("</inode>\n"))
"""A record of FILES_UNDERCONSTRUCTION."""


PERMISSION = word_steps("permission", "permission", "permission")

SYMLINK = (
    *PERMISSION,
    *text_steps("target", "target"),
    *number_steps("mtime", "modificationTime"),
    *number_steps("atime", "accessTime"),
)


def inode_steps(file: tuple[PrintStep, ...], directory: tuple[PrintStep, ...]) -> tuple[PrintStep, ...]:
    return (
        *number_steps("id", "id"),
        *word_steps("type", "", "type"),
        *text_steps("name", "name"),
        inside("file", *file),
        *when(inside("directory", *directory), absent=["file"]),
        *when(inside("symlink", *SYMLINK), absent=["file", "directory"]),
    )


def created_element(name: bytes) -> str:
    return f"<created>{text('name', name)}</created>\n"


def erasure_coding_section(section: pb.ErasureCodingSection) -> Iterator[str]:
    """Yield the section, or nothing if it contains no policy."""
    if not section.policies:
        return
    yield "<ErasureCodingSection>\n"
    for policy in section.policies:
        yield _policy(_completed(policy))
    yield "</ErasureCodingSection>\n\n"


def _completed(policy: pb.ErasureCodingPolicyProto) -> pb.ErasureCodingPolicyProto:
    known = BUILT_IN.get(policy.id)
    if known is None:
        return policy
    whole = pb.ErasureCodingPolicyProto(id=policy.id, state=policy.state, name=known.name, cellSize=known.cell_size)
    whole.schema.codecName = known.codec
    whole.schema.dataUnits, whole.schema.parityUnits = known.data_units, known.parity_units
    return whole


def _policy(policy: pb.ErasureCodingPolicyProto) -> str:
    schema = policy.schema
    state = pb.ErasureCodingPolicyState.Name(policy.state)
    options = ""
    if schema.options:
        options = f"<extraOptions>\n{''.join(map(_option, schema.options))}</extraOptions>\n"
    return (
        f"<erasureCodingPolicy>\n{number('policyId', signed32(policy.id))}{text('policyName', policy.name)}"
        f"{number('cellSize', signed32(policy.cellSize))}{text('policyState', state)}<ecSchema>\n"
        f"{text('codecName', schema.codecName)}{number('dataUnits', signed32(schema.dataUnits))}"
        f"{number('parityUnits', signed32(schema.parityUnits))}{options}</ecSchema>\n</erasureCodingPolicy>\n\n"
    )


def _option(option: pb.ECSchemaOptionEntryProto) -> str:
    return f"<option>\n{text('key', option.key)}{text('value', option.value)}</option>\n"


def _key(key: pb.DelegationKey) -> str:
    expiry = _date("expiry", key.expiryDate) if key.HasField("expiryDate") else ""
    return f"<delegationKey>{number('id', signed32(key.id))}{text('key', key.key.hex())}{expiry}</delegationKey>"


def _token(token: pb.PersistToken) -> str:
    present = [name for name in _TOKEN if token.HasField(name)]
    return f"<token>{''.join([_TOKEN[name](name, getattr(token, name)) for name in present])}</token>"


def _whole(tag: str, value: int) -> str:
    return number(tag, signed32(value))


def _date(tag: str, millis: int) -> str:
    return text(tag, utc_millis(signed64(millis)))


_TOKEN: Mapping[str, Callable[[str, Any], str]] = {
    "version": _whole,
    "owner": text,
    "renewer": text,
    "realUser": text,
    "issueDate": _date,
    "maxDate": _date,
    "sequenceNumber": _whole,
    "masterKeyId": _whole,
    "expiryDate": _date,
}


class XmlSections(ABC):
    """The sections of the document; a subclass defines the elements that differ between releases.

    Attributes:
        complete: whether the document contains the namespace id, counts, erasure coding policies, keys and tokens.
        inode: steps for an inode.
        children: names of the elements for a child and for a reference in a directory.
    """

    complete: ClassVar[bool]
    inode: ClassVar[tuple[PrintStep, ...]]
    children: ClassVar[tuple[str, str]]

    def __init__(self, records: ImageRecords, words: Mapping[str, WordFunction]) -> None:
        self.records = records
        self._words = words

    def section(self, name: SectionName) -> Iterator[str | bytes]:
        match name:
            case "NS_INFO":
                yield self._ns_info()
            case "STRING_TABLE":
                pass
            case "ERASURE_CODING":
                if self.complete:
                    yield from erasure_coding_section(self.records.erasure_coding())
            case "INODE":
                header = self.records.inode_header()
                yield f"<INodeSection>{number('lastInodeId', signed64(header.lastInodeId))}"
                yield self._count("numInodes", signed64(header.numInodes))
                inode = literal("<inode>"), *self.inode, literal("</inode>\n")
                yield from inode_texts(self.records, self.template(pb.INode, inode))
                yield "</INodeSection>\n"
            case "INODE_REFERENCE":
                yield "<INodeReferenceSection>"
                yield from self._each(name, pb.INodeReference, REFERENCE)
                yield "</INodeReferenceSection>"
            case "SNAPSHOT":
                yield from self._snapshots()
            case "INODE_DIR":
                yield "<INodeDirectorySection>"
                yield from self._each(name, pb.DirEntry, self._entry())
                yield "</INodeDirectorySection>\n"
            case "FILES_UNDERCONSTRUCTION":
                yield "<FileUnderConstructionSection>"
                yield from self._each(name, pb.FileUnderConstructionEntry, OPEN_FILE)
                yield "</FileUnderConstructionSection>\n"
            case "SNAPSHOT_DIFF":
                yield "<SnapshotDiffSection>"
                for of_inode in self.records.snapshot_diffs():
                    yield from self.diffs(of_inode)
                yield "</SnapshotDiffSection>\n"
            case "SECRET_MANAGER":
                yield from self._secrets()
            case "CACHE_MANAGER":
                yield from self._caches()
            case _:
                assert_never(name)

    @abstractmethod
    def snapshot(self, snapshot: pb.Snapshot) -> str: ...

    @abstractmethod
    def diffs(self, of_inode: FileDiffRecords | DirectoryDiffRecords) -> Iterator[str]: ...

    @abstractmethod
    def relative(self, value: bool) -> str:
        """Return the element for the kind of an expiration."""

    def _count(self, tag: str, value: int) -> str:
        return number(tag, value) if self.complete else ""

    def template(self, message: type[Message], steps: tuple[PrintStep, ...]) -> RecordTemplate:
        return RecordTemplate(message, steps, escape=escaped, words=self._words)

    def _each(self, section: str, message: type[Message], steps: tuple[PrintStep, ...]) -> Iterator[bytes]:
        return record_texts(self.records, section, message, self.template(message, steps))

    def _ns_info(self) -> str:
        info = self.records.image.ns_info()
        start = number("namespaceId", signed32(info.namespaceId)) if self.complete else "\n"
        return (
            f"<NameSection>{start}"
            f"{number('genstampV1', signed64(info.genstampV1))}{number('genstampV2', signed64(info.genstampV2))}"
            f"{number('genstampV1Limit', signed64(info.genstampV1Limit))}"
            f"{number('lastAllocatedBlockId', signed64(info.lastAllocatedBlockId))}"
            f"{number('txid', signed64(info.transactionId))}</NameSection>\n"
        )

    def _entry(self) -> tuple[PrintStep, ...]:
        child, reference = self.children
        return (
            literal("<directory>"),
            *number_steps("parent", "parent"),
            each("children", *number_steps(child, "")),
            each("refChildren", *number_steps(reference, "")),
            literal("</directory>\n"),
        )

    def _snapshots(self) -> Iterator[str]:
        header = self.records.snapshot_header()
        yield f"<SnapshotSection>{number('snapshotCounter', signed32(header.snapshotCounter))}"
        yield self._count("numSnapshots", signed32(header.numSnapshots))
        if header.snapshottableDir:
            directories = "".join([number("dir", signed64(inode_id)) for inode_id in header.snapshottableDir])
            yield f"<snapshottableDir>{directories}</snapshottableDir>\n"
        yield from map(self.snapshot, self.records.snapshots())
        yield "</SnapshotSection>\n"

    def _caches(self) -> Iterator[str]:
        caches = self.records.caches()
        header = caches.header
        yield f"<CacheManagerSection>{number('nextDirectiveId', signed64(header.nextDirectiveId))}"
        yield self._count("numDirectives", signed32(header.numDirectives))
        yield self._count("numPools", signed32(header.numPools))
        for pool in caches.pools:
            yield (
                f"<pool>{text('poolName', pool.poolName)}{text('ownerName', pool.ownerName)}"
                f"{text('groupName', pool.groupName)}{number('mode', pool.mode)}{number('limit', pool.limit)}"
                f"{number('maxRelativeExpiry', pool.maxRelativeExpiry)}</pool>\n"
            )
        for directive in caches.directives:
            yield (
                f"<directive>{number('id', directive.id)}{text('path', directive.path)}"
                f"{number('replication', signed32(directive.replication))}{text('pool', directive.pool)}"
                f"<expiration>{number('millis', directive.expiration.millis)}"
                f"{self.relative(directive.expiration.isRelative)}</expiration>\n</directive>\n"
            )
        yield "</CacheManagerSection>\n"

    def _secrets(self) -> Iterator[str]:
        """Yield the section without absent fields of keys and tokens; dates are in UTC."""
        header, keys, tokens = self.records.secrets()
        yield f"<SecretManagerSection>{number('currentId', signed32(header.currentId))}"
        yield number("tokenSequenceNumber", signed32(header.tokenSequenceNumber))
        yield self._count("numDelegationKeys", signed32(header.numKeys))
        yield self._count("numTokens", signed32(header.numTokens))
        if self.complete:
            yield from map(_key, keys)
            yield from map(_token, tokens)
        yield "</SecretManagerSection>"
