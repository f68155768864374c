from __future__ import annotations

import os
from pathlib import Path

import pytest

from hadoop_common.durable import rename_durably, write_atomically


def test_content_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "seen_txid"
    write_atomically(path, b"1\n")
    write_atomically(path, b"2\n")
    assert path.read_bytes() == b"2\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
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
