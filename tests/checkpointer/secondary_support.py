"""A secondary for tests: role and service without the scheduler, and checks of its directories."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from checkpointer.daemon.service import CheckpointService
from checkpointer.roles.secondary.role import SecondaryRole
from checkpointer.storage.inspector import inspect
from checkpointer.transfer.download_retry import DownloadRetry
from hadoop_common.back_off import BackOff
from hadoop_common.configuration import Configuration
from image_format.reader import ImageFile
from journal.segment_file import list_segments, map_file
from journal.segment_frames import check_extent
from servlets.status import TriggerResult, TriggerState
from site_config.checkpoint_config import CheckpointConfig, Role
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.recorded_cases import imgcmp


def secondary_config(folder: Path, rpc_port: int, http_port: int, **changes: str) -> CheckpointConfig:
    """Return settings of a secondary with directories below `folder`; in `changes`, "__" means "."."""
    values = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{rpc_port}",
        "dfs.namenode.http-address": f"127.0.0.1:{http_port}",
        "dfs.namenode.checkpoint.dir": str(folder / "secondary"),
        "dfs.namenode.secondary.http-address": "127.0.0.1:0",
        "dfs.namenode.checkpoint.period": "3600",
        # a busy machine is not a fault
        "ipc.client.rpc-timeout.ms": "600000",
        "dfs.image.transfer.timeout": "600000",
        "hadoop.user.name": "hdfs",
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    return CheckpointConfig.from_configuration(Configuration.from_mapping(values, {}), Role.SECONDARY)


class Secondary:
    """The role and the service of a daemon, without the scheduler; `checkpoint` runs a poll."""

    def __init__(self, config: CheckpointConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self.role = SecondaryRole(config, retry=DownloadRetry(back_off=BackOff(0.01, 5.0)), clock=clock)
        self.service = CheckpointService(self.role, config, clock=clock)

    @classmethod
    def of(cls, folder: Path, node: NamenodeDouble, **changes: str) -> Self:
        return cls(secondary_config(folder, node.rpc_port, node.http_port, **changes))

    def __enter__(self) -> Self:
        self.role.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.role.close()

    def checkpoint(self) -> TriggerResult:
        return self.service.request(force=True, wait=True)

    @property
    def folder(self) -> Path:
        return self.config.image_directories[0] / "current"


def image_txids(folder: Path) -> list[int]:
    return [image.txid for image in inspect(folder.parent).images]


def segment_names(folder: Path) -> list[str]:
    return [segment.path.name for segment in list_segments(folder)]


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "ckpt" in path.name or "tmp" in path.name)


def sound(folder: Path) -> bool:
    """Check that every image and segment with a final name is complete."""
    for image in inspect(folder.parent).images:
        ImageFile.open(image.path).close()
    for segment in list_segments(folder):
        assert segment.last is not None
        with map_file(segment.path) as content:
            check_extent(content, segment.first, segment.last, file=segment.path.name)
    return True


def differences(expected: Path, actual: Path) -> list[str]:
    """Return imgcmp's findings except a different txid, because empty segments of later rolls change only the txid."""
    found: list[Any] = imgcmp.compare(imgcmp.Image(str(expected)), imgcmp.Image(str(actual)))
    return [line for line in found if "NS_INFO field 6" not in str(line)]


def done(secondary: Secondary) -> int:
    result = secondary.checkpoint()
    assert result.state is TriggerState.DONE, result
    assert list(result.details["uploads"].values()) == ["SUCCESS"]
    return int(result.details["txid"])


@pytest.fixture
def secondary(node: NamenodeDouble, tmp_path: Path) -> Iterator[Secondary]:
    """A secondary that has not made a checkpoint."""
    with Secondary.of(tmp_path, node) as running:
        yield running
