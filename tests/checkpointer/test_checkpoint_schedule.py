from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.daemon.checkpoint_schedule import TriggerReason, decide
from hadoop_common.configuration import Configuration
from site_config.checkpoint_config import CheckpointConfig, Role

CONFIG = CheckpointConfig.from_configuration(
    Configuration.from_mapping(
        {
            "fs.defaultFS": "hdfs://nn",
            "dfs.namenode.checkpoint.dir": "/x",
            "dfs.namenode.checkpoint.period": "100",
            "dfs.namenode.checkpoint.txns": "10",
        },
        {},
    ),
    Role.SECONDARY,
)


@pytest.mark.parametrize(
    ("age", "transactions", "forced", "expected"),
    [
        (99.9, 9, False, None),
        (100, 0, False, TriggerReason.PERIOD),
        (0, 10, False, TriggerReason.TRANSACTIONS),
        (100, 10, False, TriggerReason.TRANSACTIONS),
        (0, 0, True, TriggerReason.FORCED),
        (100, 10, True, TriggerReason.FORCED),
    ],
)
def test_trigger_reasons(age: float, transactions: int, forced: bool, expected: TriggerReason | None) -> None:
    reason = decide(now=1000 + age, last_checkpoint=1000, transactions=transactions, config=CONFIG, forced=forced)
    assert reason is expected


@given(st.integers(-(10**9), 10**9), st.integers(0, 10**4), st.integers(0, 10**4), st.integers(0, 50))
def test_trigger_depends_on_the_age_and_remains_due(start: int, age: int, more: int, transactions: int) -> None:
    def at(origin: int, elapsed: int) -> TriggerReason | None:
        return decide(now=origin + elapsed, last_checkpoint=origin, transactions=transactions, config=CONFIG)

    assert at(start, age) is at(0, age)
    if at(0, age) is not None:
        assert at(0, age + more) is not None
