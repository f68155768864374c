"""Kerberos settings of a process: its login, access to its servers, and principals whose images NameNodes accept."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from hadoop_common.access import AccessControlList, AccessPolicy, AccessRules, MachineList, Resource, system_groups
from hadoop_common.addresses import WILDCARDS
from hadoop_common.config_key import ConfigKey
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_common.port_limits import Refusals
from hadoop_rpc import login_settings
from hadoop_rpc.auth_to_local import NameRules
from hadoop_rpc.client_protocol import CLIENT_PROTOCOL
from hadoop_rpc.errors import KerberosSetupError
from hadoop_rpc.ha_protocol import HA_PROTOCOL
from hadoop_rpc.journal_protocol import JOURNAL_PROTOCOL
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.keytab import keys_of
from hadoop_rpc.namenode_protocol import NAMENODE_PROTOCOL
from hadoop_rpc.principals import ServerPrincipal, names_host, with_host
from hadoop_rpc.qjournal_protocol import INTER_QJOURNAL_PROTOCOL, QJOURNAL_PROTOCOL
from hadoop_rpc.security import Protection
from hadoop_rpc.server_kerberos import ServerKerberos, ServiceKey
from hadoop_rpc.user import AUTHENTICATION
from hadoop_rpc.zkfc_protocol import ZKFC_PROTOCOL
from site_config import journal_node_keys as node
from site_config import keys
from site_config import security_keys as own_keys
from site_config.addresses import Identity, address, default_fs, namenode_ids, namenode_rpc, scoped_key

if TYPE_CHECKING:
    from servlets.server_security import ServerSecurity

_KERBEROS = "kerberos"


_RESOLVER = "hadoop.security.saslproperties.resolver.class"


class ProcessKind(Enum):
    """The kind of a process, with the keys for its principal, its keytab and its web server's principal."""

    SECONDARY = ("secondary", keys.SECONDARY_PRINCIPAL, keys.SECONDARY_KEYTAB, own_keys.SECONDARY_SPNEGO)
    STANDBY = ("standby", login_settings.NAMENODE_PRINCIPAL, login_settings.NAMENODE_KEYTAB, own_keys.NAMENODE_SPNEGO)
    BACKUP = ("backup", login_settings.NAMENODE_PRINCIPAL, login_settings.NAMENODE_KEYTAB, own_keys.NAMENODE_SPNEGO)
    FAILOVER = ("zkfc", login_settings.NAMENODE_PRINCIPAL, login_settings.NAMENODE_KEYTAB, own_keys.NAMENODE_SPNEGO)
    NAMENODE = ("namenode", login_settings.NAMENODE_PRINCIPAL, login_settings.NAMENODE_KEYTAB, own_keys.NAMENODE_SPNEGO)
    JOURNALNODE = (
        "journalnode",
        login_settings.JOURNALNODE_PRINCIPAL,
        own_keys.JOURNALNODE_KEYTAB,
        own_keys.JOURNALNODE_SPNEGO,
    )

    def __init__(self, word: str, principal: ConfigKey[str], keytab: ConfigKey[str], spnego: ConfigKey[str]) -> None:
        self.word = word
        self.principal = principal
        self.keytab = keytab
        self.spnego = spnego


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    """Our login, the principals that may send images to NameNodes, and the access rules of our servers.

    Attributes:
        upload_principals: principals that may send images, each with the key that grants this right (ImageServlet).
        administrators: value of dfs.cluster.administrators, who may also send images; "" if unset.
        server: settings of our servers; None if there is no keytab, which servers require.
    """

    login: KerberosLogin
    upload_principals: Mapping[str, str]
    administrators: str
    server: ServerKerberos | None

    def require_server(self) -> ServerKerberos:
        """Return the settings of our servers.

        Raises:
            KerberosSetupError: no keytab is configured.
        """
        if self.server is None:
            raise KerberosSetupError(
                "our servers require a keytab, because hadoop.security.authentication is kerberos",
                hint="Set the keytab of this role (dfs.secondary.namenode.keytab.file or dfs.namenode.keytab.file).",
            )
        return self.server

    def with_lists_of(self, other: KerberosSettings) -> KerberosSettings:
        """Return this login with the access rules of `other`; only the access rules can change in a running process."""
        server = self.server
        if server is not None and other.server is not None:
            read = other.server
            server = replace(
                server,
                policies=read.policies,
                rules=read.rules,
                secret_file=read.secret_file,
                validity=read.validity,
                open_paths=read.open_paths,
            )
        return replace(
            self, upload_principals=other.upload_principals, administrators=other.administrators, server=server
        )

    def refusal(self, own_user: str) -> str:
        """Return the reason why NameNodes refuse our images, or "" if they accept them.

        Args:
            own_user: short name of our principal.
        """
        if self.login.principal in self.upload_principals or not self.login.principal:
            return ""
        administrators = AccessControlList.parse(keys.CLUSTER_ADMINISTRATORS.name, self.administrators)
        if administrators.holds(own_user, system_groups):
            return ""
        taken = ", ".join(f"{name} ({key})" for name, key in self.upload_principals.items())
        others = self.administrators.strip() or "not set"
        return (
            f"NameNodes accept images from {taken} and from dfs.cluster.administrators ({others}), but not from "
            f"{self.login.principal}"
        )


def kerberos_settings(settings: Configuration, who: Identity, kind: ProcessKind) -> KerberosSettings | None:
    """Read the Kerberos settings of a process; None on a cluster without Kerberos.

    Raises:
        ConfigurationError: names all faulty keys.
    """
    if AUTHENTICATION.read(settings).lower() != _KERBEROS:
        return None
    faults = FaultCollector()
    of_namenodes = _principal_of_namenodes(settings, who, kind, faults)
    principal = _principal(settings, kind.principal, who, faults)
    none: tuple[Protection, ...] = ()
    protections = faults.take(lambda: login_settings.RPC_PROTECTION.read(settings), none)
    fallback = faults.take(lambda: login_settings.FALLBACK_TO_SIMPLE.read(settings), False)
    sends_user_name = faults.take(lambda: login_settings.SENDS_USER_NAME.read(settings), False)
    binds_any = faults.take(lambda: login_settings.BINDS_ANY_ADDRESS.read(settings), False)
    host, web_host = faults.take(lambda: _own_hosts(settings, who, kind), ("", ""))
    takes = faults.take(lambda: dict(_upload_principals(settings, who)), dict[str, str]())
    scoped_keytab = scoped_key(settings, kind.keytab.name, who.nameservice, who.own_id)
    file = kind.keytab.read(settings, scoped_keytab)
    if not file and kind not in (ProcessKind.SECONDARY, ProcessKind.STANDBY):
        faults.add(settings.fault(scoped_keytab, "is required, because hadoop.security.authentication is kerberos"))
    principal = with_host(principal, _named(host) if names_host(principal) else "")
    server = None
    if file:
        key = ServiceKey(principal, Path(file))
        server = faults.take(lambda: _server_kerberos(settings, who, kind, key, web_host, protections, takes), None)
    faults.raise_if_any()
    login = KerberosLogin(
        # without a keytab, the principal in the ticket cache applies, which may be any principal
        principal=principal if file else "",
        keytab=Path(file) if file else None,
        namenode=_server(settings, login_settings.NAMENODE_PRINCIPAL, of_namenodes, login_settings.NAMENODE_PATTERN),
        journalnode=_server(
            settings,
            login_settings.JOURNALNODE_PRINCIPAL,
            login_settings.JOURNALNODE_PRINCIPAL.read(settings),
            login_settings.JOURNALNODE_PATTERN,
        ),
        protections=protections,
        fallback=fallback,
        sends_user_name=sends_user_name,
        binds_address=not binds_any,
    )
    return KerberosSettings(login, takes, keys.CLUSTER_ADMINISTRATORS.read(settings), server)


def open_security(rules: AccessRules, kerberos: KerberosSettings | None, refusals: Refusals) -> ServerSecurity:
    """Return the access control of this process's servers.

    Raises:
        KerberosSetupError: see `ServerSecurity` and `KerberosSettings.require_server`.
    """
    # imported here, because commands without a server do not need it
    from servlets.server_security import ServerSecurity

    return ServerSecurity(rules, None if kerberos is None else kerberos.require_server(), refusals)


def for_operator(login: KerberosLogin) -> KerberosLogin:
    """Return the login for a command; without read access to the keytab, the login uses the tickets of kinit."""
    if login.keytab is None or os.access(login.keytab, os.R_OK):
        return login
    return replace(login, principal="", keytab=None)


def _principal(settings: Configuration, key: ConfigKey[str], who: Identity, faults: FaultCollector) -> str:
    def read() -> str:
        name = scoped_key(settings, key.name, who.nameservice, who.own_id)
        found = key.read(settings, name)
        if "@" not in found:
            problem = "lacks a realm" if found else "is required, because hadoop.security.authentication is kerberos"
            raise ConfigurationError([settings.fault(name, problem)])
        return found

    return faults.take(read, "")


def _principal_of_namenodes(settings: Configuration, who: Identity, kind: ProcessKind, faults: FaultCollector) -> str:
    """Return the principal of the NameNodes; if only keys of single NameNodes are set, their common value.

    A JournalNode calls no NameNode, so any of different values suffices.
    """
    key = login_settings.NAMENODE_PRINCIPAL
    if not key.read(settings, scoped_key(settings, key.name, who.nameservice, who.own_id)):
        if kind is ProcessKind.JOURNALNODE:
            found = faults.take(lambda: _all_namenode_principals(settings), dict[str, str]())
            if found:
                return next(iter(found))
        names = [scoped_key(settings, key.name, who.nameservice, each) for each in who.namenodes]
        if len({key.read(settings, name) for name in names}) == 1:
            return _principal(settings, key, replace(who, own_id=who.namenodes[0]), faults)
    return _principal(settings, key, who, faults)


def _server(settings: Configuration, key: ConfigKey[str], principal: str, pattern: ConfigKey[str]) -> ServerPrincipal:
    return ServerPrincipal(key.name, principal, pattern.read(settings))


def _named(host: str) -> str:
    """Return the replacement for _HOST: the host of an address, or this host's name for a wildcard."""
    return socket.getfqdn() if host in WILDCARDS else host


def _own_hosts(settings: Configuration, who: Identity, kind: ProcessKind) -> tuple[str, str]:
    """Return the hosts of our principal and of our web server's principal; "" if no address determines a host."""

    def of(key: ConfigKey[str]) -> str:
        return address(settings, scoped_key(settings, key.name, who.nameservice, who.own_id), 0)[0]

    if kind is ProcessKind.SECONDARY:
        return _secondary_host(settings, who), _secondary_host(settings, who)
    if kind is ProcessKind.JOURNALNODE:
        return of(node.JOURNALNODE_RPC_ADDRESS), of(node.JOURNALNODE_HTTP_ADDRESS)
    if kind is ProcessKind.BACKUP:
        return of(keys.BACKUP_ADDRESS), of(keys.BACKUP_HTTP_ADDRESS)
    if kind is ProcessKind.STANDBY and not who.own_id:
        return "", _secondary_host(settings, who)
    rpc = _namenode_hosts(settings, who).get(who.own_id, "") or default_fs(settings)[0]
    web = of(keys.HTTP_ADDRESS)
    return rpc, rpc if web in WILDCARDS else web


def _upload_principals(settings: Configuration, who: Identity) -> Iterator[tuple[str, str]]:
    """Yield the principals of all NameNodes of a nameservice and of the secondary, each with its key (ImageServlet)."""
    yield from _namenode_principals(settings, who).items()
    theirs, host = keys.SECONDARY_PRINCIPAL.read(settings), _secondary_host(settings, who)
    if theirs:
        # a NameNode replaces a wildcard by its own host name
        secondaries = _namenode_hosts(settings, who).values() if host in WILDCARDS and names_host(theirs) else (host,)
        yield from ((with_host(theirs, each), keys.SECONDARY_PRINCIPAL.name) for each in secondaries)


def _namenode_principals(settings: Configuration, who: Identity) -> dict[str, str]:
    """Return the principals of all NameNodes of a nameservice, each with its key.

    Raises:
        ConfigurationError: names all keys whose principal lacks a realm.
    """
    faults, found = FaultCollector(), dict[str, str]()
    for name, host in _namenode_hosts(settings, who).items():
        key = scoped_key(settings, login_settings.NAMENODE_PRINCIPAL.name, who.nameservice, name)
        if login_settings.NAMENODE_PRINCIPAL.read(settings, key):
            node = replace(who, own_id=name)
            found[with_host(_principal(settings, login_settings.NAMENODE_PRINCIPAL, node, faults), host)] = key
    faults.raise_if_any()
    return found


def _namenode_hosts(settings: Configuration, who: Identity) -> dict[str, str]:
    """Return the RPC host of each NameNode by id, including this node; empty if addresses are missing."""
    none: tuple[tuple[str, int], ...] = ()
    found = FaultCollector().take(lambda: namenode_rpc(settings, replace(who, own_id="")), none)
    return {name: host for name, (host, _) in zip(who.namenodes or ("",), found, strict=False)}


def _secondary_host(settings: Configuration, who: Identity) -> str:
    return address(settings, scoped_key(settings, keys.SECONDARY_HTTP_ADDRESS.name, who.nameservice, ""), 0)[0]


# ---- access to our servers ----

_READS: tuple[tuple[str, ConfigKey[str], ConfigKey[str] | None], ...] = (
    (CLIENT_PROTOCOL.name, own_keys.CLIENT_ACL, None),
    (HA_PROTOCOL.name, own_keys.HA_SERVICE_ACL, None),
    (NAMENODE_PROTOCOL.name, own_keys.NAMENODE_ACL, None),
)
_SERVED: Mapping[ProcessKind, tuple[tuple[str, ConfigKey[str], ConfigKey[str] | None], ...]] = {
    ProcessKind.NAMENODE: _READS,
    ProcessKind.JOURNALNODE: (
        (QJOURNAL_PROTOCOL.name, own_keys.QJOURNAL_ACL, login_settings.NAMENODE_PRINCIPAL),
        (INTER_QJOURNAL_PROTOCOL.name, own_keys.INTERQJOURNAL_ACL, login_settings.JOURNALNODE_PRINCIPAL),
    ),
    ProcessKind.FAILOVER: ((ZKFC_PROTOCOL.name, own_keys.ZKFC_ACL, None),),
    ProcessKind.STANDBY: _READS,
    ProcessKind.BACKUP: ((JOURNAL_PROTOCOL.name, own_keys.DEFAULT_ACL, login_settings.NAMENODE_PRINCIPAL), *_READS),
}
"""Protocols by kind of process, with the keys for their access list and for the required client principal."""


def _server_kerberos(
    settings: Configuration,
    who: Identity,
    kind: ProcessKind,
    key: ServiceKey,
    web_host: str,
    protections: tuple[Protection, ...],
    upload_principals: Mapping[str, str],
) -> ServerKerberos:
    if settings.get(_RESOLVER, "").rpartition(".")[2] not in ("", "SaslPropertiesResolver"):
        problem = "is a Java class, which is not loaded: our servers offer hadoop.rpc.protection to all clients"
        raise ConfigurationError([settings.fault(_RESOLVER, problem)])
    spnego = kind.spnego.read(settings, scoped_key(settings, kind.spnego.name, who.nameservice, who.own_id))
    realm = key.principal.rpartition("@")[2]
    if not spnego or spnego.startswith("${"):
        spnego = f"HTTP/_HOST@{realm}"
    web = "HTTP/*" if spnego == "*" else with_host(spnego, _named(web_host) if names_host(spnego) else "")
    secret = own_keys.SIGNATURE_SECRET.read(settings)
    return ServerKerberos(
        rpc=key,
        http=ServiceKey(web, _web_keytab(settings, web, key.keytab)),
        protections=protections,
        rules=_name_rules(settings),
        policies=_policies(settings, kind, upload_principals),
        secret_file=Path(secret) if secret else None,
        validity=own_keys.TOKEN_VALIDITY.read(settings),
        open_paths=frozenset(own_keys.ENDPOINT_WHITELIST.read(settings)),
    )


def _web_keytab(settings: Configuration, principal: str, own: Path) -> Path:
    """Return the keytab with the key of the web server's `principal`; `own` is the keytab of the process."""
    if configured := own_keys.WEB_KEYTAB.read(settings):
        return Path(configured)
    # Only some web servers of Hadoop 3.3 and newer use this key, so its file may lack the principal. Hadoop's default
    # refers to a Java property.
    others = own_keys.HTTP_KEYTAB.read(settings)
    if not others or others.startswith("${"):
        return own
    try:
        keys_of(principal, own)
    except KerberosSetupError:
        return Path(others)
    return own


def _name_rules(settings: Configuration) -> NameRules:
    mechanism = own_keys.AUTH_TO_LOCAL_MECHANISM.read(settings).lower()
    rules = own_keys.AUTH_TO_LOCAL.read(settings)
    try:
        return NameRules(rules, "", mechanism)
    except ValueError as fault:
        raise ConfigurationError([settings.fault(own_keys.AUTH_TO_LOCAL.name, str(fault))]) from fault


def _policies(
    settings: Configuration, kind: ProcessKind, upload_principals: Mapping[str, str]
) -> dict[str, AccessPolicy]:
    administrators = AccessControlList.parse(
        keys.CLUSTER_ADMINISTRATORS.name, keys.CLUSTER_ADMINISTRATORS.read(settings)
    )
    state = AccessPolicy()
    if own_keys.REQUIRES_ADMIN.read(settings):
        refusal = f"Only administrators may read this ({own_keys.REQUIRES_ADMIN.name})"
        state = AccessPolicy(lists=(administrators,), refusal=refusal)
    protocols = {
        protocol: _protocol(settings, protocol, acl, principal) for protocol, acl, principal in _SERVED.get(kind, ())
    }
    if kind is ProcessKind.FAILOVER:
        found = protocols[ZKFC_PROTOCOL.name]
        protocols[ZKFC_PROTOCOL.name] = replace(found, own=True, lists=(administrators,))
    return {
        Resource.IMAGES: AccessPolicy(
            upload_principals,
            lists=(administrators,),
            refusal="Only Namenode, Secondary Namenode, and administrators may access this servlet",
        ),
        Resource.JOURNAL: AccessPolicy(
            dict(_readers(settings)), own=True, refusal="Only Namenode and another JournalNode may access this servlet"
        ),
        Resource.STATE: state,
        Resource.CONTROL: AccessPolicy(
            own=True, lists=(administrators,), refusal="Only administrators may request changes"
        ),
        **protocols,
    }


def _protocol(
    settings: Configuration, protocol: str, acl: ConfigKey[str], principal: ConfigKey[str] | None
) -> AccessPolicy:
    """Return the access policy of a protocol.

    Unlike Hadoop, the policy requires the principal even without authorization. It also accepts the principals of
    single NameNodes, which Hadoop's servers refuse with authorization if the general key has another value
    (ServiceAuthorizationManager).
    """
    wanted = "" if principal is None else principal.read(settings)
    refusal = f"Not authorized for protocol interface {protocol}"
    principals = {wanted: principal.name} if wanted and principal is not None else {}
    if principal is login_settings.NAMENODE_PRINCIPAL:
        found = _all_namenode_principals(settings)
        principals |= {name: key for name, key in found.items() if key != principal.name}
    if not own_keys.AUTHORIZATION.read(settings):
        return AccessPolicy(principals, refusal=refusal)

    def lists(blocked: str) -> Iterator[AccessControlList | MachineList]:
        parsers: tuple[tuple[str, Callable[[str, str], AccessControlList | MachineList]], ...] = (
            (acl.name, AccessControlList.parse),
            (f"{acl.name.removesuffix('.acl')}.hosts", MachineList.parse),
        )
        for name, parse in parsers:
            # a list that contains only blanks allows nobody, as in Hadoop
            found = next((each for each in (f"{name}{blocked}", _default(name) + blocked) if each in settings), "")
            if found:
                yield parse(found, settings.get_untrimmed(found))

    return AccessPolicy(principals, needed=tuple(lists("")), blocked=tuple(lists(".blocked")), refusal=refusal)


def _default(name: str) -> str:
    return f"{own_keys.DEFAULT_ACL.name.removesuffix('.acl')}.{name.rpartition('.')[2]}"


def _readers(settings: Configuration) -> Iterator[tuple[str, str]]:
    """Yield the principals of all nameservices' NameNodes and of the secondary (GetJournalEditServlet)."""
    for who in _nameservices(settings):
        yield from _upload_principals(settings, who)


def _all_namenode_principals(settings: Configuration) -> dict[str, str]:
    """Return the principals of the NameNodes of our nameservices, each with its key.

    Nameservices of other clusters, which dfs.nameservices may also list, must not write to our journals.
    """
    ours = keys.INTERNAL_NAMESERVICES.read(settings)
    return {
        name: key
        for who in _nameservices(settings)
        if not ours or who.nameservice in ours
        for name, key in _namenode_principals(settings, who).items()
    }


def _nameservices(settings: Configuration) -> Iterator[Identity]:
    """Yield the NameNodes of each nameservice."""
    services = [*keys.INTERNAL_NAMESERVICES.read(settings), *keys.NAMESERVICES.read(settings)]
    for service in services or [""]:
        yield Identity(service, tuple(namenode_ids(settings, service)) if service else ())
