"""Finds the records of the INODE section, piece by piece, in several threads."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hadoop_common.process_tuning import available_cores
from hadoop_common.quantities import counted
from image_format.array_allocator import ArrayAllocator, memory
from image_format.errors import MissingSectionError, RecordError
from image_format.kernels.scan import find_record, scan_inodes, strictly_increasing
from image_format.packed import BLOCK, Packed, Packer
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message, read_record

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int64]

SMALLEST_RECORD = 5
"""Bytes of the shortest delimited INode."""
PIECE = 4 << 20
"""Bytes of a piece, few enough for a thread's results to stay in its core's cache until their place is known."""

_WAITING_SCANNERS = 2
_WINDOW_SLACK = 64 << 10
"""Bytes after a piece that are also read: the rest of its last record, and the next records."""
_NONE: Ids = np.zeros(0, np.int64)
_MOST_SCANNERS = 8
"""Maximum number of threads: each thread uses a few MB for its arrays, and more threads do not make the disk faster."""


class Inspector(Protocol):
    """Examiner of the section during a scan, so that a large image is read only once."""

    def inspect(self, records: Bytes) -> Any:
        """Return the result for consecutive whole records; called in parallel."""

    def add(self, number: int, position: int, rows: int, result: Any) -> None:
        """Process the result of `inspect` for `rows` records; called in the order of the section.

        Args:
            number, position: number and position of the first of these records.
        """

    def read(self, piece: Bytes) -> None:
        """Process bytes of the section, in its order; they may begin and end within a record."""


class InodeRecords(NamedTuple):
    """Positions of the records.

    Attributes:
        ids: id of each record, in the order of the section.
        offsets: offset of each record in the section.
        limited: numbers of the records of directories with storage type quotas, ascending.
        ascending: whether each id is greater than the previous id.
    """

    ids: Packed
    offsets: Packed
    limited: Ids
    ascending: bool


def inode_section(image: ImageFile) -> Bytes:
    """Return the INODE section; raise MissingSectionError if it is absent."""
    section = image.section("INODE")
    if section is None:
        raise MissingSectionError(
            "section INODE is missing", file=str(image.path), section="INODE", hint="Use another copy of the image."
        )
    return section


def read_inode_header(image: ImageFile) -> tuple[pb.INodeSection, int]:
    """Return (the section's header, offset of the first record); raise RecordError if it is damaged."""
    place = image.place("INODE")
    record = read_record(inode_section(image).data, 0, place)
    return parse_message(pb.INodeSection, record, place), record.end


def scanners(image: ImageFile) -> ThreadPoolExecutor:
    """Provide threads for a scan: one per core, up to a limit, and more if they wait for the disk."""
    waiting = _WAITING_SCANNERS if image.reads_around_cache else 0
    return ThreadPoolExecutor(min(available_cores(), _MOST_SCANNERS) + waiting, "image-scan")


def scan_inode_section(
    image: ImageFile,
    executor: Executor,
    allocator: ArrayAllocator,
    progress: Callable[[int], None] | None = None,
    inspector: Inspector | None = None,
) -> InodeRecords:
    """Walk all records; `allocator` provides the columns.

    Args:
        executor: starts its tasks in order; its threads walk the pieces.
        progress: called with the number of bytes walked, scaled so that the section counts as the whole image.
        inspector: examines the bytes, starting at the first record.

    Raises:
        MissingSectionError: the section is missing.
        RecordError: a record is damaged, or the header contains a wrong number of records.
        ImageStorageError: the arrays do not fit.
    """
    return _scanned(_Scan(image, allocator, inspector), executor, progress)


def _scanned(scan: _Scan, executor: Executor, progress: Callable[[int], None] | None) -> InodeRecords:
    pieces: list[Future[None]] = []
    try:
        for number in range(scan.pieces):
            pieces.append(executor.submit(scan.walk, number, pieces[-1] if pieces else None))
        for number, piece in enumerate(pieces, 1):
            piece.result()
            if progress is not None:
                progress(scan.image.size * number // len(pieces))
    except BaseException:
        for piece in pieces:
            piece.cancel()
        # A thread may still read the file.
        wait(pieces)
        raise
    return scan.records()


class _Reached(NamedTuple):
    """State at the end of a piece.

    Attributes:
        number, position: number and position of the first record after the piece.
        ids, offsets: ids and offsets of the preceding records that do not yet fill a block of a column.
        last_id: id of the previous record, or 0.
        ascending: whether each id so far is greater than the previous id.
    """

    number: int
    position: int
    ids: Ids = _NONE
    offsets: Ids = _NONE
    last_id: int = 0
    ascending: bool = True


class _Found(NamedTuple):
    """A thread's results for a piece.

    Attributes:
        ids, offsets: arrays of this thread; the rows of the records follow space for a block.
        rows: number of records.
        limited: numbers of the records with storage type quotas.
        end: position at which the walk ended; if `damaged` is set, the record at this position is damaged.
        inspected: result of the inspector.
    """

    ids: Ids
    offsets: Ids
    rows: int
    limited: Ids
    end: int
    damaged: bool
    inspected: Any = None


class _Window(NamedTuple):
    """Bytes of the section, starting at `origin`."""

    data: Bytes
    origin: int


class _Scan:
    """A scan of the INODE section.

    Records have no start mark, so a thread guesses where the first record of its piece begins. Its result is valid if
    the previous piece ends at the same position; otherwise the piece is scanned again.
    """

    def __init__(self, image: ImageFile, allocator: ArrayAllocator, inspector: Inspector | None) -> None:
        self.image = image
        self._reads = image.direct_section("INODE")
        self._inspector = inspector
        self._buffer = inode_section(image)
        header, start = read_inode_header(image)
        self._expected = int(header.numInodes)
        # The header's count is only a hint: a damaged count must not determine how much memory is allocated.
        capacity = min(self._expected, self._buffer.size // SMALLEST_RECORD) + 1
        self._ids, self._offsets = Packer(capacity, allocator), Packer(capacity, allocator)
        self._limited: dict[int, Ids] = {}
        self._own = threading.local()
        self.begin = _Reached(0, start)
        self.pieces = -(-(self._buffer.size - start) // PIECE)
        self._reached: list[Future[_Reached]] = [Future() for _ in range(self.pieces)]

    def walk(self, number: int, before: Future[None] | None) -> None:
        """Walk the records that begin in a piece.

        Args:
            before: the walk of the previous piece, which began earlier; None for the first piece.
        """
        try:
            piece, reached = self._walk(number)
        except BaseException as fault:
            self._reached[number].set_exception(fault)
            raise
        # The next walks continue while this thread waits for its turn to pass the bytes on.
        self._reached[number].set_result(reached)
        if self._inspector is not None:
            if before is not None:
                before.result()
            self._inspector.read(piece)

    def _walk(self, number: int) -> tuple[Bytes, _Reached]:
        """Return the bytes of a piece, and the state at its end."""
        first = self.begin.position + number * PIECE
        stop = min(first + PIECE, self._buffer.size)
        window = self._window(first, stop)
        # The first piece begins with a record, but is searched anyway, so that a warm-up with a small image compiles
        # the kernel.
        limit = stop if number else first
        start = int(find_record(window.data, first - window.origin, limit - window.origin)) + window.origin
        found = self._scan(window, start, stop)
        reached = self._reached[number - 1].result() if number else self.begin
        if reached.position != start:
            found = self._scan(window, reached.position, stop)
        if found.damaged and window.data.size < self._buffer.size:
            # A long record may end beyond the window.
            found = self._scan(_Window(self._buffer, 0), reached.position, stop)
        if found.damaged:
            raise self.image.place("INODE").error(RecordError, "damaged inode record", found.end)
        if reached.number + found.rows > self._ids.capacity:
            raise self._miscounted("more")
        if found.limited.size:
            self._limited[number] = found.limited + reached.number
        if self._inspector is not None:
            self._inspector.add(reached.number, reached.position, found.rows, found.inspected)
        return window.data[first - window.origin : stop - window.origin], self._pack(found, reached)

    def _window(self, first: int, stop: int) -> _Window:
        """Return bytes that contain a piece and most records that begin in it."""
        if self._reads is not None:
            data = self._reads.read(first, min(stop + _WINDOW_SLACK, self._buffer.size))
            if data is not None:
                return _Window(data, first)
        return _Window(self._buffer, 0)

    def _scan(self, window: _Window, start: int, stop: int) -> _Found:
        """Return the records that begin at positions `start` to `stop` - 1."""
        if not hasattr(self._own, "arrays"):
            rows = BLOCK + min(PIECE, self._buffer.size) // SMALLEST_RECORD + 1
            # Large pages, which NumPy would request, are zeroed completely; a thread needs only the beginning.
            self._own.arrays = [
                np.frombuffer(memory(8 * rows, mmap.mmap, large_pages=False), np.int64) for _ in range(3)
            ]
        ids, offsets, limited = self._own.arrays
        data, origin = window
        behind, limited_count, end, damaged = scan_inodes(
            data, start - origin, stop - origin, ids, offsets, BLOCK, limited, 0
        )
        if origin:
            offsets[BLOCK:behind] += origin
        inspected = None
        if self._inspector is not None and not damaged:
            inspected = self._inspector.inspect(data[start - origin : end])
        return _Found(ids, offsets, behind - BLOCK, limited[:limited_count] - BLOCK, end + origin, damaged, inspected)

    def _pack(self, found: _Found, reached: _Reached) -> _Reached:
        """Pack whole blocks, with the remainder of the previous piece; leave the new remainder to the next piece."""
        left = reached.ids.size
        taken = slice(BLOCK - left, BLOCK + found.rows)
        ids, offsets = found.ids[taken], found.offsets[taken]
        ids[:left], offsets[:left] = reached.ids, reached.offsets
        whole = ids.size - ids.size % BLOCK
        self._ids.put(reached.number - left, ids[:whole])
        self._offsets.put(reached.number - left, offsets[:whole])
        last_id, ascending = reached.last_id, reached.ascending
        if found.rows:
            ascending = ascending and bool(ids[left] > last_id) and bool(strictly_increasing(ids[left:]))
            last_id = int(ids[-1])
        count = reached.number + found.rows
        return _Reached(count, found.end, ids[whole:].copy(), offsets[whole:].copy(), last_id, ascending)

    def records(self) -> InodeRecords:
        """Return the records of all pieces, which must have been walked."""
        reached = self._reached[-1].result() if self._reached else self.begin
        if reached.position != self._buffer.size:
            raise self._miscounted("more")
        if reached.number != self._expected:
            raise self._miscounted(str(reached.number))
        row = reached.number - reached.ids.size
        self._ids.put(row, reached.ids)
        self._offsets.put(row, reached.offsets)
        limited = [_NONE, *(self._limited[number] for number in sorted(self._limited))]
        ids, offsets = self._ids.packed(reached.number), self._offsets.packed(reached.number)
        return InodeRecords(ids, offsets, np.concatenate(limited), reached.ascending)

    def _miscounted(self, found: str) -> RecordError:
        what = f"header counts {counted(self._expected, 'inode')}, found {found}"
        return self.image.place("INODE").error(RecordError, what, 0)
