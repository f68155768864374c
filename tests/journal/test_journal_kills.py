"""A writer that is killed at random moments: acknowledged transactions are recovered, byte for byte."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from journal.binary_codec import encode_op
from journal.edit_log_writer import EditLogWriter
from journal.journal_set import JournalMember, JournalSet
from journal.ops import DeleteOp
from tests.depth import SEED, scaled
from tests.journal.journal_support import count_of
from tests.journal.wal_support import INFO, LAYOUT, file_journal, records

ROUNDS = scaled(200, quick=6)
MEMBERS, WRITERS = ("a", "b"), 3
ROUNDS_OF_ONE_LOG = 36


def journals_in(folder: Path) -> JournalSet:
    return JournalSet([JournalMember(file_journal(folder / name)) for name in MEMBERS])


def write_until_killed(folder: Path, acknowledgements: int, label: str) -> None:
    """Recover, write from several threads, roll, and report durable transactions."""
    journals = journals_in(folder)
    journals.recover(INFO)
    log = EditLogWriter(journals, LAYOUT, count_of(journals, 1) + 1, capacity=400)

    def acknowledge(txid: int, op: DeleteOp) -> None:
        os.write(acknowledgements, f"{txid} {op.path}\n".encode())

    def write(writer: int) -> None:
        number = 0
        while True:
            number += 1
            op = DeleteOp(path=f"/{label}/{writer}/{number}", timestamp=number)
            txid = log.write(op)
            if number % 3:
                log.sync(txid)
                acknowledge(txid, op)
            if number % 40 == writer:
                log.roll()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def round_of_kill(folder: Path, number: int, chance: random.Random) -> dict[int, str]:
    """Run a writer and kill it; return the acknowledged transactions, txid to path."""
    receiving, sending = os.pipe()
    context = multiprocessing.get_context("fork")
    arguments = (folder, sending, f"round{number}")
    process = context.Process(target=write_until_killed, args=arguments, daemon=True)
    process.start()
    os.close(sending)
    wanted, received = chance.choice([0, 1, chance.randrange(300)]), b""
    with os.fdopen(receiving, "rb", buffering=0) as pipe:
        while received.count(b"\n") < wanted and (data := pipe.read(4096)):
            received += data
        time.sleep(chance.random() * 0.02)  # kill at any moment, not only after an acknowledgement
        assert process.pid is not None
        assert process.is_alive()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        while data := pipe.read(4096):
            received += data
    lines = (line.split() for line in received.decode().splitlines())
    return {int(txid): path for txid, path in lines}


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
    """Recover, and compare with the acknowledged transactions; returns the segments afterwards."""
    journals = journals_in(folder)
    journals.recover(INFO)
    count = count_of(journals, 1)
    journals.close()
    kept, other = (records(folder / name) for name in MEMBERS)
    assert kept == other, label
    assert before.items() <= kept.items(), label
    recovered = [record for _, segment in sorted(kept.items()) for record in segment]
    assert len(recovered) == count, label
    for txid, path in acknowledged.items():
        op = DeleteOp(txid=txid, path=path, timestamp=int(path.rpartition("/")[2]))
        assert recovered[txid - 1] == encode_op(op, LAYOUT), f"{label}, txid {txid}"
    return kept
