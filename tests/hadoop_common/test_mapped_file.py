"""Files that change, block or contain holes while they are read."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from hadoop_common.mapped_file import MappedFile, ShrunkFileError, map_regular
from hadoop_common.regular_file import NotRegularError, SparseFileError, open_regular, read_regular

SIZE = 1 << 20


def mapped(path: Path) -> MappedFile:
    path.write_bytes(b"\1" * SIZE)
    found = map_regular(path)
    assert found is not None
    return found


READERS: dict[str, Callable[[MappedFile], object]] = {
    "copy": lambda content: content[:],
    "digest without the interpreter lock": lambda content: hashlib.md5(content).digest(),
    "search": lambda content: content.find(b"\2"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
def test_shrunk_file_is_an_error(tmp_path: Path, read: Callable[[MappedFile], object]) -> None:
    path = tmp_path / "file"
    with mapped(path) as content:
        os.truncate(path, 5000)
        read(content)
        assert content.lost == 8192
        path.write_bytes(b"\1" * SIZE)
        with pytest.raises(ShrunkFileError, match=r"file became shorter, or its disk failed, .* \(byte 8192\)"):
            content.check_whole()


def test_file_shrunk_within_its_last_page_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with mapped(path) as content:
        content.check_whole()
        os.truncate(path, SIZE - 3)
        with pytest.raises(ShrunkFileError, match=f"{SIZE - 3} bytes instead of {SIZE}"):
            content.check_whole()


def test_shrunk_file_error_replaces_its_consequence(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with mapped(path) as content, pytest.raises(ShrunkFileError) as caught, content.whole():
        os.truncate(path, 0)
        raise ValueError(content[0])
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_empty_file_has_no_mapping(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert map_regular(tmp_path / "empty") is None


def test_special_files_are_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, kind in ((tmp_path / "fifo", "a FIFO"), (Path("/dev/zero"), "a character device"), (tmp_path, "a dir")):
        with pytest.raises(NotRegularError, match=f"{path} cannot be read: it is {kind}"):
            open_regular(path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="No such device"):
            open_regular(tmp_path / "socket")


def test_symbolic_links_are_followed_only_if_allowed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as source:
        assert source.read() == b"content"
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "link", follow=False)


def test_small_file_is_read_up_to_the_size_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert read_regular(tmp_path / "file", 7) == b"content"
    with pytest.raises(NotRegularError, match="more than 6 bytes"):
        read_regular(tmp_path / "file", 6)


def test_sparse_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as out:
        for start in range(0, 1 << 30, 1 << 25):
            out.seek(start)
            out.write(b"\1")
        out.truncate(1 << 40)
    with pytest.raises(SparseFileError, match=f"of its {1 << 40} bytes"):
        map_regular(path)
