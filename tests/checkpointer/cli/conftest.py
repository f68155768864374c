"""A NameNode stub and its standby's configuration, as fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from namenode_stub.node import NameNodeStub
from tests.checkpointer.cli.standby_cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    # a busy machine is not a fault
    monkeypatch.setattr("checkpointer.cli.status_command._TIMEOUT", 600.0)
    monkeypatch.setattr("checkpointer.cli.checkpoint_command._PROBE_SECONDS", 600.0)
    return Cluster(tmp_path)


@pytest.fixture
def stub(cluster: Cluster) -> Iterator[NameNodeStub]:
    with NameNodeStub(cluster.stub_config) as running:
        yield running
