"""Files of a newer release in storage directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.file_formats import NewerFormatError, refuse_newer_formats
from hadoop_common.exit_codes import ExitCode
from hadoop_common.storage_lock import StorageLock
from tests.checkpointer.storage_support import recorded_directory

OWN_FILES = [
    "current/provenance.json",
    "current/start_over.json",
    "storage_directories.json",
    "checkpointer-silences.json",
    "checkpointer-any",
]


@pytest.mark.parametrize("name", OWN_FILES)
def test_file_of_a_newer_release_prevents_the_start_and_is_kept(tmp_path: Path, name: str) -> None:
    old, root = recorded_directory(tmp_path / "old"), recorded_directory(tmp_path / "nn")
    (root / name).write_text('{\n "format": 2,\n "what": "nobody knows"}')
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(NewerFormatError, match=f"{name} has format 2, which a newer release wrote") as refused:
        StorageDirectories([old, root]).lock()
    assert (refused.value.exit_code, "docs/upgrade.md" in refused.value.hint) == (ExitCode.UNSUPPORTED, True)
    assert {path: path.read_bytes() for path in before} == before
    with StorageLock(old), StorageLock(root):
        pass


@pytest.mark.parametrize("text", ['{"format": 1}', '{"silence": {"format": 2}}', "", "\0\1", '{"format": "two"}'])
def test_current_and_damaged_files_have_no_newer_format(tmp_path: Path, text: str) -> None:
    root = recorded_directory(tmp_path / "nn")
    for name in OWN_FILES[3:]:
        (root / name).write_text(text)
    refuse_newer_formats(root)


def test_fifo_is_not_read_for_its_format(tmp_path: Path) -> None:
    root = recorded_directory(tmp_path / "nn")
    os.mkfifo(root / "checkpointer-any")
    ends = os.open(root / "checkpointer-any", os.O_RDWR)
    try:
        os.write(ends, b'{"format": 2}'.ljust(1000))
        refuse_newer_formats(root)
    finally:
        os.close(ends)
