from __future__ import annotations

import errno
import hashlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.exit_codes import ExitCode
from image_format.errors import ImageStorageError
from image_format.output import DigestingFileSet
from image_format.reader import ImageFile
from image_format.writer import ImageWriter
from tests.depth import examples
from tests.image_format.image_support import minimal_sections

DATA = bytes(range(256)) * 50_000


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> object:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def full_disk(folder: Path) -> Path:
    """Return a path whose writes fail as on a full disk; removing it removes only the link."""
    path = folder / "full"
    path.symlink_to("/dev/full")
    return path


def targets(folder: Path, count: int) -> list[Path]:
    return [folder / f"image{index}" for index in range(count)]


@given(st.lists(st.binary(max_size=5000), max_size=8), st.integers(1, 3))
@examples(25)
def test_every_file_gets_every_byte(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], count: int) -> None:
    paths = targets(tmp_path_factory.mktemp("out"), count)
    with DigestingFileSet(paths) as out:
        for piece in pieces:
            out.write(piece)
        written = out.close()
    data = b"".join(pieces)
    assert written.paths == tuple(paths)
    assert written.failures == ()
    assert written.size == len(data)
    assert written.md5 == hashlib.md5(data).digest()
    assert all(path.read_bytes() == data for path in paths)


def test_large_buffers_overwrite_an_existing_file(tmp_path: Path) -> None:
    (path,) = targets(tmp_path, 1)
    path.write_bytes(bytes(len(DATA) * 10))
    with DigestingFileSet([path]) as out:
        for _ in range(4):
            out(memoryview(DATA))
        assert out.close().md5 == hashlib.md5(DATA * 4).digest()
    assert path.read_bytes() == DATA * 4


def test_the_digest_covers_all_bytes_when_it_is_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = targets(tmp_path, 2)
    expected, md5, seen = hashlib.md5(DATA).digest(), hashlib.md5(), []
    monkeypatch.setattr("hashlib.md5", lambda **_: md5)
    with DigestingFileSet(paths) as out:
        out.write(DATA)
        written = out.close(lambda: seen.append(md5.digest()))
    assert seen == [expected] == [written.md5]
    assert all(path.read_bytes() == DATA for path in written.paths)


@pytest.mark.parametrize("full", [False, True])
def test_files_without_confirmation_are_removed(tmp_path: Path, full: bool) -> None:
    paths = [*targets(tmp_path, 2), *([full_disk(tmp_path)] if full else [])]

    def refuse() -> None:
        raise KeyboardInterrupt("no")

    with pytest.raises(KeyboardInterrupt, match="no"), DigestingFileSet(paths) as out:
        out.write(DATA)
        out.close(refuse)
    assert list(tmp_path.iterdir()) == []


def test_no_confirmation_is_requested_if_all_disks_fail(tmp_path: Path) -> None:
    asked: list[None] = []
    out = DigestingFileSet([full_disk(tmp_path)])
    with pytest.raises(ImageStorageError, match="No space left"), out:
        # more bytes than are in flight at a time
        out.write(bytes(32 << 20))
        while not out.failures:
            os.sched_yield()
        out.close(lambda: asked.append(None))
    assert asked == []


def test_a_buffer_that_is_reused_is_copied(tmp_path: Path) -> None:
    paths = targets(tmp_path, 2)
    buffer = bytearray(100_000)
    with DigestingFileSet(paths) as out:
        for value in range(100):
            buffer[:] = bytes([value]) * len(buffer)
            out.write(buffer)
        out.close()
    expected = b"".join(bytes([value]) * len(buffer) for value in range(100))
    assert [path.read_bytes() for path in paths] == [expected, expected]


def test_an_image_can_be_written_to_a_file_set(tmp_path: Path) -> None:
    path = tmp_path / "fsimage_0000000000000000007"
    with DigestingFileSet([path]) as out:
        writer = ImageWriter(out, -63)
        for name, body in minimal_sections():
            writer.copy_section(name, body)
        writer.finish()
        size = out.close().size
    with ImageFile.open(path, verify_md5=False) as image:
        assert image.size == size


def test_a_file_that_cannot_be_created_is_dropped(tmp_path: Path) -> None:
    good = tmp_path / "good"
    with DigestingFileSet([tmp_path / "absent" / "image", good]) as out:
        out.write(DATA)
        written = out.close()
    assert written.paths == (good,)
    assert [failure.path.parent.name for failure in written.failures] == ["absent"]
    assert isinstance(written.failures[0].error, FileNotFoundError)
    assert good.read_bytes() == DATA


def test_a_full_disk_drops_one_file(tmp_path: Path) -> None:
    full, good = full_disk(tmp_path), tmp_path / "good"
    with DigestingFileSet([full, good]) as out:
        for _ in range(30):
            out.write(DATA)
        written = out.close()
    assert written.paths == (good,)
    assert [failure.path for failure in written.failures] == [full]
    assert isinstance(written.failures[0].error, OSError)
    assert written.failures[0].error.errno == errno.ENOSPC
    assert written.md5 == hashlib.md5(good.read_bytes()).digest()
    assert not full.is_symlink()


def test_fsync_failure_drops_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = targets(tmp_path, 2)
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve() == bad:
            raise OSError(errno.EIO, "input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with DigestingFileSet([good, bad]) as out:
        out.write(DATA)
        written = out.close()
    assert written.paths == (good,)
    assert [failure.path for failure in written.failures] == [bad]
    assert list(tmp_path.iterdir()) == [good]


def test_the_stream_stops_if_all_files_fail(tmp_path: Path) -> None:
    first, second = full_disk(tmp_path), tmp_path / "absent" / "image"
    with (
        pytest.raises(ImageStorageError, match="could not be written in any directory") as raised,
        DigestingFileSet([first, second]) as out,
    ):
        for _ in range(30):
            out.write(DATA)
        out.close()
    assert str(first) in raised.value.message
    assert str(second) in raised.value.message
    assert raised.value.exit_code == ExitCode.STORAGE
    assert raised.value.hint
    assert list(tmp_path.iterdir()) == []


def test_failure_at_close_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(ImageStorageError, match="input/output error"), DigestingFileSet(targets(tmp_path, 2)) as out:
        out.write(DATA)
        out.close()
    assert list(tmp_path.iterdir()) == []


def test_a_set_without_a_writable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ImageStorageError, match="could not be written in any directory"):
        DigestingFileSet([tmp_path / "absent" / "image"])
    with pytest.raises(ValueError, match="no file to write"):
        DigestingFileSet([])


def test_abort_leaves_no_files(tmp_path: Path) -> None:
    out = DigestingFileSet(targets(tmp_path, 2))
    out.write(DATA)
    out.abort()
    out.abort()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="the files are closed"):
        out.write(b"")
    with pytest.raises(ValueError, match="the files are closed"):
        out.close()


def test_an_exception_aborts(tmp_path: Path) -> None:
    with pytest.raises(KeyError), DigestingFileSet(targets(tmp_path, 2)) as out:
        out.write(DATA)
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_abort_after_close_keeps_the_files(tmp_path: Path) -> None:
    paths = targets(tmp_path, 2)
    with DigestingFileSet(paths) as out:
        out.close()
        out.abort()
    assert sorted(tmp_path.iterdir()) == paths


def test_the_error_names_a_file_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "read-only file system")

    (path,) = targets(tmp_path, 1)
    out = DigestingFileSet([path])
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ImageStorageError, match=r"could not be removed: .*image0: .*read-only file system"):
        out.abort()
