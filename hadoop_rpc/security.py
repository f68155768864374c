"""What the protocols need of Kerberos, so that they run without it: a security context, and who makes one."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hadoop_common.config_key import parsed

if TYPE_CHECKING:
    from hadoop_common.access import Caller


class Protection(Enum):
    """What guards the frames after the login; the value is the layer's bit in RFC 4752, the name Hadoop's word."""

    AUTHENTICATION = 1
    INTEGRITY = 2
    PRIVACY = 4


def parse_protections(text: str) -> tuple[Protection, ...]:
    """The words of hadoop.rpc.protection, which a client prefers in this order.

    Raises:
        ValueError: one is none of them.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return tuple(Protection[word.upper()] for word in words) or (Protection.AUTHENTICATION,)
    except KeyError as fault:
        raise ValueError("is not a list of authentication, integrity, privacy") from fault


PROTECTIONS = parsed("protections", parse_protections)


class Unwrapped(NamedTuple):
    """What a token held, and whether it was encrypted."""

    data: bytes
    encrypted: bool


class SecurityContext(Protocol):
    """One side of an exchange (GSSAPI); every method raises `KerberosError`."""

    @property
    def complete(self) -> bool:
        """Both sides have proved who they are."""

    @property
    def initiator(self) -> str:
        """The client's full principal, once complete."""

    def step(self, token: bytes | None) -> bytes:
        """What to send after `token`, None at the beginning; empty for nothing."""

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes: ...

    def unwrap(self, token: bytes) -> Unwrapped: ...


class ClientSecurity(Protocol):
    """How a client logs in at one server.

    Attributes:
        protections: that it accepts, the preferred one first.
        fallback: whether it goes on without security where the server has none.
    """

    @property
    def protections(self) -> tuple[Protection, ...]: ...

    @property
    def fallback(self) -> bool: ...

    def context(self, service: str, host: str) -> SecurityContext:
        """A new context for the server that names itself `service/host`.

        Raises:
            KerberosError: this is not the server that was meant, or there is no ticket for it.
        """

    def renew(self) -> bool:
        """Let go of all tickets after one was refused; False where that was done a moment ago."""


class ServerSecurity(Protocol):
    """How a server lets clients log in, and who may use which protocol of its.

    Attributes:
        service, host: the first and second part of its principal, which clients are told.
        protections: that it offers.
    """

    @property
    def service(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def protections(self) -> tuple[Protection, ...]: ...

    def context(self) -> SecurityContext:
        """A new context for a client.

        Raises:
            KerberosError: the server has no key.
        """

    def user_of(self, principal: str) -> str:
        """The short name of a principal (hadoop.security.auth_to_local).

        Raises:
            ValueError: there is none.
        """

    def refusal(self, caller: Caller, protocol: str) -> str:
        """Why a client may not use a protocol, "" where it may; may wait for a name server."""
