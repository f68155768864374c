"""The operations that a caller passes to a replay, with a record of whether their source failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from journal.errors import JournalError, TransactionGapError
from journal.ops import EditOp
from journal.segment_file import SegmentTransactions


class OpSource:
    """Iterable of the caller's operations that records whether their source failed.

    After a failure of the source, all earlier operations are completely applied.
    """

    def __init__(self, ops: Iterable[EditOp]) -> None:
        self._ops = ops
        self.failed = False

    def __iter__(self) -> Iterator[EditOp]:
        try:
            yield from self._ops
        except Exception:
            self.failed = True
            raise


def is_between(source: OpSource | SegmentTransactions | None, error: BaseException) -> bool:
    """Return whether all operations before an error were completely applied."""
    if isinstance(source, SegmentTransactions) and isinstance(error, JournalError | OSError):
        return True
    return (isinstance(source, OpSource) and source.failed) or isinstance(error, TransactionGapError)
