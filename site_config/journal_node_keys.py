"""Configuration keys of a JournalNode."""

from __future__ import annotations

from hadoop_common.config_key import (
    ABSENT,
    COUNT,
    MILLISECONDS,
    OPTIONAL_BYTES,
    RATE,
    SWITCH,
    ConfigKey,
    keys_in,
    paths,
    text,
)

JOURNALNODE_RPC_ADDRESS = ConfigKey(
    "dfs.journalnode.rpc-address", "0.0.0.0:8485", text("host:port"), "A JournalNode's RPC server, which accepts edits."
)
JOURNALNODE_RPC_BIND_HOST = ConfigKey(
    "dfs.journalnode.rpc-bind-host", "", text("host"), "Bind address of a JournalNode's RPC server.", release2=ABSENT
)
JOURNALNODE_HTTP_ADDRESS = ConfigKey(
    "dfs.journalnode.http-address",
    "0.0.0.0:8480",
    text("host:port"),
    "A JournalNode's HTTP server, which serves segments and the node's state.",
)
JOURNALNODE_HTTP_BIND_HOST = ConfigKey(
    "dfs.journalnode.http-bind-host", "", text("host"), "Bind address of a JournalNode's HTTP server.", release2=ABSENT
)
JOURNALNODE_HTTPS_ADDRESS = ConfigKey(
    "dfs.journalnode.https-address", "0.0.0.0:8481", text("host:port"), "A JournalNode's HTTPS server."
)
JOURNALNODE_HTTPS_BIND_HOST = ConfigKey(
    "dfs.journalnode.https-bind-host",
    "",
    text("host"),
    "Bind address of a JournalNode's HTTPS server.",
    release2=ABSENT,
)
JOURNALNODE_EDITS_DIR = ConfigKey(
    "dfs.journalnode.edits.dir",
    "/tmp/hadoop/dfs/journalnode/",
    paths("directory"),
    "Directory of a JournalNode's journals; with .NAMESERVICE appended: directory of that nameservice's journals.",
)
JOURNALNODE_EDITS_DIR_PERM = ConfigKey(
    "dfs.journalnode.edits.dir.perm", "700", text("mode"), "Mode of new journal directories.", release2=ABSENT
)
JOURNALNODE_HANDLER_COUNT = ConfigKey(
    "dfs.journalnode.handler.count",
    "5",
    COUNT,
    "Number of calls that a JournalNode performs in parallel.",
    release2=ABSENT,
    least=1,
)
JOURNALNODE_ENABLE_SYNC = ConfigKey(
    "dfs.journalnode.enable.sync",
    "true",
    SWITCH,
    "Whether a JournalNode fetches missed segments from the other nodes in dfs.namenode.shared.edits.dir.",
    release2=ABSENT,
)
JOURNALNODE_SYNC_INTERVAL = ConfigKey(
    "dfs.journalnode.sync.interval",
    "120000",
    MILLISECONDS,
    "Interval of queries for missed segments.",
    release2=ABSENT,
    least=0.001,
)
JOURNALNODE_ENABLE_SYNC_FORMAT = ConfigKey(
    "dfs.journalnode.enable.sync.format",
    "false",
    SWITCH,
    "Whether a JournalNode formats a journal with the namespace of the other nodes; since Hadoop 3.5.",
    release2=ABSENT,
)
JOURNALNODE_EDIT_CACHE_SIZE_BYTES = ConfigKey(
    "dfs.journalnode.edit-cache-size.bytes",
    "",
    OPTIONAL_BYTES,
    "Maximum size of a journal's newest edits in memory, with dfs.ha.tail-edits.in-progress.",
    release2=ABSENT,
)
JOURNALNODE_EDIT_CACHE_SIZE_FRACTION = ConfigKey(
    "dfs.journalnode.edit-cache-size.fraction",
    "0.5f",
    text("share"),
    "Maximum size of a journal's newest edits in memory as a fraction of 1000 MiB (Hadoop's heap), used if "
    "dfs.journalnode.edit-cache-size.bytes is unset.",
    release2=ABSENT,
)
EDIT_LOG_TRANSFER_TIMEOUT = ConfigKey(
    "dfs.edit.log.transfer.timeout",
    "30000",
    MILLISECONDS,
    "Time limit of each wait for another JournalNode.",
    release2=ABSENT,
    least=0.001,
)
EDIT_LOG_TRANSFER_BANDWIDTH_PER_SEC = ConfigKey(
    "dfs.edit.log.transfer.bandwidthPerSec",
    "0",
    RATE,
    "Bandwidth limit of a JournalNode for fetching missed segments from other nodes; 0 or less: unlimited.",
    release2=ABSENT,
)

JOURNALNODE_FORMAT_NOT_EMPTY = ConfigKey(
    "checkpointer.journalnode.format.not-empty",
    "false",
    SWITCH,
    "Whether a NameNode may format a journal that contains segments. Specific to the checkpointer.",
)
JOURNALNODE_MAX_JOURNALS = ConfigKey(
    "checkpointer.journalnode.journals.max",
    "32",
    COUNT,
    "Number of journals that a JournalNode accepts in addition to the journals in dfs.namenode.shared.edits.dir and "
    "on its disk. If dfs.namenode.shared.edits.dir names a journal for each nameservice, the node accepts none. "
    "Specific to the checkpointer.",
    least=1,
)

JOURNALNODE_KEYS = keys_in(globals())
