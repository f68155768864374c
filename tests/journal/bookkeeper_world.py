"""Bookies, ZooKeeper, writers and recoveries in one thread with simulated time; a seed chooses the faults.

A bookie acknowledges an entry once its journal is synced; a crash loses the unsynced part. A frozen bookie responds
once it continues. Messages of a connection arrive in order, or the connection breaks. ZooKeeper applies an update and
answers, or applies it and the response is lost, or is unavailable.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from journal.bookkeeper.calls import BookieRound, GetMetadata, ListBookies, Procedure, SetMetadata
from journal.bookkeeper.decisions import write_set
from journal.bookkeeper.entry import DigestType, EntryCodec, master_key
from journal.bookkeeper.errors import (
    BookKeeperError,
    LedgerFencedError,
    MetadataStoreError,
    NoLedgerError,
    ZnodeVersionError,
)
from journal.bookkeeper.ledger_metadata import EnsembleSegment, LedgerMetadata, format_metadata, parse_metadata
from journal.bookkeeper.ledger_options import LedgerLimits
from journal.bookkeeper.ledger_reader import last_readable, read_entries
from journal.bookkeeper.ledger_writer import LedgerWriter, LedgerWriterState, OutgoingEntry
from journal.bookkeeper.messages import AddResponse, BookieRequest, BookieResponse
from journal.bookkeeper.recovery import LedgerRecovery
from journal.errors import JournalError
from tests.journal.bookie_model import Bookie

LEDGER = 1
PASSWORD = b"pw"
LIMITS = LedgerLimits(add=5.0, read=5.0, speculative=2.0)


@dataclass(eq=False)
class Running:
    """A procedure in progress."""

    procedure: Procedure[Any]
    ended: Callable[[Any, JournalError | None], None]
    ask: BookieRound | None = None
    over: bool = False


class Process:
    """Runner of procedures; after its death, it performs no more steps."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.alive = world, name, True

    def run(self, procedure: Procedure[Any], ended: Callable[[Any, JournalError | None], None]) -> None:
        self._step(Running(procedure, ended), lambda: next(procedure))

    def kill(self) -> None:
        self.alive = False

    def _step(self, running: Running, step: Callable[[], Any]) -> None:
        if not self.alive or running.over:
            return
        try:
            wanted = step()
        except StopIteration as end:
            running.over = True
            running.ended(end.value, None)
            return
        except JournalError as fault:
            running.over = True
            running.ended(None, fault)
            return
        if isinstance(wanted, BookieRound):
            self._ask(running, wanted)
            return

        def reported(value: Any, fault: JournalError | None) -> None:
            procedure = running.procedure
            self._step(running, lambda: procedure.send(value) if fault is None else procedure.throw(fault))

        self.world.zookeeper(wanted, reported)

    def _ask(self, running: Running, ask: BookieRound) -> None:
        running.ask = ask
        for asked in ask.requests:
            number = len(ask.answers.asked)
            ask.answers.asked.append(asked)

            def note(outcome: BookieResponse | BookKeeperError, number: int = number) -> None:
                ask.answers.note(number, outcome)
                self._look(running, ask)

            self.world.send(self.name, asked.bookie, asked.request, note, ask.timeout)
        self.world.later(ask.timeout, lambda: self._look(running, ask, late=True))
        self._look(running, ask)

    def _look(self, running: Running, ask: BookieRound, *, late: bool = False) -> None:
        if running.ask is ask and (late or ask.decided()):
            running.ask = None
            self._step(running, lambda: running.procedure.send(None))


class Writer(Process):
    """A writer that adds entries until it has to close the ledger, and records acknowledged entries."""

    def __init__(self, world: World, name: str, metadata: LedgerMetadata) -> None:
        super().__init__(world, name)
        self.machine = LedgerWriter(
            LEDGER,
            metadata,
            0,
            codec=EntryCodec(DigestType.MAC, PASSWORD),
            master_key=master_key(PASSWORD),
            choose=world.choose,
        )
        self.payloads: list[bytes] = []
        self.changing = self.retrying = False

    def add(self) -> None:
        if self.alive and self.machine.state is LedgerWriterState.OPEN:
            self.payloads.append(bytes(f"{self.name} {len(self.payloads)}", "ascii") * self.world.random.randint(0, 3))
            self.machine.add(self.payloads[-1])
            self.flush()

    def close(self) -> None:
        if self.alive and self.machine.state is LedgerWriterState.OPEN and not self.changing:
            self.run(self.machine.close(), self._closed)

    def _closed(self, _: object, fault: JournalError | None) -> None:
        if fault is None:
            self.world.oracle.end(self.machine.lac, "the writer's close")

    def flush(self) -> None:
        self.world.oracle.acknowledge(self.payloads[: self.machine.lac + 1])
        for send in self.machine.take():
            self.world.send(self.name, send.bookie, send.request, self._hears(send), LIMITS.add)
        if self.machine.broken and not self.changing:
            self.changing = True
            self.run(self.machine.change_ensemble(), self._changed)
        if self.machine.left_out and not self.retrying:
            self.retrying = True
            self.world.later(self.world.random.choice((0.5, 0.5, 4.0)), self._retry)

    def _retry(self) -> None:
        self.retrying = False
        if self.alive:
            if self.world.trouble and self.world.random.random() < self.world.impatience:
                self.machine.fail_left_out()
            else:
                self.machine.retry()
            self.flush()

    def _changed(self, _: object, fault: JournalError | None) -> None:
        assert fault is None
        self.changing = False
        self.flush()

    def _hears(self, send: OutgoingEntry) -> Callable[[BookieResponse | BookKeeperError], None]:
        def hear(outcome: BookieResponse | BookKeeperError) -> None:
            if not self.alive:
                return
            if isinstance(outcome, AddResponse):
                self.machine.answered(send, outcome.code)
            else:
                self.machine.broke(send)
            self.flush()

        return hear


@dataclass
class Oracle:
    """Record of promises: entries acknowledged to the writer, entries shown to a reader, and the end of the ledger."""

    acknowledged: list[bytes] = field(default_factory=list)
    last: int | None = None
    length: int | None = None
    shown: int = -1

    def acknowledge(self, payloads: list[bytes]) -> None:
        if len(payloads) > len(self.acknowledged):
            assert self.last is None or len(payloads) - 1 <= self.last, "acknowledged after the ledger's end"
            self.acknowledged = list(payloads)

    def show(self, last: int) -> None:
        """Record that a reader saw entry `last`, which was acknowledged or secured by a recovery and must therefore
        remain.
        """
        assert self.last is None or last <= self.last, "a reader sees entries after the ledger's end"
        self.shown = max(self.shown, last)

    def end(self, last: int, who: str, length: int | None = None) -> None:
        assert last >= len(self.acknowledged) - 1, f"{who}: the ledger ends at {last}, but more was acknowledged"
        assert last >= self.shown, f"{who}: the ledger ends at {last}, but a reader saw {self.shown}"
        assert self.last in (None, last), f"{who}: the ledger ended at {self.last}, now at {last}"
        self.last = last
        if length is not None:
            assert self.length in (None, length), f"{who}: the length was {self.length}, now {length}"
            self.length = length


class World:
    """The life of one ledger.

    Args:
        shape: ensemble, write quorum and ack quorum.
        spare: bookies outside the ensemble.
    """

    def __init__(self, seed: int, shape: tuple[int, int, int], spare: int = 2) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.oracle = Oracle()
        self.trouble = True
        self.impatience = 0.02
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._last_due: defaultdict[tuple[str, str], float] = defaultdict(float)
        ensemble, write, ack = shape
        self.bookies = {f"b{number}": Bookie(self, f"b{number}") for number in range(ensemble + spare)}
        first = tuple(self.random.sample(sorted(self.bookies), ensemble))
        metadata = LedgerMetadata(ensemble, write, ack, (EnsembleSegment(0, first),), password=PASSWORD)
        self.znode, self.version = format_metadata(metadata), 0
        self.writer = Writer(self, "writer", metadata)
        self._recoverers = itertools.count(1)

    # ---- time ----

    def later(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._order), action))

    def run_until(self, end: float) -> None:
        while self._events and self._events[0][0] <= end:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = end

    # ---- messages ----

    def send(
        self,
        who: str,
        name: str,
        request: BookieRequest,
        hear: Callable[[BookieResponse | BookKeeperError], None],
        timeout: float,
    ) -> None:
        reported = False

        def once(outcome: BookieResponse | BookKeeperError) -> None:
            nonlocal reported
            if not reported:
                reported = True
                hear(outcome)

        bookie, life = self.bookies[name], self.bookies[name].life
        fate = self.random.random() if self.trouble else 1.0
        if not bookie.up or fate < 0.01:
            self.later(0.001, lambda: once(BookKeeperError(f"{name} refuses the connection")))
            return

        def arrive() -> None:
            if bookie.up and bookie.life == life:
                bookie.receive(request, answer)
            else:
                once(BookKeeperError(f"{name} broke the connection"))

        def answer(response: BookieResponse) -> None:
            if fate < 0.02:
                once(BookKeeperError(f"{name} broke the connection before the response"))
            elif fate >= 0.04:
                self._deliver((name, who), lambda: once(response))

        self._deliver((who, name), arrive)
        self.later(timeout, lambda: once(BookKeeperError(f"{name} does not answer")))

    def _deliver(self, way: tuple[str, str], action: Callable[[], None]) -> None:
        """Deliver a message in the order of the connection, after a random delay."""
        due = max(self._last_due[way], self.now + self.random.choice((0.001, 0.001, 0.01, 0.3)))
        self._last_due[way] = due
        self.later(due - self.now, action)

    # ---- ZooKeeper ----

    def zookeeper(self, step: Any, reported: Callable[[Any, JournalError | None], None]) -> None:
        def act() -> None:
            fate = self.random.random() if self.trouble else 1.0
            if fate < 0.03:
                self._tell(reported, None, MetadataStoreError("unavailable before the update"))
                return
            value, fault = self._apply(step)
            if isinstance(step, SetMetadata) and fault is None and fate < 0.06:
                # The response is lost, so a retry finds another version, and a caller that stops never receives the
                # result.
                fault = self.random.choice(
                    [ZnodeVersionError("tried again"), MetadataStoreError("unavailable after the update")]
                )
            self._tell(reported, value, fault)

        self.later(self.random.choice((0.001, 0.01, 1.0)), act)

    def _tell(
        self, reported: Callable[[Any, JournalError | None], None], value: Any, fault: JournalError | None
    ) -> None:
        self.later(self.random.choice((0.001, 0.5)), lambda: reported(value, fault))

    def _apply(self, step: Any) -> tuple[Any, JournalError | None]:
        match step:
            case GetMetadata() if step.ledger_id == LEDGER:
                return (parse_metadata(self.znode), self.version), None
            case GetMetadata():
                return None, NoLedgerError("none")
            case SetMetadata() if step.version != self.version:
                return None, ZnodeVersionError("another one")
            case SetMetadata():
                self.znode, self.version = format_metadata(step.metadata), self.version + 1
                return self.version, None
            case ListBookies():
                # The registration of a stopped bookie remains for a while.
                listed = {name for name, each in self.bookies.items() if each.up or self.random.random() < 0.2}
                return frozenset(listed), None
        raise AssertionError(step)

    def choose(self, bookies: Any, count: int) -> list[str]:
        return self.random.sample(list(bookies), count)

    # ---- events ----

    def recover(self) -> None:
        process = Process(self, f"recoverer{next(self._recoverers)}")

        def ended(metadata: LedgerMetadata | None, fault: JournalError | None) -> None:
            if metadata is not None:
                self.oracle.end(metadata.last_entry, process.name, metadata.length)
            else:
                assert fault is not None

        process.run(LedgerRecovery(PASSWORD, LIMITS, self.choose).run(LEDGER), ended)
        if self.random.random() < 0.3:
            self.later(self.random.uniform(0, 4), process.kill)

    def look(self) -> None:
        """Read the ledger without disturbing its writer."""
        metadata = parse_metadata(self.znode)
        codec = EntryCodec(DigestType.MAC, PASSWORD)
        reader = Process(self, "reader")

        def read(last: int | None, fault: JournalError | None) -> None:
            if last is None or last < 0:
                return
            assert last < len(self.writer.payloads), "a reader sees an entry that was never written"
            if metadata.closed:
                self.oracle.end(last, "a reader", metadata.length)
            else:
                self.oracle.show(last)

        reader.run(last_readable(LEDGER, metadata, codec, LIMITS), read)

    def random_event(self) -> None:
        chance = self.random.random()
        name = self.random.choice(sorted(self.bookies))
        if chance < 0.55:
            for _ in range(self.random.randint(1, 4)):
                self.writer.add()
        elif chance < 0.68:
            self.look()
        elif chance < 0.78:
            bookie = self.bookies[name]
            if bookie.up:
                bookie.crash()
            else:
                bookie.start()
        elif chance < 0.81:
            self.bookies[name].freeze()
        elif chance < 0.88:
            self.bookies[name].start()
            self.bookies[name].thaw()
        elif chance < 0.90:
            self.writer.kill()
        elif chance < 0.91:
            self.writer.close()
        elif chance < 0.95:
            self.recover()

    def settle(self) -> list[bytes]:
        """End all faults; recover and read the ledger, and return its payloads."""
        self.trouble = False
        for bookie in self.bookies.values():
            bookie.start()
            bookie.thaw()
        self.run_until(self.now + 60)
        found: list[Any] = []
        process = Process(self, "last recoverer")
        process.run(LedgerRecovery(PASSWORD, LIMITS, self.choose).run(LEDGER), lambda *each: found.append(each))
        self.run_until(self.now + 600)
        metadata, fault = found[0]
        assert fault is None, fault
        assert metadata == parse_metadata(self.znode)
        self.oracle.end(metadata.last_entry, "the last recovery", metadata.length)
        entries: list[Any] = []
        if metadata.last_entry >= 0:
            codec = EntryCodec(DigestType.MAC, PASSWORD)
            reading = read_entries(LEDGER, metadata, codec, 0, metadata.last_entry, LIMITS)
            process.run(reading, lambda *each: entries.append(each))
            self.run_until(self.now + 600)
            rows, fault = entries[0]
            assert fault is None, fault
            assert [entry.length for entry in rows] == list(itertools.accumulate(len(entry.payload) for entry in rows))
            entries = rows
        assert metadata.length == sum(len(entry.payload) for entry in entries)
        self._check_copies(metadata)
        self._check_the_old_writer()
        return [entry.payload for entry in entries]

    def _check_copies(self, metadata: LedgerMetadata) -> None:
        """Check that each entry is durable on an ack quorum of the bookies in the metadata."""
        for entry_id in range(metadata.last_entry + 1):
            bookies = metadata.ensemble_of(entry_id).bookies
            holders = [bookies[index] for index in write_set(entry_id, metadata)]
            held = sum(self.bookies[name].holds(entry_id) for name in holders)
            assert held >= metadata.ack_quorum, f"entry {entry_id} is on {held} bookies only"

    def _check_the_old_writer(self) -> None:
        """Check that the bookies acknowledge no further entry of the old writer."""
        before = self.oracle.acknowledged
        if self.writer.alive and self.writer.machine.state is LedgerWriterState.OPEN:
            self.writer.add()
            self.run_until(self.now + 60)
            assert isinstance(self.writer.machine.fault, LedgerFencedError)
        assert self.oracle.acknowledged == before
