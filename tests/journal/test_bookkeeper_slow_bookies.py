"""A reader waits only once for a bookie that hangs, instead of once per window of entries, in simulated time."""

from __future__ import annotations

from collections import Counter

from journal.bookkeeper.calls import BookieRound, Procedure
from journal.bookkeeper.entry import DigestType, EntryCodec, LedgerEntry
from journal.bookkeeper.errors import BookKeeperError
from journal.bookkeeper.ledger_metadata import EnsembleSegment, LedgerMetadata, LedgerState
from journal.bookkeeper.ledger_options import LedgerLimits
from journal.bookkeeper.ledger_reader import read_entries
from journal.bookkeeper.messages import ReadRequest, ReadResponse, ResultCode
from journal.bookkeeper.slow_bookies import SlowBookies

LEDGER, WINDOW = 7, 64
LIMITS = LedgerLimits(read=5.0, speculative=2.0)
CODEC = EntryCodec(DigestType.CRC32, b"")


def ledger(entries: int) -> LedgerMetadata:
    segment = EnsembleSegment(0, ("a:1", "b:1", "c:1"))
    return LedgerMetadata(
        3, 2, 2, (segment,), DigestType.CRC32, last_entry=entries - 1, length=entries, state=LedgerState.CLOSED
    )


class Bookies:
    """Three bookies; bookies in `frozen` never answer, and bookies in `refusing` refuse the connection immediately."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.frozen: set[str] = set()
        self.refusing: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.slow = SlowBookies(lambda: self.passed)

    def run(self, procedure: Procedure[list[LedgerEntry]]) -> list[LedgerEntry]:
        try:
            ask = next(procedure)
            while True:
                assert isinstance(ask, BookieRound)
                self._answer(ask)
                ask = procedure.send(None)
        except StopIteration as end:
            found: list[LedgerEntry] = end.value
            return found

    def _answer(self, ask: BookieRound) -> None:
        for asked in ask.requests:
            number = len(ask.answers.asked)
            ask.answers.asked.append(asked)
            self.asked[asked.bookie] += 1
            if asked.bookie in self.refusing:
                ask.answers.note(number, BookKeeperError(f"{asked.bookie} cannot be reached"))
            elif asked.bookie not in self.frozen:
                assert isinstance(asked.request, ReadRequest)
                entry_id = asked.request.entry_id
                body = CODEC.encode(LedgerEntry(LEDGER, entry_id, entry_id - 1, entry_id + 1, b"x"))
                ask.answers.note(number, ReadResponse(ResultCode.OK, LEDGER, entry_id, body))
        if not ask.decided():
            self.passed += ask.timeout

    def read(self, entries: int) -> float:
        """Read a ledger in windows; return the seconds of waiting for bookies."""
        before = self.passed
        metadata = ledger(entries)
        for first in range(0, entries, WINDOW):
            last = min(first + WINDOW, entries) - 1
            found = self.run(read_entries(LEDGER, metadata, CODEC, first, last, LIMITS, self.slow))
            assert [entry.entry_id for entry in found] == list(range(first, last + 1))
        return self.passed - before


def test_reader_waits_once_for_a_frozen_bookie() -> None:
    bookies = Bookies()
    bookies.frozen = {"b:1"}
    assert bookies.read(10_000) == LIMITS.speculative
    # at most a third of the entries of the first window
    assert bookies.asked["b:1"] <= WINDOW // 3 + 1


def test_recovered_bookie_is_read_again_in_turn() -> None:
    bookies = Bookies()
    bookies.frozen = {"b:1"}
    bookies.read(WINDOW)
    bookies.frozen = set()
    bookies.passed += 31
    bookies.asked.clear()
    assert bookies.read(10 * WINDOW) == 0
    assert min(bookies.asked.values()) >= 10 * WINDOW // 3 - 10


def test_frozen_bookie_is_retried_less_and_less_often() -> None:
    bookies = Bookies()
    bookies.frozen = {"b:1"}
    waits = []
    for _ in range(60):
        waits.append(bookies.read(WINDOW))
        bookies.passed += 60
    assert sum(waits) <= 10 * LIMITS.speculative


def test_bookie_that_refuses_connections_is_asked_last() -> None:
    bookies = Bookies()
    bookies.refusing = {"c:1"}
    assert bookies.read(10_000) == 0
    assert bookies.asked["c:1"] <= WINDOW // 3 + 1


def test_slow_bookies_are_asked_if_no_other_has_the_entry() -> None:
    bookies = Bookies()
    for bookie in ("a:1", "b:1", "c:1"):
        bookies.slow.silent(bookie)
    assert bookies.read(WINDOW) == 0
    assert bookies.slow.ordered(["a:1", "b:1"]) == ["a:1", "b:1"]
