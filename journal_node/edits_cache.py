"""In-memory cache of the newest transactions, for readers that lag only a little (JournaledEditsCache)."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from hadoop_rpc.errors import EditsCacheMissError
from hadoop_rpc.qjournal_values import JournaledEdits
from image_format.layout import OLDEST_LAYOUT
from journal.segment_frames import iter_frames

_LOG = logging.getLogger(__name__)

_HEADER = Struct(">ii")
_SIZE_KEYS = "dfs.journalnode.edit-cache-size.bytes or .fraction"


@dataclass(slots=True)
class _CachedBatches:
    """Consecutive batches without a gap, encoded in one layout."""

    layout_version: int
    initial: int
    firsts: list[int] = field(default_factory=list)
    batches: list[bytes] = field(default_factory=list)
    oldest: int = 0
    last: int = -1
    size: int = 0

    @property
    def first(self) -> int:
        return self.firsts[self.oldest]

    def add(self, records: bytes, first: int, last: int, capacity: int) -> None:
        while self.oldest < len(self.batches) and self.size + len(records) > capacity:
            self.size -= len(self.batches[self.oldest])
            self.batches[self.oldest] = b""
            self.oldest += 1
        if self.oldest > len(self.batches) // 2:
            # Many entries are deleted in one step, because each deletion at the front moves all remaining entries.
            del self.firsts[: self.oldest], self.batches[: self.oldest]
            self.oldest = 0
        self.firsts.append(first)
        self.batches.append(records)
        self.last = last
        self.size += len(records)


class EditsCache:
    """The newest batches on disk, up to `capacity` bytes; thread-safe."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._content: _CachedBatches | None = None

    def clear(self) -> None:
        """Remove all batches, because the content on disk was replaced."""
        with self._lock:
            self._content = None

    def store(self, records: bytes, first: int, last: int, layout_version: int) -> None:
        """Add a batch that is on disk, and remove the oldest batches to make space."""
        with self._lock:
            if len(records) > self._capacity or layout_version > OLDEST_LAYOUT:
                problem = "their layout is too old" if layout_version > OLDEST_LAYOUT else "larger than the cache"
                _LOG.warning("txids %d to %d are not cached: %s; see %s", first, last, problem, _SIZE_KEYS)
                self._content = None
                return
            content = self._content
            if content is None or content.layout_version != layout_version or content.last + 1 != first:
                content = self._content = _CachedBatches(layout_version, first)
            content.add(records, first, last, self._capacity)

    def retrieve(self, since: int, max_transactions: int) -> JournaledEdits:
        """Return a header and up to `max_transactions` transactions from `since` on; b"" if `since` is not written yet.

        Raises:
            EditsCacheMissError: `since` is no longer in the cache, or was never cached.
        """
        with self._lock:
            content = self._content
            if content is None:
                raise EditsCacheMissError(
                    "the cache is empty: no batch was written yet, or the last batch was too large"
                )
            if since < content.first:
                raise _miss(content, since, self._capacity)
            wanted = min(max_transactions, content.last - since + 1)
            if wanted <= 0:
                return JournaledEdits(0, b"")
            start = bisect_right(content.firsts, since, lo=content.oldest) - 1
            end = bisect_right(content.firsts, since + wanted - 1)
            firsts, batches = content.firsts[start:end], content.batches[start:end]
        # Batches do not change, so the lock is not needed to cut them.
        header = _HEADER.pack(content.layout_version, 0)
        return JournaledEdits(wanted, b"".join([header, *_cut(firsts, batches, since, since + wanted - 1)]))


def _cut(firsts: list[int], batches: list[bytes], first: int, last: int) -> Iterator[bytes | memoryview]:
    """Yield `batches` without the transactions before `first` and after `last`."""
    for index, (begin, batch) in enumerate(zip(firsts, batches, strict=True)):
        start = _position(batch, first) if begin < first else 0
        end = _position(batch, last + 1) if index == len(batches) - 1 else len(batch)
        yield memoryview(batch)[start:end]


def _position(batch: bytes, txid: int) -> int:
    """Return the start of transaction `txid`, or the end of the batch if all its transactions are older."""
    return next((frame.start for frame in iter_frames(batch, 0, len(batch)) if frame.txid >= txid), len(batch))


def _miss(content: _CachedBatches, since: int, capacity: int) -> EditsCacheMissError:
    oldest = content.first
    if since < content.initial:
        problem = f"the cache began at txid {content.initial}, but {since} was requested"
        return EditsCacheMissError(problem, missing=content.initial - since)
    problem = f"the oldest txid in the cache is {oldest}, but {since} was requested"
    return EditsCacheMissError(
        f"{problem}; set {_SIZE_KEYS} above {capacity} bytes to cache more", missing=oldest - since
    )
