"""Hadoop's configuration keys that the checkpointer honours, as data: defaults come from here, and so do the docs.

`checkpointer.config.catalogue` adds the keys of Hadoop's checkpointing that it does not honour, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from checkpointer.config.journal_node_keys import JOURNALNODE_KEYS
from checkpointer.config.key import ABSENT, ConfigKey, KeyStatus

__all__ = ["ABSENT", "DEFAULTS", "KEYS", "ConfigKey", "KeyStatus", "default_cell", "markdown_table"]

_CHECKPOINT = "dfs.namenode.checkpoint"

KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(f"{_CHECKPOINT}.period", "3600s", "s", "A checkpoint is due this long after the last one."),
    ConfigKey(f"{_CHECKPOINT}.txns", "1000000", "transactions", "Or as soon as so many are in no image yet."),
    ConfigKey(f"{_CHECKPOINT}.check.period", "60s", "s", "How often to look; at most the period itself."),
    ConfigKey(
        f"{_CHECKPOINT}.check.quiet-multiplier",
        "1.5",
        "factor",
        "A node whose upload was turned down waits this many periods before it offers an image again.",
        release2=ABSENT,
    ),
    ConfigKey(f"{_CHECKPOINT}.max-retries", "3", "count", "Failed merges before the secondary gives up."),
    ConfigKey(
        f"{_CHECKPOINT}.dir",
        "file://${hadoop.tmp.dir}/dfs/namesecondary",
        "directories",
        "Where the secondary keeps its images.",
    ),
    ConfigKey(
        f"{_CHECKPOINT}.edits.dir",
        "${dfs.namenode.checkpoint.dir}",
        "directories",
        "Where it keeps the edits it fetched.",
    ),
    ConfigKey(
        "dfs.namenode.name.dir",
        "file://${hadoop.tmp.dir}/dfs/name",
        "directories",
        "Where the standby and the backup node keep their images.",
    ),
    ConfigKey(
        "dfs.namenode.name.dir.restore",
        "false",
        "switch",
        "Try failed directories again at the next checkpoint.",
    ),
    ConfigKey(
        "dfs.namenode.shared.edits.dir",
        "",
        "URI",
        "The edits that the active writes and the standby reads: a directory (file: URI or path), or a journal such as "
        "qjournal://host:port;host:port;host:port/id.",
        reason="in the standby role a URI of no known kind of journal, such as bookkeeper:",
    ),
    ConfigKey(
        "dfs.namenode.storage.dir.perm", "700", "mode", "Mode of directories the checkpointer makes.", release2=ABSENT
    ),
    ConfigKey("dfs.namenode.num.checkpoints.retained", "2", "count", "Images that are kept."),
    ConfigKey(
        "dfs.namenode.num.extra.edits.retained",
        "1000000",
        "transactions",
        "Edits kept beyond those that the oldest kept image needs.",
    ),
    ConfigKey(
        "dfs.namenode.max.extra.edits.segments.retained",
        "10000",
        "count",
        "Limit on the segments that hold such extra edits.",
    ),
    ConfigKey(
        "dfs.namenode.resource.du.reserved",
        "104857600",
        "bytes",
        "What `checkpointer check` wants to stay free on each disk beside room for two images.",
    ),
    ConfigKey("dfs.ha.standby.checkpoints", "true", "switch", "Whether a standby makes checkpoints at all."),
    ConfigKey("dfs.nameservices", "", "names", "Nameservices of the cluster."),
    ConfigKey("dfs.internal.nameservices", "", "names", "The ones of them that belong to this cluster."),
    ConfigKey("dfs.nameservice.id", "", "name", "The nameservice this node belongs to, where there are several."),
    ConfigKey("dfs.ha.namenodes", "", "names", "With .NAMESERVICE behind it: ids of its NameNodes."),
    ConfigKey("dfs.ha.namenode.id", "", "name", "Which of them this node is; unset where it is none of them."),
    ConfigKey("fs.defaultFS", "file:///", "URI", "Where the NameNode is if nothing else says so."),
    ConfigKey(
        "dfs.namenode.rpc-address",
        "",
        "host:port",
        "A NameNode's RPC server; its host stands in for a wildcard HTTP address.",
    ),
    ConfigKey(
        "dfs.namenode.http-address", "0.0.0.0:9870", "host:port", "A NameNode's HTTP server.", release2="0.0.0.0:50070"
    ),
    ConfigKey(
        "dfs.namenode.https-address", "0.0.0.0:9871", "host:port", "The same for HTTPS_ONLY.", release2="0.0.0.0:50470"
    ),
    ConfigKey("dfs.namenode.http-bind-host", "", "host", "What the standby's own server binds to instead."),
    ConfigKey(
        "dfs.namenode.secondary.http-address",
        "0.0.0.0:9868",
        "host:port",
        "The HTTP server of a secondary, or of a standby that is none of the configured NameNodes.",
        release2="0.0.0.0:50090",
    ),
    ConfigKey("dfs.namenode.backup.http-address", "0.0.0.0:50105", "host:port", "A backup node's HTTP server."),
    ConfigKey(
        "dfs.namenode.backup.address", "0.0.0.0:50100", "host:port", "Where a backup node takes the NameNode's edits."
    ),
    ConfigKey(
        "dfs.namenode.servicerpc-address", "", "host:port", "A NameNode's RPC server for other servers; preferred."
    ),
    ConfigKey(
        "hadoop.security.authentication",
        "simple",
        "method",
        "How RPC calls authenticate.",
        reason="any method but simple; Kerberos and tokens come with a later version",
    ),
    ConfigKey(
        "hadoop.user.name",
        "${env.HADOOP_USER_NAME:-}",
        "name",
        "The user that calls are made as; empty is the one this process runs as.",
    ),
    ConfigKey("ipc.client.rpc-timeout.ms", "120000", "ms", "Limit on a call to a NameNode.", release2="0"),
    ConfigKey("dfs.ha.tail-edits.period", "60s", "s", "How often the standby looks for new edits."),
    ConfigKey(
        "dfs.ha.tail-edits.in-progress", "false", "switch", "Whether it reads the open segment too.", release2=ABSENT
    ),
    ConfigKey(
        "dfs.ha.tail-edits.qjm.rpc.max-txns",
        "5000",
        "transactions",
        "How many it asks the caches of JournalNodes for at once, where it reads the open segment too.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.qjournal.select-input-streams.timeout.ms",
        "20000",
        "ms",
        "Limit on waiting for a majority of the JournalNodes, and for an answer of each.",
    ),
    ConfigKey(
        "dfs.qjournal.http.open.timeout.ms",
        "60000",
        "ms",
        "Limit on connecting to a JournalNode that a segment is fetched from; 0 is none.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.qjournal.http.read.timeout.ms",
        "60000",
        "ms",
        "Limit on each wait for its answer; 0 is none.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.ha.tail-edits.namenode-retries",
        "3",
        "count",
        "NameNodes it asks for a roll before it gives up.",
        release2=ABSENT,
    ),
    ConfigKey("dfs.ha.log-roll.period", "120s", "s", "It asks for a roll after so long; 0 or less: never."),
    ConfigKey("checkpointer.upload.parallelism", "4", "count", "NameNodes that get an image at once; a key of ours."),
    ConfigKey(
        "checkpointer.standby.rebootstrap",
        "false",
        "switch",
        "Whether a standby fetches a NameNode's newest image by itself where edits are missing; a key of ours.",
    ),
    ConfigKey(
        "checkpointer.standby.lag-alarm",
        "300s",
        "s",
        "How long edits may wait in a standby without one being applied before that is an alarm; 0: never; a key of "
        "ours.",
    ),
    ConfigKey(
        "dfs.image.transfer-bootstrap-standby.bandwidthPerSec",
        "0",
        "bytes/s",
        "Limit on the first image; 0 is none.",
        release2=ABSENT,
    ),
    ConfigKey(
        "checkpointer.lake.dir",
        "",
        "directory or URI",
        "The lake of Parquet tables that each new image and the edits are appended to; unset: none; a key of ours.",
    ),
    ConfigKey("checkpointer.lake.images.retained", "0", "count", "Images that it keeps; 0 is all; a key of ours."),
    ConfigKey(
        "checkpointer.lake.spark.master", "local[2]", "URL", "Spark's master that writes the lake; a key of ours."
    ),
    ConfigKey(
        "checkpointer.lake.spark.driver-memory", "1g", "bytes", "Heap of Spark's driver for that; a key of ours."
    ),
    ConfigKey("dfs.http.policy", "HTTP_ONLY", "policy", "HTTPS_ONLY makes transfers use https."),
    ConfigKey("dfs.image.compress", "false", "switch", "Whether images are compressed."),
    ConfigKey(
        "dfs.image.compression.codec",
        "org.apache.hadoop.io.compress.DefaultCodec",
        "class",
        "The codec of compressed images.",
    ),
    ConfigKey("dfs.namenode.replication.min", "1", "count", "Replay raises a smaller replication factor to this."),
    ConfigKey("dfs.replication.max", "512", "count", "Replay lowers a greater replication factor to this."),
    ConfigKey(
        "dfs.namenode.snapshot.capture.openfiles",
        "false",
        "switch",
        "Whether CREATE_SNAPSHOT records the files that are open; has to be the NameNode's own setting.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.namenode.snapshot.skip.capture.accesstime-only-change",
        "false",
        "switch",
        "Whether a new access time alone leaves no trace in snapshots; the NameNode's own setting.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.namenode.snapshot.deletion.ordered",
        "false",
        "switch",
        "Whether DELETE_SNAPSHOT of any but the earliest one only marks it; the NameNode's own setting.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.image.parallel.load",
        "false",
        "switch",
        "Whether images without compression of layout -66 and newer are cut into sub-sections; else as the old one.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.image.parallel.target.sections", "12", "count", "Sub-sections of INODE that are aimed at.", release2=ABSENT
    ),
    ConfigKey(
        "dfs.image.parallel.inode.threshold", "1000000", "inodes", "Smaller images get none for that.", release2=ABSENT
    ),
    ConfigKey(
        "checkpointer.image.parallel-compressed",
        "false",
        "switch",
        "Whether dfs.image.parallel.load cuts compressed images too, each sub-section a stream of its own, as "
        "NameNodes newer than 3.4.1 write and load them in parallel; leave it off for older ones. A key of ours.",
    ),
    ConfigKey(
        "checkpoint.engine",
        "auto",
        "engine",
        "What merges in the secondary and in `checkpointer merge`: local, spark, or auto, which takes Spark for large "
        "images or where a master is set; a standby or backup node is always local, its namespace is warm. Ours.",
    ),
    ConfigKey("checkpoint.engine.spark.min-size", "17179869184", "bytes", "Smallest image auto takes Spark for; ours."),
    ConfigKey(
        "checkpoint.engine.spark.master",
        "",
        "URL",
        "Spark's master; unset: all cores of this machine. A key of ours.",
    ),
    ConfigKey("checkpoint.engine.spark.driver-memory", "1g", "memory", "Heap of Spark's driver; a key of ours."),
    ConfigKey(
        "checkpoint.engine.spark.shared-storage",
        "",
        "switch",
        "Whether executors see the storage directories under the same paths; unset: with a local master. Without it "
        "image and edits are sent to each host once and the parts come back through Spark. A key of ours.",
    ),
    ConfigKey(
        "checkpoint.engine.spark.partitions",
        "0",
        "count",
        "Parts that each large section is merged in; 0 is one for each 32 MiB. A key of ours.",
    ),
    ConfigKey(
        "checkpoint.engine.spark.conf", "", "settings", "With .KEY behind it: a setting of Spark's. A key of ours."
    ),
    ConfigKey(
        "checkpointer.memory",
        "",
        "bytes",
        "Limit on the memory that the large arrays of index and edits take, at least 64m; beyond it they lie in "
        "files without a name, which the system writes out when it needs memory. Unset: no limit. A key of ours.",
    ),
    ConfigKey(
        "checkpointer.memory.dir",
        "",
        "directory",
        "Where these files and large decompressed sections lie: on a disk, not in memory. Unset: the system's "
        "temporary directory. A key of ours.",
    ),
    ConfigKey("dfs.image.transfer.timeout", "60000", "ms", "Limit on connecting and on each read and write."),
    ConfigKey(
        "dfs.image.transfer.bandwidthPerSec", "52428800", "bytes/s", "Limit on a transfer; 0 is none.", release2="0"
    ),
    ConfigKey("dfs.image.transfer.chunksize", "65536", "bytes", "Chunk of an upload."),
    *JOURNALNODE_KEYS,
    ConfigKey("hadoop.tmp.dir", "/tmp/hadoop-${user.name}", "directory", "What default directories start with."),
)

DEFAULTS: Mapping[str, str] = MappingProxyType({key.name: key.default for key in KEYS if key.default})


def markdown_table() -> str:
    """The keys as a Markdown table."""
    rows = [f"| `{key.name}` | {default_cell(key)} | {key.unit} | {_meaning(key)} |" for key in KEYS]
    return "\n".join(["| Key | Default | Unit | What it does |", "|---|---|---|---|", *rows]) + "\n"


def default_cell(key: ConfigKey) -> str:
    """A default in Markdown, with that of Hadoop 2.7 where it is another one."""
    text = _code(key.default)
    if key.release2 is None:
        return text
    return f"{text} (2.7: {'none' if key.release2 == ABSENT else _code(key.release2)})"


def _meaning(key: ConfigKey) -> str:
    return f"{key.meaning} Refused: {key.reason}." if key.reason else key.meaning


def _code(text: str) -> str:
    return f"`{text}`" if text else "unset"
