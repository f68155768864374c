"""Blocking ledger client: it runs procedures on bookies and ZooKeeper, and waits until entries are acknowledged.

One thread at a time appends to a ledger or closes it; responses arrive on the connections' thread. Threads hold the
writer's lock during every step of its state machine, but never while they wait for a bookie or for ZooKeeper.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from journal.bookkeeper.calls import (
    BookieOutcome,
    BookieRound,
    GetMetadata,
    ListBookies,
    Procedure,
    RoundAnswers,
    SetMetadata,
)
from journal.bookkeeper.connections import BookieConnections, OnOutcome
from journal.bookkeeper.decisions import new_ensemble
from journal.bookkeeper.entry import LAST_ENTRY, DigestType, EntryCodec, LedgerEntry, master_key
from journal.bookkeeper.errors import NotEnoughBookiesError
from journal.bookkeeper.ledger_metadata import EnsembleSegment, LedgerMetadata
from journal.bookkeeper.ledger_options import LedgerLimits, LedgerShape
from journal.bookkeeper.ledger_reader import last_readable, ledger_codec, read_entries
from journal.bookkeeper.ledger_store import LedgerStore
from journal.bookkeeper.ledger_writer import LedgerWriter, OutgoingEntry
from journal.bookkeeper.messages import AddResponse, BookieRequest
from journal.bookkeeper.recovery import LedgerRecovery
from journal.bookkeeper.slow_bookies import SlowBookies
from journal.errors import JournalError

_RETRY_SECONDS = 0.5  # seconds between two attempts while too few bookies are writable
_WINDOW = 64  # entries that are requested in parallel
_WINDOW_BYTES = 8 << 20

T = TypeVar("T")
_Inbox = SimpleQueue[tuple[RoundAnswers, int, BookieOutcome]]


class LedgerClient:
    """Creation, writing, reading, recovery and deletion of ledgers; thread-safe.

    Args:
        password: password of created and opened ledgers.
    """

    def __init__(
        self, store: LedgerStore, connections: BookieConnections, limits: LedgerLimits, password: bytes
    ) -> None:
        self.store = store
        self.limits = limits
        self.slow = SlowBookies()
        self._connections = connections
        self._password = password

    def create(self, shape: LedgerShape, note: Callable[[int], None]) -> LedgerHandle:
        """Create a ledger, and return its only writer.

        Args:
            note: called with the ledger's id before the ledger is created.

        Raises:
            NotEnoughBookiesError: too few bookies are writable, even after retries.
            MetadataStoreError: the ledger may exist.
        """
        bookies = self._new_ensemble(shape.ensemble_size)
        metadata = LedgerMetadata(
            shape.ensemble_size,
            shape.write_quorum,
            shape.ack_quorum,
            (EnsembleSegment(0, bookies),),
            DigestType.MAC,
            self._password,
        )
        ledger_id = self.store.create(metadata, note)
        writer = LedgerWriter(
            ledger_id,
            metadata,
            0,
            codec=EntryCodec(DigestType.MAC, self._password),
            master_key=master_key(self._password),
            choose=choose,
        )
        return LedgerHandle(self, writer)

    def _new_ensemble(self, size: int) -> tuple[str, ...]:
        """Choose bookies for a ledger; retry, because a paused bookie may have to register again."""
        deadline = time.monotonic() + self.limits.patience
        while True:
            try:
                return new_ensemble(size, self.store.bookies(), choose)
            except NotEnoughBookiesError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_SECONDS)

    def recover(self, ledger_id: int) -> ReadLedger:
        """Fence the ledger's writer and close the ledger, unless it is already closed.

        Raises:
            NoLedgerError: the ledger does not exist.
            BookKeeperError: too few bookies answer.
        """
        metadata = self.run(LedgerRecovery(self._password, self.limits, choose).run(ledger_id))
        return ReadLedger(self, ledger_id, metadata, ledger_codec(ledger_id, metadata, self._password))

    def open(self, ledger_id: int) -> ReadLedger:
        """Open a ledger for reading without disturbing its writer; raise the same errors as `recover`."""
        metadata, _ = self.store.read(ledger_id)
        codec = ledger_codec(ledger_id, metadata, self._password)
        if not metadata.closed:
            last = self.run(last_readable(ledger_id, metadata, codec, self.limits))
            return ReadLedger(self, ledger_id, metadata, codec, last)
        return ReadLedger(self, ledger_id, metadata, codec)

    def close(self) -> None:
        self._connections.close()

    # ---- procedures ----

    def run(self, procedure: Procedure[T], guard: AbstractContextManager[Any] | None = None) -> T:
        """Run `procedure` and return its result; hold `guard` while the procedure runs, but not while it waits."""
        guard = guard or nullcontext()
        inbox: _Inbox = SimpleQueue()
        try:
            with guard:
                step = next(procedure)
            while True:
                try:
                    value = self._do(step, inbox)
                except JournalError as fault:
                    with guard:
                        step = procedure.throw(fault)
                else:
                    with guard:
                        step = procedure.send(value)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            procedure.close()

    def _do(self, step: object, inbox: _Inbox) -> object:
        match step:
            case BookieRound():
                self._ask(step, inbox)
                return None
            case GetMetadata():
                return self.store.read(step.ledger_id)
            case SetMetadata():
                return self.store.write(step.ledger_id, step.metadata, step.version)
            case ListBookies():
                return self.store.bookies()
        raise TypeError(step)

    def _ask(self, ask: BookieRound, inbox: _Inbox) -> None:
        """Send the requests and collect responses on this thread, so that no outcome changes while a procedure runs."""
        answers = ask.answers
        by_bookie: defaultdict[str, list[tuple[BookieRequest, OnOutcome]]] = defaultdict(list)
        for asked in ask.requests:
            number = len(answers.asked)
            answers.asked.append(asked)
            by_bookie[asked.bookie].append((asked.request, partial(_put, inbox, answers, number)))
        for bookie, requests in by_bookie.items():
            self._connections.send(bookie, requests, ask.timeout)
        deadline = time.monotonic() + ask.timeout
        while not ask.decided():
            try:
                owner, number, outcome = inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return
            owner.note(number, outcome)

    def send(self, sends: Sequence[tuple[OutgoingEntry, OnOutcome]]) -> None:
        """Send a writer's entries, grouped by bookie."""
        by_bookie: defaultdict[str, list[tuple[BookieRequest, OnOutcome]]] = defaultdict(list)
        for send, hear in sends:
            by_bookie[send.bookie].append((send.request, hear))
        for bookie, requests in by_bookie.items():
            self._connections.send(bookie, requests, self.limits.add)


class LedgerHandle:
    """The writer of a ledger; not thread-safe."""

    def __init__(self, client: LedgerClient, writer: LedgerWriter) -> None:
        self._client = client
        self._writer = writer
        self._changed = threading.Condition()
        self._wanted = LAST_ENTRY
        self._retry_at: float | None = None

    @property
    def ledger_id(self) -> int:
        return self._writer.ledger_id

    def append(self, payloads: Sequence[bytes]) -> None:
        """Add entries, and wait until they are acknowledged.

        When a failed bookie cannot be replaced, the writer continues if the other bookies form an ack quorum; otherwise
        it waits for the bookie.

        Raises:
            JournalError: the entries may not be durable; the ledger accepts no more entries.
        """
        writer = self._writer
        deadline = time.monotonic() + self._client.limits.patience
        with self._changed:
            for payload in payloads:
                self._wanted = writer.add(payload)
        while True:
            with self._changed:
                self._retry_left_out(deadline)
                sends = writer.take()
            self._client.send([(send, partial(self._hear, send)) for send in sends])
            with self._changed:
                self._changed.wait_for(self._settled, _RETRY_SECONDS if writer.left_out else None)
                if writer.lac >= self._wanted:
                    return
                if writer.fault is not None:
                    raise writer.fault
            self._client.run(writer.change_ensemble(), self._changed)

    def _retry_left_out(self, deadline: float) -> None:
        """Retry excluded bookies at intervals; fail if entries still wait for these bookies at `deadline`."""
        writer, now = self._writer, time.monotonic()
        if not writer.left_out:
            self._retry_at = None
        elif now > deadline:
            writer.fail_left_out()
        elif self._retry_at is None:
            self._retry_at = now + _RETRY_SECONDS
        elif now >= self._retry_at:
            self._retry_at = None
            writer.retry()

    def close(self) -> None:
        """Close the ledger after the newest acknowledged entry.

        Raises:
            JournalError: the ledger may still be open, or another client closed it differently.
        """
        self._client.run(self._writer.close(), self._changed)

    def read(self) -> ReadLedger:
        """Return the acknowledged entries for reading."""
        with self._changed:
            writer = self._writer
            metadata, lac = writer.metadata, writer.lac
        codec = ledger_codec(writer.ledger_id, metadata, metadata.password or b"")
        return ReadLedger(self._client, writer.ledger_id, metadata, codec, lac)

    def _settled(self) -> bool:
        writer = self._writer
        return writer.lac >= self._wanted or writer.fault is not None or writer.broken

    def _hear(self, send: OutgoingEntry, outcome: BookieOutcome) -> None:
        with self._changed:
            if isinstance(outcome, AddResponse):
                self._writer.answered(send, outcome.code)
            else:
                self._writer.broke(send)
            if self._settled():
                self._changed.notify_all()


class ReadLedger:
    """A ledger that can be read up to entry `last`.

    Attributes:
        closed: whether the ledger is complete.
    """

    def __init__(
        self, client: LedgerClient, ledger_id: int, metadata: LedgerMetadata, codec: EntryCodec, last: int | None = None
    ) -> None:
        self.ledger_id = ledger_id
        self.closed = metadata.closed
        self.last = metadata.last_entry if last is None else last
        self._client = client
        self._metadata = metadata
        self._codec = codec

    def entry(self, entry_id: int) -> LedgerEntry:
        """Return one entry; raise the same errors as `entries`."""
        return self._read(entry_id, entry_id)[0]

    def entries(self, first: int) -> Iterator[LedgerEntry]:
        """Yield entries `first` to `last`.

        Raises:
            BookKeeperError: an entry cannot be read from any of its bookies.
        """
        window = 1
        while first <= self.last:
            end = min(self.last, first + window - 1)
            found = self._read(first, end)
            yield from found
            first = end + 1
            largest = max(len(entry.payload) for entry in found)
            window = max(1, min(_WINDOW, window * 4, _WINDOW_BYTES // max(1, largest)))

    def _read(self, first: int, last: int) -> list[LedgerEntry]:
        client = self._client
        return client.run(
            read_entries(self.ledger_id, self._metadata, self._codec, first, last, client.limits, client.slow)
        )


def choose(bookies: Sequence[str], count: int) -> list[str]:
    """Choose `count` bookies at random."""
    return random.sample(bookies, count)


def _put(inbox: _Inbox, answers: RoundAnswers, number: int, outcome: BookieOutcome) -> None:
    inbox.put((answers, number, outcome))
