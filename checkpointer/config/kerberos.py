"""Who this process is on a kerberized cluster, and whom the NameNodes take images from."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from checkpointer.config import keys
from checkpointer.config.addresses import WILDCARDS, Identity, address, namenode_rpc, scoped_key
from hadoop_common.config_key import ConfigKey
from hadoop_common.configuration import Configuration, ConfigurationError, FaultCollector
from hadoop_rpc.kerberos import KerberosLogin
from hadoop_rpc.principals import ServerPrincipal, names_host, with_host
from hadoop_rpc.security import Protection
from hadoop_rpc.user import AUTHENTICATION

_KERBEROS = "kerberos"


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    """Our login, and what the NameNodes make of it.

    Attributes:
        takes_images: the principals whose images a NameNode takes, by the key that says so (ImageServlet).
        administrators: dfs.cluster.administrators, whose images it takes too, "" for nobody's.
    """

    login: KerberosLogin
    takes_images: Mapping[str, str]
    administrators: str

    @property
    def refused(self) -> str:
        """Why a NameNode refuses our images, "" where it takes them."""
        if self.login.principal in self.takes_images or not self.login.principal:
            return ""
        taken = ", ".join(f"{name} ({key})" for name, key in self.takes_images.items())
        others = self.administrators or "nobody"
        return (
            f"NameNodes take images from {taken} and from dfs.cluster.administrators ({others}), and not from "
            f"{self.login.principal}"
        )


def kerberos_settings(settings: Configuration, who: Identity, *, secondary: bool) -> KerberosSettings | None:
    """How a secondary, or a standby, logs in; None on a cluster without Kerberos.

    Raises:
        ConfigurationError: all that is wrong.
    """
    if AUTHENTICATION.read(settings).lower() != _KERBEROS:
        return None
    faults = FaultCollector()
    of_namenodes = _principal(settings, keys.NAMENODE_PRINCIPAL, who, faults)
    own, keytab = (
        (keys.SECONDARY_PRINCIPAL, keys.SECONDARY_KEYTAB)
        if secondary
        else (keys.NAMENODE_PRINCIPAL, keys.NAMENODE_KEYTAB)
    )
    principal = _principal(settings, own, who, faults)
    none: tuple[Protection, ...] = ()
    protections = faults.take(lambda: keys.RPC_PROTECTION.read(settings), none)
    fallback = faults.take(lambda: keys.FALLBACK_TO_SIMPLE.read(settings), False)
    host = faults.take(lambda: _own_host(settings, who, principal, secondary=secondary), "")
    takes = faults.take(lambda: dict(_takes_images(settings, who, of_namenodes)), dict[str, str]())
    faults.raise_if_any()
    file = keytab.read(settings, scoped_key(settings, keytab.name, who.nameservice, who.own_id))
    login = KerberosLogin(
        # the default cache of tickets may be of anybody
        principal=with_host(principal, host) if file else "",
        keytab=Path(file) if file else None,
        namenode=_server(settings, keys.NAMENODE_PRINCIPAL, of_namenodes, keys.NAMENODE_PATTERN),
        journalnode=_server(
            settings,
            keys.JOURNALNODE_PRINCIPAL,
            keys.JOURNALNODE_PRINCIPAL.read(settings),
            keys.JOURNALNODE_PATTERN,
        ),
        protections=protections,
        fallback=fallback,
    )
    return KerberosSettings(login, takes, keys.CLUSTER_ADMINISTRATORS.read(settings).strip())


def for_operator(login: KerberosLogin) -> KerberosLogin:
    """The login of a command: an operator who may not read the keytab uses his own tickets (kinit)."""
    if login.keytab is None or os.access(login.keytab, os.R_OK):
        return login
    return replace(login, principal="", keytab=None)


def _principal(settings: Configuration, key: ConfigKey[str], who: Identity, faults: FaultCollector) -> str:
    def read() -> str:
        name = scoped_key(settings, key.name, who.nameservice, who.own_id)
        found = key.read(settings, name)
        if "@" not in found:
            problem = "names no realm" if found else "is needed, for hadoop.security.authentication is kerberos"
            raise ConfigurationError([settings.fault(name, problem)])
        return found

    return faults.take(read, "")


def _server(settings: Configuration, key: ConfigKey[str], principal: str, pattern: ConfigKey[str]) -> ServerPrincipal:
    return ServerPrincipal(key.name, principal, pattern.read(settings))


def _own_host(settings: Configuration, who: Identity, principal: str, *, secondary: bool) -> str:
    """What stands for _HOST in our own principal; asked of the system where no address names this host."""
    if not names_host(principal):
        return ""
    if secondary:
        host = _secondary_host(settings, who)
    else:
        host = _namenode_hosts(settings, who).get(who.own_id, "") if who.own_id else ""
    return socket.getfqdn() if host in WILDCARDS else host


def _takes_images(settings: Configuration, who: Identity, of_namenodes: str) -> list[tuple[str, str]]:
    hosts = _namenode_hosts(settings, who).values()
    found = [(with_host(of_namenodes, host), keys.NAMENODE_PRINCIPAL.name) for host in hosts]
    theirs, host = keys.SECONDARY_PRINCIPAL.read(settings), _secondary_host(settings, who)
    if theirs and (host not in WILDCARDS or not names_host(theirs)):
        found.append((with_host(theirs, host), keys.SECONDARY_PRINCIPAL.name))
    return found


def _namenode_hosts(settings: Configuration, who: Identity) -> dict[str, str]:
    """Host of each NameNode's RPC server, ours included, by its id; none where that is not clear."""
    none: tuple[tuple[str, int], ...] = ()
    found = FaultCollector().take(lambda: namenode_rpc(settings, replace(who, own_id="")), none)
    return {name: host for name, (host, _) in zip(who.namenodes or ("",), found, strict=False)}


def _secondary_host(settings: Configuration, who: Identity) -> str:
    return address(settings, scoped_key(settings, keys.SECONDARY_HTTP_ADDRESS.name, who.nameservice, ""), 0)[0]
