"""A stub that writes to three JournalNodes, and a standby's settings for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.storage.inspector import read_storage_info
from hadoop_common.storage_info import StorageInfo
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from tests.checkpointer.quorum_support import Quorum, stub_on
from tests.checkpointer.standby_support import PERIOD, TRANSACTIONS
from tests.namenode_stub.stub_support import formatted


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    with Quorum(tmp_path / "nodes") as running:
        yield running


@pytest.fixture
def stub_config(tmp_path: Path) -> StubConfig:
    return formatted(
        tmp_path / "active",
        checkpoint_transactions=TRANSACTIONS,
        checkpoint_period=PERIOD,
        rpc_address=("127.0.0.1", 0),
    )


def info_of(config: StubConfig) -> StorageInfo:
    return read_storage_info(config.image_directories[0])


@pytest.fixture
def stub(quorum: Quorum, stub_config: StubConfig) -> Iterator[NameNodeStub]:
    quorum.format(info_of(stub_config))
    with stub_on(quorum, stub_config) as running:
        yield running
