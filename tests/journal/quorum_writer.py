"""Writes to a quorum journal until it is killed, and prints acknowledged batches: `-m tests.journal.quorum_writer URI
N`.

Lines are `recovered TXID`, then `acknowledged FIRST LAST SHA1` of each batch's records.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from hashlib import sha1

from journal.journal import Journal, SegmentWriter
from journal.quorum.open_quorum import open_quorum_journal
from journal.quorum.settings import QuorumSettings
from tests.journal.journal_support import count_of
from tests.journal.quorum_model import LAYOUT, NAMESPACE
from tests.journal.quorum_ops import batch_of, end_op, mark, start_op

SEGMENT = 40  # approximate number of transactions


def write(uri: str, value: int, tell: Callable[[str], object], settings: QuorumSettings | None = None) -> None:
    """Write as `write_to` does; raise JournalError when the quorum is lost."""
    write_to(open_quorum_journal(uri, user="hdfs", settings=settings), value, tell)


def write_to(journal: Journal, value: int, tell: Callable[[str], object]) -> None:
    """Recover, continue after the existing transactions, and roll at intervals."""
    rng = random.Random(value)
    journal.recover(NAMESPACE)
    txid = count_of(journal, 1) + 1
    tell(f"recovered {txid - 1}\n")

    def append(segment: SegmentWriter, first: int, records: list[bytes]) -> int:
        segment.append(batch_of(first, records))
        last = first + len(records) - 1
        tell(f"acknowledged {first} {last} {sha1(b''.join(records)).hexdigest()}\n")
        return last + 1

    while True:
        segment, end = journal.start_segment(txid, LAYOUT), txid + SEGMENT
        txid = append(segment, txid, [start_op(txid)])
        while txid < end:
            txid = append(segment, txid, [mark(txid + number, value) for number in range(rng.randint(1, 5))])
        txid = append(segment, txid, [end_op(txid)])
        segment.finalize(txid - 1)


def print_line(line: str) -> None:
    print(line, end="", flush=True)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), print_line)
