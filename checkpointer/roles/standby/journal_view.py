"""What of a shared edits directory can be replayed now: finalized segments, and the durable part of the open one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from checkpointer.roles.standby.edit_source import EditsView
from engine.open_segments import examine_open_segment
from hadoop_common.errors import StorageError
from hadoop_common.file_faults import told
from journal.errors import JournalError, TransactionGapError
from journal.journal import ReadableSegment
from journal.ops import EditOp
from journal.segment import iter_ops
from journal.segment_file import EditLogSegment, Transactions, list_segments, read_ops, select_segments


@dataclass(frozen=True, slots=True)
class FinalizedFile:
    """A finalized segment in the directory (`ReadableSegment`)."""

    first: int
    last: int
    segment: EditLogSegment

    @property
    def in_progress(self) -> bool:
        return False

    @property
    def name(self) -> str:
        return str(self.segment.path)

    def read(self, from_txid: int) -> Iterator[EditOp]:
        """Operations `from_txid` to `last`; raises as `read_ops`."""
        return read_ops(self.segment, from_txid=from_txid)

    def transactions(self, from_txid: int) -> Transactions:
        """The same, for who takes the segment as a whole."""
        return Transactions([self.segment], from_txid)


@dataclass(frozen=True, slots=True)
class OpenTail:
    """The good part of a segment in progress (`ReadableSegment`), its bytes as they were read.

    `last` is its last whole operation.
    """

    segment: EditLogSegment
    content: bytes
    last: int

    @property
    def first(self) -> int:
        return self.segment.first

    @property
    def in_progress(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return str(self.segment.path)

    def read(self, from_txid: int) -> Iterator[EditOp]:
        """Operations `from_txid` to `last`."""
        return iter_ops(
            self.content, file=self.segment.path.name, first_txid=self.first, last_txid=self.last, from_txid=from_txid
        )


def list_journal(folder: Path) -> list[EditLogSegment]:
    """Segments in the `current` folder of a shared edits directory.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        return list_segments(folder)
    except OSError as fault:
        raise StorageError(
            f"{folder} cannot be read: {fault.strerror or fault}",
            hint="Check that dfs.namenode.shared.edits.dir is mounted here and readable.",
        ) from fault


def view_journal(folder: Path, from_txid: int, *, in_progress: bool) -> EditsView:
    """What can be replayed from `from_txid` on; a gap is looked at twice, for a rename may hide a file from a listing.

    Raises:
        TransactionGapError: transactions are missing.
        StorageError: the directory cannot be read.
    """
    try:
        return _view(list_journal(folder), from_txid, in_progress=in_progress)
    except TransactionGapError:
        return _view(list_journal(folder), from_txid, in_progress=in_progress)


def _view(segments: Sequence[EditLogSegment], from_txid: int, *, in_progress: bool) -> EditsView:
    chosen = select_segments(segments, from_txid)
    finalized = _finalized(segments)
    tail, fault = _opened(segments, finalized) if in_progress else (None, "")
    reached = max(finalized, from_txid - 1)
    if tail is not None and tail.first > reached + 1:
        raise TransactionGapError(reached + 1, tail.first, file=tail.name)
    last = max(finalized, from_txid - 1 if tail is None else tail.last)
    files = tuple(FinalizedFile(each.first, each.last, each) for each in chosen if each.last is not None)
    return EditsView(files, tail, last, fault)


def _open_tail(segment: EditLogSegment) -> tuple[OpenTail | None, str]:
    """Its bytes are read, not mapped: the active cuts the file when it finalizes it."""
    try:
        content = segment.path.read_bytes()
        found = examine_open_segment(segment, content) if content else None
    except FileNotFoundError:
        # It was finalized meanwhile; the next look finds it under its new name.
        return None, ""
    except (OSError, JournalError) as fault:
        return None, told(fault)
    if found is None or found.segment.last is None:
        return None, ""
    return OpenTail(segment, content, found.segment.last), ""


def present_segments(folder: Path, first: int, last: int) -> list[ReadableSegment]:
    """See `EditSource.present`."""
    segments = list_journal(folder)
    found: list[ReadableSegment] = [
        FinalizedFile(each.first, each.last, each) for each in segments if each.last is not None and each.last >= first
    ]
    if (finalized := _finalized(segments)) < last:
        found += filter(None, [_opened(segments, finalized)[0]])
    return found


def _finalized(segments: Sequence[EditLogSegment]) -> int:
    return max((segment.last for segment in segments if segment.last is not None), default=-1)


def _opened(segments: Sequence[EditLogSegment], finalized: int) -> tuple[OpenTail | None, str]:
    """The open segment; one that begins before the end of the finalized ones was left behind by a failover."""
    later = [segment for segment in segments if segment.in_progress and segment.first > finalized]
    return _open_tail(min(later, key=lambda each: each.first)) if later else (None, "")
