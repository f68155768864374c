"""How an ensemble is reached, and who we are there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hadoop_common.tls.client_stores import ClientStores

DIGEST_MD5, GSSAPI = "DIGEST-MD5", "GSSAPI"

_PERMISSIONS = set("rwcda")


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """How a session logs in by SASL.

    Attributes:
        mechanism: `DIGEST_MD5`, with `user` and `password`, or `GSSAPI`.
        user: for GSSAPI the principal, "" for whoever the tickets are of.
        keytab: for GSSAPI; None uses the default cache of tickets.
        service: first part of the servers' principal.
    """

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    keytab: Path | None = None
    service: str = "zookeeper"


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """How an ensemble is reached.

    Attributes:
        hosts: `host:port`, separated by commas, with a chroot behind them where there is one.
        session_timeout: seconds.
        acl: of znodes that are made, (scheme, id, permissions from "cdrwa"); none leaves them open to all.
        auth: (scheme, credential) that the session shows.
        sasl: how it logs in besides, `tls`: the stores by which it is encrypted; None for neither.
        named_by, auth_key: the settings that name `hosts` and `auth`, for hints.
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
    """Scheme, id and permissions of each part; ValueError where it is no ACL. It may be in a file, as @FILE."""
    found = []
    for part in _parts(value):
        scheme, _, rest = part.partition(":")
        who, _, granted = rest.rpartition(":")
        if not scheme or not who or not granted or not set(granted) <= _PERMISSIONS:
            raise ValueError(f"{part!r} is not scheme:id:permissions, such as digest:user:hash:cdrwa")
        found.append((scheme, who, granted))
    return tuple(found)


def parse_auth(value: str) -> tuple[tuple[str, str], ...]:
    """Scheme and credential of each part; ValueError where it is none. It may be in a file, as @FILE."""
    found = []
    for part in _parts(value):
        scheme, separator, credential = part.partition(":")
        if not scheme or not separator:
            raise ValueError("a part is not scheme:credential, such as digest:user:password")
        found.append((scheme, credential))
    return tuple(found)


def resolved(value: str) -> str:
    """What stands in the file where `value` is @FILE (ZKUtil.resolveConfIndirection); ValueError where none is read."""
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise ValueError(f"{value[1:]} cannot be read: {fault}") from fault


def _parts(value: str) -> list[str]:
    return [part.strip() for part in resolved(value).split(",") if part.strip()]
