"""Retention of a NameNode after a checkpoint: the newest images, and the same edits in all journals."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.names import image_name, md5_name
from hadoop_common.storage_info import StorageInfo
from journal.edit_log_writer import EditLogWriter
from journal.errors import JournalStorageError
from journal.file_journal import FileJournal
from journal.journal import Journal, SegmentWriter
from journal.journal_set import JournalMember, JournalSet
from journal.segment_copies import SegmentCopies
from journal.segment_file import list_segments
from namenode_stub.purger import Purger
from tests.checkpointer.quorum_support import Quorum
from tests.checkpointer.storage_support import put_image
from tests.namenode_stub.stub_support import stub_config_for, uris, wait_until

INFO = StorageInfo(-67, 42, 0, "CID-test", "BP-1-127.0.0.1-1")
SEGMENTS = [(first, first + 1) for first in range(1, 21, 2)]


class Elsewhere:
    """A journal that is not treated as a directory, although it is stored in a directory; it records purge requests."""

    location = "elsewhere:"

    def __init__(self, behind: FileJournal) -> None:
        self._behind = behind
        self.asked: list[int] = []
        self.listed = 0
        self.works = True

    def is_formatted(self) -> bool:
        return self._behind.is_formatted()

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        self._behind.format(namespace, force=force)

    def recover(self, namespace: StorageInfo) -> None:
        self._behind.recover(namespace)

    def start_segment(self, first_txid: int, layout_version: int) -> SegmentWriter:
        return self._behind.start_segment(first_txid, layout_version)

    def segments(self, from_txid: int, *, in_progress: bool = False) -> list[SegmentCopies]:
        if not self.works:
            raise JournalStorageError("it cannot be listed")
        self.listed = from_txid
        return self._behind.segments(from_txid, in_progress=in_progress)

    def purge(self, min_txid_to_keep: int) -> None:
        self.asked.append(min_txid_to_keep)
        if not self.works:
            raise JournalStorageError("it cannot be purged")
        self._behind.purge(min_txid_to_keep)

    def close(self) -> None:
        self._behind.close()


class Store:
    """Two image folders, one of which also contains edits, and a separate edits directory; the segments are those in
    `SEGMENTS`.
    """

    def __init__(self, root: Path, *more: JournalMember, **changes: int) -> None:
        self.images = [root / "name/current", root / "images/current"]
        self.edits = [root / "name/current", root / "edits/current"]
        self.images[1].mkdir(parents=True, exist_ok=True)
        self._config = stub_config_for(root, edits=uris(root / "name", root / "edits"), **changes)
        self.journals = JournalSet([*(JournalMember(formatted(folder)) for folder in self.edits), *more])
        self.journals.recover(INFO)
        write_segments(self.journals)

    def add_images(self, *txids: int) -> None:
        for folder in self.images:
            for txid in txids:
                put_image(folder, txid)

    def purge(self) -> None:
        Purger(self._config, self.images, self.journals).purge()

    def files(self) -> list[set[str]]:
        return [{path.name for path in folder.glob("fsimage_*")} for folder in self.images]

    def firsts(self) -> list[int]:
        """Return the first txid of the edits in each directory."""
        return [list_segments(folder)[0].first for folder in self.edits]


def formatted(folder: Path) -> FileJournal:
    journal = FileJournal(folder)
    journal.format(INFO)
    return journal


def write_segments(journal: Journal) -> None:
    """Write `SEGMENTS`, each with a START and an END, and no open segment."""
    log = EditLogWriter(journal, INFO.layout_version, 1)
    for _ in SEGMENTS[1:]:
        log.roll()
    log.close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    return Elsewhere(formatted(tmp_path / "behind/current"))


@pytest.mark.parametrize(
    ("retained", "extra", "most", "images", "kept", "first"),
    [
        # edits continue after the oldest remaining image
        (2, 0, 100, (4, 10, 16), (10, 16), 11),
        (1, 0, 100, (4, 10, 16), (16,), 17),
        (5, 0, 100, (4, 10, 16), (4, 10, 16), 5),
        # the segment in which the image ends is kept completely
        (1, 0, 100, (4, 11), (11,), 11),
        # extra transactions before the image, in a limited number of segments
        (2, 5, 100, (4, 10, 16), (10, 16), 5),
        (2, 1_000_000, 100, (4, 10, 16), (10, 16), 1),
        (2, 1_000_000, 2, (4, 10, 16), (10, 16), 7),
        (2, 1_000_000, 0, (4, 10, 16), (10, 16), 11),
        # without an image, missing edits are not reported
        (2, 0, 100, (), (), 1),
    ],
)
def test_retained_images_and_edits(
    tmp_path: Path, retained: int, extra: int, most: int, images: tuple[int, ...], kept: tuple[int, ...], first: int
) -> None:
    store = Store(tmp_path, images_retained=retained, extra_edits_retained=extra, max_extra_segments=most)
    store.add_images(*images)
    store.purge()
    assert store.files() == [{each for txid in kept for each in (image_name(txid), md5_name(image_name(txid)))}] * 2
    assert store.firsts() == [first] * 2
    assert list_segments(store.edits[0])[-1].last == 20
    # repeating the purge changes nothing
    before = store.files(), store.firsts()
    store.purge()
    assert (store.files(), store.firsts()) == before


def test_every_journal_is_purged_up_to_the_same_txid(tmp_path: Path, elsewhere: Elsewhere) -> None:
    store = Store(tmp_path, JournalMember(elsewhere), images_retained=1, extra_edits_retained=4)
    store.add_images(4, 10)
    store.purge()
    # the journal is listed from the first transaction that may remain instead of from the beginning
    assert (elsewhere.listed, elsewhere.asked) == (7, [7])
    assert store.firsts() == [7, 7]
    store.add_images(14)
    store.purge()
    assert elsewhere.asked == [7, 11]


def test_a_failed_journal_is_purged_later_without_delaying_others(
    tmp_path: Path, elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path, JournalMember(elsewhere), images_retained=1)
    elsewhere.works = False
    store.add_images(4, 10)
    store.purge()
    assert (elsewhere.asked, store.firsts()) == ([11], [11, 11])
    assert "old edits are not purged: txid 11: old segments remain: it cannot be purged" in caplog.text
    elsewhere.works = True
    store.purge()
    assert elsewhere.asked == [11, 11]


def test_no_edits_are_purged_if_a_required_journal_cannot_be_listed(
    tmp_path: Path, elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path, JournalMember(elsewhere, required=True), images_retained=1)
    elsewhere.works = False
    store.add_images(4, 10)
    store.purge()
    assert (elsewhere.asked, store.firsts()) == ([], [1, 1])
    assert "old edits are not purged: it cannot be listed" in caplog.text


def test_nothing_is_purged_if_an_image_directory_cannot_be_listed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder that fails may be the folder that lacks the newest image."""
    store = Store(tmp_path, images_retained=1)
    store.add_images(4, 10)
    before = store.files()
    store.images[1].rename(tmp_path / "gone")
    store.purge()
    assert store.firsts() == [1, 1]
    assert "nothing is purged because an image folder cannot be listed" in caplog.text
    (tmp_path / "gone").rename(store.images[1])
    assert store.files() == before


def test_undeletable_image_files_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def failing(path: Path, missing_ok: bool = False) -> None:
        if path.name.startswith("fsimage"):
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, missing_ok)

    store = Store(tmp_path, images_retained=1)
    store.add_images(4, 10)
    monkeypatch.setattr(Path, "unlink", failing)
    store.purge()
    assert "could not be deleted" in caplog.text
    assert store.firsts() == [11, 11]


def test_a_journal_node_that_was_down_is_purged_with_the_next_checkpoint(tmp_path: Path) -> None:
    with Quorum(tmp_path / "nodes") as quorum:
        quorum.format(INFO)
        store = Store(tmp_path, JournalMember(quorum.writer(), required=True, shared=True), images_retained=1)

        def firsts() -> list[int]:
            return [next((each.first for each in list_segments(node.current)), 0) for node in quorum.nodes]

        quorum.nodes[2].stop()
        store.add_images(10)
        store.purge()
        assert (store.firsts(), firsts()) == ([11, 11], [11, 11, 1])
        quorum.nodes[2].start()
        store.add_images(14)
        store.purge()
        assert store.firsts() == [15, 15]
        wait_until("the node that was down to have the open segment", lambda: firsts() == [15, 15, 15])
