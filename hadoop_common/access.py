"""Who may do what: one decision for all servers.

An unsecured cluster knows hosts, and the names that callers give themselves. Where callers prove who they are by
Kerberos, names alone decide: each door, a protocol of RPC or a kind of path, has an `Admission`, and one without is
closed to everybody.
"""

from __future__ import annotations

import grp
import logging
import os
import pwd
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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


class Door(StrEnum):
    """Kinds of paths of our web servers; a protocol of RPC is a door by its Java name."""

    IMAGES = "/imagetransfer"
    JOURNAL = "/getJournal"
    STATE = "/jmx, /status and /metrics"
    CONTROL = "control"


# who may ask for changes over HTTP is the change guard's to decide where nobody proves who he is
_OPEN_DOORS = (Door.STATE, Door.CONTROL)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls.

    Attributes:
        host: a numeric address.
        users: all names it gives itself, those it acts for included, none over HTTP; the short name of `principal`.
        principal: what Kerberos proved, "" without it.
    """

    host: str
    users: tuple[str, ...] = ()
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """Who has a right: callers in one of the networks all of whose names are among the users; None is anybody."""

    networks: frozenset[Network] | None = None
    users: frozenset[str] | None = None


def admit(
    admission: Admission,
    caller: Caller,
    own_user: str = "",
    *,
    is_host_of: Callable[[str, str], bool],
    groups_of: Callable[[str], frozenset[str]],
) -> Verdict:
    """Whether a caller with a principal may pass; the reason says who it is, who may, and by which keys.

    Args:
        is_host_of: whether a host, by name, has an address.
    """
    user = caller.users[0] if caller.users else ""
    who = f"{caller.principal or 'nobody'} (user {user})" if user else caller.principal or "nobody"
    limited = bool(admission.principals or admission.own or admission.lists)
    if limited and not (
        any(_is_principal(each, caller, is_host_of) for each in admission.principals)
        or (admission.own and user and user == own_user)
        or any(acl.holds(user, groups_of) for acl in admission.lists)
    ):
        named = [f"{principal} ({key})" for principal, key in admission.principals.items()]
        named += [f"user {own_user}"] * admission.own + [str(acl) for acl in admission.lists]
        return Verdict(False, f"{admission.refusal}; {who} is none of: {', '.join(named)}")
    for wanted, listed in ((True, admission.needed), (False, admission.blocked)):
        for each in listed:
            held = each.holds(user, groups_of) if isinstance(each, Acl) else each.holds(caller.host, is_host_of)
            if held != wanted:
                return Verdict(False, f"{admission.refusal}: {who} at {caller.host} is denied by {each}")
    return Verdict(True)


def _is_principal(wanted: str, caller: Caller, is_host_of: Callable[[str, str], bool]) -> bool:
    service, _, rest = wanted.partition("/")
    if not rest.startswith("_HOST@"):
        return wanted == caller.principal
    begin, _, realm = caller.principal.rpartition("@")
    own, _, host = begin.partition("/")
    return (own, realm) == (service, rest.removeprefix("_HOST@")) and bool(host) and is_host_of(host, caller.host)


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
class Acl:
    """Users and groups (AccessControlList); `key` is the one that lists them.

    Attributes:
        anybody: whether it is `*`.
    """

    key: str
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    anybody: bool = False

    @classmethod
    def parse(cls, key: str, text: str) -> Acl:
        """`users groups`: both separated by commas, one from the other by the first blank; `*` is anybody."""
        if text.strip() == ANYBODY:
            return cls(key, anybody=True)
        users, _, groups = text.partition(" ")
        return cls(key, _items(users), _items(groups))

    def __str__(self) -> str:
        listed = [*sorted(self.users), *(f"group {group}" for group in sorted(self.groups))]
        return f"{self.key} ({ANYBODY if self.anybody else ', '.join(listed) or 'nobody'})"

    def holds(self, user: str, groups_of: Callable[[str], frozenset[str]]) -> bool:
        return self.anybody or user in self.users or bool(self.groups and self.groups & groups_of(user))


@dataclass(frozen=True, slots=True)
class HostList:
    """Hosts, addresses and networks (MachineList); `key` is the one that lists them."""

    key: str
    hosts: frozenset[str]

    @classmethod
    def parse(cls, key: str, text: str) -> HostList:
        return cls(key, _items(text))

    def __str__(self) -> str:
        return f"{self.key} ({', '.join(sorted(self.hosts)) or 'nobody'})"

    def holds(self, address: str, is_host_of: Callable[[str, str], bool]) -> bool:
        known = _address(address)
        return ANYBODY in self.hosts or any(
            is_host_of(each, address) if (network := _network(each)) is None else known is not None and known in network
            for each in self.hosts
        )


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may pass a door: one of `principals`, `own` and `lists`, or anybody without them, as far as `needed` allows.

    Attributes:
        principals: by full principal the key that names it; `_HOST` in one stands for the host that calls.
        own: whether those may that have the short name of the server itself.
        lists: of users and groups.
        needed: lists that all have to hold the caller; `blocked`: none may.
        refusal: how a refusal begins.
    """

    principals: Mapping[str, str] = field(default_factory=dict)
    own: bool = False
    lists: tuple[Acl, ...] = ()
    needed: tuple[Acl | HostList, ...] = ()
    blocked: tuple[Acl | HostList, ...] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class AccessRules:
    """What is configured; `ANYBODY` in the first two stands for all.

    Attributes:
        hosts: names, addresses and networks of those who may call.
        users: who may change something.
        doors: where callers prove who they are: who may pass which door. Hosts and users mean nothing then.
        own_user: short name of the server's own principal.
    """

    hosts: tuple[str, ...] = (ANYBODY,)
    users: frozenset[str] = frozenset({ANYBODY})
    doors: Mapping[str, Admission] | None = None
    own_user: str = ""


def changes(old: AccessRules, new: AccessRules) -> list[str]:
    """`key (alice) → (bob)`: a line for each list that is another one, by the key that names it."""
    before, after = _members(old), _members(new)
    differing = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    lines = [f"{key} {before.get(key, '(unset)')} → {after.get(key, '(unset)')}" for key in differing]
    then, now = old.doors or {}, new.doors or {}
    for door in sorted({*then, *now}):
        if then.get(door) != now.get(door) and not {*_lists(then.get(door)), *_lists(now.get(door))} & {*differing}:
            lines.append(f"which lists count for {door}")
    return lines


def _members(rules: AccessRules) -> dict[str, str]:
    if rules.doors is None:
        named = {"the hosts that may call": rules.hosts, "the users that may change something": rules.users}
        return {name: f"({', '.join(sorted(members))})" for name, members in named.items()}
    return {key: text for door in rules.doors.values() for key, text in _lists(door).items()}


def _lists(admission: Admission | None) -> dict[str, str]:
    """What each key that an admission goes by lists."""
    if admission is None:
        return {}
    found = {each.key: str(each).removeprefix(f"{each.key} ") for each in admission.lists}
    found |= {each.key: str(each).removeprefix(f"{each.key} ") for each in (*admission.needed, *admission.blocked)}
    for key in admission.principals.values():
        found[key] = f"({', '.join(sorted(name for name, by in admission.principals.items() if by == key))})"
    return found


class AccessControl:
    """Decides by names of hosts, which it looks up when a caller is of none of their addresses; any thread may ask.

    Args:
        refusals: counts calls that are refused as "may not read" or "may not change".
        look_up: the addresses of a name; raises OSError.
        groups_of: the groups of a user.
    """

    def __init__(
        self,
        rules: AccessRules = AccessRules(),
        refusals: Refusals | None = None,
        *,
        look_up: Callable[[str], Iterable[str]] | None = None,
        groups_of: Callable[[str], frozenset[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._groups_of = groups_of or _groups_of
        self._refusals = refusals or Refusals()
        self._look_up = look_up or _addresses_of
        self._clock = clock
        self._lock = threading.Lock()
        self._logged = float("-inf")
        self._adopt(rules)

    def take_over(self, rules: AccessRules) -> list[str]:
        """Decide by other lists from now on; see `changes` for what it returns."""
        with self._lock:
            lines = changes(self._rules, rules)
            self._adopt(rules)
            return lines

    def _adopt(self, rules: AccessRules) -> None:
        self._rules = rules
        self._networks: frozenset[Network] = frozenset(filter(None, map(_network, rules.hosts)))
        self._names = tuple(host for host in rules.hosts if _network(host) is None)
        self._looked_up = float("-inf")

    def warn_if_open(self) -> None:
        """Say in the log what an operator may not know."""
        if ANYBODY in self._rules.hosts and not self.by_name:
            _LOG.warning(
                "any host may call: the configuration names no NameNode, or checkpointer.access.hosts holds %s", ANYBODY
            )

    @property
    def by_name(self) -> bool:
        """Whether callers have to prove who they are."""
        return self._rules.doors is not None

    def check(self, caller: Caller, right: Right, action: str, door: str = "") -> Verdict:
        """Whether the call is let through; one that is not is counted, and logged once a second."""
        rules = self._rules
        if rules.doors is not None:
            verdict = self._by_door(rules, caller, door or action)
            if not verdict.allowed:
                self._note(right, f"{action}: {verdict.reason}")
            return verdict
        if door in _OPEN_DOORS:
            return Verdict(True)
        verdict = decide(self._grant(right), caller, action)
        if not verdict.allowed and self._renew():
            verdict = decide(self._grant(right), caller, action)
        if not verdict.allowed:
            self._note(right, verdict.reason)
        return verdict

    def _by_door(self, rules: AccessRules, caller: Caller, door: str) -> Verdict:
        admission = None if rules.doors is None else rules.doors.get(door)
        if admission is None:
            return Verdict(False, f"Unknown protocol: {door[:200]}")
        return admit(admission, caller, rules.own_user, is_host_of=self._is_host_of, groups_of=self._groups_of)

    def _is_host_of(self, host: str, address: str) -> bool:
        try:
            return _address(address) in map(_address, self._look_up(host))
        except (OSError, UnicodeError):
            return False

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
        networks = None if ANYBODY in self._rules.hosts else self._networks
        users = None if right is Right.READ or ANYBODY in self._rules.users else self._rules.users
        return Grant(networks, users)

    def _renew(self) -> bool:
        """Look all names up again, unless that was done a moment ago; whether it was."""
        with self._lock:
            now = self._clock()
            if not self._names or now - self._looked_up < _LOOK_UP_SECONDS:
                return False
            self._looked_up = now
            found: set[Network] = set(filter(None, map(_network, self._rules.hosts)))
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


def _items(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, text.split(","))))


def _groups_of(user: str) -> frozenset[str]:
    """Those that the operating system knows, as Hadoop asks it by default."""
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except KeyError:
        return frozenset()
    found = set()
    for number in numbers:
        try:
            found.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return frozenset(found)
