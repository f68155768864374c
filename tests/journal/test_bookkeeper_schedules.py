"""Ledgers under crashes, silence, lost responses, concurrent recoveries and an old writer: promises are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from journal.bookkeeper import ledger_writer, recovery
from journal.bookkeeper.errors import NotEnoughBookiesError
from journal.bookkeeper.ledger_metadata import LedgerMetadata, parse_metadata
from journal.bookkeeper.ledger_writer import LedgerWriter
from journal.bookkeeper.messages import BookieRequest, BookieResponse
from tests.depth import SEED, scaled
from tests.journal.bookie_model import Bookie
from tests.journal.bookkeeper_world import World

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


@pytest.mark.parameters(2)
@pytest.mark.parametrize("block", range(_BLOCK))
def test_acknowledged_entries_and_the_ledger_end_are_kept(block: int) -> None:
    count = scaled(800, quick=40)
    for number in range(block, count * len(SHAPES) // 5, _BLOCK):
        seed = SEED * 1_000_003 + number
        shape = SHAPES[number % len(SHAPES)]
        try:
            _live_and_check(seed, shape)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}, shape {shape}: {fault}") from fault


@pytest.mark.parametrize("shape", [(3, 3, 2), (3, 2, 1), (5, 3, 2)])
def test_frozen_bookie_without_a_spare_does_not_block_acknowledgements(shape: tuple[int, int, int]) -> None:
    world = World(SEED, shape, spare=0)
    world.trouble = False
    bookie = world.bookies["b0"]
    _write(world, 5)
    bookie.freeze()
    for second in range(1, 31):
        _write(world, 1)
        # the margin is for messages in flight, and for the request to ZooKeeper for another bookie
        assert len(world.oracle.acknowledged) >= second, second
    bookie.thaw()
    _write(world, 20)
    world.run_until(world.now + 10)
    assert world.writer.machine.left_out == []
    # the bookie participates again
    assert any(bookie.holds(entry_id) for entry_id in range(50, 55))
    _check_all_is_kept(world)
    assert len(parse_metadata(world.znode).segments) == 1


@pytest.mark.parametrize("frozen", [1, 2])
def test_entries_wait_for_frozen_bookies_that_the_ack_quorum_needs(frozen: int) -> None:
    world = World(SEED, (3, 2, 2), spare=0)
    world.trouble = False
    _write(world, 5)
    victims = [world.bookies[f"b{number}"] for number in range(frozen)]
    for bookie in victims:
        bookie.freeze()
    _write(world, 10)
    assert len(world.oracle.acknowledged) < 15
    for bookie in victims:
        bookie.thaw()
    world.run_until(world.now + 10)
    assert world.oracle.acknowledged == world.writer.payloads
    _check_all_is_kept(world)


def test_single_spare_replaces_one_of_two_failed_bookies() -> None:
    world = World(SEED, (3, 3, 2), spare=1)
    world.trouble = False
    _write(world, 3)
    first = sorted(world.writer.machine.metadata.last_segment.bookies)
    for name in first[:2]:
        world.bookies[name].freeze()
    world.writer.add()
    world.run_until(world.now + 8)
    assert world.oracle.acknowledged == world.writer.payloads
    machine = world.writer.machine
    assert len(set(machine.metadata.last_segment.bookies) & set(first)) == 2
    _check_all_is_kept(world)


def test_error_of_a_failed_writer_names_the_bookies() -> None:
    world = World(SEED, (3, 2, 2), spare=0)
    world.impatience = 1.0
    _write(world, 3)
    for name in ("b0", "b1"):
        world.bookies[name].crash()
    world.writer.add()
    world.run_until(world.now + 20)
    assert isinstance(world.writer.machine.fault, NotEnoughBookiesError)
    assert "b" in world.writer.machine.fault.message


def _check_all_is_kept(world: World) -> None:
    written = list(world.writer.payloads)
    assert world.settle() == written


def _write(world: World, seconds: int) -> None:
    """Write an entry per second."""
    for _ in range(seconds):
        world.writer.add()
        world.run_until(world.now + 1)


def _left_out_is_stored(self: LedgerWriter) -> None:
    for pending in self._pending.values():
        pending.acknowledged |= self._left_out
    ADVANCE(self)


def _lac_of_the_last_entry(self: LedgerWriter, payload: bytes) -> int:
    """Return a misleading LAC for the last entry: the previous entry is not known to be acknowledged."""
    self.lac, lac = self._last, self.lac
    try:
        return ADD(self, payload)
    finally:
        self.lac = lac


def _find_in_the_new_ensemble(self: recovery._RecoveryAttempt, entry_id: int) -> Iterator[object]:
    self._written = self._metadata
    return (yield from FIND(self, entry_id))


ADD = LedgerWriter.add
ADVANCE = LedgerWriter._advance
FIND = recovery._RecoveryAttempt._find


def _forget(writer: LedgerWriter, updated: LedgerMetadata) -> Iterator[object]:
    writer.metadata = updated
    return True
    yield


def _answer_at_once(self: Bookie, request: BookieRequest, answer: Callable[[BookieResponse], None]) -> None:
    reply = self.state.handle(request)
    self.journal += reply.records
    self._answer(reply, answer)


FAULTS: dict[str, tuple[object, str, object]] = {
    "the first no counts": (recovery, "is_absent", lambda negative, metadata: True),
    "fenced does not matter": (ledger_writer, "OVER", frozenset()),
    "entries are not written again": (recovery._RecoveryAttempt, "_write_again", lambda self, entry: iter(())),
    "what was replaced is not asked": (recovery._RecoveryAttempt, "_find", _find_in_the_new_ensemble),
    "the entry before is acknowledged": (LedgerWriter, "add", _lac_of_the_last_entry),
    "a changed ensemble is not written": (LedgerWriter, "_update", _forget),
    "a bookie that is left out has all": (LedgerWriter, "_advance", _left_out_is_stored),
    "what is acknowledged need not be durable": (Bookie, "receive", _answer_at_once),
}


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
def test_schedules_detect_injected_bugs(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        for number in range(4000):
            _live_and_check(number, SHAPES[number % len(SHAPES)])
