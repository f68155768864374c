"""Keys of Hadoop's that say how our own servers take logins by Kerberos, and who may do what there."""

from __future__ import annotations

from hadoop_common.config_key import ABSENT, NAMES, SECONDS, SWITCH, ConfigKey, keys_in, text
from hadoop_rpc.policy_keys import POLICY_KEYS

_WEB = "${dfs.web.authentication.kerberos.principal}"

AUTHORIZATION = ConfigKey(
    "hadoop.security.authorization", "false", SWITCH, "Whether the lists of hadoop-policy.xml count at our RPC servers."
)
AUTH_TO_LOCAL = ConfigKey(
    "hadoop.security.auth_to_local", "DEFAULT", text("rules"), "The short names of those that log in at our servers."
)
AUTH_TO_LOCAL_MECHANISM = ConfigKey(
    "hadoop.security.auth_to_local.mechanism",
    "hadoop",
    text("mechanism"),
    "hadoop or mit: what becomes of a name that no rule shortens.",
    release2=ABSENT,
)
REQUIRES_ADMIN = ConfigKey(
    "hadoop.security.instrumentation.requires.admin",
    "false",
    SWITCH,
    "Whether /status, /jmx and /metrics of a kerberized server are for administrators, else for all who have a ticket.",
)
JOURNALNODE_KEYTAB = ConfigKey(
    "dfs.journalnode.keytab.file", "", text("file"), "Keytab of a JournalNode; needed with Kerberos."
)
NAMENODE_SPNEGO = ConfigKey(
    "dfs.namenode.kerberos.internal.spnego.principal",
    _WEB,
    text("principal"),
    "Principal of the web server of a standby, a backup node or the stub; _HOST is the host of its address. Unset: "
    "HTTP/_HOST in the realm of its own principal.",
)
SECONDARY_SPNEGO = ConfigKey(
    "dfs.secondary.namenode.kerberos.internal.spnego.principal", _WEB, text("principal"), "The same of a secondary."
)
JOURNALNODE_SPNEGO = ConfigKey(
    "dfs.journalnode.kerberos.internal.spnego.principal", _WEB, text("principal"), "The same of a JournalNode."
)
WEB_PRINCIPAL = ConfigKey(
    "dfs.web.authentication.kerberos.principal", "", text("principal"), "Principal of those for which none is set."
)
WEB_KEYTAB = ConfigKey(
    "dfs.web.authentication.kerberos.keytab",
    "",
    text("file"),
    "Keytab of web servers. Unset: the keytab of the process, which then has to hold HTTP/host too.",
)
ENDPOINT_WHITELIST = ConfigKey(
    "hadoop.http.authentication.kerberos.endpoint.whitelist",
    "",
    NAMES,
    "Paths of our kerberized web servers that everybody may ask for, as /metrics; /health/* always is one.",
    release2=ABSENT,
)
TOKEN_VALIDITY = ConfigKey(
    "hadoop.http.authentication.token.validity",
    "36000",
    SECONDS,
    "How long the cookie of a login at a web server counts.",
    least=1,
)
SIGNATURE_SECRET = ConfigKey(
    "hadoop.http.authentication.signature.secret.file",
    "",
    text("file"),
    "What signs cookies, as Hadoop 3 does: servers with the same file take each other's. Unset: something random.",
)

_ACL = text("users groups")
CLIENT_ACL = ConfigKey(
    POLICY_KEYS["ClientProtocol"],
    "*",
    _ACL,
    "In hadoop-policy.xml: who may use the stub as a client. For this key and those that follow, .blocked behind it "
    "lists who may not, and .hosts in place of .acl from where.",
)
NAMENODE_ACL = ConfigKey(POLICY_KEYS["NamenodeProtocol"], "*", _ACL, "Who may use it as a checkpointer.")
HA_SERVICE_ACL = ConfigKey(POLICY_KEYS["HAServiceProtocol"], "*", _ACL, "Who may ask for its state and change it.")
QJOURNAL_ACL = ConfigKey(POLICY_KEYS["QJournalProtocol"], "*", _ACL, "Which NameNodes may use a JournalNode.")
INTERQJOURNAL_ACL = ConfigKey(
    POLICY_KEYS["InterQJournalProtocol"], "*", _ACL, "Which JournalNodes may.", release2=ABSENT
)
ZKFC_ACL = ConfigKey(POLICY_KEYS["ZKFCProtocol"], "*", _ACL, "Who may ask a failover controller for a failover.")
DEFAULT_ACL = ConfigKey(
    "security.service.authorization.default.acl", "*", _ACL, "The same for protocols whose own key is not set."
)

SECURITY_KEYS = keys_in(globals())
