"""Hadoop's configuration keys that a failover controller honours."""

from __future__ import annotations

from hadoop_common.config_key import ABSENT, COUNT, MILLISECONDS, SECONDS, SWITCH, ConfigKey, keys_in, text

_HOST_PORT = text("host:port")

AUTOMATIC_FAILOVER = ConfigKey(
    "dfs.ha.automatic-failover.enabled",
    "false",
    SWITCH,
    "Whether a failover controller says which NameNode is active; with .NAMESERVICE appended: of that one.",
)
ZKFC_PORT = ConfigKey(
    "dfs.ha.zkfc.port",
    "8019",
    COUNT,
    "Where controllers and haadmin call a controller; with .NAMESERVICE.NAMENODE appended: that of this NameNode.",
    least=0,
)
SERVICERPC_BIND_HOST = ConfigKey(
    "dfs.namenode.servicerpc-bind-host", "", text("host"), "What a controller's RPC server binds to."
)
LIFELINE_ADDRESS = ConfigKey(
    "dfs.namenode.lifeline.rpc-address",
    "",
    _HOST_PORT,
    "Where a controller asks for its NameNode's health; unset: where it asks for all else.",
    release2=ABSENT,
)
FENCING_METHODS = ConfigKey(
    "dfs.ha.fencing.methods",
    "",
    text("lines"),
    "How a NameNode is fenced that cannot be asked to become a standby, a method a line: shell(COMMAND), "
    "sshfence([USER][:PORT]).",
    reason="powershell and the names of Java classes",
)
FENCING_SSH_KEYS = ConfigKey(
    "dfs.ha.fencing.ssh.private-key-files",
    "",
    text("files"),
    "What sshfence logs in with, several separated by commas.",
)
FENCING_SSH_TIMEOUT = ConfigKey(
    "dfs.ha.fencing.ssh.connect-timeout",
    "30000",
    MILLISECONDS,
    "How long sshfence waits for a connection.",
    least=0.001,
)
STACKS_TIMEOUT = ConfigKey(
    "dfs.ha.zkfc.nn.http.timeout.ms",
    "20000",
    MILLISECONDS,
    "How long the stacks of a NameNode that is not well any more are waited for, which go to the log; 0: not at all.",
    release2=ABSENT,
    least=0,
)
PARENT_ZNODE = ConfigKey(
    "ha.zookeeper.parent-znode", "/hadoop-ha", text("znode"), "Below it lies a znode for each nameservice."
)
OP_RETRIES = ConfigKey(
    "ha.failover-controller.active-standby-elector.zk.op.retries",
    "3",
    COUNT,
    "How often a request to ZooKeeper is repeated whose answer was lost.",
    least=0,
)
NEW_ACTIVE_TIMEOUT = ConfigKey(
    "ha.failover-controller.new-active.rpc-timeout.ms",
    "60000",
    MILLISECONDS,
    "How long a NameNode is waited for that is to become active; then it is asked how far it is.",
    least=0.001,
)
GRACEFUL_FENCE_TIMEOUT = ConfigKey(
    "ha.failover-controller.graceful-fence.rpc-timeout.ms",
    "5000",
    MILLISECONDS,
    "How long one is waited for that is to become a standby.",
    least=0.001,
)
GRACEFUL_FENCE_RETRIES = ConfigKey(
    "ha.failover-controller.graceful-fence.connection.retries",
    "1",
    COUNT,
    "How often a connection to it is tried again.",
    least=0,
)
CLI_TIMEOUT = ConfigKey(
    "ha.failover-controller.cli-check.rpc-timeout.ms",
    "20000",
    MILLISECONDS,
    "How long the commands `zkfc status` and `zkfc check` wait for each answer.",
    least=0.001,
)
CHECK_INTERVAL = ConfigKey(
    "ha.health-monitor.check-interval.ms", "1000", MILLISECONDS, "How often a NameNode is asked how it is.", least=0.001
)
CONNECT_RETRY_INTERVAL = ConfigKey(
    "ha.health-monitor.connect-retry-interval.ms",
    "1000",
    MILLISECONDS,
    "The same of one that was never reached.",
    least=0.001,
)
SLEEP_AFTER_DISCONNECT = ConfigKey(
    "ha.health-monitor.sleep-after-disconnect.ms",
    "1000",
    MILLISECONDS,
    "The same of one that does not answer any more.",
    least=0.001,
)
HEALTH_TIMEOUT = ConfigKey(
    "ha.health-monitor.rpc-timeout.ms",
    "45000",
    MILLISECONDS,
    "After so long without an answer a NameNode counts as hung, and another one takes over.",
    least=0.001,
)
HEALTH_RETRIES = ConfigKey(
    "ha.health-monitor.rpc.connect.max.retries",
    "1",
    COUNT,
    "How often a connection for that is tried again at once.",
    release2=ABSENT,
    least=0,
)
FENCING_TIMEOUT = ConfigKey(
    "checkpointer.zkfc.fencing.timeout",
    "120s",
    SECONDS,
    "How long one fencing method may take; then its processes are killed, and it counts as failed; a key of ours.",
    least=0.001,
)
TRANSITION_LIMIT = ConfigKey(
    "checkpointer.zkfc.transition.limit",
    "600s",
    SECONDS,
    "How long in all a NameNode may take to become active before another one gets its turn; a key of ours.",
    least=0.001,
)
ZKFC_HTTP_ADDRESS = ConfigKey(
    "checkpointer.zkfc.http-address",
    "0.0.0.0:8018",
    _HOST_PORT,
    "Where a controller serves /status, /health and /metrics; with .NAMESERVICE.NAMENODE appended: that of this "
    "NameNode; a key of ours.",
)
ZKFC_HTTPS_ADDRESS = ConfigKey(
    "checkpointer.zkfc.https-address", "0.0.0.0:8017", _HOST_PORT, "The same over HTTPS; a key of ours."
)

FAILOVER_KEYS = keys_in(globals())
