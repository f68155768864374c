"""Validation of cache pools and directives from clients (CachePoolInfo.validate, CacheManager)."""

from __future__ import annotations

from dataclasses import dataclass

from journal.ops import CacheDirectiveInfo, CachePoolInfo
from namenode_stub.names.paths import checked_path
from namenode_stub.names.transactions import now
from namenode_stub.refusals import InvalidPathRefusalError, InvalidRequestError, OperationRefusedError

MAX_LIFETIME = ((1 << 63) - 1) // 4
"""Maximum lifetime of a directive in ms (CacheDirectiveInfo.Expiration.MAX_RELATIVE_EXPIRY_MS)."""


@dataclass(frozen=True, slots=True)
class Expiration:
    """Expiration of a directive, in ms since the epoch or in ms from now."""

    millis: int
    is_relative: bool


@dataclass(frozen=True, slots=True)
class DirectiveRequest:
    """Directive fields sent by a client; None for missing fields."""

    id: int | None = None
    path: str | None = None
    replication: int | None = None
    pool: str | None = None
    expiration: Expiration | None = None


def check_pool_name(name: str) -> None:
    if not name:
        raise OperationRefusedError("invalid empty cache pool name")


def check_pool(wanted: CachePoolInfo) -> None:
    """Validate a pool (CachePoolInfo.validate)."""
    if wanted.limit is not None and wanted.limit < 0:
        raise InvalidRequestError("Limit is negative.")
    if wanted.default_replication is not None and wanted.default_replication < 0:
        raise InvalidRequestError("Default replication is negative.")
    if wanted.max_relative_expiry is not None and wanted.max_relative_expiry < 0:
        raise InvalidRequestError("Max relative expiry is negative.")
    if wanted.max_relative_expiry is not None and wanted.max_relative_expiry > MAX_LIFETIME:
        raise InvalidRequestError("Max relative expiry is too big.")
    check_pool_name(wanted.pool_name)


def valid_path(path: str | None) -> str:
    if path is None:
        raise InvalidRequestError("No path specified.")
    try:
        return checked_path(path)
    except InvalidPathRefusalError as error:
        raise InvalidRequestError(f"Invalid path '{path}'.") from error


def valid_replication(replication: int) -> int:
    if replication <= 0:
        raise InvalidRequestError(f"Invalid replication factor {replication} <= 0")
    return replication


def absolute_expiry(expiration: Expiration, most: int) -> int:
    """Return the time when a directive expires, in ms since the epoch (CacheManager.validateExpiryTime).

    Args:
        most: maximum time from now that the pool allows, in ms.
    """
    if expiration.millis < 0:
        raise InvalidRequestError(f"Cannot set a negative expiration: {expiration.millis}")
    time = now()
    absolute = time + expiration.millis if expiration.is_relative else expiration.millis
    relative = absolute - time
    if relative > MAX_LIFETIME:
        raise InvalidRequestError(f"Expiration {expiration.millis} is too far in the future!")
    if relative > most:
        raise InvalidRequestError(
            f"Expiration {expiration.millis} exceeds the max relative expiration time of {most} ms."
        )
    return absolute


def has_expired(directive: CacheDirectiveInfo) -> bool:
    return directive.expiration is not None and directive.expiration < now()
