"""The record of storage directories that contained images: a small file in each directory, and a file for the service.

An empty directory in the record has lost its contents, for example because its file system is not mounted. Such a
directory must not be formatted silently. The record also shows whether a returning directory is up to date or was
dropped for a while.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hadoop_common.durable import write_atomically

RECORD = "storage_directories.json"
"""File in each storage directory, next to `current`."""
_STATE_DIRECTORY = "STATE_DIRECTORY"  # set by systemd for a unit with StateDirectory=
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StorageRecord:
    """The state of all directories at the time `at`, in seconds since the epoch.

    Attributes:
        held: formatted directories, including directories that are not in use.
        in_use: directories of `held` that were up to date.
    """

    at: float
    held: frozenset[Path]
    in_use: frozenset[Path]


def newest_record(roots: Iterable[Path]) -> StorageRecord | None:
    """Return the newest record in `roots`, or else the service's record; None if no record can be read."""
    records = [record for root in roots if (record := _read(root / RECORD)) is not None]
    if not records:
        return _read(path) if (path := _service_file()) is not None else None
    return max(records, key=lambda record: record.at)


def write_record(held: Collection[Path], in_use: Collection[Path]) -> None:
    """Write the record to the directories `in_use`; the next use of a directory reports a failed write."""
    last = newest_record({*held, *in_use})
    # the time must be later than the time of the last record, even if the clock was set back
    at = max(time.time(), 0.0 if last is None else last.at + 0.001)
    for root in in_use:
        _write(root / RECORD, StorageRecord(at, frozenset(held), frozenset(in_use)))
    if (path := _service_file()) is not None:
        # other daemons of this service, with other directories, share the file
        before = _read(path)
        _write(path, StorageRecord(at, frozenset({*held, *(before.held if before else ())}), frozenset()))


def forget_held(roots: Collection[Path]) -> None:
    """Remove directories from the service's record after their format was undone."""
    if (path := _service_file()) is not None and (before := _read(path)) is not None:
        _write(path, replace(before, held=before.held.difference(roots)))


def remove_record(root: Path) -> None:
    """Remove a directory's record after its format was undone.

    Raises:
        OSError: the file cannot be removed.
    """
    (root / RECORD).unlink(missing_ok=True)


def _service_file() -> Path | None:
    folder = os.environ.get(_STATE_DIRECTORY, "").partition(":")[0]
    return Path(folder) / RECORD if folder else None


def _read(path: Path) -> StorageRecord | None:
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_MAX_BYTES))
        held, in_use = (frozenset(Path(each) for each in content[name]) for name in ("held", "inUse"))
        return StorageRecord(float(content["at"]), held, in_use)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, record: StorageRecord) -> None:
    content = {"at": record.at, "held": sorted(map(str, record.held)), "inUse": sorted(map(str, record.in_use))}
    with suppress(OSError):
        write_atomically(path, json.dumps(content, indent=1).encode() + b"\n")
