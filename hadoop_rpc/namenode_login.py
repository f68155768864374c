"""Kerberos login of commands that act as a NameNode, by the keys of `hadoop_rpc.login_keys`."""

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
    """Return the login of a command that reads JournalNodes as a NameNode; None without Kerberos.

    Its principal is a NameNode's principal in the keytab; if this user may not read the keytab, the user's own tickets
    are used.

    Raises:
        ConfigurationError: the principal of the NameNodes is missing.
    """
    if user.AUTHENTICATION.read(configuration).lower() != "kerberos":
        return None
    principal = NAMENODE_PRINCIPAL.read(configuration)
    if "@" not in principal:
        raise ConfigurationError(
            [configuration.fault(NAMENODE_PRINCIPAL.name, "is required with Kerberos, including a realm")]
        )
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
    """Return `principal` for this host, or for another host in the keytab if the address has two names."""
    own = with_host(principal, socket.getfqdn())
    try:
        held = [entry.principal for entry in parse_keytab(keytab.read_bytes())]
    except (OSError, ValueError):
        # the login itself reports the fault
        return own
    fitting = [each for each in held if with_host(principal, each.partition("/")[2].rpartition("@")[0]) == each]
    return own if own in fitting else next(iter(fitting), own)
