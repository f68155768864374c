"""Keys for Kerberos logins to our servers and for access lists."""

from __future__ import annotations

from hadoop_common.config_key import ABSENT, NAMES, SECONDS, SWITCH, ConfigKey, keys_in, text
from hadoop_common.config_key import ACCESS_LIST as _ACL
from hadoop_rpc.policy_keys import POLICY_KEYS

_WEB = "${dfs.web.authentication.kerberos.principal}"

AUTHORIZATION = ConfigKey(
    "hadoop.security.authorization", "false", SWITCH, "Whether the lists of hadoop-policy.xml apply to our RPC servers."
)
AUTH_TO_LOCAL = ConfigKey(
    "hadoop.security.auth_to_local",
    "DEFAULT",
    text("rules"),
    "Rules that map the principals of our servers' clients to short names.",
)
AUTH_TO_LOCAL_MECHANISM = ConfigKey(
    "hadoop.security.auth_to_local.mechanism",
    "hadoop",
    text("mechanism"),
    "Treatment of a name to which no rule applies: hadoop or mit.",
    release2=ABSENT,
)
REQUIRES_ADMIN = ConfigKey(
    "hadoop.security.instrumentation.requires.admin",
    "false",
    SWITCH,
    "Whether /status, /jmx and /metrics of a kerberized server require an administrator; if not, any ticket is enough.",
)
JOURNALNODE_KEYTAB = ConfigKey(
    "dfs.journalnode.keytab.file", "", text("file"), "Keytab of a JournalNode; required with Kerberos."
)
NAMENODE_SPNEGO = ConfigKey(
    "dfs.namenode.kerberos.internal.spnego.principal",
    _WEB,
    text("principal"),
    "Principal of the web server of a standby, a backup node or the stub; _HOST is replaced by the host of the "
    "server's address. Unset: HTTP/_HOST in the realm of the process's principal.",
)
SECONDARY_SPNEGO = ConfigKey(
    "dfs.secondary.namenode.kerberos.internal.spnego.principal",
    _WEB,
    text("principal"),
    "Principal of a secondary's web server; _HOST and an unset value mean the same as in "
    "dfs.namenode.kerberos.internal.spnego.principal.",
)
JOURNALNODE_SPNEGO = ConfigKey(
    "dfs.journalnode.kerberos.internal.spnego.principal",
    _WEB,
    text("principal"),
    "Principal of a JournalNode's web server; _HOST and an unset value mean the same as in "
    "dfs.namenode.kerberos.internal.spnego.principal.",
)
WEB_PRINCIPAL = ConfigKey(
    "dfs.web.authentication.kerberos.principal", "", text("principal"), "Default principal of web servers."
)
WEB_KEYTAB = ConfigKey(
    "dfs.web.authentication.kerberos.keytab",
    "",
    text("file"),
    "Keytab of web servers. Unset: the keytab of the process if it contains HTTP/host, otherwise "
    "hadoop.http.authentication.kerberos.keytab.",
)
HTTP_KEYTAB = ConfigKey(
    "hadoop.http.authentication.kerberos.keytab",
    "",
    text("file"),
    "Keytab of web servers if dfs.web.authentication.kerberos.keytab is unset and the keytab of the process does not "
    "contain HTTP/host.",
)
ENDPOINT_WHITELIST = ConfigKey(
    "hadoop.http.authentication.kerberos.endpoint.whitelist",
    "",
    NAMES,
    "Paths of our kerberized web servers that need no login, such as /metrics; /health/* never needs a login.",
    release2=ABSENT,
)
TOKEN_VALIDITY = ConfigKey(
    "hadoop.http.authentication.token.validity", "36000", SECONDS, "Validity of a web server's login cookie.", least=1
)
SIGNATURE_SECRET = ConfigKey(
    "hadoop.http.authentication.signature.secret.file",
    "",
    text("file"),
    "File with the secret that signs cookies, as in Hadoop 3: servers with the same file accept each other's cookies. "
    "Unset: a "
    "random secret.",
)

CLIENT_ACL = ConfigKey(
    POLICY_KEYS["ClientProtocol"],
    "*",
    _ACL,
    "In hadoop-policy.xml: users of ClientProtocol, at the stub and at a daemon that answers reads. For this and each "
    "of the following keys, KEY.blocked lists users that are refused; the key with .hosts in place of .acl lists "
    "hosts.",
)
NAMENODE_ACL = ConfigKey(POLICY_KEYS["NamenodeProtocol"], "*", _ACL, "Users that may act as the stub's checkpointer.")
HA_SERVICE_ACL = ConfigKey(
    POLICY_KEYS["HAServiceProtocol"], "*", _ACL, "Users that may read and change the stub's HA state."
)
QJOURNAL_ACL = ConfigKey(POLICY_KEYS["QJournalProtocol"], "*", _ACL, "NameNodes that may use a JournalNode.")
INTERQJOURNAL_ACL = ConfigKey(
    POLICY_KEYS["InterQJournalProtocol"], "*", _ACL, "JournalNodes that may use a JournalNode.", release2=ABSENT
)
ZKFC_ACL = ConfigKey(POLICY_KEYS["ZKFCProtocol"], "*", _ACL, "Users that may ask a failover controller for a failover.")
DEFAULT_ACL = ConfigKey("security.service.authorization.default.acl", "*", _ACL, "Default of the lists of protocols.")

SECURITY_KEYS = keys_in(globals())
