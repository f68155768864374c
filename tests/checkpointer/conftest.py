"""Fixtures: a NameNode for secondaries, longer waits for JournalNodes, and a port without a server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.namenode_stub.namenode_double import NamenodeDouble


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NamenodeDouble]:
    with NamenodeDouble(tmp_path / "name") as running:
        yield running


@pytest.fixture(autouse=True)
def all_journal_nodes_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make readers wait for all JournalNodes, because the last JournalNode may be slow on a busy machine."""
    monkeypatch.setattr("journal.quorum.reader.LINGER", 600.0)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is bound but has no listener, so that no other process can use it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
