"""Hostile clients at every port of a working cluster: the cluster serves all other clients and frees all resources."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.abuse import Cluster, attack, measure

MIB = 1 << 20


@pytest.mark.deep
def test_other_clients_are_served_despite_hostile_clients(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        assert not measure(cluster, 5.0).failures
        before = cluster.usage()
        attackers = attack(cluster, sources=4, count=20, seconds=40.0)
        beside = measure(cluster, 30.0)
        during = cluster.usage()
        for attacker in attackers:
            attacker.wait()
        deadline = time.monotonic() + 600
        while any(each.descriptors > before[name].descriptors + 5 for name, each in cluster.usage().items()):
            assert time.monotonic() < deadline
            time.sleep(1)
        after = measure(cluster, 5.0)
    assert not beside.failures
    assert set(beside.seconds) == {"edit", "health", "checkpoint"}
    assert not after.failures
    assert all(each.memory < before[name].memory + 100 * MIB for name, each in during.items())
