"""A process computes an image's digest only once while the file is unchanged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from image_format import reader
from image_format.errors import DigestMismatchError
from image_format.known_digests import identity_of, known_digest, remember_digest
from image_format.md5_file import write_md5_file
from image_format.reader import BegunDigest, ImageFile
from image_format.summary import parse_file
from tests.image_format.image_support import build_image, minimal_sections

DATA = build_image(minimal_sections())
PLACE = (
    max(entry.offset + entry.length for entry in parse_file(memoryview(DATA), "").sections if entry.name == "INODE") - 1
)
"""The last byte of an inode, which is not read when the image is opened."""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "fsimage_0000000000000000007"
    path.write_bytes(DATA)
    write_md5_file(path, hashlib.md5(DATA).digest())
    return path


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every digest that is computed from an image's bytes."""
    taken: list[bytes] = []
    take = ImageFile._take_digest

    def counted(self: ImageFile, before_slice: Callable[[], object], begun: BegunDigest) -> bytes:
        taken.append(take(self, before_slice, begun))
        return taken[-1]

    monkeypatch.setattr(reader.ImageFile, "_take_digest", counted)
    return taken


def test_a_verified_image_is_not_read_again(image: Path, digests: list[bytes]) -> None:
    for _ in range(3):
        ImageFile.open(image).close()
    assert digests == [hashlib.md5(DATA).digest()]


def test_an_image_is_not_read_after_it_was_written(image: Path, digests: list[bytes]) -> None:
    remember_digest(image, hashlib.md5(DATA).digest())
    ImageFile.open(image).close()
    assert digests == []


def test_a_known_digest_is_compared_with_the_digest_file(image: Path, digests: list[bytes]) -> None:
    ImageFile.open(image).close()
    write_md5_file(image, bytes(16))
    with pytest.raises(DigestMismatchError, match="its MD5 is"):
        ImageFile.open(image)


def damage(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.seek(PLACE)
        stream.write(bytes([DATA[PLACE] ^ 1]))


def replace(path: Path) -> None:
    """Replace the file with another file of the same size and modification time."""
    times = path.stat()
    other = path.with_name("other")
    other.write_bytes(DATA)
    damage(other)
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.rename(path)


def damage_and_hide(path: Path) -> None:
    times = path.stat()
    damage(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("touch", [damage, damage_and_hide, replace])
def test_a_touched_file_is_read_again(image: Path, digests: list[bytes], touch: object) -> None:
    ImageFile.open(image).close()
    assert callable(touch)
    touch(image)
    with pytest.raises(DigestMismatchError, match="its MD5 is"):
        ImageFile.open(image)
    assert len(digests) == 2


def test_a_file_damaged_while_it_is_mapped_is_read_again(image: Path, digests: list[bytes]) -> None:
    ImageFile.open(image).close()
    with ImageFile.open(image, verify_md5=False) as opened:
        damage_and_hide(image)
        with pytest.raises(DigestMismatchError, match="its MD5 is"):
            opened.verify_md5()


def test_the_digest_of_a_missing_file_is_not_remembered(tmp_path: Path) -> None:
    remember_digest(tmp_path / "absent", bytes(16))
    (tmp_path / "absent").write_bytes(b"")
    assert known_digest(identity_of((tmp_path / "absent").stat())) is None
