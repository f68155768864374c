"""Copies transactions between journals of any kind, and compares the result with the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from hadoop_common.file_faults import error_text
from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from journal.binary_codec import check_layout, encode_op
from journal.bookkeeper.ledger_segments import LedgerSegment
from journal.edits_text import fitting
from journal.errors import JournalExistsError, JournalStorageError, SegmentError, TransactionGapError
from journal.file_journal import FileJournal
from journal.file_segments import FileSegment
from journal.journal import Journal, ReadableSegment, RecordBatch, SegmentWriter
from journal.json_journal import JsonJournal
from journal.json_reading import JsonSegment
from journal.operation import EditOp
from journal.segment_copies import SegmentCopies
from journal.segment_file import map_file
from journal.segment_format import decode_header

_BATCH = 512 * 1024  # bytes of records
_DAMAGED_HINT = "Do not use the copy: check for other writers and disk faults, then copy again."


@dataclass(frozen=True, slots=True)
class CopyRange:
    """The transactions to copy.

    Attributes:
        first: first transaction; None for the oldest.
        last: last transaction; None for the newest.
        in_progress: whether an open segment is included; its copy is finalized.
    """

    first: int | None = None
    last: int | None = None
    in_progress: bool = False


@dataclass(frozen=True, slots=True)
class CopiedSegment:
    """Transactions `first` to `last` of `source`, to be written in `layout_version`."""

    source: ReadableSegment
    first: int
    last: int
    layout_version: int

    def ops(self) -> Iterator[EditOp]:
        """Yield the operations; check that they are consecutive and complete.

        Raises:
            TransactionGapError: the source has other operations.
            OpEncodingError: an operation cannot be encoded in the layout.
            JournalError: the source cannot be read.
        """
        return fitting(
            _exactly(self.source.read(self.first), self.first, self.last, self.source.name), self.layout_version
        )


@dataclass(slots=True)
class _RecordDigest:
    transactions: int = 0
    digest: blake2b = field(default_factory=blake2b)

    def add(self, record: bytes) -> bytes:
        self.transactions += 1
        self.digest.update(record)
        return record


def select_range(
    source: Journal, wanted: CopyRange, *, layout_version: int | None, default_layout: int
) -> list[CopiedSegment]:
    """Return the transactions to copy, grouped by the segments of the source.

    Args:
        layout_version: layout version of the copy; None for the layout version of each segment.
        default_layout: layout version for segments that do not name their layout version.

    Raises:
        TransactionGapError: transactions of the range are missing, or the range is empty.
        JournalError: the source cannot be read.
    """
    if layout_version is not None:
        check_layout(layout_version)
    chain = _chain(source, wanted)
    parts = []
    for segment in chain:
        first = segment.first if wanted.first is None else max(segment.first, wanted.first)
        last = segment.last if wanted.last is None else min(segment.last, wanted.last)
        if first <= last:
            layout = layout_version or _layout_of(segment) or default_layout
            parts.append(CopiedSegment(segment, first, last, layout))
    if not parts or (wanted.last is not None and parts[-1].last < wanted.last):
        expected = parts[-1].last + 1 if parts else wanted.first or 0
        raise TransactionGapError(expected, None, file=source.location)
    return parts


def copy_journal(
    parts: list[CopiedSegment], target: Journal, namespace: StorageInfo, *, force: bool = False, resume: bool = False
) -> tuple[list[CopiedSegment], int]:
    """Write `parts` into `target` and read them back; return the written parts and the number of transactions.

    With `force`, an existing journal is deleted, but only after all of `parts` have been read once. With `resume`, the
    copy continues at the end of the existing journal, after a comparison of its content. The recovery of a shared
    journal fences its writer. Therefore, the journal is recovered only after the comparison, and only if transactions
    are left to copy. A segment that an earlier copy left unfinished ends where that copy stopped. The segment's
    remaining transactions follow as another segment.

    Raises:
        JournalExistsError: the target exists, and `force` is not set; the target is unchanged.
        SegmentError: the transactions that were read back differ from the written transactions.
        JournalError: the source cannot be read, or the target cannot be written; the target is then incomplete.
    """
    exists = target.is_formatted()
    if exists and not resume:
        if not force:
            hint = (
                "Specify another target, or continue this copy with --resume. --force deletes all edits in the target."
            )
            raise JournalExistsError("a journal already exists", file=target.location, hint=hint)
        for part in parts:
            for op in part.ops():
                encode_op(op, part.layout_version)
    done, left = _arrived(parts, target, namespace) if exists and resume else ([], parts)
    if not exists or not resume:
        target.format(namespace, force=force)
        target.recover(namespace)
    if isinstance(target, FileJournal):
        # seen_txid must be raised before the first transaction, so that an incomplete copy does not count as complete.
        target.raise_seen_txid(parts[-1].last)
    written = _RecordDigest()
    for part in left:
        writer = target.start_segment(part.first, part.layout_version)
        try:
            _write(part, writer, written)
        except BaseException:
            writer.abort()
            raise
    if left:
        _compare(left, target, written)
    return [*done, *left], sum(part.last - part.first + 1 for part in done) + written.transactions


def _arrived(
    parts: list[CopiedSegment], target: Journal, namespace: StorageInfo
) -> tuple[list[CopiedSegment], list[CopiedSegment]]:
    """Compare the parts that `target` has; return them and the remaining parts. Recover `target` if any parts remain.

    Raises:
        SegmentError: the target has other transactions.
        JournalError: source or target cannot be read, or the target belongs to another namespace or has a writer.
    """
    if isinstance(target, FileJournal | JsonJournal):
        # This recovery does not fence a writer; instead, it fails if another process holds the lock.
        target.recover(namespace)
        done, left = _split(parts, target)
        _compare_again(done, target)
        return done, left
    done, left = _split(parts, target, in_progress=True)
    _compare_again(done, target, in_progress=True)
    if not left and not any(segment.in_progress for segment in target.segments(parts[-1].last, in_progress=True)):
        return done, left
    target.recover(namespace)
    newest = done[-1].first if done else parts[0].first
    done, left = _split(parts, target)
    # Recovery may find more transactions than a reader sees.
    _compare_again([part for part in done if part.first >= newest], target)
    return done, left


def _compare_again(parts: list[CopiedSegment], target: Journal, *, in_progress: bool = False) -> None:
    if parts:
        there = _RecordDigest()
        for part in parts:
            for op in part.ops():
                there.add(encode_op(op, part.layout_version))
        _compare(parts, target, there, in_progress=in_progress)


def _split(
    parts: list[CopiedSegment], target: Journal, *, in_progress: bool = False
) -> tuple[list[CopiedSegment], list[CopiedSegment]]:
    """Return the parts that `target` has, according to its segments, and the remaining parts.

    Raises:
        SegmentError: the target has other transactions.
    """
    ends = [segment.last for segment in target.segments(parts[0].first, in_progress=in_progress)]
    done: list[CopiedSegment] = []
    left = list(parts)
    for end in ends:
        if not left or end > left[0].last:
            problem = f"one of its segments ends with txid {end}, but no segment of the source does"
            raise SegmentError(
                problem, file=target.location, hint="This is not a copy of the source: name another target."
            )
        part = left.pop(0)
        done.append(replace(part, last=end))
        if end < part.last:
            left.insert(0, replace(part, first=end + 1))
    return done, left


def _write(part: CopiedSegment, writer: SegmentWriter, tally: _RecordDigest) -> None:
    records = bytearray()
    first = part.first
    for op in part.ops():
        records += tally.add(encode_op(op, part.layout_version))
        if len(records) >= _BATCH or op.txid == part.last:
            writer.append(RecordBatch(first, op.txid, bytes(records)))
            records.clear()
            first = op.txid + 1
    writer.finalize(part.last)


def _compare(parts: list[CopiedSegment], target: Journal, written: _RecordDigest, *, in_progress: bool = False) -> None:
    first, last = parts[0].first, parts[-1].last
    found = _RecordDigest()
    segments = target.segments(first, in_progress=in_progress)
    for part, segment in zip(parts, segments, strict=False):
        if (segment.first, segment.last) != (part.first, part.last):
            break
        for op in _exactly(segment.read(part.first), part.first, part.last, segment.name):
            found.add(encode_op(op, part.layout_version))
    if found.transactions != written.transactions or segments[-1].last != last:
        wrote = counted(written.transactions, "transaction")
        problem = f"wrote {wrote} ({first} to {last}), but {found.transactions} can be read"
        raise SegmentError(problem, file=target.location, hint=_DAMAGED_HINT)
    if found.digest.digest() != written.digest.digest():
        problem = f"transactions {first} to {last} differ from the written transactions"
        raise SegmentError(problem, file=target.location, hint=_DAMAGED_HINT)


def _chain(source: Journal, wanted: CopyRange) -> Iterable[ReadableSegment]:
    if wanted.first is not None:
        return source.segments(wanted.first, in_progress=wanted.in_progress)
    try:
        return source.segments(0, in_progress=wanted.in_progress)
    except TransactionGapError as gap:
        # A gap before the oldest transaction is not an error.
        if gap.expected != 0 or gap.found is None:
            raise
        return source.segments(gap.found, in_progress=wanted.in_progress)


def _exactly(ops: Iterable[EditOp], first: int, last: int, name: str) -> Iterator[EditOp]:
    expected = first
    for op in ops:
        if op.txid != expected:
            raise TransactionGapError(expected, op.txid, file=name)
        yield op
        if op.txid == last:
            return
        expected += 1
    raise TransactionGapError(expected, None, file=name)


def _layout_of(segment: ReadableSegment) -> int | None:
    """Return the layout version of the segment's transactions; None if the segment does not name one."""
    while isinstance(segment, SegmentCopies):
        segment = segment.copies[0]
    if isinstance(segment, JsonSegment | LedgerSegment):
        return segment.layout_version
    if isinstance(segment, FileSegment):
        try:
            with map_file(segment.path) as content:
                return decode_header(content, file=segment.name)
        except OSError as error:
            raise JournalStorageError(f"the segment cannot be read: {error_text(error)}", file=segment.name) from error
    return None
