"""Kerberos settings of a process: Hadoop's keys, and the login of commands that act as a NameNode."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from hadoop_common.config_key import ABSENT, SWITCH, ConfigKey, keys_in, text
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_rpc import user
from hadoop_rpc.kerberos_login import KerberosLogin
from hadoop_rpc.keytab import parse_keytab
from hadoop_rpc.principals import ServerPrincipal, with_host
from hadoop_rpc.security import PROTECTIONS

NAMENODE_PRINCIPAL = ConfigKey(
    "dfs.namenode.kerberos.principal",
    "",
    text("principal"),
    "Principal of the NameNodes and of a standby; _HOST is replaced by the host of the NameNode's RPC address.",
)
NAMENODE_KEYTAB = ConfigKey(
    "dfs.namenode.keytab.file",
    "",
    text("file"),
    "Keytab of a standby or backup node, and of the stub. Commands of other users use the tickets that these users "
    "obtained with kinit.",
)
NAMENODE_PATTERN = ConfigKey(
    "dfs.namenode.kerberos.principal.pattern",
    "*",
    text("pattern"),
    "Other principals that a NameNode may have; each match is logged as a warning.",
    release2=ABSENT,
)
JOURNALNODE_PRINCIPAL = ConfigKey(
    "dfs.journalnode.kerberos.principal", "", text("principal"), "Principal of the JournalNodes."
)
JOURNALNODE_PATTERN = ConfigKey(
    "dfs.journalnode.kerberos.principal.pattern",
    "",
    text("pattern"),
    "Other principals that a JournalNode may have; each match is logged as a warning.",
)
RPC_PROTECTION = ConfigKey(
    "hadoop.rpc.protection",
    "authentication",
    PROTECTIONS,
    "Protection of RPC with Kerberos: authentication, integrity or privacy, in order of preference.",
)
FALLBACK_TO_SIMPLE = ConfigKey(
    "ipc.client.fallback-to-simple-auth-allowed",
    "false",
    SWITCH,
    "Whether RPC falls back to no security if Kerberos is configured but the server does not use Kerberos.",
)
SENDS_USER_NAME = ConfigKey(
    "checkpointer.http.send-user-name",
    "false",
    SWITCH,
    "Whether requests with Kerberos also contain our principal as user.name. Hadoop's own checkpointers do so if "
    "hadoop.http.authentication.type is simple. The web servers then do not authenticate callers: every caller can "
    "send a name and fetch images. Specific to the checkpointer.",
)

BINDS_ANY_ADDRESS = ConfigKey(
    "ipc.client.bind.wildcard.addr",
    "false",
    SWITCH,
    "Whether RPC connections with Kerberos may come from any address of this host. Otherwise they come from the "
    "address of our principal's host, because a JournalNode compares that host with the name of the caller's address.",
    release2=ABSENT,
)

LOGIN_KEYS = keys_in(globals())


def namenode_login(configuration: Configuration) -> KerberosLogin | None:
    """Return the login of a command that reads JournalNodes as a NameNode; None if the cluster does not use Kerberos.

    The login uses a NameNode's principal from the keytab. If this user cannot read the keytab, the login uses the
    user's tickets.

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
        binds_address=not BINDS_ANY_ADDRESS.read(configuration),
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
