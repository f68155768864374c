"""Hadoop's configuration keys for the identity of this process, NameNodes and JournalNodes."""

from __future__ import annotations

from hadoop_common.config_key import ABSENT, SWITCH, ConfigKey, keys_in, text
from hadoop_rpc.security import PROTECTIONS

NAMENODE_PRINCIPAL = ConfigKey(
    "dfs.namenode.kerberos.principal",
    "",
    text("principal"),
    "Principal of the NameNodes and of a standby; _HOST stands for the host of the NameNode's RPC address.",
)
NAMENODE_KEYTAB = ConfigKey(
    "dfs.namenode.keytab.file",
    "",
    text("file"),
    "Keytab of a standby or backup node, and of the stub. Commands of other users use tickets of kinit.",
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
    "Other principals that a JournalNode may have, as for NameNodes.",
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
    "Whether RPC continues without security if a server has none although Kerberos is configured.",
)
SENDS_USER_NAME = ConfigKey(
    "checkpointer.http.send-user-name",
    "false",
    SWITCH,
    "Whether requests with Kerberos also carry our principal as user.name, as Hadoop's own checkpointers do if "
    "hadoop.http.authentication.type is simple, without authentication of the web servers. Anybody can do the same "
    "there and fetch images. Specific to the checkpointer.",
)

LOGIN_KEYS = keys_in(globals())
