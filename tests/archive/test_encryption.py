"""Encrypted archives and their keys."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from archive.adding import add_directory
from archive.archive import Archive, open_archive
from archive.encryption import ArchiveKey
from archive.errors import ArchiveError
from archive.object_store import FolderStore
from tests.archive.storage import saved, segment, storage
from tests.cli_runner import run_cli
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
    with pytest.raises(ArchiveError, match="is not the key of"):
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
