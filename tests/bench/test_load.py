"""A short run of the secondary daemon with a busy NameNode stub; `python -m bench.load` makes the long run."""

from __future__ import annotations

import pytest

from bench.load import run_load

_FLAT = 1.5


@pytest.mark.deep
def test_no_loss_and_constant_memory_under_load() -> None:
    result = run_load(seconds=15, rate=400, checkpoint_period=2)
    # run_load itself compares acknowledged and existing operations, before and after a kill
    assert result.failures == 0
    assert result.checkpoints >= 2
    assert result.transactions > result.calls
    assert result.growth("daemon") < _FLAT
