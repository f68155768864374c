"""A start-over in two storage directories, one of which cannot be used: only this directory is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.directory_restoration import revise
from checkpointer.storage.formatting import format_directory
from checkpointer.storage.lost_pasts import LOST_PAST, START_OVER, UnfinishedStartOver, folders_aside
from hadoop_common.durable import write_atomically
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name
from tests.checkpointer.set_back_support import image
from tests.checkpointer.storage_support import INFO

CAUSE = "the NameNode was set back"


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    """Two formatted directories with an image."""
    found = [tmp_path / "a", tmp_path / "b"]
    for root in found:
        root.mkdir()
        format_directory(root, INFO, 0, 0o700)
        image(root / "current", 9, "aa" * 16)
    return found


@pytest.fixture
def storage(roots: list[Path]) -> Iterator[StorageDirectories]:
    opened = StorageDirectories(roots)
    opened.lock()
    yield opened
    opened.release()


def unreadable(root: Path) -> None:
    """Make the record of a directory unreadable, also for root."""
    (root / "current" / START_OVER).unlink(missing_ok=True)
    (root / "current" / START_OVER).mkdir()


def test_directory_whose_lost_pasts_cannot_be_listed_does_not_stop_the_node(
    storage: StorageDirectories, roots: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in roots:
        (root / LOST_PAST).mkdir()
    listed = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path == roots[0] / LOST_PAST:
            raise OSError(5, "Input/output error", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    storage.begin_start_over(LOST_PAST, CAUSE)
    storage.link_aside(LOST_PAST, CAUSE)
    image(roots[1] / "current", 5, "bb" * 16)
    (folder,) = storage.finish_start_over(keep=[image_name(5)])
    assert folders_aside(roots[1]) == (folder,)
    assert list(storage.dropped) == [roots[0]]
    # the daemon later compares the dropped directory, and must not offer its image before
    assert storage.latest_image().txid == 5


@pytest.mark.parametrize("failing", [0, 1])
def test_record_is_written_where_possible(
    storage: StorageDirectories, roots: list[Path], failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, content: bytes) -> None:
        if path.is_relative_to(roots[failing]):
            raise OSError(30, "Read-only file system", str(path))
        write_atomically(path, content)

    monkeypatch.setattr("checkpointer.storage.lost_pasts.write_atomically", refuse)
    storage.begin_start_over(LOST_PAST, CAUSE)
    begun = storage.unfinished_start_over()
    assert isinstance(begun, UnfinishedStartOver)
    assert begun.cause == CAUSE
    storage.link_aside(LOST_PAST, CAUSE)
    assert list(storage.dropped) == [roots[failing]]


def test_record_that_cannot_be_written_anywhere_is_an_error(
    storage: StorageDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr("checkpointer.storage.lost_pasts.write_atomically", refuse)
    with pytest.raises(StorageError, match="Read-only file system"):
        storage.begin_start_over(LOST_PAST, CAUSE)


def test_directory_with_an_unreadable_record_is_dropped(storage: StorageDirectories, roots: list[Path]) -> None:
    unreadable(roots[0])
    with pytest.raises(StorageError, match=f"{START_OVER} cannot be read"):
        storage.refuse_unfinished()
    revise(storage, restore_dropped=True)
    assert list(storage.dropped) == [roots[0]]
    storage.refuse_unfinished()


def test_directory_with_an_unreadable_record_is_not_used_at_startup(roots: list[Path]) -> None:
    unreadable(roots[0])
    storage = StorageDirectories(roots)
    storage.lock()
    assert storage.roots == roots[1:]
    storage.release()
    unreadable(roots[1])
    with pytest.raises(StorageError, match=f"{START_OVER} cannot be read"):
        StorageDirectories(roots).lock()
