"""Access control shared by all servers.

Without security, a server can check only a caller's host and the names that the caller claims. With Kerberos, callers
prove their names, and access depends on names alone. Each resource (an RPC protocol or a kind of path) has an
`AccessPolicy`; a resource without a policy is closed to all users.
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
from hadoop_common.quantities import Network, parse_list

_LOG = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.0/8", "::1")
ANYBODY = "*"
_LOOK_UP_SECONDS = 10.0
_LOG_SECONDS = 1.0


class Right(StrEnum):
    """Effect of a call on the server's data."""

    READ = "read"
    CHANGE = "change"


class Resource(StrEnum):
    """Kinds of HTTP paths. An RPC protocol is a resource under its Java name."""

    IMAGES = "/imagetransfer"
    JOURNAL = "/getJournal"
    STATE = "/jmx, /status and /metrics"
    CONTROL = "control"


# without authentication, the change guard authorises changes over HTTP
_OPEN_RESOURCES = (Resource.STATE, Resource.CONTROL)


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity of a caller.

    Attributes:
        host: numeric address.
        users: with Kerberos, the short name of `principal`. Without Kerberos, all names the caller claims over RPC,
            including the users for whom the caller acts; empty over HTTP.
        principal: the principal that Kerberos proved, "" if Kerberos is off.
    """

    host: str
    users: tuple[str, ...] = ()
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """Networks and users that have a right.

    A field that is None allows any caller. Otherwise, `networks` must contain the caller's address, and `users` must
    contain all names of the caller that are not members of `groups`.
    """

    networks: frozenset[Network] | None = None
    users: frozenset[str] | None = None
    groups: frozenset[str] = frozenset()


def admit(
    policy: AccessPolicy,
    caller: Caller,
    own_user: str = "",
    *,
    is_host_of: Callable[[str, str], bool],
    groups_of: Callable[[str], frozenset[str]],
) -> AccessDecision:
    """Decide whether a caller with a principal is admitted. The reason names the caller, the allowed principals and
    their keys.

    Args:
        is_host_of: returns whether a host name resolves to an address.
    """
    user = caller.users[0] if caller.users else ""
    who = f"{caller.principal or 'nobody'} (user {user})" if user else caller.principal or "nobody"
    limited = bool(policy.principals or policy.own or policy.lists)
    if limited and not (
        any(_is_principal(each, caller, is_host_of) for each in policy.principals)
        or (policy.own and user and user == own_user)
        or any(acl.holds(user, groups_of) for acl in policy.lists)
    ):
        named = [f"{principal} ({key})" for principal, key in policy.principals.items()]
        named += [f"user {own_user}"] * policy.own + [str(acl) for acl in policy.lists]
        return AccessDecision(False, f"{policy.refusal}; {who} is not one of: {', '.join(named)}")
    for wanted, listed in ((True, policy.needed), (False, policy.blocked)):
        for each in listed:
            held = (
                each.holds(user, groups_of)
                if isinstance(each, AccessControlList)
                else each.holds(caller.host, is_host_of)
            )
            if held != wanted:
                return AccessDecision(False, f"{policy.refusal}: {who} at {caller.host} is denied by {each}")
    return AccessDecision(True)


def _is_principal(wanted: str, caller: Caller, is_host_of: Callable[[str, str], bool]) -> bool:
    service, _, rest = wanted.partition("/")
    if not rest.startswith("_HOST@"):
        return wanted == caller.principal
    begin, _, realm = caller.principal.rpartition("@")
    own, _, host = begin.partition("/")
    return (own, realm) == (service, rest.removeprefix("_HOST@")) and bool(host) and is_host_of(host, caller.host)


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The result of an access check, with the reason for a refusal."""

    allowed: bool
    reason: str = ""


def decide(
    grant: Grant, caller: Caller, action: str, groups_of: Callable[[str], frozenset[str]] = lambda user: frozenset()
) -> AccessDecision:
    """Decide whether `grant` allows `caller` to perform `action`."""
    if grant.networks is not None:
        address = _address(caller.host)
        if address is None or not any(address in network for network in grant.networks):
            return AccessDecision(False, f"{action} is not allowed from {caller.host}")
    strangers = [] if grant.users is None else [user for user in caller.users if user not in grant.users]
    if grant.groups:
        strangers = [user for user in strangers if not grant.groups & groups_of(user)]
    if strangers:
        return AccessDecision(False, f"{action} is not allowed for user {strangers[0][:80]!a}")
    return AccessDecision(True)


@dataclass(frozen=True, slots=True)
class AccessControlList:
    """Users and groups (AccessControlList); `key` is the configuration key that lists them.

    Attributes:
        anybody: whether `*` is in place of the users or of the groups.
    """

    key: str
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    anybody: bool = False

    @classmethod
    def parse(cls, key: str, text: str) -> AccessControlList:
        """Parse `users groups`: comma-separated lists, separated by the first blank; `*` in place of a list means any
        user.
        """
        if ANYBODY in (part.strip() for part in text.split(" ", 1)):
            return cls(key, anybody=True)
        users, _, groups = text.partition(" ")
        return cls(key, _items(users), _items(groups))

    def __str__(self) -> str:
        listed = [*sorted(self.users), *(f"group {group}" for group in sorted(self.groups))]
        return f"{self.key} ({ANYBODY if self.anybody else ', '.join(listed) or 'nobody'})"

    def holds(self, user: str, groups_of: Callable[[str], frozenset[str]]) -> bool:
        return self.anybody or user in self.users or bool(self.groups and self.groups & groups_of(user))


@dataclass(frozen=True, slots=True)
class MachineList:
    """Hosts, addresses and networks (MachineList); `key` is the configuration key that lists them."""

    key: str
    hosts: frozenset[str]

    @classmethod
    def parse(cls, key: str, text: str) -> MachineList:
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
class AccessPolicy:
    """The callers that may use a resource.

    A caller must match `principals`, `own` or `lists` unless all three are empty. A caller must also satisfy `needed`
    and `blocked`.

    Attributes:
        principals: the configuration key of each full principal; `_HOST` in a principal means the caller's host.
        own: whether a caller with the server's short name matches.
        lists: users and groups.
        needed: lists that must all contain the caller.
        blocked: lists that must not contain the caller.
        refusal: beginning of the refusal message.
    """

    principals: Mapping[str, str] = field(default_factory=dict)
    own: bool = False
    lists: tuple[AccessControlList, ...] = ()
    needed: tuple[AccessControlList | MachineList, ...] = ()
    blocked: tuple[AccessControlList | MachineList, ...] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Configured access rules; `ANYBODY` in `hosts` or `users` allows all hosts or users.

    Attributes:
        hosts: names, addresses and networks that may call.
        users: users that may make changes.
        policies: policy of each resource; with Kerberos, these policies apply instead of hosts, users and groups.
        own_user: short name of the server's principal.
        groups: groups whose members may make changes.
    """

    hosts: tuple[str, ...] = (ANYBODY,)
    users: frozenset[str] = frozenset({ANYBODY})
    policies: Mapping[str, AccessPolicy] | None = None
    own_user: str = ""
    groups: frozenset[str] = frozenset()


def changes(old: AccessRules, new: AccessRules) -> list[str]:
    """Return the differing lists, with a line such as `key (alice) → (bob)` for each configuration key."""
    before, after = _members(old), _members(new)
    differing = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    lines = [f"{key} {before.get(key, '(unset)')} → {after.get(key, '(unset)')}" for key in differing]
    then, now = old.policies or {}, new.policies or {}
    for resource in sorted({*then, *now}):
        if then.get(resource) != now.get(resource) and not {*_lists(then.get(resource)), *_lists(now.get(resource))} & {
            *differing
        }:
            lines.append(f"the lists that apply to {resource}")
    return lines


def _members(rules: AccessRules) -> dict[str, str]:
    if rules.policies is None:
        named = {"the hosts that may call": rules.hosts, "the users that may change something": rules.users}
        return {name: f"({', '.join(sorted(members))})" for name, members in named.items()}
    return {key: text for policy in rules.policies.values() for key, text in _lists(policy).items()}


def _lists(policy: AccessPolicy | None) -> dict[str, str]:
    """Return the members that each key of a policy lists."""
    if policy is None:
        return {}
    found = {each.key: str(each).removeprefix(f"{each.key} ") for each in policy.lists}
    found |= {each.key: str(each).removeprefix(f"{each.key} ") for each in (*policy.needed, *policy.blocked)}
    for key in policy.principals.values():
        found[key] = f"({', '.join(sorted(name for name, by in policy.principals.items() if by == key))})"
    return found


class AccessControl:
    """Access decisions for a server.

    Host names are resolved again when a caller's address differs from all known addresses of these names.

    Any thread may call its methods.

    Args:
        refusals: counts refused calls as "may not read" or "may not change".
        look_up: returns the addresses of a name; raises OSError on failure.
        groups_of: returns the groups of a user.
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
        self._groups_of = groups_of or system_groups
        self._refusals = refusals or Refusals()
        self._look_up = look_up or _addresses_of
        self._clock = clock
        self._lock = threading.Lock()
        # held while names are resolved
        self._renewing = threading.Lock()
        self._logged = float("-inf")
        # the last known addresses of each name
        self._resolved: dict[str, frozenset[Network]] = {}
        self._adopt(rules)

    def replace_rules(self, rules: AccessRules) -> list[str]:
        """Replace the rules; return the differences as `changes` does."""
        with self._lock:
            lines = changes(self._rules, rules)
            self._adopt(rules)
            return lines

    def _adopt(self, rules: AccessRules) -> None:
        self._rules = rules
        self._literal: frozenset[Network] = frozenset(filter(None, map(_network, rules.hosts)))
        self._names = tuple(host for host in rules.hosts if _network(host) is None)
        self._resolved = {name: found for name, found in self._resolved.items() if name in self._names}
        self._networks = self._literal.union(*self._resolved.values())
        self._looked_up = float("-inf")

    def warn_if_open(self) -> None:
        """Log a warning if any host may call."""
        if ANYBODY in self._rules.hosts and not self.by_name:
            _LOG.warning(
                "any host may call: the configuration names no NameNode, or checkpointer.access.hosts contains %s",
                ANYBODY,
            )

    @property
    def by_name(self) -> bool:
        """Whether access depends on names that callers have proved, as with Kerberos."""
        return self._rules.policies is not None

    def check(self, caller: Caller, right: Right, action: str, resource: str = "") -> AccessDecision:
        """Decide whether a call is allowed; count refusals, and log them at most once per second."""
        rules = self._rules
        if rules.policies is not None:
            verdict = self._by_policy(rules, caller, resource or action)
            if not verdict.allowed:
                self._note(right, f"{action}: {verdict.reason}")
            return verdict
        if resource in _OPEN_RESOURCES:
            return AccessDecision(True)
        verdict = decide(self._grant(right), caller, action, self._groups_of)
        if not verdict.allowed:
            # another call may have resolved the names since the decision
            self._renew()
            verdict = decide(self._grant(right), caller, action, self._groups_of)
        if not verdict.allowed:
            self._note(right, verdict.reason)
        return verdict

    def allows(self, caller: Caller, resource: str) -> bool:
        """Return whether a caller who has to authenticate may use `resource`, without counting or logging."""
        return self._by_policy(self._rules, caller, resource).allowed

    def _by_policy(self, rules: AccessRules, caller: Caller, resource: str) -> AccessDecision:
        policy = None if rules.policies is None else rules.policies.get(resource)
        if policy is None:
            return AccessDecision(False, f"Unknown protocol: {resource[:200]}")
        return admit(policy, caller, rules.own_user, is_host_of=self._is_host_of, groups_of=self._groups_of)

    def _is_host_of(self, host: str, address: str) -> bool:
        try:
            return _address(address) in map(_address, self._look_up(host))
        except (OSError, UnicodeError):
            return False

    def may_be_asked(self, host: str) -> bool:
        """Return whether a host that a caller names, by name or address, may itself make calls."""
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
        return Grant(networks, users, self._rules.groups)

    def _renew(self) -> None:
        """Resolve all names again unless they were resolved recently.

        While DNS does not answer, a name retains its addresses. Otherwise, JournalNodes would refuse their writer, and
        the writer would stop. DNS may hang, so a call that can use the last addresses does not wait for another call
        that resolves the names.
        """
        if not self._renewing.acquire(blocking=not self._resolved):
            return
        try:
            with self._lock:
                now = self._clock()
                if now - self._looked_up < _LOOK_UP_SECONDS:
                    return
                self._looked_up, names = now, self._names
            found = {name: self._addresses_now(name) for name in names}
            with self._lock:
                self._resolved |= {name: each for name, each in found.items() if name in self._names}
                self._networks = self._literal.union(*self._resolved.values())
        finally:
            self._renewing.release()

    def _addresses_now(self, name: str) -> frozenset[Network]:
        try:
            return frozenset(filter(None, map(_network, self._look_up(name))))
        except (OSError, UnicodeError) as fault:
            _LOG.debug("%s cannot be looked up: %s", name, fault)
            is_gone = isinstance(fault, socket.gaierror) and fault.errno == socket.EAI_NONAME
            return frozenset() if is_gone else self._resolved.get(name, frozenset())

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
    """Parse a network or an address; return None for a name."""
    address = _address(text)
    try:
        return ip_network(text if address is None else address, strict=False)
    except ValueError:
        return None


def _addresses_of(name: str) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]


def _items(text: str) -> frozenset[str]:
    return frozenset(parse_list(text))


def system_groups(user: str) -> frozenset[str]:
    """Return the groups that the operating system reports, as Hadoop does by default."""
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
