"""How a command logs in that does what NameNodes do, by the keys of `hadoop_rpc.login_keys`."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_rpc import user
from hadoop_rpc.kerberos import KerberosLogin
from hadoop_rpc.keytab import parse_keytab
from hadoop_rpc.login_keys import (
    FALLBACK_TO_SIMPLE,
    JOURNALNODE_PATTERN,
    JOURNALNODE_PRINCIPAL,
    NAMENODE_KEYTAB,
    NAMENODE_PATTERN,
    NAMENODE_PRINCIPAL,
    RPC_PROTECTION,
    SENDS_USER_NAME,
)
from hadoop_rpc.principals import ServerPrincipal, with_host


def namenode_login(configuration: Configuration) -> KerberosLogin | None:
    """How a command logs in that reads JournalNodes, which only NameNodes' principals may; None without Kerberos.

    Its principal is the one of a NameNode that the keytab holds; where this user may not read that, his own tickets are
    taken.

    Raises:
        ConfigurationError: the principal of the NameNodes is missing.
    """
    if user.AUTHENTICATION.read(configuration).lower() != "kerberos":
        return None
    principal = NAMENODE_PRINCIPAL.read(configuration)
    if "@" not in principal:
        raise ConfigurationError([configuration.fault(NAMENODE_PRINCIPAL.name, "is needed with Kerberos, and a realm")])
    file = NAMENODE_KEYTAB.read(configuration)
    keytab = Path(file) if file and os.access(file, os.R_OK) else None
    return KerberosLogin(
        principal="" if keytab is None else _held(principal, keytab),
        keytab=keytab,
        namenode=ServerPrincipal(NAMENODE_PRINCIPAL.name, principal, NAMENODE_PATTERN.read(configuration)),
        journalnode=ServerPrincipal(
            JOURNALNODE_PRINCIPAL.name,
            JOURNALNODE_PRINCIPAL.read(configuration),
            JOURNALNODE_PATTERN.read(configuration),
        ),
        protections=RPC_PROTECTION.read(configuration),
        fallback=FALLBACK_TO_SIMPLE.read(configuration),
        sends_user_name=SENDS_USER_NAME.read(configuration),
    )


def _held(principal: str, keytab: Path) -> str:
    """What `principal` is on this host; or on another one whose key lies here, as of an address that has two names."""
    own = with_host(principal, socket.getfqdn())
    try:
        held = [entry.principal for entry in parse_keytab(keytab.read_bytes())]
    except (OSError, ValueError):
        # the login itself tells what is wrong with it
        return own
    fitting = [each for each in held if with_host(principal, each.partition("/")[2].rpartition("@")[0]) == each]
    return own if own in fitting else next(iter(fitting), own)
