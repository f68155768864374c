"""A standby saves its namespace although all NameNodes are stopped and the shared edits are lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpointer.storage.lost_pasts import NOT_COMPARED, folders_aside, new_folder
from engine import saver
from engine.errors import CheckpointError, NotSavedError
from engine.merge import merge
from engine.observer import SilentObserver
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from image_format import publish
from image_format.direct_file import DirectFile
from namenode_stub.node import NameNodeStub
from servlets.status import TriggerState
from tests.checkpointer.set_back_support import image
from tests.checkpointer.standby_support import Daemon, daemon_of, images, write_edits
from tests.recorded_cases import imgcmp


def lose_edits(stub: NameNodeStub, daemon: Daemon, tmp_path: Path) -> tuple[int, Path]:
    """Stop the NameNode and remove the shared edits, including transactions that the daemon has applied; return the
    last of them, and an image with all transactions.
    """
    write_edits(stub, "checkpointed")
    daemon.role.tail()
    assert daemon.service.poll().state is TriggerState.DONE
    last = write_edits(stub, "applied")
    daemon.role.tail()
    base, ops = daemon.role.latest_image(), list(daemon.role.operations(images(tmp_path / "nn2")[-1] + 1, last))
    (expected := tmp_path / "expected").mkdir()
    merge(base, ops, [expected])
    stub.stop()
    shutil.rmtree(tmp_path / "active/shared")
    daemon.role.tail()
    assert daemon.service.request(force=True, wait=True).state is TriggerState.FAILED
    return last, expected / image_name(last)


def content_equals(one: Path, other: Path) -> bool:
    return imgcmp.compare(imgcmp.Image(str(one)), imgcmp.Image(str(other))) == []


def test_image_has_all_applied_transactions_and_is_not_used(stub: NameNodeStub, tmp_path: Path) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        last, expected = lose_edits(stub, daemon, tmp_path)
        before = images(tmp_path / "nn2")
        answer = daemon.service.save_aside()
        (folder,) = folders_aside(tmp_path / "nn2", NOT_COMPARED)
        assert answer.details == {"paths": [str(folder / image_name(last))]}
        assert content_equals(expected, folder / image_name(last))
        assert (folder / f"{image_name(last)}.md5").is_file()
        assert images(tmp_path / "nn2") == before
        # the namespace remains in memory, and one image is sufficient
        assert daemon.role.warm_namespace.applied_txid == last
        assert daemon.service.request(force=True, wait=True).state is TriggerState.FAILED


@pytest.mark.parametrize("failing", [(DirectFile, "write"), (publish, "write_md5_file"), (saver, "place_image")])
def test_full_disk_does_not_lose_the_namespace(
    stub: NameNodeStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: tuple[Any, str]
) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        last, expected = lose_edits(stub, daemon, tmp_path)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(*failing, full)
            with pytest.raises(NotSavedError, match="No space left on device") as error:
                daemon.service.save_aside()
        assert "Do not restart" in error.value.hint
        assert folders_aside(tmp_path / "nn2", NOT_COMPARED) == ()
        daemon.service.save_aside()
        (folder,) = folders_aside(tmp_path / "nn2", NOT_COMPARED)
        assert content_equals(expected, folder / image_name(last))


def test_file_of_the_same_name_is_not_mistaken_for_the_image(stub: NameNodeStub, tmp_path: Path) -> None:
    """Folders below `not_compared` also contain images that a start-over set aside."""
    with daemon_of(stub, tmp_path) as daemon:
        last, expected = lose_edits(stub, daemon, tmp_path)
        (new_folder(tmp_path / "nn2", NOT_COMPARED) / image_name(last)).write_bytes(b"another past")
        daemon.service.save_aside()
        assert content_equals(expected, folders_aside(tmp_path / "nn2", NOT_COMPARED)[-1] / image_name(last))


def test_image_of_the_last_checkpoint_is_removed(stub: NameNodeStub, tmp_path: Path) -> None:
    """Before the next tail makes it the base."""
    with daemon_of(stub, tmp_path) as daemon:
        last = write_edits(stub, "a")
        daemon.role.tail()
        assert daemon.service.poll().state is TriggerState.DONE
        (removed := tmp_path / "nn2/current" / image_name(last)).rename(tmp_path / "removed")
        daemon.service.save_aside()
        (folder,) = folders_aside(tmp_path / "nn2", NOT_COMPARED)
        assert (folder / removed.name).read_bytes() == (tmp_path / "removed").read_bytes()


def test_newer_image_in_the_directory_does_not_prevent_it(stub: NameNodeStub, tmp_path: Path) -> None:
    """A start-over that is unfinished may have fetched an image of another past."""
    with daemon_of(stub, tmp_path) as daemon:
        last, expected = lose_edits(stub, daemon, tmp_path)
        image(tmp_path / "nn2/current", last + 1000, "aa" * 16)
        daemon.service.save_aside()
        (folder,) = folders_aside(tmp_path / "nn2", NOT_COMPARED)
        assert content_equals(expected, folder / image_name(last))


def fill(directory: Path) -> None:
    (directory / NOT_COMPARED).write_text("not a directory")


@pytest.mark.parametrize("broken", [0, 1])
def test_one_directory_is_sufficient(stub: NameNodeStub, tmp_path: Path, broken: int) -> None:
    roots = (tmp_path / "nn2", tmp_path / "nn2b")
    with daemon_of(stub, tmp_path, image_directories=roots) as daemon:
        last, expected = lose_edits(stub, daemon, tmp_path)
        fill(roots[broken])
        daemon.service.save_aside()
        (folder,) = folders_aside(roots[1 - broken], NOT_COMPARED)
        assert content_equals(expected, folder / image_name(last))


def no_namespace(daemon: Daemon, stub: NameNodeStub, root: Path) -> None:
    daemon.role.warm_namespace.close()


def no_directory(daemon: Daemon, stub: NameNodeStub, root: Path) -> None:
    write_edits(stub, "a")
    daemon.role.tail()
    fill(root)


@pytest.mark.parametrize(
    ("prepare", "error", "message"),
    [
        (no_namespace, CheckpointError, "no namespace is in memory"),
        (no_directory, StorageError, "no folder for the image could be created"),
    ],
)
def test_refusal_gives_the_reason(
    stub: NameNodeStub,
    tmp_path: Path,
    prepare: Callable[[Daemon, NameNodeStub, Path], None],
    error: type[Exception],
    message: str,
) -> None:
    with daemon_of(stub, tmp_path) as daemon:
        prepare(daemon, stub, tmp_path / "nn2")
        with pytest.raises(error, match=message):
            daemon.role.save_aside(SilentObserver())
