"""Commands read an archive while a daemon replaces the parts of the open segment each second."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest import mock

import pytest

from archive.adding import AddOptions
from archive.archive import Archive
from archive.encryption import ArchiveKey
from archive.following import ArchiveFollower
from archive.later_deletions import later_ops
from archive.moments import plan_restore
from archive.object_store import FolderStore
from archive.restoring import Restored, chosen_view, fetch_source, restore
from journal.ops import MkdirOp
from tests.archive.open_segment import FIRST, Writer, found, op_of
from tests.archive.storage import storage
from tests.cli_runner import run_cli


class Growth:
    """An archive of an open segment; a call appends a transaction and archives it."""

    def __init__(self, folder: Path, key: ArchiveKey | None = None) -> None:
        self.archive = Archive(FolderStore(folder / "archive"), key)
        self._nn = storage(folder / "nn")
        self.writer = Writer(self._nn)
        daemon = Archive(FolderStore(folder / "archive"), key)
        self._follower = ArchiveFollower(daemon, AddOptions())
        self._follower.follow(found(self._nn))
        self.grow(5)

    def grow(self, rounds: int) -> None:
        for _ in range(rounds):
            self.writer.write(op_of(self.writer.last))
            self._follower.follow(found(self._nn))

    def first(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return a function that lets the archive grow, and then calls `function`."""

        def late(*arguments: object, **named: object) -> object:
            self.grow(3)
            return function(*arguments, **named)

        return late


@pytest.mark.parametrize("key", [None, ArchiveKey(bytes(range(32)))], ids=["plain", "encrypted"])
def test_pinned_plan_can_be_restored_after_its_parts_are_removed(key: ArchiveKey | None, tmp_path: Path) -> None:
    growth = Growth(tmp_path, key)
    view, last = chosen_view(growth.archive, None), growth.writer.last
    before = growth.archive.catalogue().names
    growth.grow(3)
    assert before - growth.archive.catalogue().names
    source = fetch_source(growth.archive, plan_restore(view, last), tmp_path / "source")
    assert (source.txid, source.damaged) == (last, ())
    ops = later_ops(growth.archive, view, FIRST, tmp_path, (MkdirOp,))
    assert [op.txid for op in ops] == list(range(FIRST + 1, last + 1))


def test_parts_removed_before_they_are_pinned_are_planned_again(tmp_path: Path) -> None:
    growth, real, calls = Growth(tmp_path), Archive.pin, 0

    def pin(archive: Archive, names: Iterable[str]) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            growth.grow(3)
        return real(archive, names)

    with mock.patch.object(Archive, "pin", pin):
        view = chosen_view(growth.archive, None)
    assert (calls, view.last_txid) == (2, growth.writer.last)


def test_lost_parts_do_not_prevent_a_command_from_starting(tmp_path: Path) -> None:
    growth = Growth(tmp_path)
    for each in growth.archive.catalogue().edits:
        (tmp_path / "archive" / each.name).unlink()
    assert chosen_view(growth.archive, None).last_txid == growth.writer.last


def test_restore_counts_transactions_archived_while_it_ran(tmp_path: Path) -> None:
    growth = Growth(tmp_path)
    wanted = growth.writer.last - 1
    late: Callable[..., Restored] = growth.first(restore)  # type: ignore[assignment]
    with mock.patch("archive.restoring.restore", late):
        words = ("--archive", tmp_path / "archive", "--txid", str(wanted), "--out", tmp_path / "out", "--json")
        answer = run_cli("archive", "restore", *words)
    assert (answer.code, json.loads(answer.out)["later"]["transactions"]) == (0, growth.writer.last - wanted)
