from __future__ import annotations

import os
from pathlib import Path

import pytest

from hadoop_common.durable import make_with_mode, refuse_special, rename_durably, write_atomically
from hadoop_common.file_faults import FileFaultError, hint_for


def test_atomic_write_replaces_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "seen_txid"
    write_atomically(path, b"1\n")
    write_atomically(path, b"2\n")
    assert path.read_bytes() == b"2\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failed_write_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "seen_txid"
    write_atomically(path, b"1\n")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(*((os, "fsync", fail) if step == "fsync" else (Path, "replace", fail)))
    with pytest.raises(OSError, match="Input/output error"):
        write_atomically(path, b"2\n")
    monkeypatch.undo()
    assert path.read_bytes() == b"1\n"
    assert list(tmp_path.iterdir()) == [path]


def test_the_directory_is_synced_after_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"x")
    synced: list[bool] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(target.exists()), real(descriptor)))
    rename_durably(source, target)
    assert synced == [True]
    assert not source.exists()


def test_a_device_or_fifo_is_not_replaced(tmp_path: Path) -> None:
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to(fifo)
    for path in (fifo, link):
        with pytest.raises(FileFaultError, match="does not replace a device, FIFO or socket") as caught:
            write_atomically(path, b"x")
        assert caught.value.hint == hint_for(caught.value, "Free space.") == "Specify a regular file."
    (tmp_path / "new").write_bytes(b"x")
    with pytest.raises(FileFaultError, match="does not replace"):
        rename_durably(tmp_path / "new", fifo)
    assert fifo.is_fifo()
    assert link.is_symlink()


@pytest.mark.parametrize("name", ["null", "stdout", "tty", "a-name-that-is-free"])
def test_files_in_dev_are_not_replaced(name: str) -> None:
    with pytest.raises(FileFaultError, match="does not replace"):
        refuse_special(Path("/dev") / name)


def test_regular_files_links_and_missing_paths_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("missing")
    for name in ("file", "link", "dangling", "missing", "."):
        refuse_special(tmp_path / name)


def test_a_directory_that_another_process_creates_at_the_same_moment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, mkdir = tmp_path / "folder", Path.mkdir

    def second(path: Path, mode: int, *, exist_ok: bool = False) -> None:
        mkdir(path)
        mkdir(path, mode, exist_ok=exist_ok)

    monkeypatch.setattr(Path, "mkdir", second)
    make_with_mode(folder, 0o750)
    assert folder.stat().st_mode & 0o777 == 0o750
    monkeypatch.undo()
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_with_mode(tmp_path / "file", 0o750)
