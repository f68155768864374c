"""HDFS audit logs (FSNamesystem.audit): users and clients, matched to transactions by command, path and time."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from archive.path_log import LogEntry
from journal.op_times import clean_path

TOLERANCE_MS = 5_000
"""Longest time from a transaction until the NameNode writes its audit line."""
_LINE = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[,.]\d+)?).*?\ballowed=true\s+ugi=(?P<ugi>\S+).*?\bip=/?(?P<ip>\S+)"
    r".*?\bcmd=(?P<cmd>\S+).*?\bsrc=(?P<src>[^\t]+(?=\tdst=)|\S.*?(?=\s+dst=))"
    r"\s+dst=(?P<dst>[^\t]+(?=\tperm=)|\S.*?(?=\s+perm=))\s+perm="
)
_OPENERS: Final[dict[str, Callable[..., Any]]] = {
    ".gz": partial(gzip.open, mode="rt", encoding="utf-8", errors="replace"),
    ".bz2": partial(bz2.open, mode="rt", encoding="utf-8", errors="replace"),
    ".xz": partial(lzma.open, mode="rt", encoding="utf-8", errors="replace"),
}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([\"'\\/nrtbf]))")
_CONTROL_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_SNAPSHOT = "/.snapshot/"
_CLIENT = re.compile(r"\bclientPort=(\S+)|\bcallerContext=(\S+)")
COMMANDS = {
    "OP_ADD": ("create", "append"),
    "OP_CLOSE": ("create", "append", "completeFile"),
    "OP_APPEND": ("append",),
    "OP_DELETE": ("delete",),
    "OP_MKDIR": ("mkdirs",),
    "OP_RENAME_OLD": ("rename",),
    "OP_RENAME": ("rename",),
    "OP_SET_OWNER": ("setOwner",),
    "OP_SET_PERMISSIONS": ("setPermission",),
    "OP_SET_REPLICATION": ("setReplication",),
    "OP_SET_ACL": ("setAcl", "modifyAclEntries", "removeAcl", "removeAclEntries", "removeDefaultAcl"),
    "OP_SET_XATTR": (
        *("setXAttr", "setErasureCodingPolicy", "createEncryptionZone", "reencryptEncryptionZone"),
        "satisfyStoragePolicy",
    ),
    "OP_REMOVE_XATTR": ("removeXAttr", "unsetErasureCodingPolicy"),
    "OP_SET_STORAGE_POLICY": ("setStoragePolicy", "unsetStoragePolicy"),
    "OP_SET_QUOTA": ("setQuota", "clearQuota", "setSpaceQuota", "clearSpaceQuota"),
    "OP_SET_QUOTA_BY_STORAGETYPE": ("setSpaceQuota", "clearSpaceQuota"),
    "OP_SYMLINK": ("createSymlink",),
    "OP_CONCAT_DELETE": ("concat",),
    "OP_TRUNCATE": ("truncate",),
    "OP_TIMES": ("setTimes",),
    "OP_CREATE_SNAPSHOT": ("createSnapshot",),
    "OP_DELETE_SNAPSHOT": ("deleteSnapshot",),
    "OP_RENAME_SNAPSHOT": ("renameSnapshot",),
    "OP_ALLOW_SNAPSHOT": ("allowSnapshot",),
    "OP_DISALLOW_SNAPSHOT": ("disallowSnapshot",),
    "OP_REASSIGN_LEASE": ("recoverLease",),
    "OP_ADD_CACHE_DIRECTIVE": ("addCacheDirective",),
    "OP_MODIFY_CACHE_DIRECTIVE": ("modifyCacheDirective",),
    "OP_REMOVE_CACHE_DIRECTIVE": ("removeCacheDirective",),
    "OP_ADD_CACHE_POOL": ("addCachePool",),
    "OP_MODIFY_CACHE_POOL": ("modifyCachePool",),
    "OP_REMOVE_CACHE_POOL": ("removeCachePool",),
    "OP_ADD_ERASURE_CODING_POLICY": ("addErasureCodingPolicies",),
    "OP_ENABLE_ERASURE_CODING_POLICY": ("enableErasureCodingPolicy",),
    "OP_DISABLE_ERASURE_CODING_POLICY": ("disableErasureCodingPolicy",),
    "OP_REMOVE_ERASURE_CODING_POLICY": ("removeErasureCodingPolicy",),
    "OP_GET_DELEGATION_TOKEN": ("getDelegationToken",),
    "OP_RENEW_DELEGATION_TOKEN": ("renewDelegationToken",),
    "OP_CANCEL_DELEGATION_TOKEN": ("cancelDelegationToken",),
    "OP_ROLLING_UPGRADE_START": ("startRollingUpgrade",),
    "OP_ROLLING_UPGRADE_FINALIZE": ("finalizeRollingUpgrade",),
}
"""Commands of audit lines, by the name of the edit log operation."""

_OF_SNAPSHOTS = frozenset({"renameSnapshot", "deleteSnapshot"})


class AuditLine(NamedTuple):
    """A line of an audit log; `time` is in ms since the epoch, and the line's text is in the time zone of this host."""

    time: int
    user: str
    address: str
    command: str
    src: str
    dst: str
    client: str


def read_audit(paths: Iterable[Path]) -> Iterator[AuditLine]:
    """Read audit logs, plain or compressed with gzip, bzip2 or xz; skip lines without an allowed operation."""
    for path in paths:
        newest = _start_of_log(path)
        with _opened(path) as stream:
            for line in stream:
                if (found := parse_audit(line, newest)) is not None:
                    newest = max(newest, found.time)
                    yield found


def _start_of_log(path: Path) -> int:
    """Return a time in ms before which the log has no lines, or 0 if the time is unknown.

    The time is known if the log begins after a clock change, in the period that the change repeats. In this case, the
    first line after this period follows without a step back. A log from before the clock change contains the step,
    unless it lacks all lines of the repeated period. A pipe can be read only once, so the time is unknown.
    """
    if not path.is_file():
        return 0
    first = newest = 0
    with _opened(path) as stream:
        for line in stream:
            if (match := _LINE.match(line)) is None:
                continue
            at = datetime.fromisoformat(match["time"].replace(",", "."))
            early, late = (int(at.replace(fold=fold).timestamp() * 1000) for fold in (0, 1))
            if late <= early:
                return first
            if early < newest - TOLERANCE_MS:
                break
            first, newest = first or late, max(newest, early)
    return 0


def parse_audit(line: str, after: int = 0) -> AuditLine | None:
    """Parse a line; return None if it does not record an allowed operation.

    Args:
        after: time of the log's earlier lines. If a clock change repeats the line's time, this time determines the
            moment.
    """
    match = _LINE.match(line)
    if match is None:
        return None
    at = datetime.fromisoformat(match["time"].replace(",", "."))
    if at.timestamp() * 1000 < after - TOLERANCE_MS:
        at = at.replace(fold=1)
    client = " ".join(one or other for one, other in _CLIENT.findall(line))
    return AuditLine(
        int(at.timestamp() * 1000),
        match["ugi"],
        match["ip"],
        match["cmd"],
        clean_path(_unescaped(match["src"])),
        "" if match["dst"] == "null" else clean_path(_unescaped(match["dst"])),
        client,
    )


def _unescaped(text: str) -> str:
    """Return a path without Java's escapes.

    The audit logger of Hadoop 3 escapes quotes, backslashes, and all characters that are not printable ASCII. The
    logger of Hadoop 2 escapes nothing.
    """
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _character(found[2]), text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escaped: str) -> str:
    return _CONTROL_CHARACTERS.get(escaped, escaped)


def _path_of(line: AuditLine) -> str:
    """Return the first path of the line's operation in the edits."""
    if line.command == "concat":
        return line.dst
    # the NameNode logs the path of a renamed or deleted snapshot, and the edits contain the snapshottable directory
    return (line.src.partition(_SNAPSHOT)[0] or "/") if line.command in _OF_SNAPSHOTS else line.src


def join_audit(entries: Iterable[LogEntry], lines: Iterable[AuditLine]) -> dict[int, AuditLine]:
    """Return the matching audit lines by the txid of their entries.

    A line belongs to an entry if its command and source path match the operation, and its time is the nearest time
    within `TOLERANCE_MS`. An entry without a recorded time is joined if exactly one line has its command and path.
    """
    by_source: dict[str, list[AuditLine]] = defaultdict(list)
    for line in lines:
        by_source[_path_of(line)].append(line)
    found = {}
    for entry in entries:
        commands = COMMANDS.get(entry.operation, ())
        source = clean_path(entry.paths[0]) if entry.paths else ""
        matching = [line for line in by_source[source] if line.command in commands]
        near = [line for line in matching if abs(line.time - entry.time) <= TOLERANCE_MS]
        if entry.approximate:
            near = matching if len(matching) == 1 else near
        if near:
            found[entry.txid] = min(near, key=lambda line: abs(line.time - entry.time))
    return found


def _opened(path: Path) -> IO[str]:
    opener = _OPENERS.get(path.suffix)
    if opener is None:
        return path.open(encoding="utf-8", errors="replace")
    stream: IO[str] = opener(path)
    return stream
