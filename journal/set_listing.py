"""Segments of the members of a journal set, as a reader of the set should see them."""

from __future__ import annotations

from collections.abc import Sequence

from journal.errors import TransactionGapError
from journal.file_journal import FileJournal
from journal.journal import Journal, ReadableSegment
from journal.segment_copies import SegmentCopies


def segments_of(journal: Journal, from_txid: int, *, in_progress: bool) -> Sequence[ReadableSegment]:
    """Return the segments of a member, also those after a gap: another member may have the missing transactions."""
    if isinstance(journal, FileJournal):
        return journal.files(in_progress=in_progress)
    while True:
        try:
            return journal.segments(from_txid, in_progress=in_progress)
        except TransactionGapError as gap:
            if gap.found is None or gap.found <= from_txid:
                raise
            from_txid = gap.found


def bounded(segment: ReadableSegment, open_first: int, open_last: int) -> ReadableSegment:
    """Limit a copy of the open segment to its durable transactions; recovery may discard later ones."""
    if segment.in_progress and segment.first == open_first:
        return SegmentCopies([segment], min(segment.last, open_last))
    return segment
