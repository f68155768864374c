"""Ledgers under crashes, silence, lost answers, recoveries at once and an old writer: promises are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from journal.bookkeeper import ledger_writer, recovery
from journal.bookkeeper.ledger_metadata import LedgerMetadata
from journal.bookkeeper.ledger_writer import LedgerWriter
from journal.bookkeeper.messages import Request, Response
from tests.depth import SEED, scaled
from tests.journal.bookkeeper_world import Bookie, World

SHAPES = [(e, w, a) for e in range(1, 6) for w in range(1, e + 1) for a in range(1, w + 1)]
_BLOCK = 5


def _live_and_check(seed: int, shape: tuple[int, int, int]) -> None:
    world = World(seed, shape, spare=seed % 4)
    for _ in range(world.random.randint(5, 40)):
        world.random_event()
        world.run_until(world.now + world.random.choice((0.0, 0.002, 0.05, 1.0, 6.0)))
    payloads = world.settle()
    acknowledged = world.oracle.acknowledged
    assert payloads[: len(acknowledged)] == acknowledged
    assert payloads == world.writer.payloads[: len(payloads)]


@pytest.mark.parametrize("block", range(_BLOCK))
def test_nothing_acknowledged_is_lost_and_no_end_moves(block: int) -> None:
    count = scaled(800, quick=40)
    for number in range(block, count * len(SHAPES) // 5, _BLOCK):
        seed = SEED * 1_000_003 + number
        shape = SHAPES[number % len(SHAPES)]
        try:
            _live_and_check(seed, shape)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}, shape {shape}: {fault}") from fault


def _lac_of_the_last_entry(self: LedgerWriter, payload: bytes) -> int:
    """Trap: the entry before is not known to be acknowledged."""
    self.lac, lac = self._last, self.lac
    try:
        return ADD(self, payload)
    finally:
        self.lac = lac


def _find_in_the_new_ensemble(self: recovery._LedgerRecovery, entry_id: int) -> Iterator[object]:
    self._written = self._metadata
    return (yield from FIND(self, entry_id))


ADD = LedgerWriter.add
FIND = recovery._LedgerRecovery._find


def _forget(writer: LedgerWriter, updated: LedgerMetadata) -> Iterator[object]:
    writer.metadata = updated
    return True
    yield


def _answer_at_once(self: Bookie, request: Request, answer: Callable[[Response], None]) -> None:
    reply = self.state.handle(request)
    self.journal += reply.records
    self._answer(reply, answer)


FAULTS: dict[str, tuple[object, str, object]] = {
    "the first no counts": (recovery, "is_absent", lambda negative, metadata: True),
    "fenced does not matter": (ledger_writer, "OVER", frozenset()),
    "entries are not written again": (recovery._LedgerRecovery, "_write_again", lambda self, entry: iter(())),
    "what was replaced is not asked": (recovery._LedgerRecovery, "_find", _find_in_the_new_ensemble),
    "the entry before is acknowledged": (LedgerWriter, "add", _lac_of_the_last_entry),
    "a changed ensemble is not written": (LedgerWriter, "_update", _forget),
    "what is acknowledged need not be durable": (Bookie, "receive", _answer_at_once),
}


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
def test_the_schedules_find_what_they_are_for(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        for number in range(4000):
            _live_and_check(number, SHAPES[number % len(SHAPES)])
