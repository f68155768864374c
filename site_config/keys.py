"""Hadoop's configuration keys that the checkpointer honours: readers, defaults and docs come from here.

`site_config.catalogue` adds the keys of Hadoop's checkpointing that it does not honour, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hadoop_common.config_key import (
    ABSENT,
    BYTES,
    COUNT,
    DIRECTORIES,
    FACTOR,
    MILLISECONDS_OR_NONE,
    NAMES,
    NETWORKS,
    OPTIONAL_BYTES,
    OPTIONAL_SWITCH,
    RATE,
    SECONDS,
    SWITCH,
    TRANSACTIONS,
    ConfigKey,
    Kind,
    count_of,
    keys_in,
    paths,
    text,
)
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.port_limits import PORT_KEYS
from hadoop_common.tls.settings import TLS_KEYS
from hadoop_rpc.login_keys import LOGIN_KEYS
from hadoop_rpc.user import USER_KEYS
from journal.bookkeeper.settings import READER_KEYS as BOOKKEEPER_KEYS
from journal.quorum.settings import READER_KEYS
from site_config.failover_keys import FAILOVER_KEYS
from site_config.journal_node_keys import JOURNALNODE_KEYS
from site_config.leadership import LEADER_KEYS
from site_config.security_keys import SECURITY_KEYS

_LEAST_HEAP = 512 << 20


def _heap(settings: Configuration, name: str, default: str) -> str:
    """A size as it is told to Spark."""
    if BYTES.read(settings, name, default) < _LEAST_HEAP:
        raise ConfigurationError([settings.fault(name, "must be at least 512m, less does not start Spark")])
    return settings.get(name, default)


CHECKPOINT_PERIOD = ConfigKey(
    "dfs.namenode.checkpoint.period", "3600s", SECONDS, "A checkpoint is due this long after the last one.", least=0.001
)
CHECKPOINT_TXNS = ConfigKey(
    "dfs.namenode.checkpoint.txns",
    "1000000",
    TRANSACTIONS,
    "Or as soon as this many transactions are in no image yet.",
    least=1,
)
CHECKPOINT_CHECK_PERIOD = ConfigKey(
    "dfs.namenode.checkpoint.check.period", "60s", SECONDS, "How often to look; at most the period itself.", least=0.001
)
CHECKPOINT_CHECK_QUIET_MULTIPLIER = ConfigKey(
    "dfs.namenode.checkpoint.check.quiet-multiplier",
    "1.5",
    FACTOR,
    "A node whose upload was refused waits this many periods before it offers an image again.",
    release2=ABSENT,
    least=0,
)
CHECKPOINT_MAX_RETRIES = ConfigKey(
    "dfs.namenode.checkpoint.max-retries", "3", COUNT, "Failed merges before the secondary gives up.", least=0
)
CHECKPOINT_DIR = ConfigKey(
    "dfs.namenode.checkpoint.dir",
    "file://${hadoop.tmp.dir}/dfs/namesecondary",
    DIRECTORIES,
    "Where the secondary keeps its images.",
)
CHECKPOINT_EDITS_DIR = ConfigKey(
    "dfs.namenode.checkpoint.edits.dir",
    "${dfs.namenode.checkpoint.dir}",
    DIRECTORIES,
    "Where it keeps the edits it fetched.",
)
NAME_DIR = ConfigKey(
    "dfs.namenode.name.dir",
    "file://${hadoop.tmp.dir}/dfs/name",
    DIRECTORIES,
    "Where the standby and the backup node keep their images.",
)
NAME_DIR_RESTORE = ConfigKey(
    "dfs.namenode.name.dir.restore",
    "false",
    SWITCH,
    "Retry failed directories at each poll. A secondary does unless this is set to false.",
)
SHARED_EDITS_DIR = ConfigKey(
    "dfs.namenode.shared.edits.dir",
    "",
    text("URI"),
    "The edits that the active writes and the standby reads: a directory (file: URI or path), or a journal "
    "such as qjournal://host:port;host:port;host:port/id.",
    reason="in the standby role a URI of no known kind of journal, such as nfs:",
)
STORAGE_DIR_PERM = ConfigKey(
    "dfs.namenode.storage.dir.perm", "700", text("mode"), "Mode of directories the checkpointer makes.", release2=ABSENT
)
NUM_CHECKPOINTS_RETAINED = ConfigKey(
    "dfs.namenode.num.checkpoints.retained", "2", COUNT, "Images that are kept.", least=1
)
NUM_EXTRA_EDITS_RETAINED = ConfigKey(
    "dfs.namenode.num.extra.edits.retained",
    "1000000",
    TRANSACTIONS,
    "Edits kept beyond those that the oldest kept image needs.",
    least=0,
)
MAX_EXTRA_EDITS_SEGMENTS_RETAINED = ConfigKey(
    "dfs.namenode.max.extra.edits.segments.retained",
    "10000",
    COUNT,
    "Limit on the segments that hold such extra edits.",
    least=0,
)
RESOURCE_DU_RESERVED = ConfigKey(
    "dfs.namenode.resource.du.reserved",
    "104857600",
    BYTES,
    "What `checkpointer check` requires to be free on each disk besides room for two images.",
)
HA_STANDBY_CHECKPOINTS = ConfigKey(
    "dfs.ha.standby.checkpoints", "true", SWITCH, "Whether a standby makes checkpoints at all."
)
NAMESERVICES = ConfigKey("dfs.nameservices", "", NAMES, "Nameservices of the cluster.")
INTERNAL_NAMESERVICES = ConfigKey(
    "dfs.internal.nameservices", "", NAMES, "The ones of them that belong to this cluster."
)
NAMESERVICE_ID = ConfigKey(
    "dfs.nameservice.id",
    "",
    text("name"),
    "The nameservice this node belongs to, where there are several; unset: the one with an address of this host.",
)
HA_NAMENODES = ConfigKey("dfs.ha.namenodes", "", NAMES, "With .NAMESERVICE appended: ids of its NameNodes.")
HA_NAMENODE_ID = ConfigKey(
    "dfs.ha.namenode.id", "", text("name"), "Which of them this node is; unset where it is none of them."
)
DEFAULT_FS = ConfigKey("fs.defaultFS", "file:///", text("URI"), "Where the NameNode is if nothing else says so.")
RPC_ADDRESS = ConfigKey(
    "dfs.namenode.rpc-address",
    "",
    text("host:port"),
    "A NameNode's RPC server; its host replaces a wildcard HTTP address.",
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
    "A NameNode's HTTPS server; where a standby serves by it.",
    release2="0.0.0.0:50470",
)
HTTPS_BIND_HOST = ConfigKey(
    "dfs.namenode.https-bind-host", "", text("host"), "What the standby's own HTTPS server binds to instead."
)
SECONDARY_HTTPS_ADDRESS = ConfigKey(
    "dfs.namenode.secondary.https-address",
    "0.0.0.0:9869",
    text("host:port"),
    "The HTTPS server of a secondary, or of a standby that is none of the configured NameNodes.",
    release2="0.0.0.0:50091",
)
HTTP_BIND_HOST = ConfigKey(
    "dfs.namenode.http-bind-host", "", text("host"), "What the standby's own server binds to instead."
)
SECONDARY_HTTP_ADDRESS = ConfigKey(
    "dfs.namenode.secondary.http-address",
    "0.0.0.0:9868",
    text("host:port"),
    "The HTTP server of a secondary, or of a standby that is none of the configured NameNodes.",
    release2="0.0.0.0:50090",
)
BACKUP_HTTP_ADDRESS = ConfigKey(
    "dfs.namenode.backup.http-address",
    "0.0.0.0:50105",
    text("host:port"),
    "A backup node's web server; with HTTPS_ONLY it speaks HTTPS.",
)
BACKUP_ADDRESS = ConfigKey(
    "dfs.namenode.backup.address", "0.0.0.0:50100", text("host:port"), "Where a backup node takes the NameNode's edits."
)
SERVICERPC_ADDRESS = ConfigKey(
    "dfs.namenode.servicerpc-address", "", text("host:port"), "A NameNode's RPC server for other servers; preferred."
)
RPC_TIMEOUT = ConfigKey(
    "ipc.client.rpc-timeout.ms",
    "120000",
    MILLISECONDS_OR_NONE,
    "Limit on a call to a NameNode; 0 or less is none, but for the calls of a standby, which then wait 120 s.",
    release2="0",
)
HA_TAIL_EDITS_PERIOD = ConfigKey(
    "dfs.ha.tail-edits.period",
    "60s",
    SECONDS,
    "How often the standby looks for new edits, at most four times a second; below 1 s less often while none come.",
    least=0,
)
HA_TAIL_EDITS_BACKOFF = ConfigKey(
    "dfs.ha.tail-edits.period.backoff-max",
    "0",
    SECONDS,
    "Longest pause between looks for edits, which doubles while there are none; 0 keeps the period.",
    release2=ABSENT,
    least=0,
)
HA_TAIL_EDITS_NAMENODE_RETRIES = ConfigKey(
    "dfs.ha.tail-edits.namenode-retries",
    "3",
    COUNT,
    "NameNodes it asks for a roll before it gives up.",
    release2=ABSENT,
    least=1,
)
HA_LOG_ROLL_PERIOD = ConfigKey(
    "dfs.ha.log-roll.period", "120s", SECONDS, "It asks for a roll after this long; 0 or less: never."
)
UPLOAD_PARALLELISM = ConfigKey(
    "checkpointer.upload.parallelism",
    "4",
    COUNT,
    "NameNodes that get an image at once; specific to the checkpointer.",
    least=1,
)
STANDBY_REBOOTSTRAP = ConfigKey(
    "checkpointer.standby.rebootstrap",
    "false",
    SWITCH,
    "Whether a standby fetches a NameNode's newest image by itself where edits are missing; "
    "specific to the checkpointer.",
)
STANDBY_LAG_ALARM = ConfigKey(
    "checkpointer.standby.lag-alarm",
    "300s",
    SECONDS,
    "How long edits may wait in a standby without one being applied before that is an alarm; 0: never; "
    "specific to the checkpointer.",
    least=0,
)
IMAGE_TRANSFER_BOOTSTRAP_STANDBY_BANDWIDTH_PER_SEC = ConfigKey(
    "dfs.image.transfer-bootstrap-standby.bandwidthPerSec",
    "0",
    RATE,
    "Limit on the first image; 0 is none.",
    release2=ABSENT,
    least=0,
)
LAKE_DIR = ConfigKey(
    "checkpointer.lake.dir",
    "",
    text("directory or URI"),
    "The lake of Parquet tables that each new image and the edits are appended to; unset: none; "
    "specific to the checkpointer.",
)
LAKE_IMAGES_RETAINED = ConfigKey(
    "checkpointer.lake.images.retained",
    "0",
    COUNT,
    "Images that it keeps; 0 is all; specific to the checkpointer.",
    least=0,
)
LAKE_SPARK_MASTER = ConfigKey(
    "checkpointer.lake.spark.master",
    "local[2]",
    text("URL"),
    "Spark's master that writes the lake; specific to the checkpointer.",
)
LAKE_SPARK_DRIVER_MEMORY = ConfigKey(
    "checkpointer.lake.spark.driver-memory",
    "1g",
    text("bytes"),
    "Heap of Spark's driver for that; specific to the checkpointer.",
)
IMAGE_COMPRESS = ConfigKey("dfs.image.compress", "false", SWITCH, "Whether images are compressed.")
IMAGE_COMPRESSION_CODEC = ConfigKey(
    "dfs.image.compression.codec",
    "org.apache.hadoop.io.compress.DefaultCodec",
    text("class"),
    "The codec of compressed images; Lz4Codec and ZStandardCodec only if the NameNode's own image has it.",
)
REPLICATION_MIN = ConfigKey(
    "dfs.namenode.replication.min", "1", COUNT, "Replay raises a smaller replication factor to this.", least=1
)
REPLICATION_MAX = ConfigKey(
    "dfs.replication.max", "512", COUNT, "Replay lowers a greater replication factor to this.", least=1
)
SNAPSHOT_CAPTURE_OPENFILES = ConfigKey(
    "dfs.namenode.snapshot.capture.openfiles",
    "false",
    SWITCH,
    "Whether CREATE_SNAPSHOT records the files that are open; has to be the NameNode's own setting.",
    release2=ABSENT,
)
SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE = ConfigKey(
    "dfs.namenode.snapshot.skip.capture.accesstime-only-change",
    "false",
    SWITCH,
    "Whether a new access time alone leaves no trace in snapshots; the NameNode's own setting.",
    release2=ABSENT,
)
SNAPSHOT_DELETION_ORDERED = ConfigKey(
    "dfs.namenode.snapshot.deletion.ordered",
    "false",
    SWITCH,
    "Whether DELETE_SNAPSHOT of any but the earliest one only marks it; the NameNode's own setting. Ignored above "
    "layout -67, as by Hadoop 3.3.",
    release2=ABSENT,
)
SNAPSHOT_DELETION_ORDERED_IN_OLDER_LAYOUTS = ConfigKey(
    "checkpointer.snapshot.deletion.ordered.older-layouts",
    "false",
    SWITCH,
    "Whether ordered deletion takes effect above layout -67 too: set it where a vendor's release has the feature, and "
    "during a rolling upgrade from 3.3, where a deletion that depends on it is refused until it is set. Specific to "
    "the checkpointer.",
)
MAX_OP_SIZE = ConfigKey(
    "dfs.namenode.max.op.size",
    "52428800",
    BYTES,
    "The largest operation of the edits that a merge replays; has to be at least the NameNode's own setting.",
    least=1,
)
IMAGE_PARALLEL_LOAD = ConfigKey(
    "dfs.image.parallel.load",
    "false",
    SWITCH,
    "Whether images without compression of layout -66 and newer are cut into sub-sections; else as the old one.",
    release2=ABSENT,
)
IMAGE_PARALLEL_TARGET_SECTIONS = ConfigKey(
    "dfs.image.parallel.target.sections",
    "12",
    COUNT,
    "Sub-sections of INODE that are aimed at.",
    release2=ABSENT,
    least=1,
)
IMAGE_PARALLEL_INODE_THRESHOLD = ConfigKey(
    "dfs.image.parallel.inode.threshold",
    "1000000",
    count_of("inodes"),
    "Smaller images get none for that.",
    release2=ABSENT,
    least=1,
)
IMAGE_PARALLEL_COMPRESSED = ConfigKey(
    "checkpointer.image.parallel-compressed",
    "false",
    SWITCH,
    "Whether dfs.image.parallel.load cuts compressed images too, each sub-section a stream of its own, as "
    "NameNodes newer than 3.4.1 write and load them in parallel; leave it off for older ones. "
    "Specific to the checkpointer.",
)
ENGINE = ConfigKey(
    "checkpoint.engine",
    "auto",
    text("engine"),
    "What merges in the secondary and in `checkpointer merge`: local, spark, or auto, which takes Spark for "
    "large images or where a master is set; a standby or backup node is always local, its namespace is warm. "
    "Specific to the checkpointer.",
)
ENGINE_SPARK_MIN_SIZE = ConfigKey(
    "checkpoint.engine.spark.min-size",
    "17179869184",
    BYTES,
    "Smallest image auto takes Spark for; specific to the checkpointer.",
)
ENGINE_SPARK_MASTER = ConfigKey(
    "checkpoint.engine.spark.master",
    "",
    text("URL"),
    "Spark's master; unset: all cores of this machine. Specific to the checkpointer.",
)
ENGINE_SPARK_DRIVER_MEMORY = ConfigKey(
    "checkpoint.engine.spark.driver-memory",
    "1g",
    Kind("memory", _heap),
    "Heap of Spark's driver; specific to the checkpointer.",
)
ENGINE_SPARK_SHARED_STORAGE = ConfigKey(
    "checkpoint.engine.spark.shared-storage",
    "",
    OPTIONAL_SWITCH,
    "Whether executors see the storage directories under the same paths; unset: with a local master. Without "
    "it image and edits are sent to each host once and the parts come back through Spark. "
    "Specific to the checkpointer.",
)
ENGINE_SPARK_PARTITIONS = ConfigKey(
    "checkpoint.engine.spark.partitions",
    "0",
    COUNT,
    "Parts that each large section is merged in; 0 is one for each 32 MiB. Specific to the checkpointer.",
    least=0,
)
ENGINE_SPARK_CONF = ConfigKey(
    "checkpoint.engine.spark.conf",
    "",
    text("settings"),
    "With .KEY appended: a setting of Spark's. Specific to the checkpointer.",
)
MEMORY = ConfigKey(
    "checkpointer.memory",
    "",
    OPTIONAL_BYTES,
    "Limit on the memory that the large arrays of index and edits take, at least 64m; beyond it they are "
    "kept in unnamed files, which the system writes out when it needs memory. Unset: no limit. "
    "Specific to the checkpointer.",
)
MEMORY_DIR = ConfigKey(
    "checkpointer.memory.dir",
    "",
    paths("directory"),
    "Where these files and large decompressed sections are kept: on a disk, not in memory. Unset: the system's "
    "temporary directory. Specific to the checkpointer.",
)
ACCESS_HOSTS = ConfigKey(
    "checkpointer.access.hosts",
    "",
    NAMES,
    "Hosts, addresses and networks (10.0.0.0/8) that may call a JournalNode, fetch images and segments from the daemon "
    "or the stub, send them to the stub and stream edits to a backup node, beside loopback and the hosts that the "
    "configuration names; * is any. Specific to the checkpointer.",
)
ACCESS_USERS = ConfigKey(
    "checkpointer.access.users",
    "",
    NAMES,
    "Users that may change a journal, beside hdfs and the user of the process; * is any. Specific to the checkpointer.",
)
IMAGE_TRANSFER_TIMEOUT = ConfigKey(
    "dfs.image.transfer.timeout",
    "60000",
    MILLISECONDS_OR_NONE,
    "Limit on connecting and on each read and write; 0 or less is none.",
)
IMAGE_TRANSFER_BANDWIDTH_PER_SEC = ConfigKey(
    "dfs.image.transfer.bandwidthPerSec", "52428800", RATE, "Limit on a transfer; 0 is none.", release2="0", least=0
)
IMAGE_TRANSFER_CHUNKSIZE = ConfigKey("dfs.image.transfer.chunksize", "65536", BYTES, "Chunk of an upload.", least=1)
CONTROL_HOSTS = ConfigKey(
    "checkpointer.http.control-hosts",
    "127.0.0.0/8,::1",
    NETWORKS,
    "Who may ask for changes by HTTP POST (/checkpoint and /cancel; of the stub all others), beside this host under "
    "its own address; specific to the checkpointer.",
)
STOP_TIMEOUT = ConfigKey(
    "checkpointer.stop-timeout",
    "240s",
    SECONDS,
    "How long a daemon, JournalNode or stub may take to end after SIGTERM; then its process ends with exit code 1. "
    "Specific to the checkpointer.",
    least=0.001,
)
TMP_DIR = ConfigKey(
    "hadoop.tmp.dir", "/tmp/hadoop-${user.name}", text("directory"), "What default directories start with."
)

SECONDARY_PRINCIPAL = ConfigKey(
    "dfs.secondary.namenode.kerberos.principal",
    "",
    text("principal"),
    "Who a secondary is; _HOST in it is the host of dfs.namenode.secondary.http-address.",
)
SECONDARY_KEYTAB = ConfigKey("dfs.secondary.namenode.keytab.file", "", text("file"), "The same for a secondary.")
CLUSTER_ADMINISTRATORS = ConfigKey(
    "dfs.cluster.administrators",
    "",
    text("users groups"),
    "Who else may fetch and send images, there and at our own kerberized servers, and ask those for changes.",
)

KEYS: tuple[ConfigKey[Any], ...] = (
    *keys_in(globals()),
    *USER_KEYS,
    *LOGIN_KEYS,
    *PORT_KEYS,
    *READER_KEYS,
    *BOOKKEEPER_KEYS,
    *LEADER_KEYS,
    *JOURNALNODE_KEYS,
    *FAILOVER_KEYS,
    *SECURITY_KEYS,
    *TLS_KEYS,
)

DEFAULTS: Mapping[str, str] = MappingProxyType({key.name: key.default for key in KEYS if key.default})
