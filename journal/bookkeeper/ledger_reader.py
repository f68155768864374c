"""Procedures, without I/O, that read a ledger's readable part and its entries without disturbing its writer."""

from __future__ import annotations

from journal.bookkeeper.calls import AddressedRequest, BookieRound, Procedure, RoundAnswers
from journal.bookkeeper.decisions import NEGATIVE, is_covered, write_set
from journal.bookkeeper.entry import LAST_ENTRY, DigestType, EntryCodec, LedgerEntry
from journal.bookkeeper.errors import BookKeeperError, EntryError
from journal.bookkeeper.ledger_metadata import LedgerMetadata
from journal.bookkeeper.ledger_options import LedgerLimits
from journal.bookkeeper.messages import BookieResponse, ReadRequest, ReadResponse, ResultCode
from journal.bookkeeper.slow_bookies import SlowBookies


def ledger_codec(ledger_id: int, metadata: LedgerMetadata, password: bytes) -> EntryCodec:
    """Return the codec for the entries of a ledger.

    Raises:
        BookKeeperError: the ledger has a different password.
    """
    if metadata.password is not None and metadata.password != password:
        hint = "Set dfs.namenode.bookkeeperjournal.digestPw to the password of the ledger."
        raise BookKeeperError(f"ledger {ledger_id} has a different password", hint=hint)
    return EntryCodec(metadata.digest_type or DigestType.MAC, password)


def last_readable(ledger_id: int, metadata: LedgerMetadata, codec: EntryCodec, limits: LedgerLimits) -> Procedure[int]:
    """Return the newest entry that every recovery keeps; in an open ledger, the newest LAC that bookies report.

    Raises:
        BookKeeperError: too few bookies answer.
    """
    if metadata.closed:
        return metadata.last_entry
    answers = RoundAnswers()
    known: set[int] = set()
    lacs = [metadata.last_segment.first_entry - 1]
    faults: dict[int, EntryError] = {}

    def enough() -> bool:
        for index, outcome in answers.outcomes.items():
            if index in known or not isinstance(outcome, ReadResponse):
                continue
            if outcome.code is ResultCode.OK and outcome.body is not None:
                try:
                    lacs.append(codec.decode(outcome.body, ledger_id, LAST_ENTRY).lac)
                except EntryError as fault:
                    faults[index] = fault
                else:
                    known.add(index)
            elif outcome.code in NEGATIVE:
                known.add(index)
        return is_covered(known, metadata)

    request = ReadRequest(ledger_id, LAST_ENTRY)
    bookies = metadata.last_segment.bookies
    yield BookieRound(answers, [AddressedRequest(bookie, request) for bookie in bookies], limits.read, enough)
    if not enough():
        raise BookKeeperError(f"too few bookies report the last entry of ledger {ledger_id}: {answers_text(answers)}")
    return max(lacs)


def read_entries(
    ledger_id: int,
    metadata: LedgerMetadata,
    codec: EntryCodec,
    first: int,
    last: int,
    limits: LedgerLimits,
    slow: SlowBookies | None = None,
) -> Procedure[list[LedgerEntry]]:
    """Return entries `first` to `last`, each from the first bookie that returns an intact copy; ask slow bookies last.

    Args:
        slow: the bookies to ask last; bookies that do not answer in time are added.

    Raises:
        BookKeeperError: an entry cannot be read from any of its bookies.
    """
    found: dict[int, LedgerEntry] = {}
    faults: dict[int, list[str]] = {entry_id: [] for entry_id in range(first, last + 1)}
    answers = RoundAnswers()
    entry_of: list[int] = []
    seen: set[int] = set()
    slow = slow or SlowBookies()
    replicas = {
        entry_id: slow.ordered([metadata.ensemble_of(entry_id).bookies[each] for each in write_set(entry_id, metadata)])
        for entry_id in faults
    }

    def collect() -> bool:
        """Process new outcomes, and return whether the wait can end."""
        for number in answers.outcomes.keys() - seen:
            seen.add(number)
            entry_id, outcome = entry_of[number], answers.outcomes[number]
            note = slow.silent if isinstance(outcome, BookKeeperError) else slow.answered
            note(answers.asked[number].bookie)
            try:
                found.setdefault(entry_id, _decoded(codec, outcome, ledger_id, entry_id))
            except BookKeeperError as fault:
                faults[entry_id].append(f"{answers.asked[number].bookie}: {fault.problem}")
        waiting = {entry_of[number] for number in range(len(entry_of)) if number not in seen}
        return len(found) == len(faults) or not waiting - found.keys()

    for turn in range(metadata.write_quorum):
        missing = [entry_id for entry_id in faults if entry_id not in found]
        requests = [
            AddressedRequest(replicas[entry_id][turn], ReadRequest(ledger_id, entry_id)) for entry_id in missing
        ]
        entry_of += missing
        final = turn == metadata.write_quorum - 1
        yield BookieRound(answers, requests, limits.read if final else limits.speculative, collect)
        collect()
        if len(found) == len(faults):
            break
        for bookie in {asked.bookie for number, asked in enumerate(answers.asked) if number not in seen}:
            slow.silent(bookie)
    for entry_id, problems in faults.items():
        if entry_id not in found:
            reasons = "; ".join(problems) or f"no answer within {limits.read:g} s"
            raise BookKeeperError(f"entry {entry_id} of ledger {ledger_id} cannot be read: {reasons}")
    return [found[entry_id] for entry_id in sorted(found)]


def answers_text(answers: RoundAnswers) -> str:
    """Return the bookies' responses for an error message."""
    words = []
    for number, asked in enumerate(answers.asked):
        outcome = answers.outcomes.get(number)
        if outcome is None:
            words.append(f"{asked.bookie}: no answer in time")
        elif isinstance(outcome, BookKeeperError):
            words.append(f"{asked.bookie}: {outcome.problem}")
        else:
            words.append(f"{asked.bookie}: {outcome.code.name}")
    return "; ".join(words)


def _decoded(
    codec: EntryCodec, outcome: BookieResponse | BookKeeperError, ledger_id: int, entry_id: int
) -> LedgerEntry:
    if isinstance(outcome, BookKeeperError):
        raise outcome
    if not isinstance(outcome, ReadResponse) or outcome.code is not ResultCode.OK or outcome.body is None:
        raise BookKeeperError(outcome.code.name)
    return codec.decode(outcome.body, ledger_id, entry_id)
