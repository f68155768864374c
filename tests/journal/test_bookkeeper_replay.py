"""Reader, recovery and writer with recorded responses of real bookies: the same requests, the same final metadata."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from typing import Any

import pytest

from journal.bookkeeper.calls import BookieRound, GetMetadata, ListBookies, Procedure, SetMetadata
from journal.bookkeeper.entry import master_key
from journal.bookkeeper.errors import BookKeeperError, LedgerFencedError
from journal.bookkeeper.ledger_metadata import LedgerMetadata, LedgerState, format_metadata, parse_metadata
from journal.bookkeeper.ledger_options import LedgerLimits
from journal.bookkeeper.ledger_reader import last_readable, ledger_codec, read_entries
from journal.bookkeeper.ledger_writer import LedgerWriter, LedgerWriterState
from journal.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    BookieRequest,
    BookieResponse,
    ReadRequest,
    ReadResponse,
    RequestFlag,
    ResultCode,
)
from journal.bookkeeper.recovery import LedgerRecovery
from tests.journal import bookkeeper_recordings as recorded

LIMITS = LedgerLimits()
Key = tuple[str, str, int, int]

READS = [name for name in recorded.FOLDERS if name.endswith("-read") and "hierarchical" not in name]
RECOVERIES = [name for name in recorded.FOLDERS if name.endswith(("-3-open-recovery", "-2-recoverer"))]
LOOKS = [name for name in recorded.FOLDERS if name.endswith("-2-open-no-recovery") and "14.8/v3" not in name]
WRITERS = [
    "v2-mac",
    "v3-mac",
    "v2-crc32",
    "v2-mac-pw",
    "v3-111",
    "v2-332",
    "with-4.14.8/v3-crc32c",
    "with-4.14.8/v3-mac",
]
CHANGES = [name for name in recorded.FOLDERS if name.endswith("-ensemble-change")]


def key_of(bookie: str, request: BookieRequest) -> Key:
    assert isinstance(request, AddRequest | ReadRequest)
    return bookie, type(request).__name__, request.ledger_id, request.entry_id


class Replayed:
    """Responses from a recording, by request; a repeated request receives the recorded responses in order."""

    def __init__(self, folder: str, znode: bytes = b"") -> None:
        self.answers: defaultdict[Key, deque[BookieResponse]] = defaultdict(deque)
        self.recorded: set[Key] = set()
        self.asked: set[Key] = set()
        self.alive: set[str] = set()
        self.bodies: dict[Key, bytes] = {}
        self.flags: dict[Key, RequestFlag] = {}
        self.znode, self.version = znode, 0
        for connection in recorded.connections(folder):
            for request in map(recorded.request_in, connection.requests):
                if isinstance(request, AddRequest | ReadRequest):
                    self.recorded.add(key_of(connection.bookie, request))
                    if isinstance(request, AddRequest):
                        self.flags[key_of(connection.bookie, request)] = request.flags
                        self.bodies[key_of(connection.bookie, request)] = request.body
            for response in map(recorded.response_in, connection.responses):
                self.alive.add(connection.bookie)
                kind = "AddRequest" if isinstance(response, AddResponse) else "ReadRequest"
                ids = getattr(response, "ledger_id", 0), getattr(response, "entry_id", 0)
                self.answers[connection.bookie, kind, *ids].append(response)

    def writes(self, key: Key) -> bool:
        """Return whether a request is a writer's ADD."""
        return key in self.flags and not self.flags[key] & RequestFlag.RECOVERY_ADD

    def run(self, procedure: Procedure[Any]) -> Any:
        try:
            step: Any = next(procedure)
            while True:
                step = procedure.send(self._do(step))
        except StopIteration as end:
            return end.value

    def answer(self, bookie: str, request: BookieRequest) -> BookieResponse | BookKeeperError:
        key = key_of(bookie, request)
        if bookie in self.alive:
            self.asked.add(key)
        if isinstance(request, AddRequest) and key in self.bodies:
            assert request.body == self.bodies[key]
        found = self.answers[key]
        if not found:
            return BookKeeperError(f"{key} was not recorded")
        return found.popleft() if len(found) > 1 else found[0]

    def _do(self, step: Any) -> Any:
        match step:
            case BookieRound():
                for asked in step.requests:
                    step.answers.asked.append(asked)
                    step.answers.note(len(step.answers.asked) - 1, self.answer(asked.bookie, asked.request))
            case GetMetadata():
                return parse_metadata(self.znode), self.version
            case SetMetadata():
                assert step.version == self.version
                self.znode, self.version = format_metadata(step.metadata), self.version + 1
                return self.version
            case ListBookies():
                return frozenset(f"127.0.0.1:{port}" for port in range(31811, 31815))
        return None


def ledger_in(folder: str) -> int:
    """Return the first ledger of a recording."""
    return next(request.ledger_id for _, request in recorded.requests(folder) if hasattr(request, "ledger_id"))


def metadata_of(folder: str, ledger_id: int) -> LedgerMetadata:
    return recorded.ledgers(folder)[ledger_id]


def before_recovery(metadata: LedgerMetadata) -> LedgerMetadata:
    return replace(metadata, state=LedgerState.OPEN, last_entry=-1, length=0)


@pytest.mark.parametrize("folder", READS)
def test_recorded_ledgers_are_read(folder: str) -> None:
    ledger_id = ledger_in(folder)
    metadata = metadata_of(folder, ledger_id)
    codec = ledger_codec(ledger_id, metadata, metadata.password or b"")
    bookies = Replayed(folder)
    entries = bookies.run(read_entries(ledger_id, metadata, codec, 0, metadata.last_entry, LIMITS))
    assert [entry.payload for entry in entries] == [recorded.payload(each) for each in range(metadata.last_entry + 1)]
    assert entries[-1].length == metadata.length
    assert {key for key in bookies.asked if key[2] == ledger_id} <= bookies.recorded


@pytest.mark.parametrize("folder", LOOKS)
def test_open_ledger_is_read_as_far_as_by_a_real_client(folder: str) -> None:
    ledger_id = ledger_in(folder)
    metadata = before_recovery(metadata_of(folder, ledger_id))
    bookies = Replayed(folder)
    codec = ledger_codec(ledger_id, metadata, b"")
    text = (recorded.ROOT / folder / "client.txt").read_text()
    lac = int(text.partition(" LAC ")[2].split()[0])
    assert bookies.run(last_readable(ledger_id, metadata, codec, LIMITS)) == lac
    assert bookies.asked <= bookies.recorded
    assert not any(getattr(request, "master_key", None) for _, request in recorded.requests(folder))


@pytest.mark.parametrize("folder", RECOVERIES)
def test_recovery_sends_the_requests_of_a_real_client(folder: str) -> None:
    ledger_id = ledger_in(folder)
    final = metadata_of(folder, ledger_id)
    bookies = Replayed(folder, format_metadata(before_recovery(final)))
    closed = bookies.run(LedgerRecovery(b"", LIMITS, lambda names, count: list(names)[:count]).run(ledger_id))
    assert closed == final == parse_metadata(bookies.znode)
    codec = ledger_codec(ledger_id, final, b"")
    entries = bookies.run(read_entries(ledger_id, final, codec, 0, final.last_entry, LIMITS))
    assert [entry.payload for entry in entries] == [recorded.payload(each) for each in range(final.last_entry + 1)]
    # Some recordings contain the last entry of the fenced writer.
    missing = {key for key in bookies.recorded - bookies.asked if not bookies.writes(key)}
    more = bookies.asked - bookies.recorded
    assert not missing
    # Newer clients ask only one bookie whether more entries exist; our client also asks the other bookie, at little
    # cost.
    allowed = {key for key in more if "14.8" in folder and key[3] == final.last_entry + 1}
    assert more == allowed


def _writer(folder: str, ledger_id: int, start: LedgerMetadata, bookies: Replayed) -> LedgerWriter:
    password = start.password or b""
    final = metadata_of(folder, ledger_id)
    return LedgerWriter(
        ledger_id,
        start,
        0,
        codec=ledger_codec(ledger_id, start, password),
        master_key=master_key(password),
        choose=lambda names, count: [each for each in final.last_segment.bookies if each in names][:count],
    )


def _write(writer: LedgerWriter, bookies: Replayed, payload: bytes) -> None:
    entry_id = writer.add(payload)
    while writer.lac < entry_id and writer.fault is None:
        sends = writer.take()
        for send in sends:
            outcome = bookies.answer(send.bookie, send.request)
            if isinstance(outcome, AddResponse):
                writer.answered(send, outcome.code)
            else:
                writer.broke(send)
        if writer.broken:
            bookies.run(writer.change_ensemble())
        assert sends or writer.fault


def _written(folder: str, start: LedgerMetadata, entries: int) -> tuple[LedgerWriter, Replayed]:
    """Return a writer of the recorded ledger that has written `entries` entries to the recorded bookies."""
    bookies = Replayed(folder, format_metadata(start))
    writer = _writer(folder, ledger_in(folder), start, bookies)
    for number in range(entries):
        _write(writer, bookies, recorded.payload(number))
    return writer, bookies


@pytest.mark.parametrize("folder", WRITERS)
def test_writer_sends_the_requests_of_a_real_client(folder: str) -> None:
    final = metadata_of(folder, ledger_in(folder))
    writer, bookies = _written(folder, before_recovery(final), final.last_entry + 1)
    bookies.run(writer.close())
    assert (bookies.asked, parse_metadata(bookies.znode)) == (bookies.recorded, final)
    assert writer.state is LedgerWriterState.CLOSED


@pytest.mark.parametrize("folder", CHANGES)
def test_killed_bookie_is_replaced_as_by_a_real_client(folder: str) -> None:
    final = metadata_of(folder, ledger_in(folder))
    assert len(final.segments) == 2
    start = replace(before_recovery(final), segments=final.segments[:1])
    writer, bookies = _written(folder, start, final.last_entry + 1)
    bookies.run(writer.close())
    assert parse_metadata(bookies.znode) == final
    (killed,) = set(final.segments[0].bookies) - set(final.segments[1].bookies)
    assert {key for key in bookies.asked if key[0] != killed} == {key for key in bookies.recorded if key[0] != killed}


@pytest.mark.parametrize("folder", ["v2-fenced-writer-1-writer", "v3-fenced-writer-1-writer"])
def test_fenced_writer_fails_and_acknowledges_nothing_more(folder: str) -> None:
    writer, bookies = _written(folder, before_recovery(metadata_of(folder, ledger_in(folder))), 4)
    assert writer.lac == 2
    assert isinstance(writer.fault, LedgerFencedError)
    with pytest.raises(LedgerFencedError):
        writer.add(b"")
    with pytest.raises(LedgerFencedError):
        bookies.run(writer.close())


def test_damaged_entry_is_read_from_another_bookie_if_one_is_intact() -> None:
    folder = "v2-mac-read"
    ledger_id = ledger_in(folder)
    metadata = metadata_of("v2-mac", ledger_id)
    codec = ledger_codec(ledger_id, metadata, b"")
    for replicas, works in ((1, True), (2, False)):
        bookies = Replayed("v2-mac-read")
        holders = [metadata.segments[0].bookies[(5 + turn) % 3] for turn in range(2)]
        (body,) = [
            each.body
            for key, found in bookies.answers.items()
            for each in found
            if key[3] == 5 and hasattr(each, "body")
        ][:1]
        for turn, bookie in enumerate(holders):
            damaged = bytearray(body or b"")
            damaged[60] ^= 1 if turn < replicas else 0
            answers = bookies.answers[bookie, "ReadRequest", ledger_id, 5]
            answers.clear()
            answers.append(ReadResponse(ResultCode.OK, ledger_id, 5, bytes(damaged)))
        reading = read_entries(ledger_id, metadata, codec, 5, 5, LIMITS)
        if works:
            (entry,) = bookies.run(reading)
            assert entry.payload == recorded.payload(5)
        else:
            with pytest.raises(BookKeeperError, match=r"entry 5 of ledger .* has a different digest"):
                bookies.run(reading)
    with pytest.raises(BookKeeperError, match="a different password"):
        ledger_codec(ledger_id, metadata, b"wrong")
