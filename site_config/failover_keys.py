"""Configuration keys of a failover controller."""

from __future__ import annotations

from hadoop_common.config_key import ABSENT, COUNT, MILLISECONDS, SECONDS, SWITCH, ConfigKey, keys_in, text

_HOST_PORT = text("host:port")

AUTOMATIC_FAILOVER = ConfigKey(
    "dfs.ha.automatic-failover.enabled",
    "false",
    SWITCH,
    "Whether failover controllers elect the active NameNode; with .NAMESERVICE appended: in that nameservice.",
)
ZKFC_PORT = ConfigKey(
    "dfs.ha.zkfc.port",
    "8019",
    COUNT,
    "RPC port of failover controllers; with .NAMESERVICE.NAMENODE appended: port of that NameNode's controller.",
    least=0,
)
SERVICERPC_BIND_HOST = ConfigKey(
    "dfs.namenode.servicerpc-bind-host", "", text("host"), "Bind address of a controller's RPC server."
)
LIFELINE_ADDRESS = ConfigKey(
    "dfs.namenode.lifeline.rpc-address",
    "",
    _HOST_PORT,
    "A NameNode's RPC server for health checks; unset: the server for other calls.",
    release2=ABSENT,
)
FENCING_METHODS = ConfigKey(
    "dfs.ha.fencing.methods",
    "",
    text("lines"),
    "Methods that fence a NameNode that does not become a standby on request, one per line: shell(COMMAND), "
    "sshfence([USER][:PORT]).",
    reason="powershell and the names of Java classes",
)
FENCING_SSH_KEYS = ConfigKey(
    "dfs.ha.fencing.ssh.private-key-files", "", text("files"), "Private keys for sshfence, separated by commas."
)
FENCING_SSH_TIMEOUT = ConfigKey(
    "dfs.ha.fencing.ssh.connect-timeout", "30000", MILLISECONDS, "Connection timeout of sshfence.", least=0.001
)
STACKS_TIMEOUT = ConfigKey(
    "dfs.ha.zkfc.nn.http.timeout.ms",
    "20000",
    MILLISECONDS,
    "Time limit for fetching an unhealthy NameNode's thread stacks for the log; 0: the stacks are not fetched.",
    release2=ABSENT,
    least=0,
)
PARENT_ZNODE = ConfigKey(
    "ha.zookeeper.parent-znode", "/hadoop-ha", text("znode"), "Parent of the nameservices' znodes."
)
OP_RETRIES = ConfigKey(
    "ha.failover-controller.active-standby-elector.zk.op.retries",
    "3",
    COUNT,
    "Number of retries of a ZooKeeper request after its response was lost.",
    least=0,
)
NEW_ACTIVE_TIMEOUT = ConfigKey(
    "ha.failover-controller.new-active.rpc-timeout.ms",
    "60000",
    MILLISECONDS,
    "Time limit of the call that makes a NameNode active; after a timeout, the controller queries the NameNode's "
    "state.",
    least=0.001,
)
GRACEFUL_FENCE_TIMEOUT = ConfigKey(
    "ha.failover-controller.graceful-fence.rpc-timeout.ms",
    "5000",
    MILLISECONDS,
    "Time limit of the call that makes a NameNode a standby.",
    least=0.001,
)
GRACEFUL_FENCE_RETRIES = ConfigKey(
    "ha.failover-controller.graceful-fence.connection.retries",
    "1",
    COUNT,
    "Number of connection retries of the call that makes a NameNode a standby.",
    least=0,
)
CLI_TIMEOUT = ConfigKey(
    "ha.failover-controller.cli-check.rpc-timeout.ms",
    "20000",
    MILLISECONDS,
    "Time limit of each call of the commands `zkfc status` and `zkfc check`.",
    least=0.001,
)
CHECK_INTERVAL = ConfigKey(
    "ha.health-monitor.check-interval.ms", "1000", MILLISECONDS, "Interval of health checks.", least=0.001
)
CONNECT_RETRY_INTERVAL = ConfigKey(
    "ha.health-monitor.connect-retry-interval.ms",
    "1000",
    MILLISECONDS,
    "Interval between connection attempts to a NameNode that has never answered.",
    least=0.001,
)
SLEEP_AFTER_DISCONNECT = ConfigKey(
    "ha.health-monitor.sleep-after-disconnect.ms",
    "1000",
    MILLISECONDS,
    "Pause of the health checks after a NameNode has stopped answering.",
    least=0.001,
)
HEALTH_TIMEOUT = ConfigKey(
    "ha.health-monitor.rpc-timeout.ms",
    "45000",
    MILLISECONDS,
    "Time limit of a health check; after this time, the NameNode is considered hung, and another NameNode becomes "
    "active.",
    least=0.001,
)
HEALTH_RETRIES = ConfigKey(
    "ha.health-monitor.rpc.connect.max.retries",
    "1",
    COUNT,
    "Number of immediate connection retries of a health check.",
    release2=ABSENT,
    least=0,
)
FENCING_TIMEOUT = ConfigKey(
    "checkpointer.zkfc.fencing.timeout",
    "120s",
    SECONDS,
    "Time limit of one fencing method; after a timeout, its processes are killed and the method fails. "
    "Specific to the checkpointer.",
    least=0.001,
)
TRANSITION_LIMIT = ConfigKey(
    "checkpointer.zkfc.transition.limit",
    "600s",
    SECONDS,
    "Time limit of a NameNode's whole transition to active, after which another NameNode may become active. "
    "Specific to the checkpointer.",
    least=0.001,
)
ZKFC_HTTP_ADDRESS = ConfigKey(
    "checkpointer.zkfc.http-address",
    "0.0.0.0:8018",
    _HOST_PORT,
    "HTTP address of controllers for /status, /health and /metrics; with .NAMESERVICE.NAMENODE appended: address of "
    "that NameNode's controller. Specific to the checkpointer.",
)
ZKFC_HTTPS_ADDRESS = ConfigKey(
    "checkpointer.zkfc.https-address",
    "0.0.0.0:8017",
    _HOST_PORT,
    "HTTPS address of controllers. Specific to the checkpointer.",
)

FAILOVER_KEYS = keys_in(globals())
