"""Interfaces between the protocols and Kerberos, so that the protocols run without Kerberos."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hadoop_common.config_key import parsed
from hadoop_common.quantities import parse_list

if TYPE_CHECKING:
    from hadoop_common.access import Caller


class Protection(Enum):
    """Protection of frames after the login; the value is the layer's bit in RFC 4752, and the name is Hadoop's."""

    AUTHENTICATION = 1
    INTEGRITY = 2
    PRIVACY = 4


def parse_protections(text: str) -> tuple[Protection, ...]:
    """Parse the value of hadoop.rpc.protection, in a client's order of preference.

    Raises:
        ValueError: a word is unknown.
    """
    words = parse_list(text)
    try:
        return tuple(Protection[word.upper()] for word in words) or (Protection.AUTHENTICATION,)
    except KeyError as fault:
        raise ValueError("is not a list of the levels authentication, integrity and privacy") from fault


PROTECTIONS = parsed("protections", parse_protections)


class Unwrapped(NamedTuple):
    """The content of a token, and whether it was encrypted."""

    data: bytes
    encrypted: bool


class MessageLayer(Protocol):
    """Protection of messages after a login; every method raises `KerberosError`."""

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes: ...

    def unwrap(self, token: bytes) -> Unwrapped: ...


class SecurityContext(MessageLayer, Protocol):
    """One side of a GSSAPI exchange; every method raises `KerberosError`."""

    @property
    def complete(self) -> bool:
        """Whether both sides are authenticated."""

    @property
    def initiator(self) -> str:
        """The client's full principal, once complete."""

    def step(self, token: bytes | None) -> bytes:
        """Return the token to send after `token` (None at the beginning); empty if there is nothing to send."""


class ClientSecurity(Protocol):
    """A client's login to one server.

    Attributes:
        protections: accepted protections in order of preference.
        fallback: whether the client continues without security if the server does not use Kerberos.
        own_host: host of our principal, from whose address the connection comes if this host has several; "" for any
            address.
    """

    @property
    def protections(self) -> tuple[Protection, ...]: ...

    @property
    def own_host(self) -> str: ...

    @property
    def fallback(self) -> bool: ...

    def context(self, service: str, host: str) -> SecurityContext:
        """Return a new context for the server that names itself `service/host`.

        Raises:
            KerberosError: the server is not the expected server, or the login has no ticket for the server.
        """

    def renew(self) -> bool:
        """Discard all tickets after a server refused a ticket; return False if all were discarded recently."""


class RpcServerSecurity(Protocol):
    """A server's authentication of clients, and access to its protocols.

    Attributes:
        service, host: the parts of the server's principal, which the server sends to clients.
        protections: offered protections.
    """

    @property
    def service(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def protections(self) -> tuple[Protection, ...]: ...

    def context(self) -> SecurityContext:
        """Return a new context for a client.

        Raises:
            KerberosError: the server has no key.
        """

    def user_of(self, principal: str) -> str:
        """Return the short name of a principal (hadoop.security.auth_to_local).

        Raises:
            ValueError: no rule applies to the principal.
        """

    def refusal(self, caller: Caller, protocol: str) -> str:
        """Return the reason why a client is not allowed to use a protocol, or "". The call may wait for DNS."""


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A delegation token that is valid now.

    Attributes:
        owner: the principal for whom the token was issued, and its short name `user`.
    """

    owner: str
    user: str
    password: bytes = field(repr=False)


class KnownTokens(Protocol):
    """The delegation tokens that are known to a server."""

    def known_token(self, identifier: bytes) -> KnownToken:
        """Return a token by its identifier (AbstractDelegationTokenIdentifier); may wait briefly.

        Raises:
            RemoteError: the token is unknown or expired, or its owner has no short name on this server.
        """
