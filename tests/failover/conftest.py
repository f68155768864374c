"""The ZooKeeper that tests share; each test works below a separate parent znode."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from namenode_stub.demo_zookeeper import MISSING, ZooKeeperServer
from tests.failover.failover_support import LONG_SESSIONS


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    if MISSING:
        pytest.skip(MISSING)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), LONG_SESSIONS) as server:
        yield server
