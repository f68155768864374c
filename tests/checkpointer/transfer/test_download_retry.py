"""Retries of failed transfers: the retried faults, and the wait before each retry."""

from __future__ import annotations

import pytest

from checkpointer.errors import TransferError
from checkpointer.transfer.common import TransferCancelledError, TransferInterruptedError
from checkpointer.transfer.download_retry import DownloadRetry
from hadoop_common.back_off import BackOff


class Transfer:
    def __init__(self, *faults: TransferError) -> None:
        self.faults = list(faults)
        self.made = 0

    def __call__(self) -> str:
        self.made += 1
        if self.faults:
            raise self.faults.pop(0)
        return "done"


def interrupted() -> TransferError:
    return TransferInterruptedError("nn", "the connection broke")


def test_transient_faults_are_retried() -> None:
    waits: list[float] = []
    transfer = Transfer(interrupted(), TransferError("nn", "starting", status=503))
    retry = DownloadRetry(attempts=3, back_off=BackOff(0.2, 5.0), sleep=waits.append)
    assert retry.run(transfer, lambda: False) == "done"
    assert sum(waits) == pytest.approx(0.2 + 0.4, abs=0.26)


def test_last_fault_is_raised_after_all_attempts() -> None:
    transfer = Transfer(*(interrupted() for _ in range(5)))
    with pytest.raises(TransferInterruptedError):
        DownloadRetry(attempts=3, back_off=BackOff(0.0, 0.0)).run(transfer, lambda: False)
    assert transfer.made == 3


@pytest.mark.parametrize("status", [403, 404, 409, 410, 417, 500, None])
def test_other_faults_are_not_retried(status: int | None) -> None:
    transfer = Transfer(TransferError("nn", "no", status=status))
    with pytest.raises(TransferError):
        DownloadRetry(back_off=BackOff(0.0, 0.0)).run(transfer, lambda: False)
    assert transfer.made == 1


def test_cancellation_ends_the_wait() -> None:
    transfer = Transfer(interrupted())
    with pytest.raises(TransferCancelledError):
        DownloadRetry(back_off=BackOff(60.0, 60.0), sleep=lambda seconds: None).run(transfer, lambda: True)
    assert transfer.made == 1


def test_waits_grow_up_to_a_maximum() -> None:
    retry = DownloadRetry(attempts=10, back_off=BackOff(1.0, 5.0))
    assert [retry.wait_before(attempt, interrupted()) for attempt in (1, 2, 3, 4, 10)] == [1.0, 2.0, 4.0, 5.0, None]
