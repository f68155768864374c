"""Sets of directories on disks that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hadoop_common.names import inprogress_name
from journal.edit_log_writer import EditLogWriter
from journal.file_journal import FileJournal
from journal.journal_set import JournalMember, JournalSet
from tests.journal.wal_support import INFO, LAYOUT, Disks, Reports, delete, file_journal

OpenSet = Callable[..., JournalSet]


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    return Disks(monkeypatch)


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("a", "b", "c")]
    for root in made:
        file_journal(root)
    return made


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def open_set(reports: Reports) -> Iterator[OpenSet]:
    """Opener that recovers a set of directories, the first of which is required; an open set is closed first."""
    opened: list[JournalSet] = []

    def make(roots: list[Path], *, required: int = 0, **options: object) -> JournalSet:
        for each in opened:
            each.close()
        journals = [FileJournal(root / "current") for root in roots]
        members = [JournalMember(journal, required=number < required) for number, journal in enumerate(journals)]
        opened.append(JournalSet(members, on_failure=reports.note, **options))  # type: ignore[arg-type]
        opened[-1].recover(INFO)
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def write(log: EditLogWriter, count: int = 1) -> None:
    """Write acknowledged operations; each contains its txid."""
    for _ in range(count):
        txid = log.last_txid + 1
        log.sync(log.write(delete(txid)))


def damage(root: Path, name: str, place: float) -> None:
    """Change a byte of a segment; `place` 0 is the first byte, and 1 the last."""
    path = root / "current" / name
    content = bytearray(path.read_bytes())
    content[int((len(content) - 1) * place)] ^= 0xFF
    path.write_bytes(content)


def active(journals: JournalSet) -> list[str]:
    return [member.journal.location.rpartition("/")[2] for member in journals.active]


def reported(txids: range | list[int]) -> dict[int, str]:
    return {txid: f"/{txid:06d}" for txid in txids}


def crashed(roots: list[Path], open_set: OpenSet, ends: list[int]) -> None:
    """Leave segment 1 in progress in each directory, truncated after the transaction in `ends`."""
    journals = open_set(roots)
    log = EditLogWriter(journals, LAYOUT, 1)
    write(log, max(ends) - 1)
    journals.close()
    for root, end in zip(roots, ends, strict=True):
        path = root / "current" / inprogress_name(1)
        size = (path.stat().st_size - 8 - 17) // (max(ends) - 1)
        with path.open("r+b") as file:
            file.truncate(8 + 17 + size * (end - 1))
