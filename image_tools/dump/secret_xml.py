"""SECRET_MANAGER in the XML of Hadoop 3.x: master keys and delegation tokens."""

from __future__ import annotations

from collections.abc import Iterator

from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import SecretRecords
from image_tools.dump.values import signed32, signed64, utc_millis
from image_tools.dump.xml_text import number, text


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
