"""Configuration keys of merges: replay, image format, engine and memory."""

from __future__ import annotations

from hadoop_common.config_key import (
    ABSENT,
    BYTES,
    COUNT,
    OPTIONAL_BYTES,
    OPTIONAL_SWITCH,
    SWITCH,
    ConfigKey,
    ValueType,
    count_of,
    keys_in,
    paths,
    text,
)
from hadoop_common.configuration import Configuration, ConfigurationError

_MIN_HEAP = 512 << 20


def _heap(settings: Configuration, name: str, default: str) -> str:
    """Return a heap size in Spark's notation."""
    if BYTES.read(settings, name, default) < _MIN_HEAP:
        raise ConfigurationError([settings.fault(name, "must be at least 512m, which Spark needs to start")])
    return settings.get(name, default)


IMAGE_COMPRESS = ConfigKey("dfs.image.compress", "false", SWITCH, "Whether images are compressed.")
IMAGE_COMPRESSION_CODEC = ConfigKey(
    "dfs.image.compression.codec",
    "org.apache.hadoop.io.compress.DefaultCodec",
    text("class"),
    "The codec of compressed images; Lz4Codec and ZStandardCodec are used only if the NameNode's own image uses them.",
)
REPLICATION_MIN = ConfigKey(
    "dfs.namenode.replication.min", "1", COUNT, "Replay raises smaller replication factors to this value.", least=1
)
REPLICATION_MAX = ConfigKey(
    "dfs.replication.max", "512", COUNT, "Replay lowers greater replication factors to this value.", least=1
)
SNAPSHOT_CAPTURE_OPENFILES = ConfigKey(
    "dfs.namenode.snapshot.capture.openfiles",
    "false",
    SWITCH,
    "Whether CREATE_SNAPSHOT records open files; must equal the NameNode's setting.",
    release2=ABSENT,
)
SNAPSHOT_SKIP_CAPTURE_ACCESSTIME_ONLY_CHANGE = ConfigKey(
    "dfs.namenode.snapshot.skip.capture.accesstime-only-change",
    "false",
    SWITCH,
    "Whether snapshots ignore a change of only the access time; must equal the NameNode's setting.",
    release2=ABSENT,
)
SNAPSHOT_DELETION_ORDERED = ConfigKey(
    "dfs.namenode.snapshot.deletion.ordered",
    "false",
    SWITCH,
    "Whether DELETE_SNAPSHOT only marks snapshots other than the earliest; must equal the NameNode's setting. "
    "Ignored in layouts older than -67, as in Hadoop 3.3.",
    release2=ABSENT,
)
SNAPSHOT_DELETION_ORDERED_IN_OLDER_LAYOUTS = ConfigKey(
    "checkpointer.snapshot.deletion.ordered.older-layouts",
    "false",
    SWITCH,
    "Whether ordered deletion also applies in layouts before -67. Set this key for a vendor's release with this "
    "feature, and for a rolling upgrade from 3.3. During such an upgrade, a deletion that depends on this key is "
    "refused until the key is set. Specific to the checkpointer.",
)
MAX_OP_SIZE = ConfigKey(
    "dfs.namenode.max.op.size",
    "52428800",
    BYTES,
    "Size of the largest operation that a merge replays; must be at least the NameNode's setting.",
    least=1,
)
IMAGE_PARALLEL_LOAD = ConfigKey(
    "dfs.image.parallel.load",
    "false",
    SWITCH,
    "Whether uncompressed images of layout -66 and newer are written with sub-sections; if not, a new image has "
    "sub-sections only if the old image has them.",
    release2=ABSENT,
)
IMAGE_PARALLEL_TARGET_SECTIONS = ConfigKey(
    "dfs.image.parallel.target.sections",
    "12",
    COUNT,
    "Target number of sub-sections of INODE.",
    release2=ABSENT,
    least=1,
)
IMAGE_PARALLEL_INODE_THRESHOLD = ConfigKey(
    "dfs.image.parallel.inode.threshold",
    "1000000",
    count_of("inodes"),
    "Minimum number of inodes of an image to which dfs.image.parallel.load applies.",
    release2=ABSENT,
    least=1,
)
IMAGE_PARALLEL_COMPRESSED = ConfigKey(
    "checkpointer.image.parallel-compressed",
    "false",
    SWITCH,
    "Whether dfs.image.parallel.load also applies to compressed images. Each sub-section is then a separate "
    "stream, which NameNodes newer than Hadoop 3.4.1 load in parallel; leave this key off for older NameNodes. "
    "Specific to the checkpointer.",
)
ENGINE = ConfigKey(
    "checkpoint.engine",
    "auto",
    text("engine"),
    "Engine of the secondary and of `checkpointer merge`: local, spark, or auto, which chooses Spark "
    "if a master is set. A standby or backup node always merges locally, because its namespace is in memory. "
    "Specific to the checkpointer.",
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
    ValueType("memory", _heap),
    "Heap of Spark's driver. Specific to the checkpointer.",
)
ENGINE_SPARK_SHARED_STORAGE = ConfigKey(
    "checkpoint.engine.spark.shared-storage",
    "",
    OPTIONAL_SWITCH,
    "Whether executors can access the storage directories under the same paths; unset: only with a local master. "
    "Without shared storage, each host receives the image and the edits once and returns its parts through Spark. "
    "Specific to the checkpointer.",
)
ENGINE_SPARK_PARTITIONS = ConfigKey(
    "checkpoint.engine.spark.partitions",
    "0",
    COUNT,
    "Number of parts of each large section; 0: one part for each 32 MiB. Specific to the checkpointer.",
    least=0,
)
ENGINE_SPARK_CONF = ConfigKey(
    "checkpoint.engine.spark.conf",
    "",
    text("settings"),
    "With .KEY appended: a setting of Spark. Specific to the checkpointer.",
)
MEMORY = ConfigKey(
    "checkpointer.memory",
    "",
    OPTIONAL_BYTES,
    "Limit on the memory of all large arrays of the index, the edits and the sums of checkpointer.namespace.sums, at "
    "least 64m. Arrays beyond the limit are stored in unnamed files, which the system writes to disk when it needs "
    "memory. Unset: unlimited. Specific to the checkpointer.",
)
MEMORY_DIR = ConfigKey(
    "checkpointer.memory.dir",
    "",
    paths("directory"),
    "Directory for arrays beyond checkpointer.memory and for large decompressed sections; on a disk, not in "
    "memory. Unset: the system's temporary directory. Specific to the checkpointer.",
)

MERGE_KEYS = keys_in(globals())
