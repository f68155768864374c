"""Files that a running NameNode purges or finalizes while its directory is archived."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from archive import adding
from archive.adding import AddOptions, FoundFiles, add_directory
from archive.archive import Archive
from archive.catalogue import MAIN, EditsRecord
from archive.checking import check_archive
from archive.moments import newest_moment, view_of
from archive.storing import store_segment
from hadoop_common.names import image_name, segment_name
from image_format.md5_file import md5_path
from tests.archive.open_segment import FIRST, Writer, op_of
from tests.archive.storage import segment
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder

IN_PROGRESS = AddOptions(in_progress=True)


def add_while(archive: Archive, nn: Path, change: Callable[[], object]) -> adding.Added:
    """Archive a directory that changes after its files were listed for the first time."""
    find, pending = adding.find_files, [change]

    def found(*arguments: object, **named: object) -> FoundFiles:
        files = find(*arguments, **named)  # type: ignore[arg-type]
        if pending:
            pending.pop()()
        return files

    with mock.patch.object(adding, "find_files", found):
        return add_directory(archive, nn, IN_PROGRESS)


def get_image(nn: Path, last: int) -> None:
    """Store an image at `last` as a NameNode does, which then purges the older image and its edits."""
    current = nn / "current"
    builder = ImageBuilder(HADOOP3)
    builder.info.transactionId = last
    builder.save(current)
    (current / image_name(BASE_TXID)).unlink()
    md5_path(current / image_name(BASE_TXID)).unlink()
    (current / segment_name(FIRST, last)).unlink()


def test_segment_finalized_meanwhile_is_archived(archive: Archive, nn: Path) -> None:
    writer = Writer(nn)
    writer.write(op_of(1))
    added = add_while(archive, nn, writer.finish)
    assert (added.last_txid, added.restorable) == (writer.last, writer.last)


def test_files_purged_meanwhile_are_skipped(archive: Archive, nn: Path) -> None:
    """The NameNode purges the older image and its edits when it receives a newer image."""
    last = segment(nn, BASE_TXID, op_of(1))
    newest = segment(nn, last, op_of(2))
    added = add_while(archive, nn, lambda: get_image(nn, last))
    assert (added.last_txid, added.restorable) == (newest, newest)
    assert {each.first for each in added.edits} == {last + 1}


def test_first_image_purged_meanwhile_creates_no_branch(archive: Archive, nn: Path) -> None:
    """If the older image were archived without its edits, nothing would prove to which history it belongs."""
    last = segment(nn, BASE_TXID, op_of(1))
    newest = segment(nn, last, op_of(2))
    pending = [get_image]

    def stored(*arguments: Any) -> EditsRecord | None:
        if pending:
            pending.pop()(nn, last)
            raise FileNotFoundError(2, "No such file or directory")
        return store_segment(*arguments)

    with mock.patch.object(adding, "store_segment", stored):
        added = add_directory(archive, nn, IN_PROGRESS)
    assert (added.branch, added.forked, added.restorable) == (MAIN, False, newest)
    assert [(each.branch, each.txid) for each in archive.catalogue().images] == [(MAIN, last)]


def test_failed_addition_removes_only_its_own_objects(archive: Archive, nn: Path) -> None:
    last = segment(nn, segment(nn, BASE_TXID, op_of(1)), op_of(2))
    pending = [None, lambda: add_directory(archive, nn)]

    def stored(*arguments: Any) -> EditsRecord | None:
        if pending and (other := pending.pop(0)) is not None:
            assert other().restorable == last
            raise OSError(28, "No space left on device")
        return store_segment(*arguments)

    with mock.patch.object(adding, "store_segment", stored), pytest.raises(OSError, match="No space left"):
        add_directory(archive, nn)
    assert [each.txid for each in archive.catalogue().images] == [BASE_TXID]
    assert newest_moment(view_of(archive.catalogue(), MAIN)) == last
    assert check_archive(archive).garbage == []


def test_io_error_of_existing_files_is_not_retried(archive: Archive, nn: Path) -> None:
    fault = OSError(5, "Input/output error")
    with mock.patch.object(adding, "add_files", side_effect=fault) as add, pytest.raises(OSError, match="Input/output"):
        add_directory(archive, nn, IN_PROGRESS)
    assert add.call_count == 1
