"""All keys of Hadoop's checkpointing: the keys of `site_config.keys`, and the keys that the checkpointer ignores or
refuses.

Names and defaults are taken from hdfs-default.xml and core-default.xml of Hadoop 3.4.1. If Hadoop 2.7.3 has a different
default, the entry contains both defaults.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hadoop_common.config_key import ABSENT, ConfigKey, KeyStatus, text
from hadoop_common.configuration import Configuration, ConfigurationFault
from journal.bookkeeper.settings import WRITER_KEYS as BOOKKEEPER_WRITER_KEYS
from journal.quorum.settings import WRITER_KEYS
from journal.shared_edits import RESOLUTION
from site_config.keys import KEYS
from site_config.namenode_keys import (
    BUILD_VERSION,
    EDITS_DIR,
    EDITS_MINIMUM,
    EDITS_REQUIRED,
    HADOOP_VERSION,
    ROLL_SHARE,
)

# name and default, and Hadoop 2.7's default if it differs
_Row = tuple[str, str] | tuple[str, str, str]


_NO_UNIT = text("")


def _ignored(meaning: str, reason: str, *rows: _Row) -> list[ConfigKey[str]]:
    return [
        ConfigKey(row[0], row[1], _NO_UNIT, meaning, KeyStatus.IGNORED, reason, row[2] if len(row) > 2 else None)
        for row in rows
    ]


def _unread(reason: str, *keys: ConfigKey[Any]) -> list[ConfigKey[Any]]:
    """Return `keys` with the status "ignored", because only other programs read them."""
    return [replace(key, status=KeyStatus.IGNORED, reason=reason) for key in keys]


_LIVE = "it affects only what the NameNode logs; the checkpointer replays the logged edits"
_QUORUM = "it affects only writers to JournalNodes; the checkpointer only reads"
_BOOKKEEPER = "it affects only writers to bookies; the checkpointer only reads"
_NO_EDITS = "the checkpointer only reads edits, from the NameNode or from dfs.namenode.shared.edits.dir"
_ROLLS = "it affects only the active NameNode; dfs.ha.log-roll.period determines when the checkpointer requests a roll"
_ADDRESSES = "the checkpointer connects to the addresses, not to the bind hosts"

_NOT_SUPPORTED: tuple[ConfigKey[Any], ...] = (
    *_ignored(
        "Limit on parallel uploads.",
        "Hadoop does not have this key; use checkpointer.upload.parallelism",
        ("dfs.namenode.checkpoint.parallel.upload.max-threads", "", ABSENT),
    ),
    *_ignored(
        "Whether an image is sent to several NameNodes in parallel.",
        "checkpointer.upload.parallelism sets the number",
        ("dfs.namenode.checkpoint.parallel.upload.enabled", "false", ABSENT),
    ),
    *_ignored(
        "Size of edits that triggers a checkpoint.",
        "Hadoop has ignored this key since 2.0; use dfs.namenode.checkpoint.txns",
        ("fs.checkpoint.size", ""),
        ("dfs.namenode.checkpoint.size", ""),
    ),
    *_ignored(
        "Directory for an additional image in the format of releases before Hadoop 2.4.",
        "that format is not written; `checkpointer image dump` converts an image to text",
        ("dfs.namenode.legacy-oiv-image.dir", ""),
    ),
    *_ignored(
        "Number of missed checkpoint periods after which a stopping NameNode saves its namespace.",
        "it affects only the NameNode",
        ("dfs.namenode.missing.checkpoint.periods.before.shutdown", "3", ABSENT),
    ),
    *_unread("only the stub reports a Hadoop version", HADOOP_VERSION, BUILD_VERSION),
    *_unread(_NO_EDITS, EDITS_DIR, EDITS_REQUIRED, EDITS_MINIMUM),
    *_unread(_ROLLS, ROLL_SHARE),
    *_ignored(
        "Whether a separate thread of the NameNode writes the edits.",
        _NO_EDITS,
        ("dfs.namenode.edits.asynclogging", "true", ABSENT),
    ),
    *_ignored(
        "Maximum number of edits that wait for the thread of dfs.namenode.edits.asynclogging.",
        _NO_EDITS,
        ("dfs.namenode.edits.asynclogging.pending.queue.size", "4096", ABSENT),
    ),
    *_ignored(
        "Whether the NameNode opens its edits files for synchronous writes instead of flushing them.",
        _NO_EDITS,
        ("dfs.namenode.edits.noeditlogchannelflush", "false"),
    ),
    *_ignored(
        "Interval at which the active NameNode checks whether to end its segment without a request.",
        _ROLLS,
        ("dfs.namenode.edit.log.autoroll.check.interval.ms", "300000"),
    ),
    *_ignored(
        "The NameNode's protection against full disks.",
        "it switches the NameNode to safe mode; `checkpointer check` checks the checkpointer's disks",
        ("dfs.namenode.resource.check.interval", "5000"),
        ("dfs.namenode.resource.checked.volumes", ""),
        ("dfs.namenode.resource.checked.volumes.minimum", "1"),
    ),
    *_ignored(
        "Protection of a NameNode against being formatted.",
        "the checkpointer formats only its own empty directories",
        ("dfs.reformat.disabled", "false", ABSENT),
        ("dfs.namenode.support.allow.format", "true"),
    ),
    *_ignored(
        "Limits and switches of operations on a live NameNode.",
        _LIVE,
        ("dfs.namenode.accesstime.precision", "3600000"),
        ("dfs.namenode.acls.enabled", "true", "false"),
        ("dfs.namenode.posix.acl.inheritance.enabled", "true", ABSENT),
        ("dfs.quota.by.storage.type.enabled", "true"),
        ("dfs.namenode.snapshot.max.limit", "65536", ABSENT),
        ("dfs.namenode.snapshot.filesystem.limit", "65536", ABSENT),
    ),
    *_ignored(
        "Storage and comparison of snapshots in a NameNode's memory.",
        "it does not affect the image",
        ("dfs.namenode.snapshot.skiplist.interval", "10", ABSENT),
        ("dfs.namenode.snapshot.skiplist.max.levels", "0", ABSENT),
        ("dfs.namenode.snapshotdiff.allow.snap-root-descendant", "true", ABSENT),
        ("dfs.namenode.snapshotdiff.listing.limit", "1000", ABSENT),
    ),
    *_ignored(
        "Number of threads that load an image.",
        "the checkpointer uses the number of processors",
        ("dfs.image.parallel.threads", "4", ABSENT),
    ),
    *_ignored(
        "Time limits of a roll request.",
        "ipc.client.rpc-timeout.ms limits every call",
        ("dfs.ha.tail-edits.rolledits.timeout", "60", ABSENT),
        ("dfs.ha.log-roll.rpc.timeout", "20000"),
    ),
    *_ignored(
        "Conditions under which a NameNode in HA becomes active or answers reads.",
        "it affects only the NameNode",
        ("dfs.ha.nn.not-become-active-in-safemode", "false", ABSENT),
        ("dfs.ha.allow.stale.reads", "false"),
    ),
    *_ignored(
        "Java classes of journals.",
        "Java classes are not loaded; dfs.namenode.shared.edits.dir alone selects the journal",
        ("dfs.namenode.edits.journal-plugin", ""),
        ("dfs.namenode.edits.journal-plugin.qjournal", "org.apache.hadoop.hdfs.qjournal.client.QuorumJournalManager"),
    ),
    *_unread(_QUORUM, *WRITER_KEYS),
    RESOLUTION,
    *_ignored(RESOLUTION.meaning, RESOLUTION.reason, ("dfs.namenode.edits.qjournals.resolver.impl", "", ABSENT)),
    *_ignored(
        "Number of segments that a NameNode reads in parallel from JournalNodes.",
        "the checkpointer replays one segment after another",
        ("dfs.qjournal.parallel-read.num-threads", "5", ABSENT),
    ),
    *_unread(_BOOKKEEPER, *BOOKKEEPER_WRITER_KEYS),
    *_ignored(
        "Servers of the NameNode that a checkpointer does not call, and their bind hosts.",
        _ADDRESSES,
        ("dfs.namenode.lifeline.rpc-bind-host", "", ABSENT),
        ("dfs.namenode.rpc-address.auxiliary-ports", "", ABSENT),
    ),
    *_ignored(
        "The BackupNode's RPC server for DataNodes.",
        "the backup role does not serve DataNodes",
        ("dfs.namenode.backup.dnrpc-address", ""),
    ),
    *_ignored(
        "Key store files of other Hadoop programs.",
        "the servers and transfers of HDFS use dfs.https.server.keystore.resource and hadoop.ssl.client.conf",
        ("hadoop.ssl.server.conf", "ssl-server.xml"),
        ("dfs.client.https.keystore.resource", "ssl-client.xml"),
    ),
    *_ignored(
        "Java classes that read the key stores.",
        "Java classes are not loaded; the checkpointer reads the stores itself",
        ("hadoop.ssl.keystores.factory.class", "org.apache.hadoop.security.ssl.FileBasedKeyStoresFactory"),
    ),
    ConfigKey(
        "hadoop.rpc.socket.factory.class.default",
        "org.apache.hadoop.net.StandardSocketFactory",
        text("class"),
        "Java class that connects to RPC servers.",
        KeyStatus.REFUSED,
        "Java classes are not loaded, and a configured proxy would be bypassed silently",
    ),
)

CATALOGUE: tuple[ConfigKey[Any], ...] = (*KEYS, *_NOT_SUPPORTED)

# prefixes of keys that concern checkpoints; reports list a key with such a prefix as unknown if the catalogue lacks it
PREFIXES = (
    "checkpointer.",
    "dfs.edit.log.",
    "dfs.ha.",
    "dfs.image.",
    "dfs.journalnode.",
    "dfs.namenode.backup.",
    "dfs.namenode.bookkeeperjournal.",
    "dfs.namenode.checkpoint.",
    "dfs.namenode.edit.log.",
    "dfs.namenode.edits.",
    "dfs.namenode.name.dir",
    "dfs.namenode.num.checkpoints",
    "dfs.namenode.num.extra",
    "dfs.namenode.max.extra",
    "dfs.namenode.secondary.",
    "dfs.namenode.shared.edits.",
    "dfs.qjm.",
    "dfs.qjournal.",
    "dfs.secondary.namenode.",
    "fs.checkpoint.",
    "ha.failover-controller.",
    "ha.health-monitor.",
    "ha.zookeeper.",
)

_BY_NAME = {key.name: key for key in CATALOGUE}


def entry_of(name: str, suffixes: Sequence[str] = ()) -> ConfigKey[Any] | None:
    """Return the catalogue's key for `name`, which may end with `.NAMESERVICE` or `.NAMESERVICE.NAMENODE`."""
    found = _BY_NAME.get(name)
    for suffix in suffixes:
        if found is None and name.endswith(f".{suffix}"):
            found = _BY_NAME.get(name.removesuffix(f".{suffix}"))
    if found is None and name.startswith("dfs.namenode.edits.journal-plugin."):
        return _BY_NAME["dfs.namenode.edits.journal-plugin"]
    return found


def closest(name: str) -> str:
    """Return the known key that is most similar to `name`, or "" if no key is similar."""
    return next(iter(difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.85)), "")


def refusals(configuration: Configuration) -> list[ConfigurationFault]:
    """Return a fault for each REFUSED key that a file sets to a value other than the default."""
    return [
        configuration.fault(key.name, f"is refused: {key.reason}")
        for key in CATALOGUE
        if key.status is KeyStatus.REFUSED and configuration.get(key.name, key.default) not in ("", key.default)
    ]
