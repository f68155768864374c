"""Names of files in the folder of a journal on a JournalNode (JNStorage, Journal)."""

from __future__ import annotations

import re
from typing import Final

from hadoop_common.names import inprogress_name, segment_name

CURRENT: Final = "current"
VERSION_FILE: Final = "current/VERSION"
LAST_PROMISED_EPOCH: Final = "last-promised-epoch"
LAST_WRITER_EPOCH: Final = "last-writer-epoch"
COMMITTED_TXID: Final = "committed-txid"
PAXOS: Final = "current/paxos"
EDITS_SYNC: Final = "edits.sync"
DAMAGED: Final = "damaged"  # not in Hadoop: files that were set aside when the journal was formatted from its peers
SELF_FORMATTED: Final = "current/self-formatted"  # not in Hadoop: marks a node that lacks earlier segments

_FINALIZED = re.compile(r"edits_[0-9]+-([0-9]+)")
_IN_PROGRESS = re.compile(r"edits_inprogress_([0-9]+)(?:\..*)?")


def in_progress(first: int) -> str:
    return f"{CURRENT}/{inprogress_name(first)}"


def finalized(first: int, last: int) -> str:
    return f"{CURRENT}/{segment_name(first, last)}"


def download(first: int, epoch: int) -> str:
    """Return the name of the copy that the recovery of `epoch` fetched, before it replaces this node's copy."""
    return f"{in_progress(first)}.epoch={epoch}"


def paxos(first: int) -> str:
    return f"{PAXOS}/{first}"


def synced(first: int, last: int) -> str:
    """Return the name of a finalized segment that is being fetched from another node."""
    return f"{EDITS_SYNC}/{segment_name(first, last)}"


def is_obsolete(name: str, min_txid_to_keep: int) -> bool:
    """Return whether a purge removes the file of this name in `current` (JNStorage.purgeDataOlderThan of Hadoop
    2.7).
    """
    match = _FINALIZED.fullmatch(name) or _IN_PROGRESS.fullmatch(name)
    return match is not None and int(match[1]) < min_txid_to_keep
