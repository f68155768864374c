"""Direct reads return the bytes of a file, or nothing if the file cannot be read in this way."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format import direct_reader
from image_format.direct_reader import DirectReader, SectionReads

SIZE = 3 * 4096 + 17


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("direct") / "file"
    path.write_bytes(np.random.default_rng(1).bytes(SIZE))
    return path


def opened(path: Path) -> DirectReader:
    reader = DirectReader.open(path, path.stat())
    if reader is None:
        pytest.skip("the file system of the temporary folder does not support O_DIRECT")
    return reader


@given(st.integers(0, SIZE), st.integers(0, SIZE))
def test_ranges_equal_the_bytes_of_the_file(path: Path, one: int, other: int) -> None:
    start, stop = min(one, other), max(one, other)
    reader = opened(path)
    try:
        found = reader.read(start, stop)
        assert found is not None
        assert found.tobytes() == path.read_bytes()[start:stop]
        assert not found.flags.writeable
        inside = SectionReads(reader, start).read(0, stop - start)
        assert inside is not None
        assert inside.tobytes() == path.read_bytes()[start:stop]
    finally:
        reader.close()


def test_a_file_that_was_replaced_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5000)
    status = path.stat()
    (tmp_path / "other").write_bytes(b"y" * 5000)
    (tmp_path / "other").rename(path)
    assert DirectReader.open(path, status) is None
    assert DirectReader.open(tmp_path / "missing", status) is None


def test_a_range_beyond_the_end_of_a_truncated_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 9000)
    reader = opened(path)
    os.truncate(path, 5000)
    assert reader.read(4096, 9000) is None
    found = reader.read(4096, 5000)
    assert found is not None
    assert found.tobytes() == b"x" * 904
    reader.close()


def test_a_file_exceeds_the_page_cache_above_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_reader, "available_memory", lambda: 1000)
    assert [direct_reader.exceeds_page_cache(size) for size in (500, 501)] == [False, True]
    monkeypatch.setattr(direct_reader, "available_memory", lambda: 0)
    assert not direct_reader.exceeds_page_cache(1 << 60)


def test_file_system_that_cannot_read_directly_is_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr("image_format.direct_reader.os.preadv", refuse)
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    assert DirectReader.open(path, path.stat()) is None
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before
