"""A role that a test controls, its clock, and settings of a daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import tests.clock
from checkpointer.daemon.service import CheckpointService
from checkpointer.roles.role import Job, Progress
from checkpointer.set_back.start_over import LostPast
from checkpointer.transfer.upload_target import Upload, UploadTarget
from engine.healing import HealedFault
from engine.merge import MergeResult, Observer, Timings
from engine.saver import SaveResult
from hadoop_common.configuration import Configuration
from hadoop_common.errors import StorageError
from hadoop_common.port_limits import Refusals
from hadoop_common.storage_info import StorageInfo
from hadoop_common.transfer_counter import TransferCounter
from journal.operation import EditOp
from journal.segment_file import EditLogSegment
from node_state.state import RoleDetails
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.servlets.support import INFO

PERIOD, TRANSACTIONS = 100.0, 50


# start of the processes of these tests, in seconds since the epoch
START = 1_700_000_000.0


def standby_config(**values: str) -> CheckpointConfig:
    given = {
        "dfs.namenode.name.dir": "/name",
        "dfs.namenode.shared.edits.dir": "/shared",
        "dfs.namenode.http-address": "127.0.0.1:9870",
        "dfs.namenode.checkpoint.period": f"{PERIOD:.0f}s",
        "dfs.namenode.checkpoint.txns": str(TRANSACTIONS),
        **values,
    }
    return CheckpointConfig.from_configuration(Configuration.from_mapping(given, {}), Role.STANDBY)


class FakeRole:
    """A role that counts its calls; `journal` is the last transaction of the edits."""

    name = "standby"

    def __init__(self) -> None:
        self.counter = TransferCounter()
        self.wall: Callable[[], float] = lambda: START
        self.refusals = Refusals()
        self.urgent = ""
        self.raised: list[str] = []
        self.no_room = ""
        self.image = 0
        self.written_at: float | None = START
        self.journal = 0
        self.targets = (UploadTarget("http://nn1:9870"),)
        self.uploads = [Upload("http://nn1:9870", "SUCCESS", seconds=0.5, size=7)]
        self.forced: list[bool] = []
        self.merges = 0
        self.running = 0
        self.most_running = 0
        self.during: Callable[[Observer], None] = lambda observer: None
        self.healed: tuple[HealedFault, ...] = ()
        self.ignored = 0
        self.fault: Exception | None = None
        self.read_fault: Exception | None = None
        self.upload_fault: Exception | None = None

    def open(self, cancelled: Callable[[], bool]) -> None:
        """Do nothing, because the role needs no opening."""

    def close(self) -> None:
        """Do nothing, because the role needs no closing."""

    def jobs(self) -> list[Job]:
        return []

    def reconfigure(self, config: CheckpointConfig) -> None:
        """Do nothing, because this role has no settings."""

    def storage_info(self) -> StorageInfo:
        return INFO

    def image_folders(self) -> list[Path]:
        return []

    def serving_folders(self) -> list[Path]:
        return self.image_folders()

    def latest_image(self) -> Path:
        raise StorageError("no image")

    def confirm_image(self) -> Path:
        return self.latest_image()

    def segments(self) -> list[EditLogSegment]:
        return []

    @property
    def warm_namespace(self) -> None:
        return None

    def operations(self, first: int, last: int) -> Iterator[EditOp]:
        return iter(())

    def alarms(self) -> list[str]:
        return self.raised

    def space_shortage(self) -> str:
        return self.no_room

    def details(self) -> RoleDetails:
        return RoleDetails(applied_txid=self.journal)

    def storage(self) -> dict[str, str]:
        return {"/name": "in use"}

    def prepare(self) -> None:
        """Do nothing, because this role's directories never fail."""

    def progress(self) -> Progress:
        if self.read_fault is not None:
            raise self.read_fault
        return Progress(self.image, self.journal, self.written_at, self.urgent)

    def keep_up(self, cancelled: Callable[[], bool]) -> None:
        """Do nothing, because this role has all edits."""

    def checkpoint(self, observer: Observer, *, forced: bool = False) -> MergeResult:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            observer.phase("replay", 1)
            self.during(observer)
            if self.fault is not None:
                raise self.fault
        finally:
            self.running -= 1
        base, self.image, self.written_at = self.image, self.journal, self.wall()
        self.merges += 1
        saved = SaveResult(self.image, (Path("/name/current/fsimage"),), "0" * 32, 1, ())
        made = MergeResult(base, self.image, self.image - base, 1, saved, Timings(1.0, 2.0, 3.0), -63)
        return replace(made, healed=self.healed, ignored=self.ignored)

    def upload(self, cancelled: Callable[[], bool], began: Callable[[], None], *, force: bool) -> Iterator[Upload]:
        self.forced.append(force)
        if self.upload_fault is not None:
            raise self.upload_fault
        for upload in self.uploads:
            began()
            yield upload


class Clock(tests.clock.Clock):
    def wall(self) -> float:
        return START + self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDetails(RoleDetails):
    """Details with the fields of a real role."""

    lost_past: LostPast | None


class StoredRole(FakeRole):
    """A role with a storage directory."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.folders = [root / "current"]
        self.folders[0].mkdir(parents=True)
        self.info = super().storage_info()
        self.lost: LostPast | None = None

    def image_folders(self) -> list[Path]:
        return self.folders

    def storage_info(self) -> StorageInfo:
        return self.info

    def details(self) -> RoleDetails:
        return StoredDetails(lost_past=self.lost)


def service_of(role: FakeRole, clock: Clock) -> CheckpointService:
    role.wall = clock.wall
    return CheckpointService(role, standby_config(), clock=clock, wall=clock.wall)


@pytest.fixture
def role() -> FakeRole:
    return FakeRole()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(role: FakeRole, clock: Clock) -> CheckpointService:
    return service_of(role, clock)
