"""A standby daemon of a stub: its configuration, its service, and edits that it follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.roles.standby.edit_source import EditSource
from checkpointer.roles.standby.role import StandbyRole
from checkpointer.storage.inspector import list_images
from hadoop_common.tls.settings import WebAddresses
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from site_config.checkpoint_config import CheckpointConfig
from tests.checkpointer.service_support import Clock, standby_config
from tests.namenode_stub.stub_support import formatted

TRANSACTIONS = 10


PERIOD = 3600.0


def config_for(tmp_path: Path, *namenodes: NameNodeStub | str, **changes: Any) -> CheckpointConfig:
    """A standby of stubs, or of HTTP addresses without RPC."""
    config = standby_config()
    values = {
        "period": PERIOD,
        "poll_interval": 10.0,
        "transactions": TRANSACTIONS,
        "image_directories": (tmp_path / "nn2",),
        "shared_edits": (tmp_path / "active" / "shared").as_uri(),
        "namenode_http_addresses": tuple(_http_address(node) for node in namenodes),
        # no server listens at port 1, so the NameNodes' answers are not known
        "namenode_rpc_addresses": tuple(
            ("127.0.0.1", 1) if isinstance(node, str) else node.rpc_address for node in namenodes
        ),
        "web": WebAddresses(("127.0.0.1", 0)),
        "images_retained": 2,
        **changes,
    }
    return dataclasses.replace(config, **values)


def _http_address(node: NameNodeStub | str) -> str:
    return node if isinstance(node, str) else node.server.url


class Daemon:
    """Role and service without the scheduler; `clock` moves both."""

    def __init__(self, config: CheckpointConfig, source: EditSource | None = None) -> None:
        self.clock = Clock()
        self.role = StandbyRole(config, source=source, clock=self.clock, jitter=lambda: 1.0)
        self.service = CheckpointService(self.role, config, clock=self.clock)

    def __enter__(self) -> Daemon:
        self.role.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.role.close()

    def target(self, number: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.service.status()["targets"][number]
        return found


def write_edits(stub: NameNodeStub, label: str, count: int = TRANSACTIONS) -> int:
    """Write edits and return the last finalized txid."""
    for number in range(count):
        stub.namespace.mkdirs(f"/{label}/{number}")
    return stub.roll() - 1


def images(folder: Path) -> list[int]:
    return [image.txid for image in list_images(folder / "current")]


def rollbacks(folder: Path) -> list[int]:
    return [image.txid for image in list_images(folder / "current") if image.rollback]


@pytest.fixture
def stub_config(tmp_path: Path) -> StubConfig:
    return formatted(
        tmp_path / "active",
        checkpoint_transactions=TRANSACTIONS,
        checkpoint_period=PERIOD,
        rpc_address=("127.0.0.1", 0),
    )


@pytest.fixture
def stub(stub_config: StubConfig) -> Iterator[NameNodeStub]:
    with NameNodeStub(stub_config) as running:
        yield running


def daemon_of(stub: NameNodeStub, tmp_path: Path, **changes: Any) -> Daemon:
    return Daemon(config_for(tmp_path, stub, **changes))


@pytest.fixture
def daemon(stub: NameNodeStub, tmp_path: Path) -> Iterator[Daemon]:
    with daemon_of(stub, tmp_path) as running:
        yield running
