"""Frequency of a standby's tails, depending on the keys that Hadoop's guide for observers recommends."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from checkpointer.roles.standby.journal_node_monitor import MonitoredJournalNode
from checkpointer.roles.standby.role import StandbyRole
from checkpointer.roles.standby.tailer import TailPace
from hadoop_common.configuration import Configuration
from namenode_stub.node import NameNodeStub
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.checkpointer.quorum_support import Quorum, config_of
from tests.checkpointer.standby_quorum_support import quorum, stub
from tests.checkpointer.standby_support import write_edits
from tests.checkpointer.virtual_day import VirtualClock

__all__ = ["quorum", "stub"]


def looks(period: float, longest: float = 0.0, *, nodes: int = 3, busy: bool = False) -> list[float]:
    """Return the moments of the tails in ten minutes."""
    clock = VirtualClock()
    pace = TailPace(period, longest, nodes=nodes, clock=clock.monotonic)
    found = []
    while clock.passed < 600:
        if pace.begin():
            found.append(clock.passed)
            pace.end(found=busy)
        clock.passed += pace.period
    return found


def pauses(moments: list[float]) -> list[float]:
    return [round(later - earlier, 3) for earlier, later in pairwise(moments)]


@pytest.mark.parametrize(
    ("period", "longest", "expected"),
    [
        # without a back-off, which is the default
        (60, 0, [60, 60, 60]),
        (1, 0, [1, 1, 1]),
        # a back-off shorter than the period has no effect
        (60, 5, [60, 60, 60]),
        (1, 10, [2, 4, 8, 10, 10]),
        # the periods of observers are too short for a checkpointer, which uses at least half a second
        (0, 0, [0.5, 1, 2, 4, 8, 10.5, 10.5]),
        (0, 0.1, [0.5, 1, 2, 4, 8, 10.5, 10.5]),
        (0.001, 0, [0.5, 1, 2, 4, 8, 10.5, 10.5]),
        (0, 30, [0.5, 1, 2, 4, 8, 16, 30, 30]),
    ],
)
def test_pauses_without_new_edits(period: float, longest: float, expected: list[float]) -> None:
    found = pauses(looks(period, longest))[: len(expected)]
    # a tail is due at a multiple of the job's interval
    assert found == pytest.approx(expected, abs=0.25)


@pytest.mark.parametrize("period", [0, 0.001, 1, 60])
def test_pauses_with_new_edits_equal_the_period(period: float) -> None:
    assert set(pauses(looks(period, 30, busy=True))) == {max(period, 0.25)}


@pytest.mark.parametrize("period", [0.25, 1.0, 60.0])
@pytest.mark.parametrize("late", [0.003, 0.2, 0.45])
def test_late_tail_does_not_delay_the_next(period: float, late: float) -> None:
    """The call is late by this fraction of the period; the next call is made at its usual time."""
    clock = VirtualClock()
    pace = TailPace(period, 2 * period, clock=clock.monotonic)
    assert pace.begin()
    pace.end(found=True)
    for calls in range(1, 4):
        clock.passed = (calls + late * (calls == 1)) * period
        assert pace.begin()
        pace.end(found=calls < 3)
    # without edits, one call is skipped, late or not
    clock.passed = (4 + late) * period
    assert not pace.begin()
    clock.passed = 5 * period
    assert pace.begin()


def test_tail_period_keys() -> None:
    def config(**values: str) -> CheckpointConfig:
        names = {
            "dfs.nameservices": "ns",
            "dfs.ha.namenodes.ns": "nn1,nn2",
            "dfs.ha.namenode.id": "nn2",
            "dfs.namenode.rpc-address.ns.nn1": "127.0.0.1:1",
            "dfs.namenode.rpc-address.ns.nn2": "127.0.0.1:2",
            "dfs.namenode.http-address.ns.nn1": "127.0.0.1:3",
            "dfs.namenode.name.dir": "/name",
            "dfs.namenode.shared.edits.dir": "file:///shared",
        }
        tail = {f"dfs.ha.tail-edits.period{name}": value for name, value in values.items()}
        return CheckpointConfig.from_configuration(Configuration.from_mapping({**names, **tail}, {}), Role.STANDBY)

    assert (config().tail_period, config().tail_backoff) == (60, 0)
    set_for_observers = config(**{"": "0ms", ".backoff-max": "500ms"})
    assert (set_for_observers.tail_period, set_for_observers.tail_backoff) == (0, 0.5)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Number of calls to JournalNodes, by method."""
    counted: Counter[str] = Counter()
    for name in ("get_edit_log_manifest", "get_journaled_edits"):
        original = getattr(MonitoredJournalNode, name)

        def counting(*args: object, _name: str = name, _call: object = original, **named: object) -> object:
            counted[_name] += 1
            assert callable(_call)
            return _call(*args, **named)

        monkeypatch.setattr(MonitoredJournalNode, name, counting)
    return counted


def test_idle_quorum_is_queried_once_a_second(
    quorum: Quorum, stub: NameNodeStub, tmp_path: Path, calls: Counter[str]
) -> None:
    clock = VirtualClock()
    config = config_of(
        quorum,
        tmp_path,
        stub.server.url,
        namenode_rpc_addresses=(stub.rpc_address,),
        tail_period=0.0,
        tail_in_progress=True,
        log_roll_period=0.0,
    )
    role = StandbyRole(config, clock=clock.monotonic)
    role.open()
    try:
        (job,) = role.jobs()
        write_edits(stub, "a")

        def passes(seconds: float) -> int:
            before, end = calls.total(), clock.passed + seconds
            while clock.passed < end:
                job.run()
                clock.passed += job.seconds
            return calls.total() - before

        passes(60)
        assert role.alarms() == []
        assert passes(120) <= 120
        write_edits(stub, "b")
        passes(10)
        assert role.progress().behind > 0
        assert role.details().tailing_lag_transactions == 0
    finally:
        role.close()
