"""seen_txid of a storage directory: the first transaction of the segment that its NameNode began last."""

from __future__ import annotations

from pathlib import Path

from hadoop_common.errors import StorageError
from hadoop_common.file_faults import file_faults
from hadoop_common.names import SEEN_TXID
from hadoop_common.regular_file import read_regular

_MAX_BYTES = 1024


def read_seen_txid(path: Path) -> int:
    """Return the transaction id in a seen_txid file.

    Raises:
        StorageError: the file cannot be read, or does not contain a transaction id.
    """
    with file_faults(path, "cannot be read"):
        text = read_regular(path, _MAX_BYTES).decode("ascii", "replace").strip()
    if not text.isdecimal() or int(text) >= 1 << 63:
        raise StorageError(
            f"{path} contains {text[:40]!r}, expected a transaction id",
            hint="Copy seen_txid from another directory of the same NameNode; a smaller number would hide missing "
            "edits.",
        )
    return int(text)


def check_covered(current: Path, seen: int | None, last_txid: int) -> None:
    """Check that images and edits reach the txid in seen_txid of a `current` folder.

    Args:
        seen: the txid in seen_txid; None if the folder does not have this file.
        last_txid: newest transaction found.

    Raises:
        StorageError: edits that once existed are missing.
    """
    if seen is not None and last_txid < seen:
        raise StorageError(
            f"{current / SEEN_TXID} records that txid {seen} was begun, but the newest transaction found is "
            f"{last_txid}: edits from txid {last_txid + 1} on are missing",
            hint="Restore the missing segments from another edits directory or a JournalNode.",
        )
