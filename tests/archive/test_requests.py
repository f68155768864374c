"""Requests that a daemon's round sends to an object store, as docs/archive.md states."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from fsspec.implementations.memory import MemoryFileSystem

from archive.adding import AddOptions
from archive.archive import Archive
from archive.following import ArchiveFollower
from archive.object_store import FsspecStore
from tests.archive.open_segment import Writer, found, op_of
from tests.archive.storage import storage

ROUNDS = 16
REQUESTS = {"ls": 2, "exists": 4, "put_file": 2, "rm_file": 2}
"""Limits on the requests of a round with new edits, by method of fsspec."""


def test_number_of_requests_with_and_without_new_edits(tmp_path: Path) -> None:
    nn, files = storage(tmp_path / "nn"), MemoryFileSystem()
    archive = Archive(FsspecStore("memory://requests", files, f"/{tmp_path.name}"))
    follower, writer = ArchiveFollower(archive, AddOptions()), Writer(nn)
    follower.follow(found(nn))
    with ExitStack() as stack:
        spies = {
            each: stack.enter_context(mock.patch.object(files, each, side_effect=getattr(files, each)))
            for each in REQUESTS
        }
        follower.follow(found(nn))
        assert {name: spy.call_count for name, spy in spies.items()} == dict.fromkeys(REQUESTS, 0)
        for _ in range(ROUNDS):
            writer.write(op_of(writer.last))
            follower.follow(found(nn))
        for name, spy in spies.items():
            assert spy.call_count <= REQUESTS[name] * ROUNDS, name
