"""Who may do what: one decision for all servers, on users and hosts as an unsecured cluster knows them."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from hadoop_common.port_limits import Refusals
from hadoop_common.quantities import Network

_LOG = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.0/8", "::1")
ANYBODY = "*"
_LOOK_UP_SECONDS = 10.0
_LOG_SECONDS = 1.0


class Right(StrEnum):
    """What a call does to what is kept here."""

    READ = "read"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a numeric address, and all names it gives itself, those it acts for included; none over HTTP."""

    host: str
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """Who has a right: callers in one of the networks all of whose names are among the users; None is anybody."""

    networks: frozenset[Network] | None = None
    users: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call is let through, and why not."""

    allowed: bool
    reason: str = ""


def decide(grant: Grant, caller: Caller, action: str) -> Verdict:
    """Whether `caller` may do `action`, for which the grant is."""
    if grant.networks is not None:
        address = _address(caller.host)
        if address is None or not any(address in network for network in grant.networks):
            return Verdict(False, f"{action} is not allowed from {caller.host}")
    strangers = [] if grant.users is None else [user for user in caller.users if user not in grant.users]
    if strangers:
        return Verdict(False, f"{action} is not allowed to user {strangers[0][:80]!a}")
    return Verdict(True)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What is configured; `ANYBODY` in either stands for all.

    Attributes:
        hosts: names, addresses and networks of those who may call.
        users: who may change something.
    """

    hosts: tuple[str, ...] = (ANYBODY,)
    users: frozenset[str] = frozenset({ANYBODY})


class AccessControl:
    """Decides by names of hosts, which it looks up when a caller is of none of their addresses; any thread may ask.

    Args:
        refusals: counts calls that are refused as "may not read" or "may not change".
        look_up: the addresses of a name; raises OSError.
    """

    def __init__(
        self,
        rules: AccessRules = AccessRules(),
        refusals: Refusals | None = None,
        *,
        look_up: Callable[[str], Iterable[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts = rules.hosts
        self._users = rules.users
        self._refusals = refusals or Refusals()
        self._look_up = look_up or _addresses_of
        self._clock = clock
        self._lock = threading.Lock()
        self._networks: frozenset[Network] = frozenset(filter(None, map(_network, self._hosts)))
        self._names = tuple(host for host in self._hosts if _network(host) is None)
        self._looked_up = self._logged = float("-inf")

    def warn_if_open(self) -> None:
        """Say in the log what an operator may not know."""
        if ANYBODY in self._hosts:
            _LOG.warning(
                "any host may call: the configuration names no NameNode, or checkpointer.access.hosts holds %s", ANYBODY
            )

    def check(self, caller: Caller, right: Right, action: str) -> Verdict:
        """Whether the call is let through; one that is not is counted, and logged once a second."""
        verdict = decide(self._grant(right), caller, action)
        if not verdict.allowed and self._renew():
            verdict = decide(self._grant(right), caller, action)
        if not verdict.allowed:
            self._note(right, verdict.reason)
        return verdict

    def may_be_asked(self, host: str) -> bool:
        """Whether a host that somebody names, by name or address, is one of those who may call."""
        try:
            addresses = [host] if _address(host) is not None else list(self._look_up(host))
        except (OSError, UnicodeError):
            return False
        self._renew()
        grant = Grant(self._grant(Right.READ).networks)
        return bool(addresses) and all(decide(grant, Caller(address), "").allowed for address in addresses)

    def _grant(self, right: Right) -> Grant:
        networks = None if ANYBODY in self._hosts else self._networks
        users = None if right is Right.READ or ANYBODY in self._users else self._users
        return Grant(networks, users)

    def _renew(self) -> bool:
        """Look all names up again, unless that was done a moment ago; whether it was."""
        with self._lock:
            now = self._clock()
            if not self._names or now - self._looked_up < _LOOK_UP_SECONDS:
                return False
            self._looked_up = now
            found: set[Network] = set(filter(None, map(_network, self._hosts)))
            for name in self._names:
                try:
                    found.update(filter(None, map(_network, self._look_up(name))))
                except (OSError, UnicodeError) as fault:
                    _LOG.debug("%s cannot be looked up: %s", name, fault)
            self._networks = frozenset(found)
            return True

    def _note(self, right: Right, reason: str) -> None:
        self._refusals.count(f"may not {right}")
        with self._lock:
            now = self._clock()
            if now - self._logged < _LOG_SECONDS:
                return
            self._logged = now
        _LOG.warning("refused: %s", reason)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def _network(text: str) -> Network | None:
    """The network, or the address as one; None for a name."""
    address = _address(text)
    try:
        return ip_network(text if address is None else address, strict=False)
    except ValueError:
        return None


def _addresses_of(name: str) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
