"""The parts of a NameNode that are independent of its HA state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.access import AccessControl
from hadoop_common.hadoop_releases import Release
from hadoop_common.port_limits import Refusals
from hadoop_common.storage_info import StorageInfo
from hadoop_common.transfer_counter import TransferCounter
from namenode_stub.config import StubConfig
from namenode_stub.fail_stop import FailStop
from namenode_stub.names.retry_cache import RetryCache
from namenode_stub.rpc.service_switch import ServiceSwitch
from namenode_stub.server_settings import release_of
from servlets.image_admission import UploadReservations


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of this NameNode, each `host:port`; "" for a server that is not running."""

    rpc: str
    http: str


@dataclass(frozen=True, slots=True)
class NodeParts:
    """Parts shared by all states.

    Attributes:
        info: content of the storage's VERSION file.
        addresses: returns the servers' addresses, once they listen.
        clock: monotonic seconds.
        started_at: seconds since the epoch.
        access: decides which callers may send and fetch images.
    """

    config: StubConfig
    info: StorageInfo
    fail_stop: FailStop
    retry_cache: RetryCache
    switch: ServiceSwitch
    reservations: UploadReservations
    counter: TransferCounter
    refusals: Refusals
    addresses: Callable[[], Addresses]
    clock: Callable[[], float]
    started_at: float
    access: AccessControl

    @property
    def release(self) -> Release:
        """The Hadoop release that the stub reports."""
        return self.config.release or release_of(self.info.layout_version)

    @property
    def image_folders(self) -> list[Path]:
        """The `current` folders with images."""
        return [directory / "current" for directory in self.config.image_directories]

    @property
    def edits_folders(self) -> list[Path]:
        """The `current` folders with segments."""
        return [directory / "current" for directory in self.config.edits_directories]
