"""Hadoop's configuration keys that a JournalNode honours."""

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
    "dfs.journalnode.rpc-address", "0.0.0.0:8485", text("host:port"), "Where a JournalNode takes edits."
)
JOURNALNODE_RPC_BIND_HOST = ConfigKey(
    "dfs.journalnode.rpc-bind-host", "", text("host"), "What it binds to instead.", release2=ABSENT
)
JOURNALNODE_HTTP_ADDRESS = ConfigKey(
    "dfs.journalnode.http-address", "0.0.0.0:8480", text("host:port"), "Where it serves segments and its state."
)
JOURNALNODE_HTTP_BIND_HOST = ConfigKey(
    "dfs.journalnode.http-bind-host", "", text("host"), "What it binds to instead.", release2=ABSENT
)
JOURNALNODE_HTTPS_ADDRESS = ConfigKey(
    "dfs.journalnode.https-address", "0.0.0.0:8481", text("host:port"), "The same over HTTPS."
)
JOURNALNODE_HTTPS_BIND_HOST = ConfigKey(
    "dfs.journalnode.https-bind-host", "", text("host"), "What it binds to instead.", release2=ABSENT
)
JOURNALNODE_EDITS_DIR = ConfigKey(
    "dfs.journalnode.edits.dir",
    "/tmp/hadoop/dfs/journalnode/",
    paths("directory"),
    "Where it keeps journals; with .NAMESERVICE appended: those of that nameservice.",
)
JOURNALNODE_EDITS_DIR_PERM = ConfigKey(
    "dfs.journalnode.edits.dir.perm", "700", text("mode"), "Mode of directories it makes there.", release2=ABSENT
)
JOURNALNODE_HANDLER_COUNT = ConfigKey(
    "dfs.journalnode.handler.count", "5", COUNT, "Calls it performs at once.", release2=ABSENT, least=1
)
JOURNALNODE_ENABLE_SYNC = ConfigKey(
    "dfs.journalnode.enable.sync",
    "true",
    SWITCH,
    "Whether it fetches finalized segments that it missed from the others of dfs.namenode.shared.edits.dir.",
    release2=ABSENT,
)
JOURNALNODE_SYNC_INTERVAL = ConfigKey(
    "dfs.journalnode.sync.interval",
    "120000",
    MILLISECONDS,
    "How often it asks one of them.",
    release2=ABSENT,
    least=0.001,
)
JOURNALNODE_ENABLE_SYNC_FORMAT = ConfigKey(
    "dfs.journalnode.enable.sync.format",
    "false",
    SWITCH,
    "Whether it formats a journal by itself as the others have it; of Hadoop 3.5.",
    release2=ABSENT,
)
JOURNALNODE_EDIT_CACHE_SIZE_BYTES = ConfigKey(
    "dfs.journalnode.edit-cache-size.bytes",
    "",
    OPTIONAL_BYTES,
    "Newest edits of a journal that it keeps in memory where dfs.ha.tail-edits.in-progress is set.",
    release2=ABSENT,
)
JOURNALNODE_EDIT_CACHE_SIZE_FRACTION = ConfigKey(
    "dfs.journalnode.edit-cache-size.fraction",
    "0.5f",
    text("share"),
    "The same as a share of 1000 MiB, Hadoop's heap, where the size is not set.",
    release2=ABSENT,
)
EDIT_LOG_TRANSFER_TIMEOUT = ConfigKey(
    "dfs.edit.log.transfer.timeout",
    "30000",
    MILLISECONDS,
    "Its limit on each wait for another JournalNode.",
    release2=ABSENT,
    least=0.001,
)
EDIT_LOG_TRANSFER_BANDWIDTH_PER_SEC = ConfigKey(
    "dfs.edit.log.transfer.bandwidthPerSec", "0", RATE, "Its limit on transfers; 0 is none.", release2=ABSENT, least=0
)

JOURNALNODE_FORMAT_NOT_EMPTY = ConfigKey(
    "checkpointer.journalnode.format.not-empty",
    "false",
    SWITCH,
    "Whether a NameNode may format a journal that holds segments. Specific to the checkpointer.",
)
JOURNALNODE_MOST_JOURNALS = ConfigKey(
    "checkpointer.journalnode.journals.max",
    "32",
    COUNT,
    "Journals it keeps beside those of dfs.namenode.shared.edits.dir and those on its disk; none where that key names "
    "one for each nameservice. Specific to the checkpointer.",
    least=1,
)

JOURNALNODE_KEYS = keys_in(globals())
