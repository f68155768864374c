"""If a secondary cannot make its checkpoint, it requests at most one roll from its NameNode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from servlets.status import TriggerState
from tests.checkpointer.secondary_support import Secondary, secondary_config
from tests.clock import Clock
from tests.namenode_stub.namenode_double import NamenodeDouble

PERIOD = 3600.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def secondary(node: NamenodeDouble, tmp_path: Path, clock: Clock) -> Iterator[Secondary]:
    """A new secondary, whose first checkpoint is due."""
    config = secondary_config(tmp_path, node.rpc_port, node.http_port)
    with Secondary(config, clock=clock) as running:
        yield running


def states(secondary: Secondary, clock: Clock, seconds: float) -> list[TriggerState]:
    """Return the results of the polls within the given seconds, one per minute."""
    found = []
    for _ in range(round(seconds / 60)):
        clock.now += 60
        found.append(secondary.service.poll().state)
    return found


def rolls(node: NamenodeDouble) -> int:
    return node.steps.count("rollEditLog")


def test_full_disk_causes_no_roll(
    node: NamenodeDouble, secondary: Secondary, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(
            "checkpointer.storage.disk_space.shutil.disk_usage", lambda path: SimpleNamespace(free=4096, total=4096)
        )
        assert states(secondary, clock, PERIOD).count(TriggerState.FAILED) == 7
        assert rolls(node) == 0
        assert not secondary.service.ready().ok
        assert "has 4096 bytes free" in secondary.service.status()["alarms"][0]
    assert TriggerState.DONE in states(secondary, clock, PERIOD / 4)
    assert rolls(node) == 1
    assert secondary.service.ready().ok


def test_attempts_within_a_period_share_one_roll(node: NamenodeDouble, secondary: Secondary, clock: Clock) -> None:
    node.faults["segment-59"] = 500
    assert states(secondary, clock, PERIOD).count(TriggerState.FAILED) == 7
    assert rolls(node) == 1
    states(secondary, clock, PERIOD / 2)
    assert rolls(node) == 2
    node.faults.clear()
    # every later transaction is in a segment of the second roll
    assert TriggerState.DONE in states(secondary, clock, PERIOD / 4)
    assert (rolls(node), secondary.service.status()["savedTxid"]) == (2, 151)


@pytest.mark.parametrize("what", ["forced", "saved", "upgraded"])
def test_roll_is_requested_again_when_the_last_one_is_obsolete(
    node: NamenodeDouble, secondary: Secondary, clock: Clock, what: str
) -> None:
    node.faults["segment-59"] = 500
    assert states(secondary, clock, 60) == [TriggerState.FAILED]
    node.faults.clear()
    if what == "saved":
        # an image that the NameNode itself saved
        node.take(88, node.image(node.image_txids()[0]).read_bytes())
    if what == "upgraded":
        node.upgrade(c_time=77)
    clock.now += 60
    result = secondary.checkpoint() if what == "forced" else secondary.service.poll()
    assert rolls(node) == 2, result
