"""The writer of a ledger as a machine: entries go out, answers come in, bookies that fail are replaced; no I/O.

It is open, closing, closed, or has failed for good.

    add       open. The entry gets the next id and goes to its write set.
    answered  an entry is acknowledged once its ack quorum has it and all before it are acknowledged.
    broken    a bookie failed: nothing is acknowledged from then on until `change_ensemble` has put another one in its
              place, told ZooKeeper, and sent it what is not acknowledged.
    left out  there is no other bookie: the place keeps its bookie and gets nothing more. Entries that the ack quorum
              has without it are acknowledged, the others wait. `retry` sends it what is not acknowledged: it takes
              part again if it answers, and is broken again if it fails.
    fail      FENCED or UA from whichever bookie, metadata that somebody else changed, or the owner gives up: too few
              bookies answer. What was not acknowledged stays unknown until the ledger is recovered.
    close     the newest acknowledged entry is the last one, which ZooKeeper decides by compare-and-set.

What can never happen, and why:

- An acknowledged entry is lost: its ack quorum has it on disk, and a recovery asks so many bookies that one of them is
  among those.
- An entry is acknowledged after a recovery has passed it: the recovery fenced so many bookies that the rest is no
  quorum, and the first one that says so ends the writer, whatever the others say.
- An answer of a bookie that was replaced counts for the one in its place: every request knows in which turn of its
  place it was sent.
- A new segment begins behind an entry that is acknowledged on the old ensemble only: nothing is acknowledged while
  `change_ensemble` runs. A place that is left out changes no metadata, so acknowledgements need not wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from journal.bookkeeper.calls import GetMetadata, ListBookies, Procedure, SetMetadata
from journal.bookkeeper.decisions import OVER, Choose, replaceable, replaced, write_set
from journal.bookkeeper.entry import LAST_ENTRY, Entry, EntryCodec
from journal.bookkeeper.errors import (
    BadVersionError,
    BookKeeperError,
    LedgerChangedError,
    LedgerFencedError,
    NotEnoughBookiesError,
)
from journal.bookkeeper.ledger_metadata import LedgerMetadata, LedgerState
from journal.bookkeeper.messages import AddRequest, Code
from journal.errors import JournalError


class WriterState(Enum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Send:
    """An entry to one bookie; `turn` counts the bookies that its place in the ensemble has had."""

    bookie: str
    request: AddRequest
    index: int
    turn: int


@dataclass(slots=True)
class _Pending:
    body: bytes
    length: int
    acknowledged: set[int] = field(default_factory=set)


class LedgerWriter:
    """One ledger's writer; the owner's lock is held around every method and every step of a procedure.

    Args:
        metadata: as they were created, with that version of the znode.
        choose: picks bookies.

    Attributes:
        lac: newest acknowledged entry; -1 at first.
        fault: why nothing is acknowledged any more.
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
        self.state = WriterState.OPEN
        self._version = version
        self._codec = codec
        self._key = master_key
        self._choose = choose
        self._last = LAST_ENTRY
        self._length = self._acknowledged_length = 0
        self._pending: dict[int, _Pending] = {}
        self._broken: set[int] = set()
        self._left_out: set[int] = set()
        self._failed: set[str] = set()
        self._turns = [0] * metadata.ensemble_size
        self._outbox: list[Send] = []

    @property
    def broken(self) -> bool:
        """Whether `change_ensemble` is to be run."""
        return bool(self._broken) and self.state is WriterState.OPEN

    @property
    def left_out(self) -> list[str]:
        """The bookies that failed and that there are no others for."""
        return [self.metadata.last_segment.bookies[index] for index in sorted(self._left_out)]

    def add(self, payload: bytes) -> int:
        """Take the next entry; returns its id.

        Raises:
            JournalError: the writer has failed, or is closed.
        """
        if self.state is not WriterState.OPEN:
            raise self.fault or BookKeeperError(f"ledger {self.ledger_id} is {self.state.value}")
        self._last += 1
        self._length += len(payload)
        body = self._codec.encode(Entry(self.ledger_id, self._last, self.lac, self._length, payload))
        self._pending[self._last] = _Pending(body, self._length)
        for index in write_set(self._last, self.metadata):
            if index not in self._broken and index not in self._left_out:
                self._send(self._last, index)
        return self._last

    def take(self) -> list[Send]:
        """What is to be sent now, in this order for each bookie."""
        sends, self._outbox = self._outbox, []
        return sends

    def answered(self, send: Send, code: Code) -> None:
        """A bookie answered."""
        if code in OVER:
            problem = f"{send.bookie} answers {code.name}: another client has recovered ledger {self.ledger_id}"
            self._fail(LedgerFencedError(problem))
        elif code is not Code.OK:
            self.broke(send)
        elif send.turn == self._turns[send.index]:
            pending = self._pending.get(send.request.entry_id)
            if pending is not None:
                pending.acknowledged.add(send.index)
                self._advance()

    def broke(self, send: Send) -> None:
        """A bookie did not take an entry, or did not answer in time."""
        current = send.turn == self._turns[send.index] and send.index not in self._left_out
        if current and self.state is WriterState.OPEN:
            self._broken.add(send.index)
            self._failed.add(send.bookie)

    def retry(self) -> None:
        """Send the bookies that were left out what is not acknowledged: they may answer again."""
        if self.state is not WriterState.OPEN:
            return
        places = frozenset(self._left_out)
        self._left_out.clear()
        self._begin_turn(places)

    def give_up(self) -> None:
        """Fail: the bookies that were left out do not answer, and there are no others."""
        out = ", ".join(self.left_out)
        self._fail(NotEnoughBookiesError(f"{out} failed, and of the bookies that take writes none are not in use"))

    # ---- procedures ----

    def change_ensemble(self) -> Procedure[None]:
        """Replace the broken bookies, all of them by one update of the metadata; a fault fails the writer.

        Those that there are no others for are left out.
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
        """Make the newest acknowledged entry the last one.

        Raises:
            JournalError: the ledger stays as it is, or somebody else closed it otherwise.
        """
        if self.state is WriterState.CLOSED:
            return
        if self.fault is not None:
            raise self.fault
        self.state = WriterState.CLOSING
        self._pending.clear()
        try:
            while not (yield from self._update(self.metadata.closed_at(self.lac, self._acknowledged_length))):
                pass
        except JournalError as fault:
            self._fail(fault)
            raise
        self.state = WriterState.CLOSED

    def _update(self, updated: LedgerMetadata) -> Procedure[bool]:
        """Write `updated`; False where the metadata had changed in a way that matters not, and are read anew.

        Raises:
            JournalError: the ledger is not this writer's any more, or it is not known whether it was done.
        """
        try:
            self._version = yield SetMetadata(self.ledger_id, updated, self._version)
        except BadVersionError:
            found, version = yield GetMetadata(self.ledger_id)
            if found != updated:
                self._check(found)
                self.metadata, self._version = found, version
                return False
            # An earlier attempt had arrived.
            self._version = version
        self.metadata = updated
        return True

    def _check(self, found: LedgerMetadata) -> None:
        """Raises where `found` has not the same future as what this writer knows."""
        if found.state is not LedgerState.OPEN:
            raise LedgerFencedError(f"ledger {self.ledger_id} was recovered by another client: {found.state.name}")
        if found.last_segment != self.metadata.last_segment:
            raise LedgerChangedError(f"another client changed the ensemble of ledger {self.ledger_id}")

    # ---- below: what the events share ----

    def _replace(self, places: frozenset[int]) -> None:
        for pending in self._pending.values():
            pending.acknowledged -= places
        self._begin_turn(places)

    def _begin_turn(self, places: frozenset[int]) -> None:
        """Send the bookies at these places what is not acknowledged, by all and by them."""
        for index in places:
            self._turns[index] += 1
        for entry_id, pending in self._pending.items():
            for index in write_set(entry_id, self.metadata):
                if index in places and index not in pending.acknowledged:
                    self._send(entry_id, index)

    def _send(self, entry_id: int, index: int) -> None:
        bookie = self.metadata.last_segment.bookies[index]
        request = AddRequest(self.ledger_id, entry_id, self._key, self._pending[entry_id].body)
        self._outbox.append(Send(bookie, request, index, self._turns[index]))

    def _advance(self) -> None:
        while not self._broken and self.state is WriterState.OPEN:
            pending = self._pending.get(self.lac + 1)
            if pending is None or len(pending.acknowledged) < self.metadata.ack_quorum:
                return
            self.lac += 1
            self._acknowledged_length = pending.length
            del self._pending[self.lac]

    def _fail(self, fault: JournalError) -> None:
        if self.state is not WriterState.CLOSED:
            self.state = WriterState.FAILED
            self.fault = self.fault or fault
            self._pending.clear()
