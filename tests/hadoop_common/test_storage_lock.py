from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hadoop_common.errors import StorageError
from hadoop_common.exit_codes import ExitCode
from hadoop_common.storage_lock import StorageLock, storage_user
from tests.hadoop_common.lock_support import held_elsewhere


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with held_elsewhere(tmp_path) as process:
        yield process


def test_lock_file_names_the_holder_and_is_removed_at_release(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    path = tmp_path / "in_use.lock"
    assert path.read_text().startswith(f"{holder.pid}@")
    holder.communicate(b"")
    assert holder.returncode == 0
    assert not path.exists()


def test_lock_file_of_another_process_is_kept_at_release(tmp_path: Path) -> None:
    """An operator removed the file, and another process was started in the directory."""
    ours = StorageLock(tmp_path)
    ours.acquire()
    (tmp_path / "in_use.lock").unlink()
    with held_elsewhere(tmp_path) as other:
        ours.release()
        with pytest.raises(StorageError, match=f"held by {other.pid}@"):
            ours.acquire()
        other.communicate(b"")
    with ours:
        pass


def test_query_of_the_own_lock_does_not_release_it(tmp_path: Path) -> None:
    """The console of a daemon queries the lock in the daemon's own process."""
    with StorageLock(tmp_path):
        assert storage_user(tmp_path) == f"{os.getpid()}@{socket.gethostname()}"
        with pytest.raises(AssertionError), held_elsewhere(tmp_path):
            """Another process cannot acquire the lock."""
    assert storage_user(tmp_path) == ""


def test_lost_lock_is_reacquired(tmp_path: Path) -> None:
    """Closing any descriptor of a file releases all locks that the process has on the file."""
    with StorageLock(tmp_path) as lock:
        os.close(os.open(lock.path, os.O_RDONLY))
        lock.keep()
        with pytest.raises(AssertionError), held_elsewhere(tmp_path):
            """Another process cannot acquire the lock."""


def test_lost_lock_held_by_another_process_is_not_reacquired(tmp_path: Path) -> None:
    lock = StorageLock(tmp_path)
    lock.acquire()
    os.close(os.open(lock.path, os.O_RDONLY))
    with held_elsewhere(tmp_path) as other:
        with pytest.raises(StorageError, match=f"held by {other.pid}@"):
            lock.keep()
        assert not lock.held
        assert lock.path.read_text().startswith(f"{other.pid}@")
        other.communicate(b"")


def test_error_for_a_second_process_names_the_holder(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    with pytest.raises(StorageError, match=f"held by {holder.pid}@") as caught:
        StorageLock(tmp_path).acquire()
    assert caught.value.exit_code == ExitCode.STORAGE
    assert caught.value.hint


def test_lock_of_a_killed_process_is_released(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    holder.kill()
    holder.wait()
    with StorageLock(tmp_path):
        pass


def test_file_removed_during_locking_is_not_used_as_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = StorageLock(tmp_path)
    real, removed = fcntl.lockf, []

    def lockf(descriptor: int, flags: int) -> None:
        if not removed:
            removed.append(lock.path.unlink())
        real(descriptor, flags)

    monkeypatch.setattr(fcntl, "lockf", lockf)
    with lock:
        assert removed
        assert lock.path.exists()


def test_second_lock_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with StorageLock(tmp_path), pytest.raises(StorageError, match="held by this process"):
        StorageLock(tmp_path).acquire()
    with StorageLock(tmp_path):
        pass


def test_another_path_to_the_directory_is_the_same_lock(tmp_path: Path) -> None:
    directory = tmp_path / "nn"
    directory.mkdir()
    (tmp_path / "link").symlink_to(directory)
    with StorageLock(directory), pytest.raises(StorageError, match="this process") as caught:
        StorageLock(tmp_path / "link").acquire()
    # no other process has to be found
    assert "same directory" in caught.value.hint


def test_release_twice_is_harmless(tmp_path: Path) -> None:
    lock = StorageLock(tmp_path)
    lock.release()
    lock.acquire()
    lock.release()
    lock.release()


def test_a_missing_directory_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be locked"):
        StorageLock(tmp_path / "absent").acquire()


def test_lock_can_be_retried_after_a_failure(tmp_path: Path) -> None:
    (tmp_path / "in_use.lock").mkdir()
    lock = StorageLock(tmp_path)
    with pytest.raises(StorageError, match="cannot be locked"):
        lock.acquire()
    (tmp_path / "in_use.lock").rmdir()
    with lock:
        pass


def test_fifo_instead_of_a_lock_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in_use.lock")
    with pytest.raises(StorageError, match=r"in_use\.lock cannot be locked: it is not a regular file"):
        StorageLock(tmp_path).acquire()
    with pytest.raises(StorageError, match=r"in_use\.lock cannot be read: it is a FIFO"):
        storage_user(tmp_path)
    (tmp_path / "in_use.lock").unlink()
    with StorageLock(tmp_path):
        pass


def test_undeletable_lock_file_does_not_block_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(path: Path, *, missing_ok: bool) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    with monkeypatch.context() as patch, StorageLock(tmp_path):
        patch.setattr(Path, "unlink", broken)
    assert "in_use.lock cannot be removed, but this does not block other processes" in caplog.text
    with StorageLock(tmp_path) as lock:
        assert lock.held
    assert not lock.path.exists()


@pytest.mark.parametrize("step", ["fstat", "ftruncate", "pwrite", "pread"])
def test_error_of_any_step_names_the_file_and_leaks_no_descriptor(
    tmp_path: Path, step: str, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    if step != "pread":
        # the holder is read only if another process has the lock, so that process ends at this point
        holder.communicate(b"")
    descriptors = set(Path("/proc/self/fd").iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(os, step, fail)
        with pytest.raises(StorageError) as caught:
            StorageLock(tmp_path).acquire()
    assert str(caught.value) == (
        f"{tmp_path / 'in_use.lock'} is held by another process"
        if step == "pread"
        else f"{tmp_path / 'in_use.lock'} cannot be locked: Input/output error"
    )
    assert set(Path("/proc/self/fd").iterdir()) == descriptors


@pytest.mark.parametrize(("code", "hint"), [(errno.ENOLCK, "the lock service"), (errno.EIO, "its disk works")])
def test_hint_for_a_file_system_without_locks_names_its_lock_service(
    tmp_path: Path, code: int, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "lockf", fail)
    with pytest.raises(StorageError, match=os.strerror(code)) as caught:
        StorageLock(tmp_path).acquire()
    assert hint in caught.value.hint
