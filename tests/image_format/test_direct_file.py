from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common import file_ranges
from image_format import direct_file
from image_format.direct_file import DirectFile, WriteModeChooser
from tests.depth import examples

DATA = bytes(range(256)) * 80_000
"""More than four buffers, and not a whole number of blocks."""


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode changes within the data."""
    monkeypatch.setattr(direct_file, "_STRETCH", 2 * direct_file._BUFFER)


def write_all(path: Path, parts: list[bytes]) -> None:
    file = DirectFile(path)
    try:
        for part in parts:
            file.write(memoryview(part))
        file.sync()
    finally:
        file.close()


@pytest.fixture(params=["direct", "cached", "in turn", "as it is"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode of writing: direct, cached, both modes alternately, or as the chooser decides."""
    name = request.param

    def ended(self: WriteModeChooser, size: int, seconds: float, waited: float) -> None:
        self.direct = name == "direct" or (name == "in turn" and not self.direct)

    if name == "cached":
        monkeypatch.setattr(direct_file, "_open_direct", lambda path: -1)
    if name != "as it is":
        monkeypatch.setattr(WriteModeChooser, "ended", ended)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("supported", [True, False])
def test_parts_of_any_size_are_written(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, supported: bool
) -> None:
    """Some file systems do not support the system calls on ranges."""

    def refuse(*_: object) -> int:
        ctypes.set_errno(errno.EOPNOTSUPP)
        return -1

    if not supported:
        monkeypatch.setattr(file_ranges, "_LIBC", SimpleNamespace(sync_file_range=refuse, fallocate=refuse))

    @examples(25)
    @given(st.lists(st.integers(0, 6_000_000), max_size=8))
    def check(sizes: list[int]) -> None:
        path = tmp_path_factory.mktemp("direct") / "image"
        parts = [DATA[index : index + size] for index, size in enumerate(sizes)]
        write_all(path, parts)
        assert path.read_bytes() == b"".join(parts)
        path.unlink()

    check()


@pytest.mark.usefixtures("way")
def test_an_existing_file_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(bytes(len(DATA) * 2))
    write_all(path, [DATA])
    assert path.read_bytes() == DATA


def refuse_direct(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Make `os.open` or `os.pwrite` refuse O_DIRECT, as some file systems do; return the refused calls."""
    real: Callable[..., int] = getattr(os, name)
    refused: list[str] = []

    def call(target: int | Path, argument: object, *more: int) -> int:
        flags = argument if name == "open" else fcntl.fcntl(int(str(target)), fcntl.F_GETFL)
        assert isinstance(flags, int)
        if flags & os.O_DIRECT:
            refused.append(name)
            raise OSError(errno.EINVAL, "invalid argument")
        return real(target, argument, *more)

    monkeypatch.setattr(os, name, call)
    return refused


@pytest.mark.parametrize("name", ["open", "pwrite"])
def test_buffered_writes_are_used_if_direct_writes_are_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "image"
    refused = refuse_direct(monkeypatch, name)
    write_all(path, [DATA[:100], DATA[100:], DATA])
    assert path.read_bytes() == DATA * 2
    # refused only for the writes that were in flight, not again for every later write
    assert 1 <= len(refused) <= direct_file._IN_FLIGHT


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "image"
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, part, at: pwrite(fd, part[: max(1, len(part) // 2 // 512 * 512)], at))
    write_all(path, [DATA, b"end"])
    assert path.read_bytes() == DATA + b"end"


@pytest.mark.parametrize("number", [1, 4, 5])
def test_an_error_of_a_background_write_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    pwrite, calls = os.pwrite, iter(range(1, 1 << 20))

    def full(descriptor: int, part: memoryview, at: int) -> int:
        if next(calls) == number:
            raise OSError(errno.ENOSPC, "no space left on device")
        return pwrite(descriptor, part, at)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="no space left"):
        write_all(tmp_path / "image", [DATA])


def test_several_writes_are_in_flight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_file, "_STRETCH", 64 * direct_file._BUFFER)
    pwrite, all_there = os.pwrite, threading.Barrier(direct_file._IN_FLIGHT, timeout=600)

    def wait_for_others(descriptor: int, part: memoryview, at: int) -> int:
        if len(part) == direct_file._BUFFER:
            all_there.wait()
        return pwrite(descriptor, part, at)

    monkeypatch.setattr(os, "pwrite", wait_for_others)
    write_all(tmp_path / "image", [DATA[: direct_file._IN_FLIGHT * direct_file._BUFFER]])


def test_no_space_is_reserved_on_an_almost_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_file, "_MIN_FREE", 1 << 62)
    monkeypatch.setattr(direct_file, "reserve", lambda *_: pytest.fail("room was taken"))
    write_all(tmp_path / "image", [DATA])


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DirectFile(tmp_path / "absent" / "image")
