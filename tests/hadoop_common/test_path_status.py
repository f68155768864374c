"""The status of paths, including paths on a disk that fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hadoop_common.path_status import exists, is_directory, is_file


def test_files_directories_and_missing_paths_are_distinguished(tmp_path: Path) -> None:
    file, link, dangling = tmp_path / "file", tmp_path / "link", tmp_path / "dangling"
    file.write_bytes(b"")
    link.symlink_to(file)
    dangling.symlink_to(tmp_path / "missing")
    found = [(exists(each), is_directory(each), is_file(each)) for each in (tmp_path, file, link)]
    assert found == [(True, True, False), (True, False, True), (True, False, True)]
    for missing in (dangling, tmp_path / "missing", file / "below"):
        assert not exists(missing)
        assert not is_directory(missing)
        assert not is_file(missing)


@pytest.mark.parametrize("check", [exists, is_directory, is_file])
def test_a_path_on_a_failing_disk_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: object
) -> None:
    def fail(path: object, **_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    assert callable(check)
    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(OSError, match="Input/output error"):
        check(tmp_path)
