"""Segments in ledgers, whose entries contain complete operations, without the header of a segment file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from journal.binary_codec import check_layout, decode_op
from journal.bookkeeper.errors import FrameError
from journal.bookkeeper.ledger_client import ReadLedger
from journal.bookkeeper.messages import ADD_OVERHEAD, MAX_FRAME
from journal.errors import SegmentError, TransactionGapError
from journal.operation import EditOp
from journal.primitives import Buffer
from journal.segment_frames import iter_frames

MAX_ENTRY_SIZE = MAX_FRAME - ADD_OVERHEAD


class LedgerSegment:
    """A segment that can be read (`ReadableSegment`).

    Args:
        open_ledger: opens the ledger for each read, because finalized segments are not cached.
    """

    def __init__(
        self,
        first: int,
        last: int,
        *,
        in_progress: bool,
        layout_version: int,
        name: str,
        open_ledger: Callable[[], ReadLedger],
    ) -> None:
        self.first = first
        self.last = last
        self.in_progress = in_progress
        self.layout_version = layout_version
        self.name = name
        self._open = open_ledger

    def read(self, from_txid: int) -> Iterator[EditOp]:
        check_layout(self.layout_version, file=self.name)
        ledger = self._open()
        expected = None
        for entry in ledger.entries(self._first_entry(ledger, from_txid)):
            place = f"{self.name}, ledger {ledger.ledger_id}, entry {entry.entry_id}"
            for op in decode_ops(entry.payload, self.layout_version, place):
                if op.txid != (expected or max(op.txid, self.first)):
                    raise TransactionGapError(expected or self.first, op.txid, file=place)
                if op.txid > self.last:
                    return
                expected = op.txid + 1
                if op.txid >= from_txid:
                    yield op
        reached = (expected or self.first) - 1
        if reached < self.last:
            hint = "" if ledger.closed else "The ledger is open; recovery by the next writer of this journal closes it."
            problem = f"ledger {ledger.ledger_id} ends with txid {reached}, but the segment ends with {self.last}"
            raise SegmentError(problem, file=self.name, hint=hint)

    def _first_entry(self, ledger: ReadLedger, txid: int) -> int:
        """Return the entry that contains `txid`, or an earlier entry."""
        low, high = 0, ledger.last
        while txid > self.first and low < high:
            middle = (low + high + 1) // 2
            found = first_txid(ledger.entry(middle).payload)
            if found is None or found > txid:
                high = middle - 1
            else:
                low = middle
        return low


def decode_ops(payload: bytes, layout_version: int, place: str) -> Iterator[EditOp]:
    """Yield the operations of an entry.

    Raises:
        CorruptOpError: an operation is damaged or truncated.
    """
    position = 0
    while position < len(payload):
        op, position = decode_op(payload, position, layout_version, file=place)
        yield op


def first_txid(payload: bytes) -> int | None:
    """Return the first txid of an entry, or None for an empty entry; raise the same errors as `decode_ops`."""
    return next((frame.txid for frame in iter_frames(payload, 0, len(payload))), None)


def last_txid(payload: bytes) -> int | None:
    """Return the last txid of an entry, or None for an empty entry; raise the same errors as `decode_ops`."""
    last = None
    for frame in iter_frames(payload, 0, len(payload)):
        last = frame.txid
    return last


def cut_entries(records: Buffer, size: int) -> list[bytes]:
    """Cut records into entries of complete operations.

    Each entry ends with the operation that makes the entry longer than `size`.

    Raises:
        CorruptOpError: the records are invalid.
        FrameError: an operation is larger than bookies accept.
    """
    entries, start = [], 0
    with memoryview(records) as view:
        end = 0
        for frame in iter_frames(view, 0, len(view)):
            following = frame.end
            if following - start > MAX_ENTRY_SIZE and end > start:
                entries.append(bytes(view[start:end]))
                start = end
            if following - start > MAX_ENTRY_SIZE:
                raise FrameError(
                    f"an operation of {following - start} bytes is larger than bookies accept",
                    txid=frame.txid,
                    hint="BookKeeper cannot store such an operation; use another kind of journal.",
                )
            end = following
            if end - start > size:
                entries.append(bytes(view[start:end]))
                start = end
        if end > start:
            entries.append(bytes(view[start:end]))
    return entries
