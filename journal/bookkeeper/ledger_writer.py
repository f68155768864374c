"""State machine of a ledger's writer, without I/O: it sends entries, processes responses, and replaces failed bookies.

The writer is open, closing or closed, or has failed permanently.

    add       If the writer is open, the entry receives the next id and is sent to its write set.
    answered  An entry is acknowledged once an ack quorum has stored it and all earlier entries are acknowledged.
    broken    A bookie failed. No entry is acknowledged until `change_ensemble` has replaced the bookie, updated
              ZooKeeper, and queued the unacknowledged entries for the new bookie.
    excluded  The bookie cannot be replaced. It stays in the ensemble, but receives no entries. Entries with an ack
              quorum of other bookies are acknowledged; all other entries wait. `retry` sends the unacknowledged entries
              to the bookie. The bookie participates again if it answers, and is broken again if it fails.
    fail      A bookie responded with FENCED or UA, another client changed the metadata, or too few bookies answer
              (`fail_left_out`). Only a recovery of the ledger determines which unacknowledged entries are durable.
    close     The newest acknowledged entry becomes the last entry, by compare-and-set in ZooKeeper.

Faults that cannot occur, with the reasons:

- Loss of an acknowledged entry: an ack quorum has the entry on disk, and a recovery asks enough bookies to reach at
  least one bookie of this quorum.
- An acknowledgement of an entry that a recovery has already found missing: fewer bookies than an ack quorum remain
  unfenced, and the first FENCED response stops the writer, regardless of all other responses.
- A response of a replaced bookie that counts for its replacement: every request records the turn of its position in the
  ensemble.
- A new segment that contains an entry acknowledged only on the old ensemble: no entry is acknowledged while
  `change_ensemble` runs. An exclusion does not change the metadata, so acknowledgements need not wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from journal.bookkeeper.calls import GetMetadata, ListBookies, Procedure, SetMetadata
from journal.bookkeeper.decisions import OVER, Choose, replaceable, replaced, write_set
from journal.bookkeeper.entry import LAST_ENTRY, EntryCodec, LedgerEntry
from journal.bookkeeper.errors import (
    BookKeeperError,
    LedgerChangedError,
    LedgerFencedError,
    NotEnoughBookiesError,
    ZnodeVersionError,
)
from journal.bookkeeper.ledger_metadata import LedgerMetadata, LedgerState
from journal.bookkeeper.messages import AddRequest, ResultCode
from journal.errors import JournalError


class LedgerWriterState(Enum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OutgoingEntry:
    """An entry for one bookie; `turn` increases whenever the bookie at this position is replaced or retried."""

    bookie: str
    request: AddRequest
    index: int
    turn: int


@dataclass(slots=True)
class _PendingEntry:
    body: bytes
    length: int
    acknowledged: set[int] = field(default_factory=set)


class LedgerWriter:
    """State machine of a ledger's writer; the owner holds its lock around every call and every step of a procedure.

    Args:
        metadata: the metadata of the new ledger; `version`: their version in the znode.
        choose: chooses replacements for failed bookies.

    Attributes:
        lac: newest acknowledged entry; initially -1.
        fault: reason why no more entries are acknowledged.
    """

    def __init__(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        version: int,
        *,
        codec: EntryCodec,
        master_key: bytes,
        choose: Choose,
    ) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self.lac = LAST_ENTRY
        self.fault: JournalError | None = None
        self.state = LedgerWriterState.OPEN
        self._version = version
        self._codec = codec
        self._key = master_key
        self._choose = choose
        self._last = LAST_ENTRY
        self._length = self._acknowledged_length = 0
        self._pending: dict[int, _PendingEntry] = {}
        self._broken: set[int] = set()
        self._left_out: set[int] = set()
        self._failed: set[str] = set()
        self._turns = [0] * metadata.ensemble_size
        self._outbox: list[OutgoingEntry] = []

    @property
    def broken(self) -> bool:
        """Whether `change_ensemble` must run."""
        return bool(self._broken) and self.state is LedgerWriterState.OPEN

    @property
    def left_out(self) -> list[str]:
        """The failed bookies that cannot be replaced."""
        return [self.metadata.last_segment.bookies[index] for index in sorted(self._left_out)]

    def add(self, payload: bytes) -> int:
        """Accept the next entry, and return its id.

        Raises:
            JournalError: the writer has failed, or is closed.
        """
        if self.state is not LedgerWriterState.OPEN:
            raise self.fault or BookKeeperError(f"ledger {self.ledger_id} is {self.state.value}")
        self._last += 1
        self._length += len(payload)
        body = self._codec.encode(LedgerEntry(self.ledger_id, self._last, self.lac, self._length, payload))
        self._pending[self._last] = _PendingEntry(body, self._length)
        for index in write_set(self._last, self.metadata):
            if index not in self._broken and index not in self._left_out:
                self._send(self._last, index)
        return self._last

    def take(self) -> list[OutgoingEntry]:
        """Return the entries to send now; entries for the same bookie must be sent in this order."""
        sends, self._outbox = self._outbox, []
        return sends

    def answered(self, send: OutgoingEntry, code: ResultCode) -> None:
        """Process a bookie's response."""
        if code in OVER:
            problem = f"{send.bookie} answered {code.name}: another client has recovered ledger {self.ledger_id}"
            self._fail(LedgerFencedError(problem))
        elif code is not ResultCode.OK:
            self.broke(send)
        elif send.turn == self._turns[send.index]:
            pending = self._pending.get(send.request.entry_id)
            if pending is not None:
                pending.acknowledged.add(send.index)
                self._advance()

    def broke(self, send: OutgoingEntry) -> None:
        """Process the failure of a bookie that did not store an entry in time."""
        current = send.turn == self._turns[send.index] and send.index not in self._left_out
        if current and self.state is LedgerWriterState.OPEN:
            self._broken.add(send.index)
            self._failed.add(send.bookie)

    def retry(self) -> None:
        """Retry the excluded bookies: send them the unacknowledged entries."""
        if self.state is not LedgerWriterState.OPEN:
            return
        places = frozenset(self._left_out)
        self._left_out.clear()
        self._begin_turn(places)

    def fail_left_out(self) -> None:
        """Fail, because the excluded bookies do not answer and cannot be replaced."""
        out = ", ".join(self.left_out)
        self._fail(NotEnoughBookiesError(f"{out} failed, and all writable bookies are in use"))

    # ---- procedures ----

    def change_ensemble(self) -> Procedure[None]:
        """Replace all broken bookies with one update of the metadata; an error fails the writer.

        Bookies that cannot be replaced are excluded.
        """
        try:
            while self.broken:
                broken = frozenset(self._broken)
                available = yield ListBookies()
                bookies = self.metadata.last_segment.bookies
                chosen = replaceable(bookies, broken, available)
                if chosen:
                    wanted = replaced(bookies, chosen, available, self._failed, self._choose)
                    if not (yield from self._update(self.metadata.with_ensemble(self.lac + 1, wanted))):
                        continue
                    self._replace(chosen)
                self._broken -= broken
                self._left_out |= broken - chosen
            self._advance()
        except JournalError as fault:
            self._fail(fault)

    def close(self) -> Procedure[None]:
        """Close the ledger after the newest acknowledged entry.

        Raises:
            JournalError: the ledger is unchanged, or another client closed it differently.
        """
        if self.state is LedgerWriterState.CLOSED:
            return
        if self.fault is not None:
            raise self.fault
        self.state = LedgerWriterState.CLOSING
        self._pending.clear()
        try:
            while not (yield from self._update(self.metadata.closed_at(self.lac, self._acknowledged_length))):
                pass
        except JournalError as fault:
            self._fail(fault)
            raise
        self.state = LedgerWriterState.CLOSED

    def _update(self, updated: LedgerMetadata) -> Procedure[bool]:
        """Write `updated`; return False if another client made a compatible change, which was loaded instead.

        Raises:
            JournalError: another client changed the ledger, or the outcome is unknown.
        """
        try:
            self._version = yield SetMetadata(self.ledger_id, updated, self._version)
        except ZnodeVersionError:
            found, version = yield GetMetadata(self.ledger_id)
            if found != updated:
                self._check(found)
                self.metadata, self._version = found, version
                return False
            # An earlier attempt succeeded.
            self._version = version
        self.metadata = updated
        return True

    def _check(self, found: LedgerMetadata) -> None:
        """Raise an error if `found` is incompatible with the state of this writer."""
        if found.state is not LedgerState.OPEN:
            raise LedgerFencedError(f"ledger {self.ledger_id} was recovered by another client: {found.state.name}")
        if found.last_segment != self.metadata.last_segment:
            raise LedgerChangedError(f"another client changed the ensemble of ledger {self.ledger_id}")

    # ---- shared parts of the events ----

    def _replace(self, places: frozenset[int]) -> None:
        for pending in self._pending.values():
            pending.acknowledged -= places
        self._begin_turn(places)

    def _begin_turn(self, places: frozenset[int]) -> None:
        """Send the unacknowledged entries to the bookies at these positions."""
        for index in places:
            self._turns[index] += 1
        for entry_id, pending in self._pending.items():
            for index in write_set(entry_id, self.metadata):
                if index in places and index not in pending.acknowledged:
                    self._send(entry_id, index)

    def _send(self, entry_id: int, index: int) -> None:
        bookie = self.metadata.last_segment.bookies[index]
        request = AddRequest(self.ledger_id, entry_id, self._key, self._pending[entry_id].body)
        self._outbox.append(OutgoingEntry(bookie, request, index, self._turns[index]))

    def _advance(self) -> None:
        while not self._broken and self.state is LedgerWriterState.OPEN:
            pending = self._pending.get(self.lac + 1)
            if pending is None or len(pending.acknowledged) < self.metadata.ack_quorum:
                return
            self.lac += 1
            self._acknowledged_length = pending.length
            del self._pending[self.lac]

    def _fail(self, fault: JournalError) -> None:
        if self.state is not LedgerWriterState.CLOSED:
            self.state = LedgerWriterState.FAILED
            self.fault = self.fault or fault
            self._pending.clear()
