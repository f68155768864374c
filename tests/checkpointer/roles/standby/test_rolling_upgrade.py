"""A standby during a rolling upgrade: where it stops in the edits, and its rollback image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import checkpointer.roles.standby.folder_edits as view_module
from checkpointer.storage.rollback_images import latest_rollback_image, promote_rollback_images
from image_format.md5_file import md5_path
from image_format.reader import ImageFile
from journal.ops import EditOp, RollingUpgradeStartOp
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.standby_support import Daemon, daemon_of, follow_rolling_upgrade, images, rollbacks, write_edits

# each example runs a daemon for about a second
pytestmark = pytest.mark.parameters(2)


def test_a_rolling_upgrade_from_start_to_finalize(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    follow_rolling_upgrade(stub, daemon, tmp_path)


def test_upgrade_start_in_the_open_segment_is_applied_after_its_end(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path, tail_in_progress=True) as daemon:
        stub.namespace.mkdirs("/a")
        stub.active.administration._roll = lambda: 0  # type: ignore[assignment]
        assert stub.active.administration.start_rolling_upgrade() is not None
        start = stub.namespace.transactions.log.last_txid
        stub.namespace.mkdirs("/b")
        assert not daemon.role.tail()
        assert daemon.service.status()["appliedTxid"] == start - 1
        end = stub.active.roll() - 1
        assert daemon.role.tail()
        assert daemon.service.poll().details["txid"] == end
        assert rollbacks(tmp_path / "nn2") == [end]


@pytest.mark.parametrize("behind", [0, 1])
def test_upgrade_start_is_found_after_a_read_error_behind_it(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    """The next tail still takes START into account, whether only START or its whole segment was applied."""
    assert stub.active.administration.start_rolling_upgrade() is not None
    end = stub.namespace.transactions.log.segment_first_txid - 1
    write_edits(stub, "during", 3)
    real = view_module.read_ops

    def broken(*arguments: Any, **options: Any) -> Iterator[EditOp]:
        left = None
        for op in real(*arguments, **options):
            yield op
            if isinstance(op, RollingUpgradeStartOp):
                left = behind
            if left == 0:
                raise OSError(5, "Input/output error")
            left = None if left is None else left - 1

    with monkeypatch.context() as patched:
        patched.setattr(
            view_module.FinalizedFile, "transactions", lambda each, first: broken(each.segment, from_txid=first)
        )
        assert not daemon.role.tail()
        assert daemon.service.status()["alarms"] != []
    # the checkpoint that an operator requests is also the rollback image
    assert daemon.service.request(force=True, wait=True).details["txid"] == end
    assert rollbacks(tmp_path / "nn2") == [end]


def test_existing_rollback_image_is_not_made_again(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> None:
    write_edits(stub, "before", 3)
    assert stub.active.administration.start_rolling_upgrade() is not None
    assert daemon.role.tail()
    assert daemon.service.poll().state is TriggerState.DONE
    daemon.role.close()
    last = write_edits(stub, "during", 3)
    # edits are replayed from the image before START
    with daemon_of(stub, tmp_path) as again:
        assert not again.role.tail()
        assert again.service.status()["appliedTxid"] == last
        assert len(rollbacks(tmp_path / "nn2")) == 1


def test_failed_rollback_image_is_made_at_the_next_attempt(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stub.active.administration.start_rolling_upgrade() is not None
    end = stub.namespace.transactions.log.segment_first_txid - 1
    write_edits(stub, "during", 3)
    assert daemon.role.tail()

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("engine.warm_namespace.save_image", broken)
        assert daemon.service.poll().state is TriggerState.FAILED
    assert daemon.role.tail()
    assert daemon.service.request(force=True, wait=True).details["txid"] == end
    assert rollbacks(tmp_path / "nn2") == [end]


def test_replay_of_a_finalized_upgrade_keeps_later_rollback_images(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path
) -> None:
    """Replaying the FINALIZE of one upgrade must not remove the rollback image of the next upgrade."""
    for _ in range(2):
        assert stub.active.administration.start_rolling_upgrade() is not None
        assert daemon.role.tail()
        assert daemon.service.poll().details["reason"] == "urgent"
        if _ == 0:
            assert stub.active.administration.finalize_rolling_upgrade() is not None
            daemon.role.tail()
    (newest,) = rollbacks(tmp_path / "nn2")
    daemon.role.close()
    for path in (tmp_path / "nn2/current").glob("fsimage_[0-9]*"):
        if not path.name.startswith("fsimage_0000000000000000000"):
            path.unlink()
    with daemon_of(stub, tmp_path) as again:
        # the edits after image 0: START and FINALIZE of the first upgrade, START of the second
        again.role.tail()
        assert rollbacks(tmp_path / "nn2") == [newest]


@pytest.mark.parametrize("step", ["write_md5_file", "rename_durably"])
def test_failed_rename_leaves_the_rollback_image_valid(
    stub: NameNodeStub, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    assert stub.active.administration.start_rolling_upgrade() is not None
    assert daemon.role.tail()
    daemon.service.poll()
    folder = tmp_path / "nn2/current"
    (txid,) = rollbacks(tmp_path / "nn2")
    image = latest_rollback_image([folder])
    assert image is not None

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(f"image_format.publish.{step}", broken)
        (warning,) = promote_rollback_images([folder], txid + 1)
    assert "could not be renamed" in warning
    assert latest_rollback_image([folder]) == image
    assert images(tmp_path / "nn2") == [0, txid]
    assert promote_rollback_images([folder], txid) == []
    assert latest_rollback_image([folder]) == image
    assert promote_rollback_images([folder], txid + 1) == []
    assert latest_rollback_image([folder]) is None
    plain = folder / f"fsimage_{txid:019d}"
    ImageFile.open(plain).close()
    assert not md5_path(image.path).exists()
