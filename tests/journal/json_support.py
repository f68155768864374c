"""A JSON journal, and hand-written journal files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journal.binary_codec import encode_op
from journal.journal import RecordBatch
from journal.json_journal import JsonJournal
from journal.json_segments import json_file_name
from journal.operation import EditOp
from tests.journal.journal_support import numbered
from tests.journal.wal_support import INFO, LAYOUT, delete


def batch(first: int, *ops: EditOp, layout_version: int = LAYOUT) -> RecordBatch:
    records = b"".join(encode_op(op, layout_version) for op in numbered(list(ops), first))
    return RecordBatch(first, first + len(ops) - 1, records)


def deletes(first: int, last: int) -> RecordBatch:
    return batch(first, *map(delete, range(first, last + 1)))


def edits(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("edits"))


def ends(folder: Path) -> list[int]:
    return json.loads((folder / "journal.json").read_text())["ends"]


def write_lines(folder: Path, first: int, last: int, *lines: str, name: str = "") -> Path:
    path = folder / (name or json_file_name(first, last))
    path.write_text("".join(line + "\n" for line in lines))
    return path


def rm(txid: int) -> str:
    return f'{{"OP":"RM","PATH":"/{txid:06d}","txid":{txid}}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def journal(folder: Path) -> Iterator[JsonJournal]:
    made = JsonJournal(folder)
    made.format(INFO)
    made.recover(INFO)
    yield made
    made.close()


class Steps:
    """Counter of syncs, renames and removals below a directory; a test can make a step fail, and inspect each step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self._root = root
        self._failing = 0
        self.taken = 0
        self.synced: set[int] = set()
        self.look: Callable[[], None] = lambda: None
        fsync = os.fsync
        monkeypatch.setattr(os, "fsync", lambda fd: self._step(Path(f"/proc/self/fd/{fd}").readlink(), fsync, fd))
        for name in ("replace", "unlink"):
            self._watch(monkeypatch, name)

    def fail(self, number: int) -> None:
        """Make the step with this number, counted from now, fail; 0 means no failure."""
        self._failing, self.taken = number, 0

    def _watch(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        original = getattr(Path, name)

        def watched(path: Path, *arguments: object, **options: object) -> object:
            if name == "unlink" and (path.name == "in_use.lock" or not path.exists()):
                return original(path, *arguments, **options)
            return self._step(path, original, path, *arguments, **options)

        monkeypatch.setattr(Path, name, watched)

    def _step(self, path: Path, action: Callable[..., object], *arguments: object, **options: object) -> object:
        if self._root not in (path, *path.parents):
            return action(*arguments, **options)
        self.taken += 1
        if self.taken == self._failing:
            raise OSError(28, "No space left on device", str(path))
        self.look()
        done = action(*arguments, **options)
        if path.is_file():
            self.synced.add(path.stat().st_ino)
        self.look()
        return done
