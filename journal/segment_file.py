"""Segment files in a directory: listing, selection and reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

from hadoop_common.file_faults import file_faults
from hadoop_common.mapped_file import MappedFile, ShrunkFileError, map_regular
from hadoop_common.names import SegmentName, parse_segment
from journal.binary_codec import MAX_OP_SIZE
from journal.errors import SegmentError, TransactionGapError
from journal.operation import EditOp
from journal.primitives import Buffer
from journal.segment_format import SegmentCursor


@dataclass(frozen=True, slots=True)
class EditLogSegment(SegmentName):
    """A segment file, described by its name."""

    path: Path


def list_segments(directory: Path) -> list[EditLogSegment]:
    """Return the segments of `directory`, sorted by first and last txid, with segments in progress at the end.

    Raises:
        OSError: the directory cannot be read.
        SegmentError: the last txid in a name is smaller than the first.
    """
    with file_faults(directory, "cannot be listed"):
        paths = list(directory.iterdir())
    segments = []
    for path in paths:
        name = parse_segment(path.name)
        if name is None:
            continue
        if name.last is not None and name.last < name.first:
            problem = f"the last txid in the name ({name.last}) is lower than the first txid ({name.first})"
            raise SegmentError(problem, file=str(path))
        segments.append(EditLogSegment(name.first, name.last, path))
    return sorted(segments, key=lambda item: (item.first, item.in_progress, item.last or 0))


@contextmanager
def map_file(path: Path, *, follow: bool = True) -> Iterator[Buffer]:
    """Open `path` as `open_regular` does, and yield its content as a read-only map, or empty bytes if the file is
    empty.

    A segment in progress becomes shorter when it is finalized. This is an error only if the caller has read the removed
    bytes.

    Raises:
        OSError: the file cannot be read.
        NotRegularError, SparseFileError: the file cannot belong to an edit log.
        SegmentError: the file became shorter, and the caller has read bytes that it no longer contains.
    """
    with file_faults(path, "cannot be read"):
        content = map_regular(path, follow=follow)
    if content is None:
        yield b""
        return
    with content:
        try:
            yield content
        except Exception as error:
            _refuse_shrunk(content, path, error)
            raise
        if content.lost >= 0:
            _refuse_shrunk(content, path, None)


def _refuse_shrunk(content: MappedFile, path: Path, error: Exception | None) -> None:
    try:
        content.check_whole()
    except ShrunkFileError as shrunk:
        raise SegmentError("the file became shorter while it was read", file=path.name, hint=shrunk.hint) from error


def read_ops(segment: EditLogSegment, *, from_txid: int | None = None) -> Iterator[EditOp]:
    """Yield the operations of `segment` from `from_txid` on, with the checks of `SegmentCursor`.

    Raises:
        JournalError: see `SegmentCursor`.
        OSError: the file cannot be read.
    """
    with map_file(segment.path) as content:
        yield from cursor_over(segment, content, from_txid)


def cursor_over(
    segment: EditLogSegment, content: Buffer, from_txid: int | None = None, *, max_op_size: int = MAX_OP_SIZE
) -> SegmentCursor:
    """Return a cursor over the operations of a segment from `from_txid` on; `content` is the segment's file."""
    return SegmentCursor(
        content,
        file=str(segment.path),
        first_txid=segment.first,
        last_txid=segment.last,
        from_txid=from_txid,
        in_progress=segment.in_progress,
        max_op_size=max_op_size,
    )


Places = dict[Path, tuple[int, int]]
"""For each segment file, the position of an operation and its transaction id."""

Opened = Callable[[EditLogSegment, int, Callable[[int], Iterator[EditOp]]], None]
"""Type of the `opened` callback of `SegmentTransactions`."""


class SegmentTransactions:
    """The operations of `segments`, which `select_segments` returned, in one sequence from `from_txid` on.

    A reader iterates over operations, or over segments as cursors.

    Args:
        opened: called for each segment before it is read. The arguments are the segment, its first requested txid, and
            a function. The function yields the segment's operations, starting at a given txid, and uses the mapping of
            the file that is already open.
        places: positions before which operations are not read again; updated at the end of each segment.

    Raises (during iteration):
        JournalError: see `read_ops`.
        TransactionGapError: a segment does not continue the previous segment.
        OSError: a file cannot be read.
    """

    def __init__(
        self,
        segments: Iterable[EditLogSegment],
        from_txid: int,
        *,
        max_op_size: int = MAX_OP_SIZE,
        opened: Opened | None = None,
        places: Places | None = None,
    ) -> None:
        self._segments = segments
        self._from_txid = from_txid
        self._max_op_size = max_op_size
        self._opened = opened
        self._places = places

    def observed(self, opened: Opened) -> SegmentTransactions:
        """Return this sequence, but call `opened` for each segment that is opened."""
        return self._changed(self._max_op_size, opened)

    def limited(self, max_op_size: int) -> SegmentTransactions:
        """Return this sequence, but raise an error for operations of more than `max_op_size` bytes."""
        return self._changed(max_op_size, self._opened)

    def _changed(self, max_op_size: int, opened: Opened | None) -> SegmentTransactions:
        return SegmentTransactions(
            self._segments, self._from_txid, max_op_size=max_op_size, opened=opened, places=self._places
        )

    def cursors(self) -> Iterator[SegmentCursor]:
        """Yield a cursor for each segment at its first requested operation.

        The caller must finish each cursor before it requests the next cursor.
        """
        expected = self._from_txid
        for segment in self._segments:
            with map_file(segment.path) as content:
                open_at = partial(cursor_over, segment, content, max_op_size=self._max_op_size)
                cursor = open_at(expected)
                if self._opened is not None:
                    self._opened(segment, expected, open_at)
                place = None if self._places is None else self._places.get(segment.path)
                if place is not None and place[1] <= expected:
                    cursor.advance(*place)
                cursor.skip()
                if cursor.expected is not None and cursor.expected > expected:
                    file = str(segment.path)
                    raise TransactionGapError(expected, cursor.expected, file=file, offset=cursor.position)
                yield cursor
                expected = max(expected, cursor.expected or 0)
                if self._places is not None and cursor.expected is not None:
                    self._places[segment.path] = cursor.position, cursor.expected

    def __iter__(self) -> Iterator[EditOp]:
        for cursor in self.cursors():
            yield from cursor


def select_segments(
    segments: Iterable[EditLogSegment], from_txid: int, to_txid: int | None = None
) -> list[EditLogSegment]:
    """Return the finalized segments that contain `from_txid` .. `to_txid` without a gap, in order.

    Without `to_txid`, the list extends to the newest finalized segment, and may be empty. If several segments have the
    same first txid, the longest segment is chosen. The first segment may begin before `from_txid`.

    Raises:
        TransactionGapError: transactions are missing; the error names them and the next available transaction.
    """
    finalized = [(segment.first, segment.last, segment) for segment in segments if segment.last is not None]
    wanted = max((last for _, last, _ in finalized), default=from_txid - 1) if to_txid is None else to_txid
    selected = []
    expected = from_txid
    while expected <= wanted:
        holding = [item for item in finalized if item[0] <= expected <= item[1]]
        if not holding:
            raise _gap(expected, wanted, [first for first, _, _ in finalized if first > expected])
        _, last, segment = max(holding, key=lambda item: (item[1], item[0]))
        selected.append(segment)
        expected = last + 1
    return selected


def _gap(expected: int, wanted: int, later: list[int]) -> TransactionGapError:
    following = min(later, default=None)
    missing_to = wanted if following is None else min(following - 1, wanted)
    problem = f"gap in the edit log: no finalized segment contains txid {expected} .. {missing_to}"
    problem += (
        "; no later transaction is available" if following is None else f"; the next available txid is {following}"
    )
    return TransactionGapError(expected, following, problem=problem)


def segment_ops(path: Path, content: Buffer) -> SegmentCursor:
    """Return a cursor that checks all operations against the file's name; an open segment may have a torn tail."""
    name = parse_segment(path.name) or SegmentName(0, None)
    return SegmentCursor(content, file=str(path), last_txid=name.last, in_progress=name.in_progress)


def read_operations(segments: Sequence[EditLogSegment], first: int, last: int) -> Iterator[EditOp]:
    """Return the operations `first` to `last` of finalized segment files.

    Raises:
        JournalError: operations are missing or damaged.
        OSError: a file cannot be read.
    """
    chosen = select_segments(segments, first, last)
    return takewhile(lambda op: op.txid <= last, SegmentTransactions(chosen, first))
