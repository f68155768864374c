"""Metrics of an edit log: batches, syncs and waits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommitMetrics:
    """Counts since the log was opened; times in seconds.

    Attributes:
        transactions, transaction_bytes: durable ones.
        syncs: batches made durable.
        sync_seconds, longest_sync_seconds: duration of the syncs.
        last_batch, largest_batch: transactions in the newest and in the largest batch.
        last_batch_bytes, largest_batch_bytes: the same in bytes.
        waits, wait_seconds: callers that waited for durability, including the one that flushed.
        full_waits, full_wait_seconds: writers that waited for space in the buffer.
        pending, pending_bytes: transactions that wait for the next flush.
    """

    transactions: int = 0
    transaction_bytes: int = 0
    syncs: int = 0
    sync_seconds: float = 0.0
    longest_sync_seconds: float = 0.0
    last_batch: int = 0
    largest_batch: int = 0
    last_batch_bytes: int = 0
    largest_batch_bytes: int = 0
    waits: int = 0
    wait_seconds: float = 0.0
    full_waits: int = 0
    full_wait_seconds: float = 0.0
    pending: int = 0
    pending_bytes: int = 0
