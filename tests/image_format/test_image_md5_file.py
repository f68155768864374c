from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import DigestMismatchError, ImageStorageError, MissingDigestError
from image_format.md5_file import format_md5, md5_of_file, md5_path, parse_md5, read_md5_file
from image_format.publish import place_image

NAME = "fsimage_0000000000000000042"
DIGEST = hashlib.md5(b"image").digest()


@given(st.binary(min_size=16, max_size=16))
def test_round_trip(digest: bytes) -> None:
    assert parse_md5(format_md5(digest, NAME), NAME) == digest


def test_directory_with_the_name_of_an_image_gets_no_digest_file(tmp_path: Path) -> None:
    (unfinished := tmp_path / "unfinished").write_bytes(b"image")
    (target := tmp_path / NAME).mkdir()
    with pytest.raises(OSError, match="cannot be renamed"):
        place_image(unfinished, target, bytes(16))
    assert sorted(tmp_path.iterdir()) == [target, unfinished]


def test_format_equals_that_of_md5sum() -> None:
    assert format_md5(DIGEST, NAME) == f"{DIGEST.hex()} *{NAME}\n".encode()


@pytest.mark.parametrize(
    "line",
    [
        "{} *{}",
        "{}  {}",
        "  {} *{}  \r\n",
        "{} *{}\nanything else",
        "{} *{}\ranything else",
        "{} */data/nn/current/{}\n",
        "{}  ./{}\n",
    ],
)
def test_accepted_forms_of_digest_files(line: str) -> None:
    assert parse_md5(line.format(DIGEST.hex(), NAME).encode(), NAME) == DIGEST


@pytest.mark.parametrize(
    "content", ["", "deadbeef", "\n{0} *{1}", "{0}*{1}", "{0} {1}", "{0} *", "X{0} *{1}", "{2} *{1}", "\xff *{1}"]
)
def test_malformed_digest_files_are_refused(content: str) -> None:
    data = content.format(DIGEST.hex(), NAME, DIGEST.hex().upper()).encode("latin-1")
    with pytest.raises(DigestMismatchError, match=r"side\.md5: .* is not a line of an MD5 file"):
        parse_md5(data, NAME, "side.md5")


@pytest.mark.parametrize("named", ["fsimage_1", f"/data/{NAME}/fsimage_1"])
def test_a_digest_file_of_another_file_is_refused(named: str) -> None:
    with pytest.raises(DigestMismatchError, match=f"names the file fsimage_1 instead of {NAME}"):
        parse_md5(format_md5(DIGEST, named), NAME)


@given(st.binary(max_size=100))
def test_any_content_is_parsed_or_refused(content: bytes) -> None:
    with pytest.raises(DigestMismatchError):
        parse_md5(content, NAME)


def test_digest_files_are_read_from_disk(tmp_path: Path) -> None:
    image = tmp_path / NAME
    image.write_bytes(b"image")
    with pytest.raises(MissingDigestError, match=f"expected {NAME}.md5"):
        read_md5_file(image)
    md5_path(image).write_bytes(format_md5(md5_of_file(image), NAME))
    assert read_md5_file(image) == DIGEST


def test_unreadable_files_are_storage_errors(tmp_path: Path) -> None:
    image = tmp_path / NAME
    md5_path(image).mkdir()
    with pytest.raises(ImageStorageError, match="cannot read"):
        read_md5_file(image)
    with pytest.raises(ImageStorageError, match="cannot read"):
        md5_of_file(tmp_path / "absent")
