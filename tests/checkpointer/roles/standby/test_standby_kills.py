"""A standby killed at every step of its work: its files are complete, and the next start continues from there."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from checkpointer.storage.formatting import write_version
from checkpointer.storage.inspector import inspect, read_storage_info
from checkpointer.storage.lost_pasts import PROVENANCE
from engine.settings import MergeSettings
from hadoop_common.names import image_name
from image_tools.verify.checker import verify_image
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.kill_harness import kill, kills, record
from tests.checkpointer.standby_support import Daemon, config_for, write_edits
from tests.checkpointer.storage_support import whole_images
from tests.depth import sample
from tests.namenode_stub.stub_support import formatted, stub_config_for
from tests.recorded_cases import imgcmp

_ROUNDS = 5
_PLACES = 4


def roots_in(folder: Path) -> list[Path]:
    """Return the standby's storage directories, whose number depends on the scene."""
    return sorted(folder.glob("nn?"))


def daemon_of(folder: Path, url: str, rpc: tuple[str, int]) -> Daemon:
    roots = tuple(roots_in(folder))
    config = config_for(folder, url, namenode_rpc_addresses=(rpc,), image_directories=roots, images_retained=1)
    return Daemon(config)


def one_life(folder: str, url: str, rpc: tuple[str, int]) -> None:
    """Run a daemon that catches up and makes all pending checkpoints; called in a child process."""
    with daemon_of(Path(folder), url, rpc) as daemon:
        work(daemon)


def work(daemon: Daemon) -> None:
    for _ in range(_ROUNDS):
        again = daemon.role.tail()
        result = daemon.service.request(force=True, wait=True)
        assert result.state in (TriggerState.DONE, TriggerState.SKIPPED), result
        assert "failed" not in result.details["uploads"].values()
        if not again and result.state is TriggerState.SKIPPED:
            return
    raise AssertionError("checkpoints do not end")


def stub_of(folder: Path) -> NameNodeStub:
    config = stub_config_for(folder / "active", rpc_address=("127.0.0.1", 0), checkpoint_transactions=1)
    return NameNodeStub(config)


def life(folder: Path) -> None:
    with stub_of(folder) as stub:
        assert stub.rpc_address is not None
        one_life(str(folder), stub.server.url, stub.rpc_address)


# ---- pending work ------------------------------------------------------------------------------------------


def nothing_yet(folder: Path) -> None:
    with stub_of(folder) as stub:
        write_edits(stub, "a", 3)


def upgrade(folder: Path, **changes: int) -> None:
    """Change the active NameNode's directories as an upgrade does."""
    name = folder / "active" / "name"
    info = dataclasses.replace(read_storage_info(name), **changes)  # type: ignore[arg-type]
    merge_directory(plan_directory(name), MergeSettings(layout_version=info.layout_version))
    for each in (name, folder / "active" / "shared"):
        write_version(each, info)


def a_rolling_upgrade_from_start_to_end(folder: Path) -> None:
    """Prepare a VERSION to adopt, a rollback image to make and to rename, and images to purge."""
    nothing_yet(folder)
    life(folder)
    with stub_of(folder) as stub:
        assert stub.active.administration.start_rolling_upgrade() is not None
        write_edits(stub, "b", 3)
        assert stub.active.administration.finalize_rolling_upgrade() is not None
        write_edits(stub, "c", 3)
    upgrade(folder, layout_version=-67)


def an_upgrade(folder: Path) -> None:
    """Prepare a VERSION and an image to adopt."""
    nothing_yet(folder)
    life(folder)
    upgrade(folder, layout_version=-67, c_time=5000)
    with stub_of(folder) as stub:
        write_edits(stub, "b", 3)


# Layout at the beginning, number of storage directories, and steps that the work must contain.
SCENES: dict[Callable[[Path], None], tuple[int, int, set[str]]] = {
    nothing_yet: (-67, 1, {"mkdir", "HTTPConnection.endheaders", "HTTPResponse.read"}),
    a_rolling_upgrade_from_start_to_end: (-63, 2, {"unlink"}),
    an_upgrade: (-63, 1, {"HTTPConnection.endheaders", "HTTPResponse.read"}),
}


# ---- requirements ------------------------------------------------------------------------------------------


def unexpected_files(current: Path) -> list[str]:
    """Return files that do not belong to an image."""
    names = {path.name for path in current.iterdir()} - {"VERSION", "seen_txid", PROVENANCE}
    kept = {image.path.name for image in inspect(current.parent).images if image.has_md5}
    return sorted(names - kept - {f"{name}.md5" for name in kept})


def check_end(folder: Path, stub: NameNodeStub) -> None:
    last = stub.namespace.transactions.log.segment_first_txid - 1
    namespace, content = stub.namespace.transactions.loaded.namespace, bytearray()
    namespace.last_txid = last
    stub.namespace.transactions.loaded.write(content.extend)
    namespace.last_txid = stub.namespace.transactions.log.last_txid
    expected = folder / "expected"
    expected.write_bytes(content)
    theirs = folder / "active" / "name" / "current" / image_name(last)
    assert imgcmp.compare(imgcmp.Image(str(expected)), imgcmp.Image(str(theirs))) == []
    assert verify_image(theirs).valid
    for root in roots_in(folder):
        current = root / "current"
        assert (current / theirs.name).read_bytes() == theirs.read_bytes()
        assert unexpected_files(current) == []
        assert read_storage_info(root) == stub.images.storage_info()
    rollbacks = {image.txid for root in roots_in(folder) for image in inspect(root).images if image.rollback}
    assert rollbacks == set()


@pytest.mark.parameters(2)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_recovery_after_a_kill_at_every_step(scene: Callable[[Path], None], tmp_path: Path) -> None:
    layout, roots, needed = SCENES[scene]
    source = tmp_path / "source"
    for number in range(roots):
        (source / f"nn{number}").mkdir(parents=True)
    config: StubConfig = formatted(source / "active", layout)
    assert config.shared_edits_directory is not None
    scene(source)
    steps = run(source, tmp_path / "recorded")
    assert {"fsync", "replace", "write", "RpcClient.call", "BodySender.send"} | needed <= set(steps)
    for where in sample(list(kills(steps)), _PLACES, scene.__name__):
        folder = tmp_path / "place"
        shutil.copytree(source, folder, copy_function=shutil.copyfile)
        with stub_of(folder) as stub:
            assert stub.rpc_address is not None
            kill(where, one_life, str(folder), stub.server.url, stub.rpc_address)
            for root in roots_in(folder):
                whole_images(root / "current")
            write_edits(stub, "behind", 2)
            with daemon_of(folder, stub.server.url, stub.rpc_address) as daemon:
                work(daemon)
            check_end(folder, stub)
        shutil.rmtree(folder)


def run(source: Path, folder: Path) -> list[str]:
    """Return the steps of an undisturbed run."""
    shutil.copytree(source, folder, copy_function=shutil.copyfile)
    with stub_of(folder) as stub:
        assert stub.rpc_address is not None
        steps = record(one_life, str(folder), stub.server.url, stub.rpc_address)
        check_end(folder, stub)
    return steps
