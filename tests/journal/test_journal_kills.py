"""A writer that is killed at random moments: acknowledged transactions are recovered, byte for byte."""

from __future__ import annotations

import random
import shutil
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from journal.journal_set import JournalMember, JournalSet
from tests.depth import SEED, scaled
from tests.journal.journal_support import count_of
from tests.journal.killed_processes import FORKS, Writing, check_transactions, write_from_threads
from tests.journal.wal_support import INFO, file_journal, records

ROUNDS = scaled(200, quick=6)
MEMBERS = "a", "b"
ROUNDS_OF_ONE_LOG = 36

FORKS.set_forkserver_preload([__name__])


def journals_in(folder: Path) -> JournalSet:
    return JournalSet([JournalMember(file_journal(folder / name)) for name in MEMBERS])


def write_until_killed(folder: Path, label: str, reported: Connection) -> None:
    journals = journals_in(folder)
    journals.recover(INFO)
    write_from_threads(journals, label, reported.send)


def round_of_kill(folder: Path, number: int, chance: random.Random) -> dict[int, str]:
    """Run a writer and kill it; return the acknowledged transactions as a mapping from txid to path."""
    writing = Writing(write_until_killed, folder, f"round{number}")
    writing.await_lines(chance.choice([0, 1, chance.randrange(300)]))
    time.sleep(chance.random() * 0.02)  # kill at any moment, not only after an acknowledgement
    assert writing.process.is_alive()
    writing.process.kill()
    return writing.transactions()


@pytest.mark.timeout(1800 + 60 * ROUNDS)
def test_acknowledged_transactions_are_recovered(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    total = 0
    for begin in range(0, ROUNDS, ROUNDS_OF_ONE_LOG):
        folder = tmp_path / str(begin)
        journals_in(folder)
        acknowledged: dict[int, str] = {}
        kept: dict[str, list[bytes]] = {}
        for number in range(begin, min(ROUNDS, begin + ROUNDS_OF_ONE_LOG)):
            acknowledged |= round_of_kill(folder, number, chance)
            kept = checked(folder, acknowledged, kept, f"seed {SEED}, round {number}")
        total += len(acknowledged)
        shutil.rmtree(folder)
    assert total > ROUNDS


def checked(
    folder: Path, acknowledged: dict[int, str], before: dict[str, list[bytes]], label: str
) -> dict[str, list[bytes]]:
    """Recover the journals, compare them with the acknowledged transactions, and return the recovered segments."""
    journals = journals_in(folder)
    journals.recover(INFO)
    count = count_of(journals, 1)
    journals.close()
    kept, other = (records(folder / name) for name in MEMBERS)
    assert kept == other, label
    assert before.items() <= kept.items(), label
    recovered = [record for _, segment in sorted(kept.items()) for record in segment]
    assert len(recovered) == count, label
    check_transactions(dict(enumerate(recovered, start=1)), acknowledged, label)
    return kept
