"""Counters of a journal on a JournalNode (JournalMetrics)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

PERCENTILES = (50, 75, 90, 95, 99)
WINDOWS = (60, 300, 3600)
"""Windows in seconds over which Hadoop summarises syncs."""
_SYNCS_KEPT = 10_000


@dataclass(slots=True)
class JournalCounters:
    """Counts of one journal since the start; only one thread at a time may change a field."""

    batches_written: int = 0
    transactions_written: int = 0
    bytes_written: int = 0
    batches_written_while_lagging: int = 0
    sync_seconds: float = 0.0
    segments_synced: int = 0
    rpc_requests_missed: int = 0
    rpc_transactions_missed: int = 0
    rpc_empty_answers: int = 0
    rpc_transactions: int = 0
    rpc_bytes: int = 0
    last_journal_ms: int = 0

    def add_batch(self, transactions: int, size: int, seconds: float, *, lagging: bool, at: float) -> None:
        """Count a written batch of `size` bytes; `at` is in seconds since 1970."""
        self.batches_written += 1
        self.batches_written_while_lagging += lagging
        self.transactions_written += transactions
        self.bytes_written += size
        self.sync_seconds += seconds
        self.last_journal_ms = int(at * 1000)

    def copy(self) -> JournalCounters:
        """Return the current counts."""
        return replace(self)


@dataclass(frozen=True, slots=True)
class SyncSummary:
    """Syncs of a window: their number, and percentiles of their duration."""

    count: int
    seconds: Mapping[int, float]


class SyncTimes:
    """Durations of the last syncs, at most 10,000 values; thread-safe.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._syncs: deque[tuple[float, float]] = deque(maxlen=_SYNCS_KEPT)

    def add(self, seconds: float) -> None:
        with self._lock:
            self._syncs.append((self._clock(), seconds))

    def summary(self, window: int = WINDOWS[0]) -> SyncSummary:
        """Return a summary of the syncs in the last `window` seconds."""
        since = self._clock() - window
        with self._lock:
            recent = sorted(seconds for at, seconds in self._syncs if at >= since)
        last = len(recent) - 1
        return SyncSummary(
            len(recent), {part: recent[min(last, part * len(recent) // 100)] if recent else 0.0 for part in PERCENTILES}
        )
