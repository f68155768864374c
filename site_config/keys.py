"""Declarations of the supported configuration keys, which define readers, defaults and documentation.

`site_config.catalogue` adds the unsupported keys of Hadoop's checkpointing, with the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hadoop_common.config_key import (
    ABSENT,
    ACCESS_LIST,
    BYTES,
    COUNT,
    DIRECTORIES,
    FACTOR,
    MILLISECONDS_OR_NONE,
    NAMES,
    NETWORKS,
    RATE,
    SECONDS,
    SWITCH,
    TRANSACTIONS,
    ConfigKey,
    keys_in,
    local_file,
    text,
)
from hadoop_common.port_limits import PORT_KEYS
from hadoop_common.tls.settings import TLS_KEYS
from hadoop_rpc.login_settings import LOGIN_KEYS
from hadoop_rpc.user import USER_KEYS
from journal.bookkeeper.settings import READER_KEYS as BOOKKEEPER_KEYS
from journal.quorum.settings import READER_KEYS
from site_config.archive_settings import ARCHIVE_KEYS
from site_config.failover_keys import FAILOVER_KEYS
from site_config.journal_node_keys import JOURNALNODE_KEYS
from site_config.leadership import LEADER_KEYS
from site_config.merge_keys import MERGE_KEYS
from site_config.security_keys import SECURITY_KEYS

CHECKPOINT_PERIOD = ConfigKey(
    "dfs.namenode.checkpoint.period", "3600s", SECONDS, "Time between checkpoints.", least=0.001
)
CHECKPOINT_TXNS = ConfigKey(
    "dfs.namenode.checkpoint.txns",
    "1000000",
    TRANSACTIONS,
    "Number of transactions since the last image that triggers a checkpoint before the period ends.",
    least=1,
)
CHECKPOINT_CHECK_PERIOD = ConfigKey(
    "dfs.namenode.checkpoint.check.period",
    "60s",
    SECONDS,
    "Interval at which the daemon checks whether a checkpoint is due; at most the period itself.",
    least=0.001,
)
CHECKPOINT_CHECK_QUIET_MULTIPLIER = ConfigKey(
    "dfs.namenode.checkpoint.check.quiet-multiplier",
    "1.5",
    FACTOR,
    "Number of checkpoint periods for which a node does not offer images after a refused upload.",
    release2=ABSENT,
    least=0,
)
CHECKPOINT_MAX_RETRIES = ConfigKey(
    "dfs.namenode.checkpoint.max-retries",
    "3",
    COUNT,
    "Number of consecutive failed merges that the secondary tolerates; one more failure stops the secondary.",
    least=0,
)
CHECKPOINT_DIR = ConfigKey(
    "dfs.namenode.checkpoint.dir",
    "file://${hadoop.tmp.dir}/dfs/namesecondary",
    DIRECTORIES,
    "The secondary's directories for images.",
)
CHECKPOINT_EDITS_DIR = ConfigKey(
    "dfs.namenode.checkpoint.edits.dir",
    "${dfs.namenode.checkpoint.dir}",
    DIRECTORIES,
    "The secondary's directories for fetched edits.",
)
NAME_DIR = ConfigKey(
    "dfs.namenode.name.dir",
    "file://${hadoop.tmp.dir}/dfs/name",
    DIRECTORIES,
    "Directories for the images of a standby or a backup node.",
)
NAME_DIR_RESTORE = ConfigKey(
    "dfs.namenode.name.dir.restore",
    "false",
    SWITCH,
    "Whether failed directories are retried at each poll. A secondary retries them unless this key is set to false.",
)
SHARED_EDITS_DIR = ConfigKey(
    "dfs.namenode.shared.edits.dir",
    "",
    text("URI"),
    "Edits that the active NameNode writes and the standby reads: a directory (file: URI or path), or a journal "
    "such as qjournal://host:port;host:port;host:port/id.",
    reason="in the standby role, a URI of an unknown kind of journal, such as nfs:",
)
STORAGE_DIR_PERM = ConfigKey(
    "dfs.namenode.storage.dir.perm",
    "700",
    text("mode"),
    "Mode of directories that the checkpointer creates.",
    release2=ABSENT,
)
NUM_CHECKPOINTS_RETAINED = ConfigKey(
    "dfs.namenode.num.checkpoints.retained", "2", COUNT, "Number of images to keep.", least=1
)
NUM_EXTRA_EDITS_RETAINED = ConfigKey(
    "dfs.namenode.num.extra.edits.retained",
    "1000000",
    TRANSACTIONS,
    "Number of transactions to keep before the oldest kept image.",
    least=0,
)
MAX_EXTRA_EDITS_SEGMENTS_RETAINED = ConfigKey(
    "dfs.namenode.max.extra.edits.segments.retained",
    "10000",
    COUNT,
    "Maximum number of segments with these extra transactions.",
    least=0,
)
RESOURCE_DU_RESERVED = ConfigKey(
    "dfs.namenode.resource.du.reserved",
    "104857600",
    BYTES,
    "Free space that `checkpointer check` requires on each disk, in addition to space for two images.",
)
HA_STANDBY_CHECKPOINTS = ConfigKey("dfs.ha.standby.checkpoints", "true", SWITCH, "Whether a standby makes checkpoints.")
NAMESERVICES = ConfigKey("dfs.nameservices", "", NAMES, "Nameservices of the cluster.")
INTERNAL_NAMESERVICES = ConfigKey(
    "dfs.internal.nameservices", "", NAMES, "The nameservices that belong to this cluster."
)
NAMESERVICE_ID = ConfigKey(
    "dfs.nameservice.id",
    "",
    text("name"),
    "This node's nameservice if there are several; unset: the nameservice with an address of this host.",
)
HA_NAMENODES = ConfigKey(
    "dfs.ha.namenodes", "", NAMES, "With .NAMESERVICE appended: ids of that nameservice's NameNodes."
)
HA_NAMENODE_ID = ConfigKey(
    "dfs.ha.namenode.id", "", text("name"), "This node's id among the NameNodes; unset if this node is not one of them."
)
DEFAULT_FS = ConfigKey(
    "fs.defaultFS", "file:///", text("URI"), "The NameNode's address if its other address keys are not set."
)
RPC_ADDRESS = ConfigKey(
    "dfs.namenode.rpc-address",
    "",
    text("host:port"),
    "A NameNode's RPC server; its host replaces a wildcard HTTP address.",
)
RPC_BIND_HOST = ConfigKey(
    "dfs.namenode.rpc-bind-host",
    "",
    text("host"),
    "Bind address of a NameNode's RPC server, and of a standby that answers reads in its place.",
)
HTTP_ADDRESS = ConfigKey(
    "dfs.namenode.http-address",
    "0.0.0.0:9870",
    text("host:port"),
    "A NameNode's HTTP server.",
    release2="0.0.0.0:50070",
)
HTTPS_ADDRESS = ConfigKey(
    "dfs.namenode.https-address",
    "0.0.0.0:9871",
    text("host:port"),
    "A NameNode's HTTPS server, and the address of a standby's own HTTPS server.",
    release2="0.0.0.0:50470",
)
HTTPS_BIND_HOST = ConfigKey(
    "dfs.namenode.https-bind-host", "", text("host"), "Bind address of the standby's own HTTPS server."
)
SECONDARY_HTTPS_ADDRESS = ConfigKey(
    "dfs.namenode.secondary.https-address",
    "0.0.0.0:9869",
    text("host:port"),
    "The HTTPS server of a secondary, or of a standby that is not one of the configured NameNodes.",
    release2="0.0.0.0:50091",
)
HTTP_BIND_HOST = ConfigKey(
    "dfs.namenode.http-bind-host", "", text("host"), "Bind address of the standby's own HTTP server."
)
SECONDARY_HTTP_ADDRESS = ConfigKey(
    "dfs.namenode.secondary.http-address",
    "0.0.0.0:9868",
    text("host:port"),
    "The HTTP server of a secondary, or of a standby that is not one of the configured NameNodes.",
    release2="0.0.0.0:50090",
)
BACKUP_HTTP_ADDRESS = ConfigKey(
    "dfs.namenode.backup.http-address",
    "0.0.0.0:50105",
    text("host:port"),
    "A backup node's web server, with HTTPS if dfs.http.policy is HTTPS_ONLY.",
)
BACKUP_ADDRESS = ConfigKey(
    "dfs.namenode.backup.address",
    "0.0.0.0:50100",
    text("host:port"),
    "A backup node's RPC server, which receives the NameNode's edits.",
)
SERVICERPC_ADDRESS = ConfigKey(
    "dfs.namenode.servicerpc-address",
    "",
    text("host:port"),
    "A NameNode's RPC server for other servers; if set, it is used instead of dfs.namenode.rpc-address.",
)
RPC_TIMEOUT = ConfigKey(
    "ipc.client.rpc-timeout.ms",
    "120000",
    MILLISECONDS_OR_NONE,
    "Time limit of a call to a NameNode; 0 or less: unlimited, but 120 s for the calls of a standby.",
    release2="0",
)
HA_TAIL_EDITS_PERIOD = ConfigKey(
    "dfs.ha.tail-edits.period",
    "60s",
    SECONDS,
    "Interval at which the standby checks for new edits, at least 0.25 s; an interval below 1 s grows while no edits "
    "arrive.",
    least=0,
)
HA_TAIL_EDITS_BACKOFF = ConfigKey(
    "dfs.ha.tail-edits.period.backoff-max",
    "0",
    SECONDS,
    "Longest interval at which the standby checks for new edits; the interval doubles while no edits arrive. 0: the "
    "interval does not grow.",
    release2=ABSENT,
    least=0,
)
HA_TAIL_EDITS_NAMENODE_RETRIES = ConfigKey(
    "dfs.ha.tail-edits.namenode-retries",
    "3",
    COUNT,
    "Number of roll requests from the standby to each NameNode.",
    release2=ABSENT,
    least=1,
)
HA_LOG_ROLL_PERIOD = ConfigKey(
    "dfs.ha.log-roll.period",
    "120s",
    SECONDS,
    "Age of an open segment at which the standby requests a roll; 0 or less: never.",
)
UPLOAD_PARALLELISM = ConfigKey(
    "checkpointer.upload.parallelism",
    "4",
    COUNT,
    "Number of parallel uploads of an image. Specific to the checkpointer.",
    least=1,
)
STANDBY_REBOOTSTRAP = ConfigKey(
    "checkpointer.standby.rebootstrap",
    "true",
    SWITCH,
    "Whether a standby fetches the active NameNode's newest image if edits before that image are missing or damaged. "
    "Specific to the checkpointer.",
)
STANDBY_LAG_ALARM = ConfigKey(
    "checkpointer.standby.lag-alarm",
    "300s",
    SECONDS,
    "Time without progress after which a standby's pending edits raise an alarm; 0: no alarm. Specific to the "
    "checkpointer.",
    least=0,
)
NAMESPACE_SERVE = ConfigKey(
    "checkpointer.namespace.serve",
    "false",
    SWITCH,
    "Whether a standby or a backup node answers reads of the namespace from its memory, over read-only WebHDFS and, "
    "at checkpointer.namespace.rpc-address, over ClientProtocol. Specific to the checkpointer.",
)
NAMESPACE_SUMS = ConfigKey(
    "checkpointer.namespace.sums",
    "false",
    SWITCH,
    "Whether a daemon that answers reads keeps the sums of every directory in memory, so that counts do not walk "
    "subtrees. The sums need 40 bytes per directory, and 32 bytes per inode that edits have changed. Specific to the "
    "checkpointer.",
)
NAMESPACE_RPC_ADDRESS = ConfigKey(
    "checkpointer.namespace.rpc-address",
    "",
    NAMES,
    "Addresses (host:port) at which reads are answered over ClientProtocol, for clients that accept an older state; "
    "unset: no reads over RPC. A standby that runs in place of a NameNode answers, at that NameNode's "
    "dfs.namenode.rpc-address, only clients that send a state id, as an observer does. Specific to the checkpointer.",
)
PERMISSIONS = ConfigKey(
    "dfs.permissions.enabled", "true", SWITCH, "Whether permissions are checked for reads that a daemon answers."
)
GROUPS_CACHE = ConfigKey(
    "hadoop.security.groups.cache.secs",
    "300",
    SECONDS,
    "Time for which the groups of a user are cached, in a daemon that answers reads.",
    least=0,
)
SUPERGROUP = ConfigKey(
    "dfs.permissions.superusergroup", "supergroup", text("group"), "Group whose members may read everything."
)
IMAGE_TRANSFER_BOOTSTRAP_STANDBY_BANDWIDTH_PER_SEC = ConfigKey(
    "dfs.image.transfer-bootstrap-standby.bandwidthPerSec",
    "0",
    RATE,
    "Bandwidth limit of a standby's downloads of images; 0 or less: unlimited.",
    release2=ABSENT,
)
LAKE_DIR = ConfigKey(
    "checkpointer.lake.dir",
    "",
    text("directory or URI"),
    "The lake: Delta tables to which each new image and its edits are appended; unset: no lake. "
    "Specific to the checkpointer.",
)
LAKE_IMAGES_RETAINED = ConfigKey(
    "checkpointer.lake.images.retained",
    "0",
    COUNT,
    "Number of this cluster's images to keep in the lake; 0: all. Specific to the checkpointer.",
    least=0,
)
LAKE_SPARK_MASTER = ConfigKey(
    "checkpointer.lake.spark.master",
    "local[2]",
    text("URL"),
    "Spark's master for the lake. Specific to the checkpointer.",
)
LAKE_SPARK_DRIVER_MEMORY = ConfigKey(
    "checkpointer.lake.spark.driver-memory",
    "1g",
    text("bytes"),
    "Heap of Spark's driver for the lake. Specific to the checkpointer.",
)
REPORT_DAILY = ConfigKey(
    "checkpointer.report.daily",
    "false",
    SWITCH,
    "Whether the daemon makes a report about the first image of each day (UTC). Specific to the checkpointer.",
)
REPORT_DIR = ConfigKey(
    "checkpointer.report.dir",
    "",
    local_file("directory"),
    "Local directory of the daily reports; unset: `reports` in the first storage directory. Specific to the "
    "checkpointer.",
)
REPORTS_RETAINED = ConfigKey(
    "checkpointer.report.retained",
    "30",
    COUNT,
    "Number of daily reports to keep. Specific to the checkpointer.",
    least=1,
)
REPORT_PATHS = ConfigKey(
    "checkpointer.report.paths",
    "",
    local_file("file"),
    "TOML file of path sets and tables for the daily reports. Specific to the checkpointer.",
)
REPORT_MEMORY = ConfigKey(
    "checkpointer.report.memory",
    "2g",
    BYTES,
    "Memory limit of each process of a daily report; half of it is Java's heap. Specific to the checkpointer.",
    least=1 << 30,
)
ACCESS_HOSTS = ConfigKey(
    "checkpointer.access.hosts",
    "",
    NAMES,
    "Hosts, addresses and networks (such as 10.0.0.0/8) with access to our servers, in addition to loopback and the "
    "hosts that the configuration names; * means any host. They may call a JournalNode, transfer images and segments, "
    "and stream edits to a backup node. Specific to the checkpointer.",
)
ACCESS_USERS = ConfigKey(
    "checkpointer.access.users",
    "",
    NAMES,
    "Users that may change a journal, in addition to hdfs and the process's user; * means any user. "
    "Specific to the checkpointer.",
)
IMAGE_TRANSFER_TIMEOUT = ConfigKey(
    "dfs.image.transfer.timeout",
    "60000",
    MILLISECONDS_OR_NONE,
    "Time limit for connecting and for each read and write; 0 or less: unlimited.",
)
IMAGE_TRANSFER_BANDWIDTH_PER_SEC = ConfigKey(
    "dfs.image.transfer.bandwidthPerSec",
    "52428800",
    RATE,
    "Bandwidth limit of transfers; 0 or less: unlimited.",
    release2="0",
)
IMAGE_TRANSFER_CHUNKSIZE = ConfigKey(
    "dfs.image.transfer.chunksize", "65536", BYTES, "Size of the chunks of an upload.", least=1
)
CONTROL_HOSTS = ConfigKey(
    "checkpointer.http.control-hosts",
    "127.0.0.0/8,::1",
    NETWORKS,
    "Networks that may request changes by HTTP POST, in addition to this host under its own address. Specific to the "
    "checkpointer.",
)
SHADOW = ConfigKey(
    "checkpointer.shadow",
    "false",
    SWITCH,
    "Whether a secondary or a standby runs in shadow mode, in which it compares the NameNodes' images with its own, "
    "but neither uploads images nor requests rolls. Specific to the checkpointer.",
)
CONSOLE_PEERS = ConfigKey(
    "checkpointer.console.peers",
    "",
    NAMES,
    "Base URLs (http://host:port) of daemons that the console's cluster page shows in addition to the nodes in the "
    "configuration. Specific to the checkpointer.",
)
STOP_TIMEOUT = ConfigKey(
    "checkpointer.stop-timeout",
    "240s",
    SECONDS,
    "Time limit of the shutdown of a daemon, JournalNode or stub after SIGTERM; after this time, the process exits "
    "with code 1. Specific to the checkpointer.",
    least=0.001,
)
TMP_DIR = ConfigKey(
    "hadoop.tmp.dir", "/tmp/hadoop-${user.name}", text("directory"), "Parent of the default directories."
)

SECONDARY_PRINCIPAL = ConfigKey(
    "dfs.secondary.namenode.kerberos.principal",
    "",
    text("principal"),
    "Principal of a secondary; _HOST is replaced by the host in dfs.namenode.secondary.http-address.",
)
SECONDARY_KEYTAB = ConfigKey("dfs.secondary.namenode.keytab.file", "", text("file"), "Keytab of a secondary.")
CLUSTER_ADMINISTRATORS = ConfigKey(
    "dfs.cluster.administrators",
    "",
    ACCESS_LIST,
    "Administrators, who may also fetch images from and send images to NameNodes and our kerberized servers, and "
    "request changes from our servers.",
)

KEYS: tuple[ConfigKey[Any], ...] = (
    *keys_in(globals()),
    *MERGE_KEYS,
    *USER_KEYS,
    *LOGIN_KEYS,
    *PORT_KEYS,
    *READER_KEYS,
    *BOOKKEEPER_KEYS,
    *LEADER_KEYS,
    *ARCHIVE_KEYS,
    *JOURNALNODE_KEYS,
    *FAILOVER_KEYS,
    *SECURITY_KEYS,
    *TLS_KEYS,
)

DEFAULTS: Mapping[str, str] = MappingProxyType({key.name: key.default for key in KEYS if key.default})
