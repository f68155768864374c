"""Hadoop's configuration keys that a JournalNode honours."""

from __future__ import annotations

from checkpointer.config.key import ABSENT, ConfigKey

__all__ = ["JOURNALNODE_KEYS"]

JOURNALNODE_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("dfs.journalnode.rpc-address", "0.0.0.0:8485", "host:port", "Where a JournalNode takes edits."),
    ConfigKey("dfs.journalnode.rpc-bind-host", "", "host", "What it binds to instead.", release2=ABSENT),
    ConfigKey("dfs.journalnode.http-address", "0.0.0.0:8480", "host:port", "Where it serves segments and its state."),
    ConfigKey("dfs.journalnode.http-bind-host", "", "host", "What it binds to instead.", release2=ABSENT),
    ConfigKey(
        "dfs.journalnode.edits.dir",
        "/tmp/hadoop/dfs/journalnode/",
        "directory",
        "Where it keeps journals; with .NAMESERVICE behind it: those of that nameservice.",
    ),
    ConfigKey("dfs.journalnode.edits.dir.perm", "700", "mode", "Mode of directories it makes there.", release2=ABSENT),
    ConfigKey("dfs.journalnode.handler.count", "5", "count", "Calls it performs at once.", release2=ABSENT),
    ConfigKey(
        "dfs.journalnode.enable.sync",
        "true",
        "switch",
        "Whether it fetches finalized segments that it missed from the others of dfs.namenode.shared.edits.dir.",
        release2=ABSENT,
    ),
    ConfigKey("dfs.journalnode.sync.interval", "120000", "ms", "How often it asks one of them.", release2=ABSENT),
    ConfigKey(
        "dfs.journalnode.enable.sync.format",
        "false",
        "switch",
        "Whether it formats a journal by itself as the others have it; of Hadoop 3.5.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.journalnode.edit-cache-size.bytes",
        "",
        "bytes",
        "Newest edits of a journal that it keeps in memory where dfs.ha.tail-edits.in-progress is set.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.journalnode.edit-cache-size.fraction",
        "0.5f",
        "share",
        "The same as a share of 1000 MiB, Hadoop's heap, where the size is not set.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.edit.log.transfer.timeout",
        "30000",
        "ms",
        "Its limit on each wait for another JournalNode.",
        release2=ABSENT,
    ),
    ConfigKey(
        "dfs.edit.log.transfer.bandwidthPerSec", "0", "bytes/s", "Its limit on transfers; 0 is none.", release2=ABSENT
    ),
)
