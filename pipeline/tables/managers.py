"""Columns of what the NameNode's managers keep: `cache` (pools, directives) and `tokens`."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import TIMESTAMP, Column, Table

_POOL = "fsimage.proto CachePoolInfoProto"
_DIRECTIVE = "fsimage.proto CacheDirectiveInfoProto"
_KEY = "fsimage.proto SecretManagerSection.DelegationKey"
_TOKEN = "fsimage.proto SecretManagerSection.PersistToken"

CACHE = Table(
    "cache",
    "Cache pools, then cache directives; a column that belongs to the other kind is null.",
    (
        Column("kind", pa.string(), "POOL or DIRECTIVE.", "CacheManagerSection", nullable=False),
        Column("pool", pa.string(), "Name of the pool.", f"{_POOL}.poolName, {_DIRECTIVE}.pool"),
        Column("owner", pa.string(), "User of the pool.", f"{_POOL}.ownerName"),
        Column("group", pa.string(), "Group of the pool.", f"{_POOL}.groupName"),
        Column("permission", pa.int32(), "Mode bits of the pool.", f"{_POOL}.mode", "mode"),
        Column(
            "byte_limit",
            pa.int64(),
            "Most that may be cached in the pool; 2^63-1 for no limit.",
            f"{_POOL}.limit",
            "bytes",
        ),
        Column(
            "max_relative_expiry",
            pa.int64(),
            "Longest life of a directive in the pool; 2^61-1 for no limit, null where the image has none (Hadoop 2.7).",
            f"{_POOL}.maxRelativeExpiry",
            "ms",
        ),
        Column(
            "replication",
            pa.int32(),
            "Cached copies of a block: of the directive, or what the pool gives by default.",
            f"{_DIRECTIVE}.replication, {_POOL}.defaultReplication",
        ),
        Column("directive_id", pa.int64(), "Id of the directive.", f"{_DIRECTIVE}.id"),
        Column("path", pa.string(), "File or directory it caches.", f"{_DIRECTIVE}.path"),
        Column(
            "expiration",
            TIMESTAMP,
            "When it expires; null for one that never does, and where a duration is stored.",
            f"{_DIRECTIVE}.expiration",
            "time, UTC",
        ),
        Column(
            "expiration_millis",
            pa.int64(),
            "The stored number: milliseconds since 1970, or from now where the next column says so.",
            f"{_DIRECTIVE}.expiration.millis",
            "ms",
        ),
        Column(
            "expiration_is_relative",
            pa.bool_(),
            "Whether the number is a duration; a NameNode writes times.",
            f"{_DIRECTIVE}.expiration.isRelative",
        ),
    ),
)

TOKENS = Table(
    "tokens",
    "Delegation tokens and the master keys that sign them; no secret is read: neither a key's bytes nor anything a "
    "password can be made of.",
    (
        Column("kind", pa.string(), "KEY or TOKEN.", "SecretManagerSection", nullable=False),
        Column(
            "master_key_id",
            pa.int32(),
            "Id of the master key, or of the one that signed the token.",
            f"{_KEY}.id, {_TOKEN}.masterKeyId",
        ),
        Column("sequence_number", pa.int32(), "Number of the token.", f"{_TOKEN}.sequenceNumber"),
        Column("owner", pa.string(), "User the token speaks for.", f"{_TOKEN}.owner"),
        Column("renewer", pa.string(), "User who may renew it.", f"{_TOKEN}.renewer"),
        Column(
            "real_user",
            pa.string(),
            "User who asked for it as a proxy of the owner; may be empty.",
            f"{_TOKEN}.realUser",
        ),
        Column("issue_date", TIMESTAMP, "When it was issued.", f"{_TOKEN}.issueDate", "time, UTC"),
        Column("max_date", TIMESTAMP, "Until when it can be renewed.", f"{_TOKEN}.maxDate", "time, UTC"),
        Column(
            "expiry_date",
            TIMESTAMP,
            "When the key or token expires.",
            f"{_KEY}.expiryDate, {_TOKEN}.expiryDate",
            "time, UTC",
        ),
        Column("version", pa.int32(), "Version of the token's format.", f"{_TOKEN}.version"),
    ),
)
