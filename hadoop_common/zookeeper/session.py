"""Sessions with a ZooKeeper ensemble: the servers, our identity in ZooKeeper, and the ACL of new znodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hadoop_common.regular_file import read_regular
from hadoop_common.tls.settings import ClientStores

DIGEST_MD5, GSSAPI = "DIGEST-MD5", "GSSAPI"

_PERMISSIONS = set("rwcda")
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """SASL login of a session.

    Attributes:
        mechanism: `DIGEST_MD5`, with `user` and `password`, or `GSSAPI`.
        user: user name; for GSSAPI the principal, "" for the owner of the tickets.
        keytab: keytab for GSSAPI; None uses the default ticket cache.
        service: first part of the servers' principal.
    """

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    keytab: Path | None = None
    service: str = "zookeeper"


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """Address of an ensemble, and the credentials of its sessions.

    Attributes:
        hosts: comma-separated `host:port`, followed by a chroot if there is one.
        session_timeout: seconds.
        acl: ACL of new znodes, (scheme, id, permissions from "cdrwa"); an empty ACL opens them to all.
        auth: (scheme, credential) that the session presents.
        sasl, tls: SASL login and TLS stores, None if unused.
        named_by, auth_key: the configuration keys of `hosts` and `auth`, for hints.
    """

    hosts: str
    session_timeout: float = 3.0
    acl: tuple[tuple[str, str, str], ...] = ()
    auth: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    sasl: SaslLogin | None = None
    tls: ClientStores | None = None
    named_by: str = "ha.zookeeper.quorum"
    auth_key: str = "ha.zookeeper.auth"


def parse_acl(value: str) -> tuple[tuple[str, str, str], ...]:
    """Parse the scheme, id and permissions of each part of an ACL; `@FILE` is replaced by the content of FILE.

    Raises:
        ValueError: the text is invalid, or the file cannot be read.
    """
    found = []
    for part in _parts(value):
        scheme, _, rest = part.partition(":")
        who, _, granted = rest.rpartition(":")
        if not scheme or not who or not granted or not set(granted) <= _PERMISSIONS:
            raise ValueError(f"{part!r} is not scheme:id:permissions, such as digest:user:hash:cdrwa")
        found.append((scheme, who, granted))
    return tuple(found)


def parse_auth(value: str) -> tuple[tuple[str, str], ...]:
    """Parse the scheme and credential of each part; the value `@FILE` is replaced by the content of FILE.

    Raises:
        ValueError: the text is invalid, or the file cannot be read.
    """
    found = []
    for part in _parts(value):
        scheme, separator, credential = part.partition(":")
        if not scheme or not separator:
            raise ValueError("a part is not scheme:credential, such as digest:user:password")
        found.append((scheme, credential))
    return tuple(found)


def resolved(value: str) -> str:
    """Return the content of the file if `value` is @FILE, otherwise `value` (ZKUtil.resolveConfIndirection).

    Raises:
        ValueError: the file cannot be read.
    """
    if not value.startswith("@"):
        return value
    try:
        return read_regular(Path(value[1:]), _MAX_BYTES).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise ValueError(f"{value[1:]} cannot be read: {fault}") from fault


def _parts(value: str) -> list[str]:
    return [part.strip() for part in resolved(value).split(",") if part.strip()]
