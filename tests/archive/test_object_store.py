"""Stores of an archive's objects: file systems of fsspec, and interrupted or refused writes."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar
from unittest import mock

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from archive.adding import add_directory
from archive.archive import open_archive
from archive.checking import check_archive
from archive.errors import ArchiveError
from archive.object_store import FsspecStore
from tests.archive.restored import restored
from tests.archive.storage import saved, segment, storage
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir


def test_archive_in_an_fsspec_store(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    url = f"memory://{tmp_path.name}/archive"
    with open_archive(url) as archive:
        add_directory(archive, nn)
        assert "/a" in saved(restored(archive, last, tmp_path / "out"), last)
        assert check_archive(archive).sound


class SlowUploads(MemoryFileSystem):
    """A file system that, like SFTP, shows incomplete uploads; an upload may be interrupted."""

    protocol = "slow"
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    breaks = False

    def put_file(self, lpath: str, rpath: str, **_: object) -> None:
        content = Path(lpath).read_bytes()
        self.pipe_file(rpath, content[: len(content) // 2] if self.breaks else content)
        if self.breaks:
            raise OSError("the connection was lost")


class CrossedUploads(MemoryFileSystem):
    """An object store in which another writer stores an object after this writer has found that the object does not
    exist.
    """

    cachable = False
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def __init__(self, *, conditional: bool, crossed: bool) -> None:
        super().__init__()
        self.conditional, self.pending = conditional, crossed

    def exists(self, path: str, **options: object) -> bool:
        found = super().exists(path, **options)
        if self.pending:
            self.pending = False
            self.pipe_file(path, b"theirs")
        return bool(found)

    def put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **_: object) -> None:
        if mode != "overwrite" and not self.conditional:
            raise NotImplementedError("a header implies functionality that is not implemented")
        self.pipe_file(rpath, Path(lpath).read_bytes(), mode=mode)


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize(("crossed", "content"), [(True, b"theirs"), (False, b"ours")])
def test_contested_object_is_not_replaced(tmp_path: Path, conditional: bool, crossed: bool, content: bytes) -> None:
    files = CrossedUploads(conditional=conditional, crossed=crossed)
    store = FsspecStore("memory://archive", files, f"/{tmp_path.name}")
    (tmp_path / "a").write_bytes(b"ours")
    store.put("archive.json", tmp_path / "a", contested=True)
    assert store.read("archive.json") == content


def test_interrupted_upload_is_not_visible(tmp_path: Path) -> None:
    files = SlowUploads()
    store = FsspecStore("slow://archive", files, "/archive")
    (tmp_path / "a").write_bytes(b"content")
    files.breaks = True
    with pytest.raises(ArchiveError, match="the connection was lost"):
        store.put("edits/a", tmp_path / "a")
    assert store.sizes("edits") == {}
    (left,) = store.incoming()
    store.remove(left)
    files.breaks = False
    store.put("edits/a", tmp_path / "a")
    assert (store.read("edits/a"), store.incoming(), (tmp_path / "a").exists()) == (b"content", [], False)


class RefusedRenames(SlowUploads):
    """A file system on which, as on WebHDFS, a rename may silently have no effect."""

    protocol = "refused"
    refuses = True

    def mv(self, path1: str, path2: str, **named: object) -> None:
        if not self.refuses:
            super().mv(path1, path2, **named)


def test_silently_refused_rename_is_an_error(tmp_path: Path) -> None:
    files = RefusedRenames()
    store = FsspecStore("refused://user:password@host/archive", files, "/refused")
    (tmp_path / "a").write_bytes(b"content")
    with pytest.raises(ArchiveError, match=r"refused://\*\*\*@host/archive/edits/a cannot be written: .*not renamed"):
        store.put("edits/a", tmp_path / "a")
    assert ((tmp_path / "a").exists(), store.location) == (True, "refused://***@host/archive")
    files.refuses = False
    store.put("edits/a", tmp_path / "a")
    assert store.read("edits/a") == b"content"


def test_file_system_errors_contain_no_credentials() -> None:
    files = mock.Mock(protocol="abfs")
    files.ls.side_effect = files.open.side_effect = RuntimeError("https://u:p@a/c?sv=1&sig=abc: forbidden")
    store = FsspecStore("abfs://u:p@a/c?sig=abc", files, "/c")
    for act in (lambda: store.sizes("edits"), lambda: store.read("edits/x")):
        with pytest.raises(ArchiveError) as caught:
            act()
        assert "***@a/c?sv=1&sig=***" in caught.value.message
        assert "abc" not in caught.value.message
