"""Keys that only a NameNode honours: the stub reads them, the checkpointer ignores them (`config.catalogue`)."""

from __future__ import annotations

from hadoop_common.config_key import COUNT, FACTOR, ConfigKey, text

EDITS_DIR = ConfigKey(
    "dfs.namenode.edits.dir",
    "${dfs.namenode.name.dir}",
    text("URIs"),
    "Where the NameNode writes edits beside the shared ones.",
)
EDITS_REQUIRED = ConfigKey(
    "dfs.namenode.edits.dir.required", "", text("URIs"), "Edits directories that it cannot work without."
)
EDITS_MINIMUM = ConfigKey(
    "dfs.namenode.edits.dir.minimum", "1", COUNT, "How many of the other edits directories must work.", least=0
)
ROLL_SHARE = ConfigKey(
    "dfs.namenode.edit.log.autoroll.multiplier.threshold",
    "0.5",
    FACTOR,
    "The active ends a segment by itself at this share of the transactions that make a checkpoint due.",
    release2="2.0",
    least=0,
)
RPC_BIND_HOST = ConfigKey(
    "dfs.namenode.rpc-bind-host", "", text("host"), "What the NameNode's RPC server binds to instead."
)
HADOOP_VERSION = ConfigKey(
    "checkpointer.stub.hadoop.version",
    "",
    text("version"),
    "Release of Hadoop that the stub passes for, such as 3.5.0; by default 2.7.3 or 3.4.1, by the layout of its "
    "storage; a key of ours",
)
BUILD_VERSION = ConfigKey(
    "checkpointer.stub.hadoop.build.version",
    "",
    text("revision"),
    "Source revision of that release, which must be a BackupNode's own; by default that of the official build; a key "
    "of ours",
)
