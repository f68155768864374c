"""State of a bookie without I/O: the ledgers with their keys, fences and entries, and the responses to requests.

A ledger is unknown, open, or fenced. The fenced state is final.

    ADD            An unknown ledger becomes open, with the key of the request. A fenced ledger accepts the entry only
                   from a recovery.
    READ + FENCE   An unknown or open ledger becomes fenced immediately. The response waits until the fence is durable.

Every change produces a record for the journal, and its response waits until the record is durable. The response to
every fencing read also waits, because an earlier read may have set a fence that is not durable yet. A read may return
an entry that is not durable yet. Only a recovery reads such an entry, and the recovery writes the entry again.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import NamedTuple

from journal.bookkeeper.entry import LAST_ENTRY, body_ids
from journal.bookkeeper.errors import EntryError
from journal.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    BookieRequest,
    BookieResponse,
    OtherResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    RequestFlag,
    ResultCode,
)


class RecordPlace(NamedTuple):
    """Position of an entry's body in the journal."""

    offset: int
    size: int


Body = bytes | RecordPlace
"""Body of an entry, or the position of the body once the entry is durable."""


@dataclass(frozen=True, slots=True)
class EntryRecord:
    ledger_id: int
    entry_id: int
    body: bytes


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """Journal record of the existence of a ledger, with the ledger's key."""

    ledger_id: int
    key: bytes


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """Journal record of the fence of a ledger."""

    ledger_id: int


BookieRecord = EntryRecord | KeyRecord | FenceRecord


@dataclass(frozen=True, slots=True)
class BookieReply:
    """Result of a request.

    Attributes:
        records: records to make durable, in this order and after all earlier records.
        response: the response; the response to a read lacks the body.
        body: the body to send with the response to a read.
        durable: whether the response waits until all previous records are durable.
    """

    response: BookieResponse
    records: tuple[BookieRecord, ...] = ()
    body: Body | None = None
    durable: bool = False


@dataclass(slots=True)
class _Ledger:
    key: bytes = b""
    fenced: bool = False
    entries: dict[int, Body] = field(default_factory=dict)
    last: int = LAST_ENTRY


class BookieState:
    """All ledgers of a bookie; the owner holds its lock around every call."""

    def __init__(self) -> None:
        self._ledgers: dict[int, _Ledger] = {}

    def apply(self, record: BookieRecord, place: RecordPlace | None = None) -> None:
        """Apply a record of the journal; `place` is the position of an entry's body."""
        ledger = self._ledgers.setdefault(record.ledger_id, _Ledger())
        match record:
            case KeyRecord():
                ledger.key = record.key
            case FenceRecord():
                ledger.fenced = True
            case EntryRecord():
                ledger.entries[record.entry_id] = place or record.body
                ledger.last = max(ledger.last, record.entry_id)

    def settled(self, record: BookieRecord, place: RecordPlace) -> None:
        """Replace an entry's body, which is now durable, with its position `place`."""
        if isinstance(record, EntryRecord):
            entries = self._ledgers[record.ledger_id].entries
            if entries[record.entry_id] is record.body:
                entries[record.entry_id] = place

    def handle(self, request: BookieRequest, *, writable: bool = True) -> BookieReply:
        """Perform `request`, and return its result.

        Args:
            writable: whether entries are accepted; fences are always accepted.
        """
        match request:
            case AddRequest():
                return self._add(request, writable=writable)
            case ReadRequest() if request.flags & RequestFlag.FENCE:
                return self._fence(request)
            case ReadRequest():
                return self._read(request, ())
            case ReadLacRequest():
                return self._read_lac(request)
            case other:
                return BookieReply(OtherResponse(other.operation, ResultCode.BAD_REQUEST))

    def _add(self, request: AddRequest, *, writable: bool) -> BookieReply:
        ids = request.ledger_id, request.entry_id
        try:
            named = body_ids(request.body)[:2]
        except EntryError:
            named = None
        ledger = self._ledgers.get(request.ledger_id)
        if named != ids or request.entry_id < 0 or request.ledger_id < 0:
            return BookieReply(AddResponse(ResultCode.BAD_REQUEST, *ids))
        if ledger is not None and not hmac.compare_digest(ledger.key, request.master_key):
            return BookieReply(AddResponse(ResultCode.UNAUTHORIZED, *ids))
        if ledger is not None and ledger.fenced and not request.flags & RequestFlag.RECOVERY_ADD:
            return BookieReply(AddResponse(ResultCode.FENCED, *ids))
        if not writable:
            return BookieReply(AddResponse(ResultCode.READ_ONLY, *ids))
        entry = EntryRecord(*ids, request.body)
        records = (entry,) if ledger is not None else (KeyRecord(request.ledger_id, request.master_key), entry)
        return self._changed(AddResponse(ResultCode.OK, *ids), records)

    def _fence(self, request: ReadRequest) -> BookieReply:
        ledger = self._ledgers.get(request.ledger_id)
        key = request.master_key
        if key is None or (ledger is not None and not hmac.compare_digest(ledger.key, key)):
            return BookieReply(ReadResponse(ResultCode.UNAUTHORIZED, request.ledger_id, request.entry_id))
        records: tuple[BookieRecord, ...] = ()
        if ledger is None:
            records = KeyRecord(request.ledger_id, key), FenceRecord(request.ledger_id)
        elif not ledger.fenced:
            records = (FenceRecord(request.ledger_id),)
        for record in records:
            self.apply(record)
        return self._read(request, records)

    def _read(self, request: ReadRequest, records: tuple[BookieRecord, ...]) -> BookieReply:
        ids = request.ledger_id, request.entry_id
        fencing = bool(request.flags & RequestFlag.FENCE)
        ledger = self._ledgers.get(request.ledger_id)
        if ledger is None:
            return BookieReply(ReadResponse(ResultCode.NO_LEDGER, *ids))
        body = ledger.entries.get(ledger.last if request.entry_id == LAST_ENTRY else request.entry_id)
        code = ResultCode.NO_ENTRY if body is None else ResultCode.OK
        return BookieReply(ReadResponse(code, *ids), records, body, durable=fencing)

    def _read_lac(self, request: ReadLacRequest) -> BookieReply:
        ledger = self._ledgers.get(request.ledger_id)
        if ledger is None:
            return BookieReply(ReadLacResponse(ResultCode.NO_LEDGER, request.ledger_id))
        body = ledger.entries.get(ledger.last)
        return BookieReply(
            ReadLacResponse(ResultCode.NO_ENTRY if body is None else ResultCode.OK, request.ledger_id), body=body
        )

    def _changed(self, response: BookieResponse, records: tuple[BookieRecord, ...]) -> BookieReply:
        for record in records:
            self.apply(record)
        return BookieReply(response, records, durable=True)


def with_body(response: BookieResponse, body: bytes | None) -> BookieResponse:
    match response:
        case ReadResponse() if body is not None:
            return ReadResponse(response.code, response.ledger_id, response.entry_id, body)
        case ReadLacResponse() if body is not None:
            return ReadLacResponse(response.code, response.ledger_id, last_entry=body)
        case _:
            return response
