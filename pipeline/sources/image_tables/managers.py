"""Rows of the tables `cache` and `tokens`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from hadoop_common.java_numbers import signed32
from image_format.proto import fsimage_pb2 as pb
from image_tools.dump.records import CacheRecords, SecretRecords
from pipeline.sources.image_tables.batches import text, to_micros

_Row = dict[str, Any]
_NEVER = (1 << 63) // 4 - 1
"""CacheDirectiveInfo.Expiration.MAX_RELATIVE_EXPIRY_MS; a NameNode adds it to the clock for directives that never
expire.
"""


def cache_rows(caches: CacheRecords) -> Iterator[_Row]:
    """Yield a row for each pool, then a row for each directive."""
    for pool in caches.pools:
        yield {
            "kind": "POOL",
            "pool": text(pool.poolName),
            "owner": text(_present(pool, "ownerName")),
            "group": text(_present(pool, "groupName")),
            "permission": _present(pool, "mode"),
            "byte_limit": _present(pool, "limit"),
            "max_relative_expiry": _present(pool, "maxRelativeExpiry"),
            "replication": signed32(pool.defaultReplication),
        }
    for directive in caches.directives:
        yield {
            "kind": "DIRECTIVE",
            "pool": text(directive.pool),
            "directive_id": directive.id,
            "path": text(directive.path),
            "replication": signed32(directive.replication),
            **_expiration(directive),
        }


def _expiration(directive: pb.CacheDirectiveInfoProto) -> _Row:
    if not directive.HasField("expiration"):
        return {}
    millis, relative = directive.expiration.millis, directive.expiration.isRelative
    row: _Row = {"expiration_millis": millis, "expiration_is_relative": relative}
    if not relative and millis < _NEVER:
        row["expiration"] = to_micros(millis)
    return row


def _present(message: Message, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def token_rows(secrets: SecretRecords) -> Iterator[_Row]:
    """Yield a row for each master key, then a row for each token; never read `DelegationKey.key`."""
    for key in secrets.keys:
        yield {
            "kind": "KEY",
            "master_key_id": signed32(key.id),
            "expiry_date": to_micros(key.expiryDate) if key.HasField("expiryDate") else None,
        }
    for token in secrets.tokens:
        row: _Row = {"kind": "TOKEN"}
        for column, field in _TEXTS.items():
            row[column] = text(_present(token, field))
        for column, field in _NUMBERS.items():
            value = _present(token, field)
            row[column] = None if value is None else signed32(value)
        for column, field in _DATES.items():
            value = _present(token, field)
            row[column] = None if value is None else to_micros(value)
        yield row


_TEXTS = {"owner": "owner", "renewer": "renewer", "real_user": "realUser"}
_NUMBERS = {"master_key_id": "masterKeyId", "sequence_number": "sequenceNumber", "version": "version"}
_DATES = {"issue_date": "issueDate", "max_date": "maxDate", "expiry_date": "expiryDate"}
