"""Which storage directories held images at the last run: a small file in each of them, and one of the service.

An empty directory that is in the record has lost its contents, as one whose file system is not mounted: it must not be
formatted without a word. Among directories that come back the record tells those that are up to date from those that
were left out for a while.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hadoop_common.durable import write_atomically

RECORD = "storage_directories.json"
"""In each storage directory, beside `current`."""
_STATE_DIRECTORY = "STATE_DIRECTORY"  # set by systemd for a unit with StateDirectory=
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StorageRecord:
    """What was so `at` this time, in seconds since the epoch.

    Attributes:
        held: the directories that were formatted, in use or not.
        in_use: those of them that were up to date.
    """

    at: float
    held: frozenset[Path]
    in_use: frozenset[Path]


def newest_record(roots: Iterable[Path], environment: Mapping[str, str] = os.environ) -> StorageRecord | None:
    """The newest record in any of `roots`, or else that of the service; None where there is none that can be read."""
    records = [record for root in roots if (record := _read(root / RECORD)) is not None]
    if not records:
        return _read(path) if (path := _service_file(environment)) is not None else None
    return max(records, key=lambda record: record.at)


def write_record(held: Collection[Path], in_use: Collection[Path], environment: Mapping[str, str] = os.environ) -> None:
    """Record what holds now in the directories `in_use`; what cannot be written there is reported at the next use."""
    last = newest_record({*held, *in_use}, environment)
    # The record is the newest one also where the clock was set back.
    at = max(time.time(), 0.0 if last is None else last.at + 0.001)
    for root in in_use:
        _write(root / RECORD, StorageRecord(at, frozenset(held), frozenset(in_use)))
    if (path := _service_file(environment)) is not None:
        # That of a daemon next to this one, with other directories, is in the same file.
        before = _read(path)
        _write(path, StorageRecord(at, frozenset({*held, *(before.held if before else ())}), frozenset()))


def forget_held(roots: Collection[Path], environment: Mapping[str, str] = os.environ) -> None:
    """Take directories that were formatted in vain out of the record of the service."""
    path = _service_file(environment)
    if path is not None and (before := _read(path)) is not None:
        _write(path, replace(before, held=before.held.difference(roots)))


def remove_record(root: Path) -> None:
    """Remove the record of a directory that was formatted in vain.

    Raises:
        OSError: it cannot be removed.
    """
    (root / RECORD).unlink(missing_ok=True)


def _service_file(environment: Mapping[str, str]) -> Path | None:
    folder = environment.get(_STATE_DIRECTORY, "").partition(":")[0]
    return Path(folder) / RECORD if folder else None


def _read(path: Path) -> StorageRecord | None:
    try:
        with path.open("rb") as file:
            told = json.loads(file.read(_MAX_BYTES))
        held, in_use = (frozenset(Path(each) for each in told[name]) for name in ("held", "inUse"))
        return StorageRecord(float(told["at"]), held, in_use)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, record: StorageRecord) -> None:
    told = {"at": record.at, "held": sorted(map(str, record.held)), "inUse": sorted(map(str, record.in_use))}
    with suppress(OSError):
        write_atomically(path, json.dumps(told, indent=1).encode() + b"\n")
