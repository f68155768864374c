from __future__ import annotations

from checkpointer.daemon.record import RecordStore
from node_state.state import CheckpointRecord
from tests.clock import Clock


def times(record: CheckpointRecord) -> tuple[float, float]:
    assert record.last_error_at is not None
    assert record.recovered_at is not None
    return record.last_error_at, record.recovered_at


def test_errors_and_recoveries_keep_their_order_if_the_clock_is_set_back() -> None:
    """`check --only daemon` compares their times."""
    wall = Clock(10_000.0)
    store = RecordStore(wall)
    store.failed("the disk is full")
    wall.now = 1_000.0
    store.resolved()
    failed, recovered = times(store.now)
    assert failed < recovered
    store.job_failed("the disk is full again")
    failed, recovered = times(store.now)
    assert failed > recovered
    wall.now = 20_000.0
    store.resolved()
    assert times(store.now) == (failed, 20_000.0)
