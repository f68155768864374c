from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.direct_file import DirectFile
from tests.depth import examples

DATA = bytes(range(256)) * 80_000
"""More than two buffers of 8 MiB, and no whole number of blocks more."""


def write_all(path: Path, parts: list[bytes]) -> bool:
    """Write parts; returns whether O_DIRECT was in use until the end."""
    file = DirectFile(path)
    for part in parts:
        file.write(memoryview(part))
    direct = bool(fcntl.fcntl(file._descriptor, fcntl.F_GETFL) & os.O_DIRECT)
    file.sync()
    file.close()
    return direct


@examples(25)
@given(st.lists(st.integers(0, 6_000_000), max_size=6))
def test_parts_of_any_size(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    path = tmp_path_factory.mktemp("direct") / "image"
    parts = [DATA[index : index + size] for index, size in enumerate(sizes)]
    write_all(path, parts)
    assert path.read_bytes() == b"".join(parts)


def test_a_file_that_is_there_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(bytes(len(DATA) * 2))
    write_all(path, [DATA])
    assert path.read_bytes() == DATA


def refuse_direct(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """`os.open` or `os.write` refuse O_DIRECT, as some file systems do; returns what was refused."""
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


@pytest.mark.parametrize("name", ["open", "write"])
def test_a_file_system_without_direct_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = tmp_path / "image"
    refused = refuse_direct(monkeypatch, name)
    assert not write_all(path, [DATA[:100], DATA[100:], DATA])
    assert path.read_bytes() == DATA * 2
    # asked once, not again for every write
    assert refused == [name]


def test_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "image"
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, part: write(fd, part[: max(1, len(part) // 2 // 512 * 512)]))
    write_all(path, [DATA, b"end"])
    assert path.read_bytes() == DATA + b"end"


def test_another_error_is_not_taken_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, part: memoryview) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "write", full)
    file = DirectFile(tmp_path / "image")
    with pytest.raises(OSError, match="no space left"):
        file.write(memoryview(DATA))
    file.close()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DirectFile(tmp_path / "absent" / "image")
