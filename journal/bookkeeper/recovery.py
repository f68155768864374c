"""Recovery of a ledger, without I/O: fences the writer, preserves all entries that may be acknowledged, and closes it.

    1. The state OPEN becomes IN_RECOVERY by compare-and-set. A recovery that another client began is continued.
    2. Enough bookies of the last segment are fenced to prevent any further acknowledgement.
    3. After the newest reported LAC, each entry is read from any bookie that has it, and written to its whole write
       set. The search ends at the first entry that so many bookies lack that the entry cannot have been acknowledged.
       These reads also fence the bookies. A bookie that fails during recovery is replaced for writing, but may still be
       asked for the writer's entries. After a replacement, the LAC in written entries no longer increases. Another
       recovery does not learn of the replacement before the close, and must therefore write these entries again.
    4. The last entry found becomes the last entry of the closed ledger, by compare-and-set. If several recoveries
       run, one recovery succeeds, and the other recoveries use its result.

A bookie that does not answer, or has a damaged entry, proves neither presence nor absence.
"""

from __future__ import annotations

from dataclasses import dataclass

from journal.bookkeeper.calls import (
    AddressedRequest,
    BookieRound,
    GetMetadata,
    ListBookies,
    Procedure,
    RoundAnswers,
    SetMetadata,
)
from journal.bookkeeper.decisions import NEGATIVE, Choose, is_absent, is_covered, replaced, write_set
from journal.bookkeeper.entry import LAST_ENTRY, EntryCodec, LedgerEntry, master_key
from journal.bookkeeper.errors import BookKeeperError, EntryError, NotEnoughBookiesError, ZnodeVersionError
from journal.bookkeeper.ledger_metadata import LedgerMetadata, LedgerState
from journal.bookkeeper.ledger_options import LedgerLimits
from journal.bookkeeper.ledger_reader import answers_text, ledger_codec, read_entries
from journal.bookkeeper.messages import AddRequest, AddResponse, ReadRequest, ReadResponse, RequestFlag, ResultCode


@dataclass(frozen=True, slots=True)
class LedgerRecovery:
    """Recovery of ledgers.

    Attributes:
        choose: chooses replacements for bookies that fail during recovery.
    """

    password: bytes
    limits: LedgerLimits
    choose: Choose

    def run(self, ledger_id: int) -> Procedure[LedgerMetadata]:
        """Close the ledger, unless it is already closed; return its metadata.

        Raises:
            NoLedgerError: the ledger does not exist.
            BookKeeperError: too few bookies answer; the ledger is unchanged, and the caller may retry.
        """
        while True:
            metadata: LedgerMetadata
            metadata, version = yield GetMetadata(ledger_id)
            codec = ledger_codec(ledger_id, metadata, self.password)
            if metadata.closed:
                return metadata
            try:
                if metadata.state is LedgerState.OPEN:
                    metadata = metadata.in_recovery()
                    version = yield SetMetadata(ledger_id, metadata, version)
                work = _RecoveryAttempt(self, ledger_id, metadata, codec)
                closed = yield from work.find_end()
                yield SetMetadata(ledger_id, closed, version)
            except ZnodeVersionError:
                # Another recovery, the writer's close, or our earlier attempt succeeded; the metadata show the outcome.
                continue
            return closed


class _RecoveryAttempt:
    """One attempt at the recovery of a ledger with the state IN_RECOVERY."""

    def __init__(self, recovery: LedgerRecovery, ledger_id: int, metadata: LedgerMetadata, codec: EntryCodec) -> None:
        self._id = ledger_id
        # The bookies that may have the writer's entries; replacements never received them.
        self._written = metadata
        self._metadata = metadata
        self._codec = codec
        self._key = master_key(recovery.password)
        self._limits = recovery.limits
        self._choose = recovery.choose
        self._silent: set[str] = set()
        # The last entry whose bookies are known to other clients; None means all entries so far.
        self._settled: int | None = None

    def find_end(self) -> Procedure[LedgerMetadata]:
        """Find and preserve the last entry, and return the metadata of the closed ledger."""
        base, known = yield from self._fence()
        last: LedgerEntry | None = None
        entry_id = base + 1
        while (found := (yield from self._find(entry_id))) is not None:
            lac = entry_id - 1 if self._settled is None else self._settled
            last = LedgerEntry(self._id, entry_id, lac, found.length, found.payload)
            yield from self._write_again(last)
            entry_id += 1
        if last is None:
            last = known if known is None or known.entry_id == base else None
            if last is None and base > LAST_ENTRY:
                (last,) = yield from read_entries(self._id, self._metadata, self._codec, base, base, self._limits)
        return self._metadata.closed_at(entry_id - 1, last.length if last is not None else 0)

    def _fence(self) -> Procedure[tuple[int, LedgerEntry | None]]:
        """Fence the bookies; return the newest LAC that they report, and the entry with this id if it was read."""
        metadata, bookies = self._metadata, self._metadata.last_segment.bookies
        answers = RoundAnswers()
        known: set[int] = set()
        entries: list[LedgerEntry] = []
        seen: set[int] = set()

        def enough() -> bool:
            for index, outcome in answers.outcomes.items():
                if index in seen:
                    continue
                seen.add(index)
                entry = self._entry(outcome, LAST_ENTRY)
                if entry is not None:
                    entries.append(entry)
                if entry is not None or _is_negative(outcome):
                    known.add(index)
            return is_covered(known, metadata) or any(map(_is_unauthorized, answers.outcomes.values()))

        request = ReadRequest(self._id, LAST_ENTRY, RequestFlag.FENCE, self._key)
        yield BookieRound(answers, [AddressedRequest(bookie, request) for bookie in bookies], self._limits.read, enough)
        enough()
        _refuse_unauthorized(self._id, answers)
        if not is_covered(known, metadata):
            raise BookKeeperError(f"ledger {self._id} cannot be fenced on enough bookies: {answers_text(answers)}")
        self._silent = {bookie for index, bookie in enumerate(bookies) if index not in known}
        base = max([metadata.last_segment.first_entry - 1, *(entry.lac for entry in entries)])
        return base, next((entry for entry in entries if entry.entry_id == base), None)

    def _find(self, entry_id: int) -> Procedure[LedgerEntry | None]:
        """Return entry `entry_id` from any bookie that has it; None if it cannot have been acknowledged."""
        bookies = self._written.ensemble_of(entry_id).bookies
        places = [bookies[index] for index in write_set(entry_id, self._written)]
        negative = 0
        answers = RoundAnswers()
        # Bookies that did not answer earlier requests are asked last.
        for bookie in sorted(places, key=self._silent.__contains__):
            number = len(answers.asked)
            request = ReadRequest(self._id, entry_id, RequestFlag.FENCE | RequestFlag.HIGH_PRIORITY, self._key)
            yield BookieRound(answers, [AddressedRequest(bookie, request)], self._limits.read)
            _refuse_unauthorized(self._id, answers)
            outcome = answers.outcomes.get(number)
            if (entry := self._entry(outcome, entry_id)) is not None:
                return entry
            negative += _is_negative(outcome)
        if is_absent(negative, self._metadata):
            return None
        problem = f"too few bookies report whether ledger {self._id} has entry {entry_id}: {answers_text(answers)}"
        raise BookKeeperError(problem)

    def _write_again(self, entry: LedgerEntry) -> Procedure[None]:
        """Write the entry to its whole write set; replace failed bookies while other bookies are writable."""
        body = self._codec.encode(entry)
        request = AddRequest(
            self._id, entry.entry_id, self._key, body, RequestFlag.RECOVERY_ADD | RequestFlag.HIGH_PRIORITY
        )
        places = write_set(entry.entry_id, self._metadata)
        missing, stored = set(places), set[int]()
        while missing:
            bookies = self._metadata.last_segment.bookies
            order = sorted(missing)
            answers = RoundAnswers()
            yield BookieRound(answers, [AddressedRequest(bookies[index], request) for index in order], self._limits.add)
            _refuse_unauthorized(self._id, answers)
            for number, index in enumerate(order):
                outcome = answers.outcomes.get(number)
                if isinstance(outcome, AddResponse) and outcome.code is ResultCode.OK:
                    stored.add(index)
            missing -= stored
            self._silent.update(bookies[index] for index in missing)
            if not missing:
                return
            available = yield ListBookies()
            try:
                wanted = replaced(bookies, missing, frozenset(available) - self._silent, (), self._choose)
            except NotEnoughBookiesError as fault:
                if len(stored) >= self._metadata.ack_quorum:
                    return
                problem = f"entry {entry.entry_id} of ledger {self._id} is on too few bookies: {answers_text(answers)}"
                raise BookKeeperError(problem) from fault
            self._metadata = self._metadata.with_ensemble(entry.entry_id, wanted)
            if self._settled is None:
                self._settled = entry.entry_id - 1

    def _entry(self, outcome: object, entry_id: int) -> LedgerEntry | None:
        if not isinstance(outcome, ReadResponse) or outcome.code is not ResultCode.OK or outcome.body is None:
            return None
        try:
            return self._codec.decode(outcome.body, self._id, entry_id)
        except EntryError:
            return None


def _is_negative(outcome: object) -> bool:
    return isinstance(outcome, ReadResponse) and outcome.code in NEGATIVE


def _is_unauthorized(outcome: object) -> bool:
    return isinstance(outcome, ReadResponse | AddResponse) and outcome.code is ResultCode.UNAUTHORIZED


def _refuse_unauthorized(ledger_id: int, answers: RoundAnswers) -> None:
    for number, outcome in answers.outcomes.items():
        if _is_unauthorized(outcome):
            hint = "Set dfs.namenode.bookkeeperjournal.digestPw to the password of the ledger."
            raise BookKeeperError(f"{answers.asked[number].bookie} refuses the key of ledger {ledger_id}", hint=hint)
