"""Makes and unmakes one storage directory: VERSION and seen_txid appear whole, VERSION last."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from checkpointer.storage.leftovers import clean_leftovers
from hadoop_common.durable import fsync_directory, make_with_mode, write_atomically
from hadoop_common.errors import StorageError
from hadoop_common.names import SEEN_TXID, VERSION
from hadoop_common.storage_info import StorageInfo, format_version


def make_directory(root: Path, permission: int) -> None:
    """Make `root` with the mode `permission`, and its parents, unless it is there.

    Raises:
        StorageError: it cannot be made.
    """
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        make_with_mode(root, permission)
    except OSError as fault:
        raise StorageError(
            f"{root} cannot be made: {fault.strerror or fault}",
            hint="Check the disk, and the permissions of the directory above.",
        ) from fault


def format_directory(root: Path, info: StorageInfo, seen_txid: int, permission: int) -> None:
    """Give `root` a `current` folder with seen_txid and VERSION.

    Raises:
        OSError: one of them could not be written; without VERSION the directory does not count as formatted.
    """
    current = root / "current"
    if not current.is_dir():
        make_with_mode(current, permission)
        fsync_directory(root)
    write_seen_txid(root, seen_txid)
    write_version(root, info)


def unformat_directory(root: Path) -> None:
    """Remove VERSION, seen_txid and leftovers, and `current` if nothing else is in it.

    Raises:
        OSError: a file could not be removed.
    """
    current = root / "current"
    if not current.is_dir():
        return
    (current / VERSION).unlink(missing_ok=True)
    (current / SEEN_TXID).unlink(missing_ok=True)
    clean_leftovers(current)
    if not any(current.iterdir()):
        current.rmdir()
    fsync_directory(root)


def write_version(root: Path, info: StorageInfo) -> None:
    """Write VERSION atomically; raises OSError where it cannot."""
    write_atomically(root / "current" / VERSION, format_version(info, datetime.now(UTC)))


def write_seen_txid(root: Path, txid: int) -> None:
    """Write seen_txid atomically; raises OSError where it cannot."""
    write_atomically(root / "current" / SEEN_TXID, f"{txid}\n".encode("ascii"))
