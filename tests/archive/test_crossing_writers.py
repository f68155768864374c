"""Writers of different pasts that add to one archive at the same moment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import IDENTITY, Archive, ArchiveIdentity, open_archive
from archive.branch_choice import BranchChoice
from archive.catalogue import MAIN, Catalogue
from archive.checking import check_archive
from archive.encryption import ArchiveKey
from archive.errors import ArchiveError
from archive.fetching import fetch_segment
from archive.following import ArchiveFollower
from archive.moments import chain, view_of
from archive.object_store import FolderStore
from hadoop_common.storage_info import StorageInfo
from journal.op_times import op_paths
from journal.segment_file import read_ops
from tests.archive.open_segment import FIRST, Writer, found, op_of, ops_of
from tests.archive.storage import segment, storage
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder


@contextmanager
def another_writer_first(other: Callable[[], object]) -> Iterator[None]:
    """Make another writer publish between the moments at which the next writer reads the catalogue and publishes."""
    publish, pending = Archive.publish, [other]

    def crossed(self: Archive, *arguments: Any, **named: Any) -> Catalogue:
        if pending:
            pending.pop()()
        return publish(self, *arguments, **named)

    with mock.patch.object(Archive, "publish", crossed):
        yield
    assert not pending


@pytest.mark.parametrize("following", [True, False])
@pytest.mark.parametrize("absorbs", [True, False])
def test_concurrent_writers_of_different_histories_get_two_branches(
    following: bool, absorbs: bool, archive: Archive, nn: Path, tmp_path: Path
) -> None:
    other_nn = storage(tmp_path / "other")
    writer, other = Writer(nn), Writer(other_nn)
    shared = [op_of(number) for number in range(4)]
    for each in (writer, other):
        each.write(*(replace(op) for op in shared))
    follower, other_follower = ArchiveFollower(archive, AddOptions()), ArchiveFollower(archive, AddOptions())
    follower.follow(found(nn))
    other_follower.follow(found(other_nn))
    last = writer.last
    count = 6 if absorbs else 1
    writer.write(*(op_of(100 + number) for number in range(count)))
    other.write(*(op_of(200 + number) for number in range(count)))
    if not following:
        writer.finish()
    with another_writer_first(lambda: other_follower.follow(found(other_nn))):
        if following:
            branch = follower.follow(found(nn)).branch
        else:
            branch = add_directory(archive, nn).branch
    assert branch != MAIN
    catalogue = archive.catalogue()
    assert catalogue.branches[branch].fork == last
    for name, source in ((MAIN, other), (branch, writer)):
        view = view_of(catalogue, name)
        pieces, gap = chain(view.pieces, FIRST, last + count)
        assert gap is None
        found_ops = [op for each in pieces for op in read_ops(fetch_segment(archive, each.record, tmp_path, each.last))]
        assert found_ops == source.ops[: len(found_ops)]
        for piece in view.pieces:
            ops = list(read_ops(fetch_segment(archive, piece.record, tmp_path, piece.last)))
            assert ops == source.ops[piece.record.first - FIRST :][: len(ops)]
    assert check_archive(archive).damaged == {}
    assert check_archive(archive).garbage == []
    assert follower.follow(found(nn)).branch == branch
    assert other_follower.follow(found(other_nn)).branch == MAIN


@pytest.mark.parametrize("same_image", [False, True])
def test_one_of_two_concurrent_histories_becomes_the_main_branch(
    same_image: bool, archive: Archive, nn: Path, tmp_path: Path
) -> None:
    """In both pasts, segments have the same txids, but contain different operations."""
    builder = ImageBuilder(HADOOP3)
    if not same_image:
        builder.info.genstampV2 += 1
    other_nn = storage(tmp_path / "other", builder)
    assert segment(nn, BASE_TXID, op_of(1)) == segment(other_nn, BASE_TXID, op_of(2))
    with open_archive(str(tmp_path / "archive")) as other, another_writer_first(lambda: add_directory(other, other_nn)):
        added = add_directory(archive, nn)
    assert (added.branch != MAIN, len(added.edits), len(added.images)) == (True, 1, 0 if same_image else 1)
    catalogue = archive.catalogue()
    assert len(catalogue.images) == (1 if same_image else 2)
    (kept,) = (each for each in catalogue.edits if each.branch == MAIN)
    (op,) = list(read_ops(fetch_segment(archive, kept, tmp_path)))[1:-1]
    assert list(op_paths(op)) == list(op_paths(op_of(2)))
    assert check_archive(archive).garbage == []
    assert add_directory(archive, nn).branch == added.branch
    assert add_directory(archive, other_nn).branch == MAIN


def test_two_writers_of_one_history_create_one_archive(archive: Archive, nn: Path, tmp_path: Path) -> None:
    segment(nn, BASE_TXID, op_of(1))
    with open_archive(str(tmp_path / "archive")) as other, another_writer_first(lambda: add_directory(other, nn)):
        added = add_directory(archive, nn)
    assert (added.branch, added.edits, added.images) == (MAIN, (), ())
    assert len(archive.catalogue().records) == 2
    assert check_archive(archive).garbage == []


def test_only_one_of_two_namespaces_can_begin_an_archive(archive: Archive, tmp_path: Path) -> None:
    """The other namespace begins the archive after this namespace has found the directory empty."""
    ours, theirs = (StorageInfo(HADOOP3, number, 0, f"CID-{number}") for number in (1, 2))
    identity, pending = Archive.identity, [theirs]

    def crossed(self: Archive) -> ArchiveIdentity | None:
        found = identity(self)
        if pending:
            other.adopt(pending.pop())
        return found

    with (
        open_archive(str(tmp_path / "archive")) as other,
        mock.patch.object(Archive, "identity", crossed),
        pytest.raises(ArchiveError, match="is the archive of cluster CID-2, namespace 2"),
    ):
        archive.adopt(ours)
    assert archive.require().cluster_id == "CID-2"


THEIRS = StorageInfo(HADOOP3, 2, 0, "CID-2")


def overwrite_identity(archive: Archive) -> None:
    """Store another cluster's identity, as in an object store without conditional writes."""
    archive.store.remove(IDENTITY)
    archive.write_identity(THEIRS)


def test_writer_whose_archive_gets_another_identity_withdraws_its_objects(archive: Archive, nn: Path) -> None:
    segment(nn, BASE_TXID, op_of(1))
    with (
        another_writer_first(lambda: overwrite_identity(archive)),
        pytest.raises(ArchiveError, match="is the archive of cluster CID-2, namespace 2"),
    ):
        add_directory(archive, nn)
    assert archive.catalogue().records == ()
    assert archive.require().cluster_id == "CID-2"
    assert check_archive(archive).garbage == []


def test_archive_without_identity_is_not_adopted_by_another_namespace(archive: Archive, nn: Path) -> None:
    segment(nn, BASE_TXID, op_of(1))
    add_directory(archive, nn)
    archive.store.remove(IDENTITY)
    with pytest.raises(ArchiveError, match="is the archive of cluster CID-1, namespace 7"):
        archive.adopt(THEIRS)
    assert archive.identity() is None
    assert check_archive(archive, repair=True).rewritten == [IDENTITY]
    assert archive.require().cluster_id == "CID-1"


@pytest.mark.parametrize("refuses", [True, False])
def test_namespace_that_finds_a_later_identity_leaves_it(
    archive: Archive, nn: Path, tmp_path: Path, refuses: bool
) -> None:
    """The other writer begins and fills the archive before the identity of this writer arrives; the store refuses this
    identity, or the identity replaces that of the other writer.
    """
    segment(nn, BASE_TXID, op_of(1))
    write = Archive.write_identity

    def late(self: Archive, info: StorageInfo) -> None:
        with mock.patch.object(Archive, "write_identity", write):
            add_directory(other, nn)
            if refuses:
                self.write_identity(info)
            else:
                overwrite_identity(self)

    with (
        open_archive(str(tmp_path / "archive")) as other,
        mock.patch.object(Archive, "write_identity", late),
        pytest.raises(ArchiveError, match="is the archive of cluster CID-1, namespace 7"),
    ):
        archive.adopt(THEIRS)
    if not refuses:
        assert archive.identity() is None
        add_directory(archive, nn)
    assert archive.require().cluster_id == "CID-1"


def test_identity_that_replaced_the_identity_of_the_images_is_repaired(archive: Archive, nn: Path) -> None:
    """The other cluster was killed after it had replaced the identity."""
    segment(nn, BASE_TXID, op_of(1))
    add_directory(archive, nn)
    overwrite_identity(archive)
    with pytest.raises(ArchiveError, match="is the archive of cluster CID-1, namespace 7"):
        archive.adopt(THEIRS)
    with pytest.raises(ArchiveError, match="is the archive of cluster CID-2, namespace 2") as refused:
        add_directory(archive, nn)
    assert "`checkpointer archive check --repair` restores archive.json" in refused.value.hint
    (problem,) = check_archive(archive).damaged.values()
    assert "belongs to cluster CID-2, namespace 2, but all images belong to cluster CID-1, namespace 7" in problem
    assert check_archive(archive, repair=True).rewritten == [IDENTITY]
    assert check_archive(archive).damaged == {}
    assert add_directory(archive, nn).edits == ()


def test_namespaces_are_compared_before_the_key(archive: Archive, nn: Path, tmp_path: Path) -> None:
    add_directory(Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(32))), nn)
    with pytest.raises(ArchiveError, match="is the archive of cluster CID-1, namespace 7"):
        archive.adopt(THEIRS)
    with pytest.raises(ArchiveError, match="is encrypted"):
        add_directory(archive, nn)


def test_daemon_continues_after_another_cluster_has_removed_the_identity(archive: Archive, nn: Path) -> None:
    follower = ArchiveFollower(archive, AddOptions())
    last = segment(nn, BASE_TXID, op_of(1))
    follower.follow(found(nn))
    archive.store.remove(IDENTITY)
    last = segment(nn, last, op_of(2))
    assert follower.follow(found(nn)).last_txid == last
    assert archive.require().cluster_id == "CID-1"


class Pair:
    """Two NameNodes of different pasts that share the beginning of their open segment, each with a follower."""

    def __init__(self, archive: Archive, folder: Path) -> None:
        self.writers = [Writer(storage(folder / name)) for name in ("one", "two")]
        self.followers = [ArchiveFollower(archive, AddOptions()) for _ in self.writers]
        for number in (0, 1):
            self.writers[number].write(*(op_of(each) for each in range(4)))
            self.follow(number)
        self.shared = self.writers[0].last
        for number in (0, 1):
            self.writers[number].write(op_of(101 + 100 * number))

    def follow(self, number: int) -> str:
        return self.followers[number].follow(found(self.writers[number].current.parent)).branch


def test_part_absorbed_by_another_writer_during_the_comparison(archive: Archive, tmp_path: Path) -> None:
    pair = Pair(archive, tmp_path)
    real, pending = BranchChoice.other_past, [True]

    def absorbed_first(self: BranchChoice, *arguments: Any) -> Any:
        if pending:
            pending.pop()
            pair.writers[1].write(op_of(202))
            pair.follow(1)
        return real(self, *arguments)

    with another_writer_first(lambda: pair.follow(1)), mock.patch.object(BranchChoice, "other_past", absorbed_first):
        branch = pair.follow(0)
    branches = [branch, pair.follow(1)]
    assert not pending
    assert len(set(branches)) == 2
    for writer, each in zip(pair.writers, branches, strict=True):
        assert ops_of(archive, each, tmp_path) == writer.ops


@pytest.mark.parametrize("adding", [False, True])
def test_error_before_the_comparison_withdraws_the_edits(adding: bool, archive: Archive, tmp_path: Path) -> None:
    pair = Pair(archive, tmp_path)
    if adding:
        pair.writers[0].finish()
    with (
        another_writer_first(lambda: pair.follow(1)),
        mock.patch("archive.branch_choice.view_of", side_effect=[view_of(archive.catalogue(), MAIN), OSError])
        if adding
        else mock.patch.object(BranchChoice, "other_past", side_effect=OSError),
        pytest.raises(OSError),
    ):
        pair.follow(0)
    assert ops_of(archive, MAIN, tmp_path) == pair.writers[1].ops
    assert check_archive(archive).garbage == []


def test_two_histories_in_one_branch_after_a_kill_are_reported(
    archive: Archive, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The writer is killed after publishing and before comparing."""
    pair = Pair(archive, tmp_path)
    with (
        another_writer_first(lambda: pair.follow(1)),
        mock.patch.object(BranchChoice, "other_past", side_effect=KeyboardInterrupt),
        mock.patch.object(ArchiveFollower, "_take_back"),
        pytest.raises(KeyboardInterrupt),
    ):
        pair.follow(0)
    pair.writers[1].write(op_of(202))
    with caplog.at_level(logging.WARNING):
        branch = pair.follow(1)
    (message,) = caplog.messages
    assert f"branch {MAIN} contains edits of two histories from transaction {pair.shared + 1} on" in message
    branches = [pair.follow(0), branch]
    assert len({MAIN, *branches}) == 3
    for writer, each in zip(pair.writers, branches, strict=True):
        assert ops_of(archive, each, tmp_path) == writer.ops
