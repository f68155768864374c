"""A few retries of a download after connection faults, with increasing delays.

`uploader` repeats uploads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from checkpointer.errors import TransferError
from checkpointer.transfer.common import TransferCancelledError, TransferInterruptedError
from hadoop_common.back_off import BackOff

_LOG = logging.getLogger(__name__)
_SLICE_SECONDS = 0.25
# the server is busy or starting
_TRANSIENT_STATUSES = (502, 503, 504)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DownloadRetry:
    """Rule for retries: up to `attempts` attempts in total, with delays according to `back_off`."""

    attempts: int = 3
    back_off: BackOff = BackOff(0.5, 5.0)
    sleep: Callable[[float], None] = time.sleep

    def wait_before(self, attempt: int, error: TransferError) -> float | None:
        """Return the delay in seconds after attempt number `attempt`, which failed with `error`; None if there is no
        further attempt.
        """
        transient = isinstance(error, TransferInterruptedError) or error.status in _TRANSIENT_STATUSES
        if not transient or attempt >= self.attempts:
            return None
        return self.back_off.wait(attempt)

    def run(self, transfer: Callable[[], T], cancelled: Callable[[], bool]) -> T:
        """Run a transfer, and retry it after transient faults.

        Raises:
            TransferError: the error of the last attempt.
            TransferCancelledError: `cancelled()` became true.
        """
        for attempt in count(1):
            try:
                return transfer()
            except TransferError as error:
                wait = self.wait_before(attempt, error)
                if wait is None:
                    raise
                _LOG.warning("retrying in %.1f s: %s", wait, error)
                self._pause(wait, cancelled, error)
        raise AssertionError("unreachable")

    def _pause(self, seconds: float, cancelled: Callable[[], bool], error: TransferError) -> None:
        left = seconds
        while left > 0:
            if cancelled():
                raise TransferCancelledError(error.target, "the transfer was cancelled") from error
            self.sleep(min(left, _SLICE_SECONDS))
            left -= _SLICE_SECONDS
