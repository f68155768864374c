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
from checkpointer.storage.rollback_images import latest_rollback_image
from hadoop_common.tls.settings import WebAddresses
from image_format.md5_file import read_md5_file
from image_format.reader import ImageFile
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from site_config.checkpoint_config import CheckpointConfig
from tests.checkpointer.service_support import Clock, standby_config
from tests.namenode_stub.stub_support import formatted
from tests.recorded_cases import imgcmp

TRANSACTIONS = 10


PERIOD = 3600.0


def config_for(tmp_path: Path, *namenodes: NameNodeStub | str, **changes: Any) -> CheckpointConfig:
    """Return the configuration of a standby of stubs, or of HTTP addresses without RPC servers."""
    config = standby_config()
    values = {
        "period": PERIOD,
        "poll_interval": 10.0,
        "transactions": TRANSACTIONS,
        "image_directories": (tmp_path / "nn2",),
        "shared_edits": (tmp_path / "active" / "shared").as_uri(),
        "namenode_http_addresses": tuple(_http_address(node) for node in namenodes),
        # no server listens at port 1, so these NameNodes never respond over RPC
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
    """The role and the service without the scheduler; both use `clock`."""

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
    return stub.active.roll() - 1


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


def assert_in_sync(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    """Check that the newest image has the active NameNode's state and layout, and was uploaded."""
    last = write_edits(stub, "last")
    daemon.role.tail()
    result = daemon.service.poll()
    assert (result.state, result.details["txid"], result.details["uploads"]) == (
        TriggerState.DONE,
        last,
        {stub.server.url: "SUCCESS"},
    )
    assert daemon.service.status()["alarms"] == []
    own, namespace, content = tmp_path / "own", stub.namespace.transactions.loaded.namespace, bytearray()
    namespace.last_txid = last
    stub.namespace.transactions.loaded.write(content.extend)
    namespace.last_txid = stub.namespace.transactions.log.last_txid
    own.write_bytes(content)
    newest = daemon.role.latest_image()
    assert imgcmp.compare(imgcmp.Image(str(own)), imgcmp.Image(str(newest))) == []
    with ImageFile.open(newest) as image:
        assert image.layout_version == stub.images.storage_info().layout_version
    assert daemon.role.storage_info() == stub.images.storage_info()


def follow_rolling_upgrade(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    """Make the daemon follow a rolling upgrade until the upgrade is finalized, and check each step."""
    own, theirs = tmp_path / "nn2", tmp_path / "active/name"
    version = (own / "current/VERSION").read_bytes()
    write_edits(stub, "before", 3)
    assert stub.active.administration.start_rolling_upgrade() is not None
    end = stub.namespace.transactions.log.segment_first_txid - 1
    write_edits(stub, "during", 3)
    # the tail stops at the end of START's segment and requests an immediate checkpoint
    assert daemon.role.tail()
    status = daemon.service.status()
    assert (status["appliedTxid"], status["rollbackImageDue"], status["rollingUpgrade"]) == (end, True, True)
    result = daemon.service.poll()
    assert (result.state, result.details["txid"], result.details["reason"]) == (TriggerState.DONE, end, "urgent")
    assert rollbacks(own) == rollbacks(theirs) == [end]
    image = latest_rollback_image([own / "current"])
    assert image is not None
    with ImageFile.open(image.path) as opened:
        assert opened.txid == end
    assert image.path.read_bytes() == (theirs / "current" / image.path.name).read_bytes()
    assert daemon.service.status()["targets"][0]["rollbackTxid"] == end
    assert stub.active.administration.query_rolling_upgrade().has_rollback_image  # type: ignore[union-attr]
    # checkpoints continue as usual
    assert not daemon.role.tail()
    last = write_edits(stub, "later", 2 * TRANSACTIONS)
    result = daemon.service.poll()
    assert (result.details["txid"], result.details["uploads"]) == (last, {stub.server.url: "SUCCESS"})
    assert (own / "current/VERSION").read_bytes() == version
    assert stub.active.administration.finalize_rolling_upgrade() is not None
    daemon.role.tail()
    assert rollbacks(own) == []
    plain = own / f"current/fsimage_{end:019d}"
    assert read_md5_file(plain) == opened.md5
    assert daemon.service.status()["rollingUpgrade"] is False
    last = write_edits(stub, "end", 2 * TRANSACTIONS)
    assert daemon.service.poll().details["txid"] == last


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in (folder / "current").iterdir() if "ckpt" in path.name or path.suffix == ".tmp"]
