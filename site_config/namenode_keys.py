"""Keys of a NameNode, which the stub reads and the checkpointer ignores (`site_config.catalogue`)."""

from __future__ import annotations

from hadoop_common.config_key import COUNT, FACTOR, ConfigKey, text

EDITS_DIR = ConfigKey(
    "dfs.namenode.edits.dir",
    "${dfs.namenode.name.dir}",
    text("URIs"),
    "The NameNode's edits directories, in addition to the shared directories.",
)
EDITS_REQUIRED = ConfigKey(
    "dfs.namenode.edits.dir.required", "", text("URIs"), "Edits directories without which the NameNode stops."
)
EDITS_MINIMUM = ConfigKey(
    "dfs.namenode.edits.dir.minimum",
    "1",
    COUNT,
    "Minimum number of edits directories that must work, in addition to the required directories.",
    least=0,
)
ROLL_SHARE = ConfigKey(
    "dfs.namenode.edit.log.autoroll.multiplier.threshold",
    "0.5",
    FACTOR,
    "The active NameNode ends a segment after this multiple of dfs.namenode.checkpoint.txns.",
    release2="2.0",
    least=0,
)
HADOOP_VERSION = ConfigKey(
    "checkpointer.stub.hadoop.version",
    "",
    text("version"),
    "Release of Hadoop that the stub reports, such as 3.5.0; by default 2.7.3 or 3.4.1, depending on the layout of "
    "its storage. Specific to the checkpointer.",
)
BUILD_VERSION = ConfigKey(
    "checkpointer.stub.hadoop.build.version",
    "",
    text("revision"),
    "Source revision of that release, which must equal the revision of a BackupNode; by default, the official build's. "
    "Specific to the checkpointer.",
)
