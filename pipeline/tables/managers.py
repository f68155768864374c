"""Columns of the tables of the NameNode's managers, `cache` and `tokens`, and of the `summary` table."""

from __future__ import annotations

import pyarrow as pa

from pipeline.schema import TIMESTAMP, Column, Table

_POOL = "fsimage.proto CachePoolInfoProto"
_DIRECTIVE = "fsimage.proto CacheDirectiveInfoProto"
_KEY = "fsimage.proto SecretManagerSection.DelegationKey"
_TOKEN = "fsimage.proto SecretManagerSection.PersistToken"

CACHE = Table(
    "cache",
    "Cache pools, then cache directives; columns of the other kind are null.",
    (
        Column("kind", pa.string(), "POOL or DIRECTIVE.", "CacheManagerSection", nullable=False),
        Column("pool", pa.string(), "Name of the pool.", f"{_POOL}.poolName, {_DIRECTIVE}.pool"),
        Column("owner", pa.string(), "User of the pool.", f"{_POOL}.ownerName"),
        Column("group", pa.string(), "Group of the pool.", f"{_POOL}.groupName"),
        Column("permission", pa.int32(), "Mode bits of the pool.", f"{_POOL}.mode", "mode"),
        Column(
            "byte_limit",
            pa.int64(),
            "Limit of cached bytes in the pool; 2^63-1 if unlimited.",
            f"{_POOL}.limit",
            "bytes",
        ),
        Column(
            "max_relative_expiry",
            pa.int64(),
            "Maximum lifetime of a directive in the pool; 2^61-1 if unlimited, null if not stored (Hadoop 2.7).",
            f"{_POOL}.maxRelativeExpiry",
            "ms",
        ),
        Column(
            "replication",
            pa.int32(),
            "Number of cached replicas: of the directive, or the default of the pool.",
            f"{_DIRECTIVE}.replication, {_POOL}.defaultReplication",
        ),
        Column("directive_id", pa.int64(), "Id of the directive.", f"{_DIRECTIVE}.id"),
        Column("path", pa.string(), "Cached file or directory.", f"{_DIRECTIVE}.path"),
        Column(
            "expiration",
            TIMESTAMP,
            "Expiration time; null for a directive that never expires and for a stored duration.",
            f"{_DIRECTIVE}.expiration",
            "time, UTC",
        ),
        Column(
            "expiration_millis",
            pa.int64(),
            "The stored number: milliseconds since 1970, or a duration if the next column is true.",
            f"{_DIRECTIVE}.expiration.millis",
            "ms",
        ),
        Column(
            "expiration_is_relative",
            pa.bool_(),
            "Whether the stored number is a duration; a NameNode writes times.",
            f"{_DIRECTIVE}.expiration.isRelative",
        ),
    ),
)

TOKENS = Table(
    "tokens",
    "Delegation tokens and the master keys that sign them, without secrets: neither key bytes nor passwords are read.",
    (
        Column("kind", pa.string(), "KEY or TOKEN.", "SecretManagerSection", nullable=False),
        Column(
            "master_key_id",
            pa.int32(),
            "Id of the master key, or of the key that signed the token.",
            f"{_KEY}.id, {_TOKEN}.masterKeyId",
        ),
        Column("sequence_number", pa.int32(), "Number of the token.", f"{_TOKEN}.sequenceNumber"),
        Column("owner", pa.string(), "User that the token authenticates.", f"{_TOKEN}.owner"),
        Column("renewer", pa.string(), "User who may renew the token.", f"{_TOKEN}.renewer"),
        Column(
            "real_user",
            pa.string(),
            "Proxy user who requested the token for the owner; may be empty.",
            f"{_TOKEN}.realUser",
        ),
        Column("issue_date", TIMESTAMP, "Time of issue.", f"{_TOKEN}.issueDate", "time, UTC"),
        Column("max_date", TIMESTAMP, "Time up to which the token can be renewed.", f"{_TOKEN}.maxDate", "time, UTC"),
        Column(
            "expiry_date",
            TIMESTAMP,
            "Expiration time of the key or token.",
            f"{_KEY}.expiryDate, {_TOKEN}.expiryDate",
            "time, UTC",
        ),
        Column("version", pa.int32(), "Version of the token's format.", f"{_TOKEN}.version"),
    ),
)


_ENTRY = "fsimage.proto FileSummary.Section"

SUMMARY = Table(
    "summary",
    "The structure of an image. Rows of kind SECTION and SUB_SECTION are the entries of its FileSummary; rows of kind "
    "VALUE are single numbers of a section's header, e.g. transactionId of NS_INFO, and the erasure coding policies "
    "(name, id and state).",
    (
        Column("kind", pa.string(), "SECTION, SUB_SECTION or VALUE.", "FileSummary", nullable=False),
        Column(
            "section",
            pa.string(),
            "Section, e.g. INODE; the name of a sub-section ends in _SUB.",
            f"{_ENTRY}.name",
            nullable=False,
        ),
        Column("name", pa.string(), "Hadoop's name of the header's field; null for sections.", "each section's header"),
        Column("value", pa.int64(), "Value of the field.", "each section's header"),
        Column(
            "text",
            pa.string(),
            "State of an erasure coding policy: ENABLED, DISABLED or REMOVED.",
            "ErasureCodingPolicyProto.state",
        ),
        Column("offset", pa.int64(), "Start of the section in the file.", f"{_ENTRY}.offset", "bytes"),
        Column(
            "length",
            pa.int64(),
            "Stored size of the section, compressed if the image is compressed.",
            f"{_ENTRY}.length",
            "bytes",
        ),
        Column(
            "records",
            pa.int64(),
            "Number of records without the header: inodes, directories with children, references, inodes with "
            "diffs, snapshots, open files, strings, keys and tokens, pools and directives; null for sub-sections.",
            "each section's header or scan",
        ),
        Column(
            "codec",
            pa.string(),
            "Class name of the compression codec; empty if there is none.",
            "FileSummary.codec",
            nullable=False,
        ),
        Column(
            "layout_version",
            pa.int32(),
            "Layout version of the image, negative.",
            "FileSummary.layoutVersion",
            nullable=False,
        ),
        Column(
            "on_disk_version", pa.int32(), "Version of the file format.", "FileSummary.ondiskVersion", nullable=False
        ),
    ),
)
