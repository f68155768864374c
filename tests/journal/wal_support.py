"""Journals in scratch directories, and disks that fail on request."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from hadoop_common.names import parse_segment
from hadoop_common.storage_info import StorageInfo
from journal import file_journal as file_journal_module
from journal import file_segments, segment_file, segment_stream
from journal.errors import JournalError
from journal.file_journal import FileJournal
from journal.journal import Journal
from journal.journal_set import JournalMember
from journal.operation import EditOp
from journal.ops import DeleteOp
from journal.segment_file import list_segments
from journal.segment_format import HEADER_SIZE
from journal.segment_frames import iter_frames

LAYOUT = -67
INFO = StorageInfo(LAYOUT, 42, 0, "CID-test", "BP-1-127.0.0.1-1")


def delete(number: int) -> DeleteOp:
    return DeleteOp(path=f"/{number:06d}", timestamp=number)


def file_journal(root: Path) -> FileJournal:
    """Return the journal in storage directory `root`, formatted if necessary."""
    journal = FileJournal(root / "current")
    if not journal.is_formatted():
        journal.format(INFO)
    return journal


def names(root: Path) -> list[str]:
    """Return the names of the files of edits in storage directory `root`."""
    return sorted(path.name for path in (root / "current").iterdir() if path.name.startswith("edits_"))


def contents(root: Path) -> dict[str, bytes]:
    """Return the segment files of a storage directory, by name."""
    return {path.name: path.read_bytes() for path in (root / "current").iterdir() if parse_segment(path.name)}


def records(root: Path) -> dict[str, list[bytes]]:
    """Return the names of the finalized segments of a storage directory, with the bytes of each of their operations.

    Torn bytes after the last operation stay in the file; readers ignore them.
    """
    found: dict[str, list[bytes]] = {}
    for segment in list_segments(root / "current"):
        if segment.last is not None:
            content = segment.path.read_bytes()
            frames = islice(iter_frames(content, HEADER_SIZE, len(content)), segment.last - segment.first + 1)
            found[segment.path.name] = [content[frame.start : frame.end] for frame in frames]
    return found


def paths_of(ops: Iterator[EditOp]) -> dict[int, str]:
    """Return the path of each delete by txid."""
    return {op.txid: op.path for op in ops if isinstance(op, DeleteOp)}


def read_all(journal: Journal, from_txid: int = 1, *, in_progress: bool = False) -> dict[int, str]:
    """Return the path of each delete in a journal by txid."""
    expected = from_txid
    found: dict[int, str] = {}
    for segment in journal.segments(from_txid, in_progress=in_progress):
        for op in segment.read(expected):
            assert op.txid == expected
            expected += 1
            found.update(paths_of(iter([op])))
    return found


class Disks:
    """Fault injector for file operations below given directories: open, write, sync, rename, list, read, remove."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._faults: dict[tuple[Path, str], int] = {}
        disks, fsync = self, os.fsync

        class File(FileIO):
            def __init__(self, path: Path, mode: str) -> None:
                disks.check(path, "open")
                super().__init__(path, mode)
                self._path = path

            def write(self, data: bytes) -> int:  # type: ignore[override]
                if disks.is_broken(self._path, "write"):
                    # A full disk accepts a part of the data and fails at the next write.
                    super().write(bytes(data)[: len(data) // 2])
                disks.check(self._path, "write")
                return super().write(data)

        def watched_fsync(descriptor: int) -> None:
            disks.check(Path(f"/proc/self/fd/{descriptor}").readlink(), "sync")
            fsync(descriptor)

        monkeypatch.setattr(segment_stream, "FileIO", File)
        monkeypatch.setattr(os, "fsync", watched_fsync)
        self._watch(monkeypatch, segment_stream, "rename_durably", "rename")
        self._watch(monkeypatch, file_segments, "list_segments", "list")
        self._watch(monkeypatch, file_journal_module, "list_segments", "list")
        self._watch(monkeypatch, segment_file, "map_file", "read")
        self._watch(monkeypatch, Path, "unlink", "remove")

    def fail(self, root: Path, *steps: str, code: int = errno.EIO) -> None:
        """Make these steps fail below `root`."""
        for step in steps:
            self._faults[root, step] = code

    def repair(self) -> None:
        """End all faults."""
        self._faults.clear()

    def is_broken(self, path: Path, step: str) -> bool:
        return any((root, step) in self._faults for root in path.parents)

    def check(self, path: Path, step: str) -> None:
        for root in (path, *path.parents):
            code = self._faults.get((root, step))
            if code is not None:
                raise OSError(code, os.strerror(code), str(path))

    def _watch(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, step: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def watched(path: Path, *arguments: Any, **options: Any) -> Any:
            self.check(path, step)
            return original(path, *arguments, **options)

        monkeypatch.setattr(owner, name, watched)


class Reports(list[tuple[str, JournalError]]):
    """List of the dropped members that a set reported, with their errors."""

    def note(self, member: JournalMember, error: JournalError) -> None:
        self.append((member.journal.location, error))

    @property
    def roots(self) -> list[str]:
        return [location.rpartition("/")[2] for location, _ in self]
