"""A stub that writes to three JournalNodes, and a standby's settings for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkpointer.storage.inspector import read_storage_info
from hadoop_common.storage_info import StorageInfo
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from tests.checkpointer.quorum_support import Quorum, quorum, stub_on

__all__ = ["quorum"]


def info_of(config: StubConfig) -> StorageInfo:
    return read_storage_info(config.image_directories[0])


@pytest.fixture
def stub(quorum: Quorum, stub_config: StubConfig) -> Iterator[NameNodeStub]:
    quorum.format(info_of(stub_config))
    with stub_on(quorum, stub_config) as running:
        yield running
