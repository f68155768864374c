from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpointer.storage.formatting import leftover_names
from checkpointer.storage.inspector import list_images
from engine.errors import CheckpointCancelledError, CheckpointInProgressError
from engine.saver import Sink, save_image
from hadoop_common.errors import StorageError
from hadoop_common.names import checkpoint_name, image_name, md5_name
from image_format.md5_file import md5_of_file
from image_format.reader import ImageFile
from tests.checkpointer.storage_support import IMAGE_TXID, NEW_TXID, recorded_directory, recorded_image
from tests.cli_runner import fingerprint

IMAGE = recorded_image()


def write(sink: Sink) -> None:
    for start in range(0, len(IMAGE), 100):
        sink(IMAGE[start : start + 100])


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [recorded_directory(tmp_path / name) / "current" for name in "ab"]


def check_valid(folder: Path) -> int:
    """Check that a NameNode accepts the folder, where each image must have its digest; return the newest txid."""
    images = list_images(folder)
    for image in images:
        with ImageFile.open(image.path) as opened:
            assert opened.txid == image.txid
    assert images[0].txid == IMAGE_TXID
    return images[-1].txid


def test_image_is_saved_in_all_folders(folders: list[Path]) -> None:
    result = save_image(folders, NEW_TXID, write)
    assert result.paths == tuple(folder / image_name(NEW_TXID) for folder in folders)
    assert (result.txid, result.size, result.failures, result.existing) == (NEW_TXID, len(IMAGE), (), ())
    for path in result.paths:
        assert path.read_bytes() == IMAGE
        assert md5_of_file(path).hex() == result.md5
        assert check_valid(path.parent) == NEW_TXID
        assert not leftover_names([each.name for each in path.parent.iterdir()])
    line = (folders[0] / md5_name(image_name(NEW_TXID))).read_text()
    assert line == f"{result.md5} *{image_name(NEW_TXID)}\n"


def test_rollback_image_gets_its_own_name(folders: list[Path]) -> None:
    result = save_image(folders, NEW_TXID, write, rollback=True)
    assert result.paths[0].name == image_name(NEW_TXID, rollback=True)
    assert check_valid(folders[0]) == NEW_TXID


def test_image_is_confirmed_before_its_final_name(folders: list[Path]) -> None:
    names: list[str] = []

    def refuse() -> None:
        names.extend(path.name for folder in folders for path in folder.iterdir())
        raise LookupError("the base is damaged")

    before = fingerprint(folders[0].parent.parent)
    with pytest.raises(LookupError, match="the base is damaged"):
        save_image(folders, NEW_TXID, write, confirm=refuse)
    assert names.count(checkpoint_name(NEW_TXID)) == len(folders)
    assert image_name(NEW_TXID) not in names
    assert fingerprint(folders[0].parent.parent) == before


def test_existing_image_is_not_saved_again(folders: list[Path]) -> None:
    save_image(folders, NEW_TXID, write)
    with pytest.raises(StorageError, match="is already in"):
        save_image(folders, NEW_TXID, write)
    assert check_valid(folders[0]) == NEW_TXID


def test_image_is_saved_only_in_folders_without_it(folders: list[Path]) -> None:
    save_image(folders[:1], NEW_TXID, write)
    before = (folders[0] / image_name(NEW_TXID)).stat()
    # The atime may differ, because the check for completeness reads the image.
    written = (before.st_ino, before.st_mtime_ns)
    result = save_image(folders, NEW_TXID, write)
    assert result.paths == (folders[1] / image_name(NEW_TXID),)
    assert result.existing == (folders[0] / image_name(NEW_TXID),)
    after = (folders[0] / image_name(NEW_TXID)).stat()
    assert (after.st_ino, after.st_mtime_ns) == written


def test_damaged_image_of_the_same_txid_is_replaced(folders: list[Path]) -> None:
    (folders[0] / image_name(NEW_TXID)).write_bytes(b"damaged")
    save_image(folders, NEW_TXID, write)
    assert check_valid(folders[0]) == NEW_TXID


def test_saving_without_a_folder_is_an_error() -> None:
    with pytest.raises(StorageError, match="no folder"):
        save_image([], NEW_TXID, write)


def test_cancelled_save_leaves_no_files(folders: list[Path]) -> None:
    before = [sorted(folder.iterdir()) for folder in folders]

    def cancel(sink: Sink) -> None:
        sink(IMAGE[:100])
        raise CheckpointCancelledError("cancelled")

    with pytest.raises(CheckpointCancelledError):
        save_image(folders, NEW_TXID, cancel)
    assert [sorted(folder.iterdir()) for folder in folders] == before


@pytest.mark.parametrize("data", [b"", b"HDFSIMG1", IMAGE[:-1], IMAGE + b"x", recorded_image(txid=IMAGE_TXID)])
def test_unreadable_image_gets_no_final_name(folders: list[Path], data: bytes) -> None:
    before = [sorted(folder.iterdir()) for folder in folders]
    with pytest.raises(StorageError, match="could not be saved in any directory"):
        save_image(folders, NEW_TXID, lambda sink: sink(data))
    assert [sorted(folder.iterdir()) for folder in folders] == before


def test_failing_folder_is_skipped_and_reported(folders: list[Path]) -> None:
    (folders[0] / checkpoint_name(NEW_TXID)).mkdir()
    result = save_image(folders, NEW_TXID, write)
    assert result.paths == (folders[1] / image_name(NEW_TXID),)
    (failure,) = result.failures
    assert failure.folder == folders[0]
    assert str(folders[0]) in str(failure)


def test_all_folders_failing_is_an_error(folders: list[Path]) -> None:
    for folder in folders:
        (folder / checkpoint_name(NEW_TXID)).mkdir()
    with pytest.raises(StorageError) as caught:
        save_image(folders, NEW_TXID, write)
    assert all(str(folder) in caught.value.message for folder in folders)
    assert caught.value.hint


def test_one_txid_is_saved_by_one_thread_at_a_time(folders: list[Path]) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(sink: Sink) -> None:
        inside.set()
        go_on.wait()
        write(sink)

    thread = threading.Thread(target=save_image, args=(folders, NEW_TXID, slow))
    thread.start()
    inside.wait()
    try:
        with pytest.raises(CheckpointInProgressError, match="already being written"):
            save_image(folders, NEW_TXID, write)
    finally:
        go_on.set()
        thread.join()
    assert check_valid(folders[0]) == NEW_TXID


# ---- faults at every step ----------------------------------------------------------------------------------


class Interrupter:
    """Patch that calls `action` before the n-th system call, of any thread, that changes a file."""

    CALLS = ("open", "write", "fsync", "replace", "unlink", "close")

    def __init__(self, step: int, action: Callable[[], None]) -> None:
        self._left = step
        self._action = action
        self._guard = threading.Lock()
        self.fired = False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in self.CALLS:
            patch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **keywords: object) -> object:
            with self._guard:
                self._left -= 1
                fire = self._left == 0
                self.fired |= fire
            if fire:
                self._action()
            return real(*args, **keywords)

        return call


def die() -> None:
    os._exit(9)


def run_and_die_at(step: int, folders: list[Path]) -> bool:
    """Save in a child that is killed at the step; return whether it reached the step."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.MonkeyPatch.context() as patch:
                Interrupter(step, die).install(patch)
                save_image(folders, NEW_TXID, write)
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


def test_kill_at_any_step_leaves_files_that_a_namenode_accepts(tmp_path: Path) -> None:
    outcomes = set()
    for step in range(1, 1000):
        roots = [recorded_directory(tmp_path / str(step) / name) for name in "ab"]
        folders = [root / "current" for root in roots]
        killed = run_and_die_at(step, folders)
        found = [check_valid(folder) for folder in folders]
        outcomes.add(tuple(found))
        if not killed:
            break
        if found != [NEW_TXID, NEW_TXID]:
            save_image(folders, NEW_TXID, write)
        assert [check_valid(folder) for folder in folders] == [NEW_TXID, NEW_TXID]
    else:
        pytest.fail("the save never ended")
    assert step > 20
    assert outcomes == {(IMAGE_TXID, IMAGE_TXID), (NEW_TXID, IMAGE_TXID), (NEW_TXID, NEW_TXID)}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_error_at_any_step_leaves_files_that_a_namenode_accepts(tmp_path: Path, code: int) -> None:
    def fail() -> None:
        raise OSError(code, os.strerror(code))

    for step in range(1, 1000):
        folders = [recorded_directory(tmp_path / str(step) / name) / "current" for name in "ab"]
        interrupter = Interrupter(step, fail)
        with pytest.MonkeyPatch.context() as patch:
            interrupter.install(patch)
            result = save_image(folders, NEW_TXID, write)
        for path in result.paths:
            assert check_valid(path.parent) == NEW_TXID
        for folder in folders:
            check_valid(folder)
        assert len(result.paths) + len(result.failures) == 2
        if not interrupter.fired:
            break
        assert len(result.paths) >= 1
    else:
        pytest.fail("the save never ended")
    assert not result.failures
