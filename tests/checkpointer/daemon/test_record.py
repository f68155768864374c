from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checkpointer.daemon.record import RecordStore
from checkpointer.transfer.upload_target import Upload
from engine.merge import MergeResult, Timings
from engine.saver import SaveResult
from node_state.state import CheckpointRecord
from tests.clock import Clock

IMAGE = MergeResult(1, 2, 1, 1, SaveResult(2, (Path("/i"),), "0" * 32, 1, ()), Timings(1.0, 2.0, 3.0), -63)


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
    # a success at the time of an error does not resolve it
    assert failed >= recovered
    wall.now = 20_000.0
    store.resolved()
    assert times(store.now) == (failed, 20_000.0)


@pytest.mark.parametrize(
    "succeed",
    [
        lambda store: store.saved(IMAGE, "period", 1.0),
        lambda store: store.offered(Upload("http://nn1:9870", "SUCCESS")),
    ],
)
@pytest.mark.parametrize("step", [0.0, -9_000.0])
def test_success_resolves_an_error_if_the_clock_is_set_back(
    succeed: Callable[[RecordStore], None], step: float
) -> None:
    wall = Clock(10_000.0)
    store = RecordStore(wall)
    succeed(store)
    assert store.now.recovered_at is None
    store.failed("the disk is full")
    wall.now += step
    succeed(store)
    failed, recovered = times(store.now)
    assert failed < recovered
    assert 10_000.0 + step in (store.now.saved_at, store.now.uploaded_at)
