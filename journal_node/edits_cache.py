"""The newest transactions in memory, for readers that follow closely (JournaledEditsCache)."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from hadoop_rpc.errors import EditsCacheMissError
from hadoop_rpc.qjournal_values import JournaledEdits
from journal.segment_frames import has_frames, hop

_LOG = logging.getLogger(__name__)

_HEADER = Struct(">ii")
_SIZE_KEYS = "dfs.journalnode.edit-cache-size.bytes or .fraction"


@dataclass(slots=True)
class _Content:
    """Batches one after the other without a gap, encoded by one layout."""

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
            # Dropped one by one from the front, each would move all the others.
            del self.firsts[: self.oldest], self.batches[: self.oldest]
            self.oldest = 0
        self.firsts.append(first)
        self.batches.append(records)
        self.last = last
        self.size += len(records)


class EditsCache:
    """Batches that are on disk already, the newest ones, up to `capacity` bytes. Any thread may call."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._content: _Content | None = None

    def clear(self) -> None:
        """Forget everything: what is on disk is not what was stored here."""
        with self._lock:
            self._content = None

    def store(self, records: bytes, first: int, last: int, layout_version: int) -> None:
        """Add a batch that is on disk; the oldest ones give way to it."""
        with self._lock:
            if len(records) > self._capacity or not has_frames(layout_version):
                problem = "more bytes than the cache may have" if has_frames(layout_version) else "of too old a layout"
                _LOG.warning("txid %d to %d are not cached: %s; see %s", first, last, problem, _SIZE_KEYS)
                self._content = None
                return
            content = self._content
            if content is None or content.layout_version != layout_version or content.last + 1 != first:
                content = self._content = _Content(layout_version, first)
            content.add(records, first, last, self._capacity)

    def retrieve(self, since: int, max_transactions: int) -> JournaledEdits:
        """Up to `max_transactions` from `since` on, behind a file header; none where `since` is still to come.

        Raises:
            EditsCacheMissError: `since` is not here any more, or never was.
        """
        with self._lock:
            content = self._content
            if content is None:
                raise EditsCacheMissError(
                    "the cache is empty: nothing was written yet, or the last batch was too large"
                )
            if since < content.first:
                raise _miss(content, since, self._capacity)
            wanted = min(max_transactions, content.last - since + 1)
            if wanted <= 0:
                return JournaledEdits(0, b"")
            start = bisect_right(content.firsts, since, lo=content.oldest) - 1
            end = bisect_right(content.firsts, since + wanted - 1)
            firsts, batches = content.firsts[start:end], content.batches[start:end]
        # The batches do not change: they are cut without the lock.
        header = _HEADER.pack(content.layout_version, 0)
        return JournaledEdits(wanted, b"".join([header, *_cut(firsts, batches, since, since + wanted - 1)]))


def _cut(firsts: list[int], batches: list[bytes], first: int, last: int) -> Iterator[bytes | memoryview]:
    """`batches` without what lies before txid `first` and behind txid `last`."""
    for index, (begin, batch) in enumerate(zip(firsts, batches, strict=True)):
        start = _position(batch, first) if begin < first else 0
        end = _position(batch, last + 1) if index == len(batches) - 1 else len(batch)
        yield memoryview(batch)[start:end]


def _position(batch: bytes, txid: int) -> int:
    """Where transaction `txid` begins; the end of the batch where it is none of its."""
    return next((frame.start for frame in hop(batch, 0, len(batch)) if frame.txid >= txid), len(batch))


def _miss(content: _Content, since: int, capacity: int) -> EditsCacheMissError:
    oldest = content.first
    if since < content.initial:
        problem = f"the cache began at txid {content.initial}, {since} was asked for"
        return EditsCacheMissError(problem, missing=content.initial - since)
    problem = f"the oldest txid in the cache is {oldest}, {since} was asked for"
    return EditsCacheMissError(
        f"{problem}; {_SIZE_KEYS} above {capacity} bytes would keep more", missing=oldest - since
    )
