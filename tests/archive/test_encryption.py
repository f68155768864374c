"""Encrypted archives and objects, and their keys."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.adding import add_directory
from archive.archive import Archive, open_archive
from archive.encryption import ArchiveKey, DecryptingStream, EncryptingStream
from archive.errors import ArchiveDamagedError, ArchiveError
from archive.object_store import FolderStore
from tests.archive.storage import saved, segment, storage
from tests.cli_runner import run_cli
from tests.depth import examples
from tests.engine.image_builder import BASE_TXID
from tests.engine.op_makers import mkdir


def test_large_encrypted_image_round_trip(tmp_path: Path) -> None:
    key = ArchiveKey(bytes(range(32)))
    archive = Archive(FolderStore(tmp_path / "archive"), key)
    content = [random.Random(number).randbytes(3 << 20) for number in range(2)]
    with archive.writing("images", "big") as out:
        for each in content:
            out.add(each)
        out.finish({})
    with archive.reading(out.stored.name) as reader:
        assert list(reader.chunks()) == content


def test_another_key_is_rejected(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    add_directory(Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(32))), nn)
    with pytest.raises(ArchiveError, match="does not contain the key of"):
        add_directory(Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(range(32)))), nn)


def test_encrypted_archive_requires_its_key(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/secret-name", 16386))
    key = tmp_path / "key"
    key.write_text("5a" * 32)
    key.chmod(0o600)
    words = ("--archive", tmp_path / "archive", "--key-file", key)
    assert run_cli("archive", "add", nn, *words).code == 0
    assert all(b"secret-name" not in path.read_bytes() for path in (tmp_path / "archive").rglob("*") if path.is_file())
    plain = run_cli("archive", "list", "--archive", tmp_path / "archive")
    assert (plain.code, "is encrypted" in plain.err, "--key-file" in plain.err) == (6, True, True)
    assert run_cli("archive", "restore", *words, "--txid", str(last), "--out", tmp_path / "out").code == 0
    assert "/secret-name" in saved(tmp_path / "out", last)


def test_key_for_an_unencrypted_archive_is_rejected(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
    with pytest.raises(ArchiveError, match="is not encrypted"):
        Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(32))).require()


KEY = ArchiveKey(bytes(range(32)))


@given(st.binary(max_size=3000), st.data())
@examples(100)
def test_encrypted_object_round_trip_requires_the_key(content: bytes, data: st.DataObject) -> None:
    out = io.BytesIO()
    with EncryptingStream(out, KEY) as stream:
        stream.write(content[:100])
        stream.write(content[100:])
    stored = out.getvalue()
    assert content[:16] not in stored or len(content) < 16
    plain = DecryptingStream(io.BytesIO(stored), KEY, "object")
    start = data.draw(st.integers(0, len(content)))
    plain.seek(start)
    assert plain.read() == content[start:]
    place = data.draw(st.integers(8, len(stored) - 1))
    damaged = stored[:place] + bytes([stored[place] ^ 1]) + stored[place + 1 :]
    if content:
        for other, key in ((damaged, KEY), (stored, ArchiveKey(bytes(32)))):
            with pytest.raises(ArchiveDamagedError):
                DecryptingStream(io.BytesIO(other), key, "object").read()


@pytest.mark.parametrize("size", [0, 7, 8, 39])
def test_object_that_ends_in_its_header_is_damaged(size: int) -> None:
    out = io.BytesIO()
    EncryptingStream(out, KEY).close()
    with pytest.raises(ArchiveDamagedError, match="header of an encrypted object"):
        DecryptingStream(io.BytesIO(out.getvalue()[:size]), KEY, "object")


def test_reordered_or_missing_chunks_are_detected() -> None:
    out = io.BytesIO()
    with EncryptingStream(out, KEY) as stream:
        stream.write(bytes(3 << 20))
    stored, step = out.getvalue(), (1 << 20) + 16
    first = stored[:40] + stored[40 + step : 40 + 2 * step] + stored[40 : 40 + step] + stored[40 + 2 * step :]
    for damaged in (first, stored[: 40 + 2 * step]):
        with pytest.raises(ArchiveDamagedError):
            DecryptingStream(io.BytesIO(damaged), KEY, "object").read()


def test_key_file_must_be_private_and_have_64_digits(tmp_path) -> None:
    path = tmp_path / "key"
    path.write_text("00" * 32 + "\n")
    path.chmod(0o600)
    ArchiveKey.load(path)
    path.chmod(0o644)
    with pytest.raises(ArchiveError, match="readable by other users"):
        ArchiveKey.load(path)
    path.write_text("secret")
    with pytest.raises(ArchiveError, match="64 hexadecimal digits"):
        ArchiveKey.load(path)
