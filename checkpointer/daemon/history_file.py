"""The history file of each storage directory: an append-only file of JSON lines next to `current`.

A file that reaches its size limit is renamed and replaces the older file, which limits the total size. Appends are not
synced, so the last line may be missing or torn after a crash; readers skip torn lines. A fault of the history never
affects a checkpoint.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import error_text
from hadoop_common.recurring_fault import RecurringFault
from node_state.history import HistoryEntry, as_line, read_line

_LOG = logging.getLogger(__name__)

NAME: Final = "checkpointer-history.jsonl"
_OLDER: Final = f"{NAME}.1"
MAX_BYTES: Final = 4 << 20


@dataclass(slots=True)
class _ReadPart:
    """The entries of a file's complete lines up to the offset `end`, keyed by line."""

    end: int = 0
    entries: dict[bytes, HistoryEntry] = field(default_factory=dict)


class HistoryFile:
    """The history files in the storage directories; `folders()` returns their `current` folders.

    A read parses only the lines that were appended after the previous read, and never delays an append.
    """

    def __init__(self, folders: Callable[[], Iterable[Path]], max_bytes: int = MAX_BYTES) -> None:
        self._folders = folders
        self._max_bytes = max_bytes
        self._writing = threading.Lock()
        self._faults: dict[Path, RecurringFault] = {}
        self._reading = threading.Lock()
        # keyed by device and inode, which do not change when a file is renamed
        self._parts: dict[tuple[int, int], _ReadPart] = {}
        self._sorted: list[HistoryEntry] = []

    def append(self, entry: HistoryEntry) -> bool:
        """Append an entry in each directory; return whether any append succeeded.

        Raises:
            TypeError: the entry has a value that JSON cannot represent.
        """
        line, written = as_line(entry), False
        with self._writing:
            for root in self._roots():
                path = root / NAME
                fault = self._faults.setdefault(root, RecurringFault(_LOG, f"{path} can be written again"))
                try:
                    self._append(root, line)
                except OSError as error:
                    fault.occurred(f"{path} cannot be written: {error_text(error)}", level=logging.WARNING)
                else:
                    written = True
                    fault.ended()
        return written

    def entries(self) -> Sequence[HistoryEntry]:
        """Return the entries of all directories without duplicates, oldest first; skip unreadable files.

        The caller must not change the result.
        """
        with self._reading:
            # read the newer file first, because it may be renamed to the older name at any time
            paths = [root / name for name in (NAME, _OLDER) for root in self._roots()]
            before = self._parts
            self._parts, changed = {}, False
            for path in paths:
                changed |= self._read(path, before)
            if changed or self._parts.keys() != before.keys():
                found: dict[bytes, HistoryEntry] = {}
                for part in reversed(self._parts.values()):
                    found |= part.entries
                self._sorted = sorted(found.values(), key=lambda each: each.at)
            return self._sorted

    def _read(self, path: Path, before: Mapping[tuple[int, int], _ReadPart]) -> bool:
        """Read the lines appended to a file since the last call; return whether any were appended."""
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                identity = status.st_dev, status.st_ino
                part = self._parts.get(identity) or before.get(identity) or _ReadPart()
                is_replaced = status.st_size < part.end
                part = self._parts[identity] = _ReadPart() if is_replaced else part
                file.seek(part.end)
                # read a torn last line once it is complete
                new, _, _ = file.read().rpartition(b"\n")
        except OSError:
            return False
        if not new:
            return is_replaced
        part.end += len(new) + 1
        others = [each.entries for each in self._parts.values()]
        for line in new.split(b"\n"):
            known = next((each[line] for each in others if line in each), None)
            entry = known or read_line(line)
            if entry is not None:
                part.entries[line] = entry
        return True

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
                # a torn line must not be joined with the next line
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
        if size + len(line) >= self._max_bytes:
            path.replace(root / _OLDER)
