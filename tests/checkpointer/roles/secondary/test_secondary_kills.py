"""A secondary killed at every step of a checkpoint: its files are complete, and the next start continues from there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hadoop_common.names import image_name
from image_tools.verify.checker import verify_image
from servlets.status import TriggerState
from site_config.checkpoint_config import CheckpointConfig
from tests.checkpointer.kill_harness import kill, kills, record
from tests.checkpointer.secondary_support import Secondary, differences, image_txids, leftovers, secondary_config, sound
from tests.depth import sample
from tests.namenode_stub.namenode_double import NamenodeDouble

FIRST = 58


def config_of(folder: Path, rpc_port: int, http_port: int) -> CheckpointConfig:
    changes = {"dfs.namenode.num.checkpoints.retained": "1", "dfs.namenode.num.extra.edits.retained": "0"}
    return secondary_config(folder, rpc_port, http_port, **changes)


def one_checkpoint(folder: str, rpc_port: int, http_port: int) -> None:
    """Run a daemon that makes one checkpoint; called in a child process."""
    with Secondary(config_of(Path(folder), rpc_port, http_port)) as secondary:
        result = secondary.checkpoint()
        assert result.state is TriggerState.DONE, result


class Place:
    """A NameNode and the directory of its secondary, both of which can be restored."""

    def __init__(self, folder: Path, source: Path | None) -> None:
        if source is not None:
            shutil.copytree(source, folder, copy_function=shutil.copyfile)
        self.folder = folder
        self.node = NamenodeDouble(folder / "name", per_roll=2)
        self.current = folder / "secondary" / "current"

    def arguments(self) -> tuple[str, int, int]:
        return str(self.folder), self.node.rpc_port, self.node.http_port

    def go_on(self) -> None:
        """Start a secondary that makes checkpoints until an image contains all recorded edits."""
        self.node.per_roll = 8
        with Secondary(config_of(*self._config())) as secondary:
            while True:
                result = secondary.checkpoint()
                assert result.state is TriggerState.DONE, result
                assert list(result.details["uploads"].values()) == ["SUCCESS"]
                if result.details["txid"] >= self.node.recorded_end:
                    break

    def _config(self) -> tuple[Path, int, int]:
        return self.folder, self.node.rpc_port, self.node.http_port

    def check_end(self) -> None:
        (newest,) = image_txids(self.current)
        image = self.current / image_name(newest)
        assert differences(self.node.expected, image) == []
        assert verify_image(image).valid
        assert (self.node.folder / image.name).read_bytes() == image.read_bytes()
        assert leftovers(self.current) == []
        assert sound(self.current)


@pytest.fixture(scope="module")
def after_the_first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a NameNode and its secondary after one checkpoint."""
    place = Place(tmp_path_factory.mktemp("after") / "place", None)
    with place.node:
        one_checkpoint(*place.arguments())
    return place.folder


def unharmed(place: Place, images: list[int]) -> None:
    """Check the state after a kill: files under final names are complete, and earlier images remain until newer images
    exist.
    """
    if not place.current.is_dir():
        assert images == []
        return
    assert sound(place.current)
    found = image_txids(place.current)
    assert not images or found[-1] >= images[-1]


@pytest.mark.parametrize("number", [1, 2])
def test_recovery_after_a_kill_at_every_step(number: int, tmp_path: Path, after_the_first: Path) -> None:
    source = None if number == 1 else after_the_first
    place = Place(tmp_path / "recorded", source)
    with place.node:
        steps = record(one_checkpoint, *place.arguments())
    for needed in ("fsync", "replace", "write", "HTTPConnection.endheaders", "RpcClient.call", "BodySender.send"):
        assert needed in steps
    assert ("unlink" in steps) or number == 1
    before = [] if number == 1 else [FIRST]
    for where in sample(list(kills(steps)), 4, f"secondary {number}"):
        place = Place(tmp_path / str(where).replace("/", "_"), source)
        with place.node:
            kill(where, one_checkpoint, *place.arguments())
            unharmed(place, before)
            place.go_on()
            place.check_end()
        shutil.rmtree(place.folder)
