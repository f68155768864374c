"""A limit on memory does not change the image; missing space for the files causes one clear error, and no files
remain.
"""

from __future__ import annotations

import errno
import gc
import itertools
import os
from pathlib import Path

import pytest

from checkpointer.merging.offline import merge_directory, plan_directory
from engine.saver import MergeResult
from engine.settings import MergeSettings
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.errors import HdfsError
from image_format.memory_limit import MemoryLimit
from site_config.merge_settings import memory_limit
from tests.bench.made import make
from tests.cli_runner import fingerprint, run_cli


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    make(tmp_path / "name", "deletes")
    return tmp_path / "name"


def merged(storage: Path, memory: MemoryLimit | None) -> MergeResult:
    result = merge_directory(plan_directory(storage), MergeSettings(memory=memory or MemoryLimit()))
    for path in result.saved.paths:
        path.unlink()
        path.with_name(f"{path.name}.md5").unlink()
    return result


def open_files(folder: Path) -> list[str]:
    """Return the files in a folder that this process has open or mapped."""
    gc.collect()
    found = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [each for each in [*found, *maps] if f"{folder}/" in each]


def test_memory_limit_does_not_change_the_image(storage: Path, tmp_path: Path) -> None:
    (spill := tmp_path / "spill").mkdir()
    plain = merged(storage, None)
    for size in (0, 400_000):
        limited = merged(storage, MemoryLimit(size, spill))
        assert (limited.saved.md5, limited.inodes) == (plain.saved.md5, plain.inodes)
    assert list(spill.iterdir()) == []
    assert open_files(tmp_path) == []


@pytest.mark.parametrize("allowed", [0, 2, 6, 8])
def test_full_spill_disk_ends_the_merge_and_leaves_no_files(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    (spill := tmp_path / "spill").mkdir()
    files = fingerprint(storage)
    calls, allocate = itertools.count(), os.posix_fallocate

    def refuse(descriptor: int, offset: int, size: int) -> None:
        if next(calls) >= allowed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(HdfsError, match=f"memory limit into {spill}: .*No space left") as caught:
        merge_directory(plan_directory(storage), MergeSettings(memory=MemoryLimit(0, spill)))
    assert caught.value.hint.startswith("Free space")
    del caught
    assert fingerprint(storage) == files
    assert list(spill.iterdir()) == []
    assert open_files(tmp_path) == []


def test_memory_options_of_merge(storage: Path, tmp_path: Path) -> None:
    for text, what in (("63m", "must be at least 64m"), ("much", "is not a size")):
        outcome = run_cli("merge", storage, "--memory", text)
        assert outcome.code == 2
        assert what in outcome.err
    outcome = run_cli("merge", storage, "--memory", "64m", "--spill-dir", tmp_path)
    assert outcome.code == 0, outcome.err


def test_memory_limit_keys(tmp_path: Path) -> None:
    def settings(**values: str) -> MemoryLimit:
        keys = {"size": "checkpointer.memory", "folder": "checkpointer.memory.dir"}
        return memory_limit(Configuration.from_mapping({keys[name]: value for name, value in values.items()}, {}))

    assert settings() == MemoryLimit()
    assert settings(size="2g", folder=str(tmp_path)) == MemoryLimit(2 << 30, tmp_path)
    for wrong in ({"size": "1m"}, {"size": "x"}, {"folder": "relative"}, {"folder": "/a,/b"}):
        with pytest.raises(ConfigurationError, match=r"checkpointer\.memory"):
            settings(**wrong)
