"""The state of a JSON journal after a failure or a kill at any durable step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from journal.errors import JournalError, JournalExistsError, JournalInUseError, JournalStorageError
from journal.json_journal import JsonJournal
from journal.ops import EndLogSegmentOp, StartLogSegmentOp
from tests.journal.journal_support import count_of
from tests.journal.json_support import Steps, batch, deletes, edits, folder, journal
from tests.journal.wal_support import INFO, LAYOUT, delete

__all__ = ["folder", "journal"]


def write_more(journal: JsonJournal) -> None:
    """Write two batches, each with a flush, and finalize the segment without an END_LOG_SEGMENT."""
    writer = journal.start_segment(3, LAYOUT)
    try:
        writer.append(batch(3, StartLogSegmentOp(), delete(4)))
        writer.append(deletes(5, 6))
        writer.finalize(6)
    finally:
        writer.abort()


# the steps write a file, sync it, rename it, and sync the directory; twice for transactions, once for journal.json
@pytest.mark.parametrize("step", range(1, 10))
def test_journal_is_recovered_after_a_failure_at_any_step(
    journal: JsonJournal, folder: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    writer = journal.start_segment(1, LAYOUT)
    writer.append(batch(1, StartLogSegmentOp(), EndLogSegmentOp()))
    writer.finalize(2)
    steps = Steps(monkeypatch, folder)
    steps.fail(step)
    with pytest.raises(JournalStorageError, match="No space left") as caught:
        write_more(journal)
    assert caught.value.exit_code == 6
    assert not any(path.name.endswith(".tmp") for path in folder.iterdir())
    with pytest.raises(JournalError, match="not recovered"):
        journal.start_segment(3, LAYOUT)
    steps.fail(0)
    journal.recover(INFO)
    acknowledged = 2 + 2 * ((step - 1) // 3)
    reached = count_of(journal, 1)
    # the new name may exist even if the directory was not synced
    assert reached == (acknowledged + 2 if step in (3, 6) else acknowledged)
    writer = journal.start_segment(reached + 1, LAYOUT)
    writer.append(deletes(reached + 1, reached + 1))
    assert [segment.last for segment in journal.segments(1, in_progress=True)][-1] == reached + 1


def test_number_of_durable_steps(journal: JsonJournal, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, folder)
    writer = journal.start_segment(3, LAYOUT)
    writer.append(batch(3, StartLogSegmentOp(), delete(4)))
    assert steps.taken == 3
    writer.append(deletes(5, 6))
    writer.finalize(6)
    assert steps.taken == 9


class Crashes:
    """Copies of the directory before and after every step, without unsynced bytes."""

    def __init__(self, folder: Path, target: Path, steps: Steps) -> None:
        self._folder, self._target, self._steps = folder, target, steps
        self.copies: list[tuple[Path, int, int]] = []
        self.acknowledged, self.kept_from = 0, 1
        steps.look = self._take

    def _take(self) -> None:
        copy = self._target / str(len(self.copies))
        copy.mkdir(parents=True)
        for path in self._folder.iterdir():
            if path.is_file() and path.name != "in_use.lock":
                shutil.copy(path, copy)
                if path.stat().st_ino not in self._steps.synced:
                    os.truncate(copy / path.name, 0)
        self.copies.append((copy, self.acknowledged, self.kept_from))


def test_kill_at_any_step_keeps_acknowledged_transactions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    crashes = Crashes(folder, tmp_path / "copies", Steps(monkeypatch, folder))
    journal = JsonJournal(folder)
    journal.format(INFO)
    formatted = len(crashes.copies)
    journal.recover(INFO)
    for first, end in ((1, True), (6, False), (11, True)):
        writer = journal.start_segment(first, LAYOUT)
        for part in (
            batch(first, StartLogSegmentOp(), delete(first + 1)),
            deletes(first + 2, first + 3),
            batch(first + 4, EndLogSegmentOp() if end else delete(first + 4)),
        ):
            writer.append(part)
            crashes.acknowledged = part.last
        if end:
            writer.finalize(first + 4)
        else:
            writer.abort()
            journal.recover(INFO)
    crashes.kept_from = 9
    journal.purge(9)
    journal.close()
    monkeypatch.undo()
    assert len(crashes.copies) > 60
    for number, (copy, acknowledged, kept_from) in enumerate(crashes.copies):
        check_copy(copy, acknowledged, kept_from, formatted=number >= formatted)


def check_copy(copy: Path, acknowledged: int, kept_from: int, *, formatted: bool) -> None:
    journal = JsonJournal(copy)
    if not formatted and not journal.is_formatted():
        journal.format(INFO)
    journal.recover(INFO)
    assert not any(path.name.endswith(".tmp") for path in copy.iterdir())
    segments = journal.segments(kept_from)
    last = segments[-1].last if segments else kept_from - 1
    assert last >= acknowledged
    if acknowledged:
        assert segments[0].first == kept_from or segments[0].first < kept_from
    found = [op.txid for segment in segments for op in segment.read(kept_from)]
    assert found == list(range(kept_from, last + 1))
    writer = journal.start_segment(last + 1, LAYOUT)
    writer.append(batch(last + 1, StartLogSegmentOp(), EndLogSegmentOp()))
    writer.finalize(last + 2)
    assert count_of(journal, kept_from) == last + 2 - kept_from + 1
    journal.close()


def test_interrupted_forced_format_can_be_repeated(
    journal: JsonJournal, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = journal.start_segment(1, LAYOUT)
    for txid in (1, 2):
        writer.append(deletes(txid, txid))
    writer.finalize(2)
    with monkeypatch.context() as patch:
        crashes = Crashes(folder, tmp_path / "copies", Steps(patch, folder))
        journal.format(INFO, force=True)
    assert len(crashes.copies) == 16
    for copy, _, _ in crashes.copies[2:]:
        other = JsonJournal(copy)
        if edits(copy):
            assert other.namespace() is None
            with pytest.raises(JournalExistsError):
                other.format(INFO)
            with pytest.raises(JournalError, match="not formatted"):
                other.recover(INFO)
            other.close()
        other.format(INFO, force=True)
        assert (edits(copy), other.namespace()) == ([], INFO)


def test_error_of_a_second_writer_names_the_lock_holder(journal: JsonJournal, folder: Path) -> None:
    with pytest.raises(JournalInUseError, match="held by this process"):
        JsonJournal(folder).recover(INFO)
