"""Values of the fields of edit log operations."""

from __future__ import annotations

from typing import NamedTuple

from hadoop_common.block import Block

__all__ = [
    "ACL_SCOPES",
    "ACL_TYPES",
    "XATTR_NAMESPACES",
    "AclEntry",
    "Block",
    "CacheDirectiveInfo",
    "CachePoolInfo",
    "DelegationKey",
    "DelegationTokenIdent",
    "PermissionStatus",
    "XAttr",
]

ACL_TYPES = ("USER", "GROUP", "MASK", "OTHER")
ACL_SCOPES = ("ACCESS", "DEFAULT")
XATTR_NAMESPACES = ("USER", "TRUSTED", "SECURITY", "SYSTEM", "RAW")


class PermissionStatus(NamedTuple):
    """Owner, group and the 16 mode bits of an inode."""

    user: str
    group: str
    mode: int


class AclEntry(NamedTuple):
    """An ACL entry. `type` indexes ACL_TYPES, `scope` ACL_SCOPES; `permission` has bits 4 r, 2 w, 1 x."""

    type: int
    scope: int
    permission: int
    name: str | None = None


class XAttr(NamedTuple):
    """An extended attribute. `namespace` indexes XATTR_NAMESPACES; `name` does not include the namespace."""

    namespace: int
    name: str
    value: bytes | None = None


class DelegationTokenIdent(NamedTuple):
    """The identifier of a delegation token (DelegationTokenIdentifier); dates are milliseconds since the epoch."""

    owner: str
    renewer: str
    real_user: str
    issue_date: int
    max_date: int
    sequence_number: int
    master_key_id: int


class DelegationKey(NamedTuple):
    """A master key of the delegation token secret manager; `key` is None if the key material is missing."""

    key_id: int
    expiry_date: int
    key: bytes | None


class CacheDirectiveInfo(NamedTuple):
    """A cache directive, or changes to a directive; an absent value is None. `expiration` is in ms since the epoch."""

    id: int
    path: str | None = None
    replication: int | None = None
    pool: str | None = None
    expiration: int | None = None


class CachePoolInfo(NamedTuple):
    """A cache pool, or changes to a pool; an absent value is None. `limit` is in bytes, `max_relative_expiry` in ms."""

    pool_name: str
    owner_name: str | None = None
    group_name: str | None = None
    mode: int | None = None
    limit: int | None = None
    max_relative_expiry: int | None = None
    default_replication: int | None = None
