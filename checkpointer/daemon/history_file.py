"""The history in each storage directory: an append-only file of JSON lines, next to `current`.

A file that reaches its size bound becomes the older of two, so that both together are bounded. Nothing is synced: after
a crash the last line may be missing or torn, and readers leave it out. A history that cannot be written never disturbs
a checkpoint.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.recurring_fault import RecurringFault
from node_state.history import HistoryEntry, as_line, read_lines

_LOG = logging.getLogger(__name__)

NAME: Final = "checkpointer-history.jsonl"
_OLDER: Final = f"{NAME}.1"
MAX_BYTES: Final = 4 << 20


class HistoryFile:
    """The files in the storage directories above `folders()`, which returns their `current` folders."""

    def __init__(self, folders: Callable[[], Iterable[Path]], max_bytes: int = MAX_BYTES) -> None:
        self._folders = folders
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._faults: dict[Path, RecurringFault] = {}
        # what was read last, by the identity of the files
        self._read: tuple[object, list[HistoryEntry]] | None = None

    def append(self, entry: HistoryEntry) -> None:
        """Append an entry in each directory."""
        with self._lock:
            for root in self._roots():
                path = root / NAME
                fault = self._faults.setdefault(root, RecurringFault(_LOG, f"{path} can be written again"))
                try:
                    self._append(root, as_line(entry))
                except OSError as error:
                    fault.occurred(f"{path} cannot be written: {error_text(error)}", level=logging.WARNING)
                else:
                    fault.ended()

    def entries(self) -> list[HistoryEntry]:
        """Return all entries of all directories, with duplicates; files that cannot be read are left out."""
        with self._lock:
            paths = [root / name for root in self._roots() for name in (_OLDER, NAME)]
            identity = tuple(map(_identity, paths))
            if self._read is None or self._read[0] != identity:
                self._read = identity, [entry for path in paths for entry in _entries(path)]
            return list(self._read[1])

    def _roots(self) -> list[Path]:
        try:
            return list(dict.fromkeys(folder.parent for folder in self._folders()))
        except (HdfsError, OSError):
            return []

    def _append(self, root: Path, line: bytes) -> None:
        path = root / NAME
        with path.open("a+b") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                # a torn line must not swallow the next one
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
        if size + len(line) >= self._max_bytes:
            path.replace(root / _OLDER)


def _identity(path: Path) -> tuple[str, int, int]:
    try:
        found = path.stat()
    except OSError:
        return str(path), -1, -1
    return str(path), found.st_size, found.st_mtime_ns


def _entries(path: Path) -> list[HistoryEntry]:
    try:
        return list(read_lines(path.read_bytes().splitlines()))
    except OSError:
        return []
