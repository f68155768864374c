"""Elements of Hadoop's XML dumps, with the escapes of XMLUtils.mangleXmlString (PBImageXmlWriter)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from image_format.policies import BUILT_IN
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import SecretRecords
from image_tools.dump.template import PrintStep, each, inside, literal, put_data, put_number, put_word, when
from image_tools.dump.values import java_text, signed32, signed64, utc_millis

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
"""Both quotas of a directory, only if both are present."""

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


def inode_steps(
    file: tuple[PrintStep, ...], directory: tuple[PrintStep, ...], symlink: tuple[PrintStep, ...]
) -> tuple[PrintStep, ...]:
    return (
        *number_steps("id", "id"),
        *word_steps("type", "", "type"),
        *text_steps("name", "name"),
        inside("file", *file),
        *when(inside("directory", *directory), absent=["file"]),
        *when(inside("symlink", *symlink), absent=["file", "directory"]),
    )


def entry_steps(child: str, reference: str) -> tuple[PrintStep, ...]:
    """Return steps for a directory with its children, in elements of these names."""
    return (
        literal("<directory>"),
        *number_steps("parent", "parent"),
        each("children", *number_steps(child, "")),
        each("refChildren", *number_steps(reference, "")),
        literal("</directory>\n"),
    )


def snapshottable_element(header: pb.SnapshotSection) -> str:
    """Return the snapshottable directories, "" if there are none."""
    if not header.snapshottableDir:
        return ""
    directories = "".join([number("dir", signed64(inode_id)) for inode_id in header.snapshottableDir])
    return f"<snapshottableDir>{directories}</snapshottableDir>\n"


def created_element(name: bytes) -> str:
    return f"<created>{text('name', name)}</created>\n"


def pool_element(pool: pb.CachePoolInfoProto) -> str:
    return (
        f"<pool>{text('poolName', pool.poolName)}{text('ownerName', pool.ownerName)}"
        f"{text('groupName', pool.groupName)}{number('mode', pool.mode)}{number('limit', pool.limit)}"
        f"{number('maxRelativeExpiry', pool.maxRelativeExpiry)}</pool>\n"
    )


def directive_element(directive: pb.CacheDirectiveInfoProto, relative: str) -> str:
    """Return a cache directive; `relative` is the element for the kind of expiration."""
    return (
        f"<directive>{number('id', directive.id)}{text('path', directive.path)}"
        f"{number('replication', signed32(directive.replication))}{text('pool', directive.pool)}"
        f"<expiration>{number('millis', directive.expiration.millis)}{relative}</expiration>\n</directive>\n"
    )


def erasure_coding_section(section: pb.ErasureCodingSection) -> Iterator[str]:
    """Yield the section, nothing if it has no policy."""
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


def secret_manager_section(secrets: SecretRecords) -> Iterator[str]:
    """Yield the section without absent fields of keys and tokens; dates are in UTC."""
    header = secrets.header
    yield (
        f"<SecretManagerSection>{number('currentId', signed32(header.currentId))}"
        f"{number('tokenSequenceNumber', signed32(header.tokenSequenceNumber))}"
        f"{number('numDelegationKeys', signed32(header.numKeys))}{number('numTokens', signed32(header.numTokens))}"
    )
    yield from map(_key, secrets.keys)
    yield from map(_token, secrets.tokens)
    yield "</SecretManagerSection>"


def _key(key: pb.DelegationKey) -> str:
    expiry = _date("expiry", key.expiryDate) if key.HasField("expiryDate") else ""
    return f"<delegationKey>{number('id', signed32(key.id))}{text('key', key.key.hex())}{expiry}</delegationKey>"


def _token(token: pb.PersistToken) -> str:
    parts = []
    if token.HasField("version"):
        parts.append(number("version", signed32(token.version)))
    if token.HasField("owner"):
        parts.append(text("owner", token.owner))
    if token.HasField("renewer"):
        parts.append(text("renewer", token.renewer))
    if token.HasField("realUser"):
        parts.append(text("realUser", token.realUser))
    if token.HasField("issueDate"):
        parts.append(_date("issueDate", token.issueDate))
    if token.HasField("maxDate"):
        parts.append(_date("maxDate", token.maxDate))
    if token.HasField("sequenceNumber"):
        parts.append(number("sequenceNumber", signed32(token.sequenceNumber)))
    if token.HasField("masterKeyId"):
        parts.append(number("masterKeyId", signed32(token.masterKeyId)))
    if token.HasField("expiryDate"):
        parts.append(_date("expiryDate", token.expiryDate))
    return f"<token>{''.join(parts)}</token>"


def _date(tag: str, millis: int) -> str:
    return text(tag, utc_millis(signed64(millis)))
