"""Waits between new starts."""

from __future__ import annotations

import pytest

from checkpointer.set_back.start_over import StartOverLimiter
from hadoop_common.errors import StorageError


def test_waits_between_new_starts_grow() -> None:
    now = [0.0]
    limiter = StartOverLimiter(lambda: now[0])
    limiter.check(5, "lost")
    for wait in (60, 120, 240):
        limiter.started_over(5)
        now[0] += wait - 1
        with pytest.raises(StorageError, match="again in 1 s"):
            limiter.check(5, "lost")
        # another image starts a new wait
        limiter.check(6, "lost")
        now[0] += 1
        limiter.check(5, "lost")
    limiter.reset()
    limiter.started_over(5)
    now[0] += 60
    limiter.check(5, "lost")
