"""Keys of Hadoop's that say who a process is at NameNodes and JournalNodes, and who those are."""

from __future__ import annotations

from hadoop_common.config_key import ABSENT, SWITCH, ConfigKey, keys_in, text
from hadoop_rpc.security import PROTECTIONS

NAMENODE_PRINCIPAL = ConfigKey(
    "dfs.namenode.kerberos.principal",
    "",
    text("principal"),
    "Who the NameNodes are, and a standby; _HOST in it is the host of the NameNode's RPC address.",
)
NAMENODE_KEYTAB = ConfigKey(
    "dfs.namenode.keytab.file",
    "",
    text("file"),
    "Keytab of a standby or backup node, and of the stub. Who may not read it runs commands with tickets of kinit.",
)
NAMENODE_PATTERN = ConfigKey(
    "dfs.namenode.kerberos.principal.pattern",
    "*",
    text("pattern"),
    "Which other principals a NameNode may have; each use of it is logged as a warning.",
    release2=ABSENT,
)
JOURNALNODE_PRINCIPAL = ConfigKey(
    "dfs.journalnode.kerberos.principal", "", text("principal"), "Who the JournalNodes are."
)
JOURNALNODE_PATTERN = ConfigKey(
    "dfs.journalnode.kerberos.principal.pattern",
    "",
    text("pattern"),
    "Which other principals a JournalNode may have, as of NameNodes.",
)
RPC_PROTECTION = ConfigKey(
    "hadoop.rpc.protection",
    "authentication",
    PROTECTIONS,
    "What guards RPC with Kerberos: authentication, integrity or privacy, the preferred one first.",
)
FALLBACK_TO_SIMPLE = ConfigKey(
    "ipc.client.fallback-to-simple-auth-allowed",
    "false",
    SWITCH,
    "Whether RPC goes on without security where it is configured for Kerberos and a server is not.",
)
SENDS_USER_NAME = ConfigKey(
    "checkpointer.http.send-user-name",
    "false",
    SWITCH,
    "Whether requests with Kerberos also name our principal as user.name, as Hadoop's own checkpointers do where "
    "hadoop.http.authentication.type is simple, and web servers need not prove who they are. Anybody can do the same "
    "there, and fetch images. Specific to the checkpointer.",
)

LOGIN_KEYS = keys_in(globals())
