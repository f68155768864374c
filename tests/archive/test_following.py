"""The archive follows a growing segment: parts, finalized segments, histories that are set back, and kills."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import Archive, open_archive
from archive.branch_choice import BranchChoice
from archive.catalogue import MAIN
from archive.checking import check_archive
from archive.errors import ArchiveError, OtherHistoryError
from archive.fetching import fetch_segment
from archive.following import ArchiveFollower
from archive.moments import chain, plan_restore, view_of
from archive.object_store import FolderStore
from archive.restoring import RestoreOptions, restore_moment
from hadoop_common.names import image_name, segment_name
from journal.segment_file import map_file, read_ops
from tests.archive.killing_store import KilledError, KillingStore
from tests.archive.open_segment import FIRST, Writer, found, op_of, ops_of, parts
from tests.archive.storage import saved, segment, storage
from tests.depth import chosen, scaled
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder
from tests.engine.op_makers import mkdir


def test_growing_open_segment_is_archived_with_few_writes(archive: Archive, nn: Path, tmp_path: Path) -> None:
    follower, writer = ArchiveFollower(archive, AddOptions()), Writer(nn)
    assert follower.follow(found(nn)).last_txid == FIRST
    with mock.patch("archive.following.add_files", side_effect=AssertionError("all files are compared again")):
        for txid in range(1, 40):
            last = writer.write(op_of(txid))
            position = follower.follow(found(nn))
            assert (position.last_txid, position.restorable_txid, position.missing) == (last, last, 0)
            assert follower.follow(found(nn)) == position
    assert len(parts(archive)) <= 7
    assert check_archive(archive).garbage == []
    view = view_of(archive.catalogue(), MAIN)
    chosen, gap = chain(view.pieces, FIRST, last)
    ops = [op for each in chosen for op in read_ops(fetch_segment(archive, each.record, tmp_path, each.last))]
    assert (gap, [op.txid for op in ops]) == (None, list(range(FIRST, last + 1)))
    restore_moment(archive, plan_restore(view, last - 1), tmp_path, RestoreOptions())
    image = saved(tmp_path / "restored", last - 1)
    assert ("/d38" in image, "/d39" in image) == (True, False)
    end = writer.finish()
    assert follower.follow(found(nn)).last_txid == end
    assert parts(archive) == [(FIRST, end, True)]


def test_roll_cost_does_not_grow_with_the_number_of_segments(archive: Archive, nn: Path) -> None:
    """Each segment is compared only with overlapping segments, and read once."""
    last = BASE_TXID
    for txid in range(1, 60):
        last = segment(nn, last, op_of(txid))
    follower = ArchiveFollower(archive, AddOptions())
    follower.follow(found(nn))
    segment(nn, last, op_of(60))
    with (
        mock.patch.object(BranchChoice, "_overlap", autospec=True, side_effect=BranchChoice._overlap) as compared,
        mock.patch("archive.branch_choice.map_file", side_effect=map_file) as read,
    ):
        follower.follow(found(nn))
        segment(nn, last + 3, op_of(61))
        read.reset_mock()
        compared.reset_mock()
        follower.follow(found(nn))
    assert (compared.call_count, read.call_count) == (60, 1)


def test_immutable_archive_keeps_every_part(nn: Path, tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path / "archive"), immutable=True)
    follower, writer = ArchiveFollower(archive, AddOptions()), Writer(nn)
    follower.follow(found(nn))
    for txid in range(1, 4):
        writer.write(op_of(txid))
        follower.follow(found(nn))
    end = writer.finish()
    assert follower.follow(found(nn)).last_txid == end
    assert parts(archive) == [
        (FIRST, FIRST, False),
        (FIRST, end, True),
        *((FIRST + n, FIRST + n, False) for n in (1, 2, 3)),
    ]


def test_new_follower_continues_after_a_killed_one(archive: Archive, nn: Path) -> None:
    writer = Writer(nn)
    ArchiveFollower(archive, AddOptions()).follow(found(nn))
    writer.write(op_of(1), op_of(2))
    follower = ArchiveFollower(archive, AddOptions())
    assert follower.follow(found(nn)).last_txid == writer.last
    assert parts(archive) == [(FIRST, FIRST, False), (FIRST + 1, FIRST + 2, False)]
    writer.write(op_of(3))
    assert follower.follow(found(nn)).last_txid == writer.last


def test_two_followers_share_one_archive(archive: Archive, nn: Path, tmp_path: Path) -> None:
    writer = Writer(nn)
    with open_archive(str(tmp_path / "archive")) as other:
        followers = [ArchiveFollower(each, AddOptions()) for each in (archive, other)]
        for txid in range(1, 8):
            last = writer.write(op_of(txid))
            assert {each.follow(found(nn)).last_txid for each in followers} == {last}
        end = writer.finish()
        assert {(at := each.follow(found(nn))).branch for each in followers} == {MAIN}
        assert at.last_txid == end
    assert parts(archive) == [(FIRST, end, True)]


def test_all_followers_use_one_branch_after_a_set_back(archive: Archive, nn: Path, tmp_path: Path) -> None:
    follower, writer = ArchiveFollower(archive, AddOptions()), Writer(nn)
    writer.write(op_of(1))
    writer.finish()
    writer = Writer(nn, writer.last)
    writer.write(mkdir("/lost", 17000, 6000))
    follower.follow(found(nn))
    writer.path.unlink()
    writer = Writer(nn, writer.after)
    writer.write(mkdir("/new", 17000, 7000))
    with pytest.raises(OtherHistoryError):
        ArchiveFollower(archive, AddOptions(forks=False)).follow(found(nn))
    position = follower.follow(found(nn))
    assert (position.branch != MAIN, position.last_txid) == (True, writer.last)
    writer.write(mkdir("/newer", 17001, 7000))
    with open_archive(str(tmp_path / "archive")) as other:
        assert ArchiveFollower(other, AddOptions()).follow(found(nn)).branch == position.branch
    assert follower.follow(found(nn)).last_txid == writer.last


@pytest.mark.parametrize("restarted", [False, True])
def test_set_back_open_segment_is_compared_as_it_grows(
    restarted: bool, archive: Archive, nn: Path, tmp_path: Path
) -> None:
    """The NameNode is set back to its first segment. At first, its new open segment equals the beginning of the
    archived segment.
    """
    follower = ArchiveFollower(archive, AddOptions())
    shared = segment(nn, BASE_TXID, op_of(1), op_of(2))
    last = segment(nn, shared, *map(op_of, range(3, 8)))
    follower.follow(found(nn))
    lost = ops_of(archive, MAIN, tmp_path)
    (nn / "current" / segment_name(shared + 1, last)).unlink()
    writer = Writer(nn, shared)
    if restarted:
        follower = ArchiveFollower(archive, AddOptions())
    assert follower.follow(found(nn)).branch == MAIN
    for txid in range(100, 108):
        writer.write(mkdir(f"/new{txid}", 17000 + txid))
        position = follower.follow(found(nn))
        assert (position.branch != MAIN, position.last_txid) == (True, writer.last)
    assert ops_of(archive, MAIN, tmp_path) == lost
    assert ops_of(archive, position.branch, tmp_path) == lost[: shared - BASE_TXID] + writer.ops


def test_new_segment_in_the_same_file_is_compared(archive: Archive, nn: Path, tmp_path: Path) -> None:
    """A file system may reuse the inode of the deleted file for the file that the NameNode creates."""
    follower, writer = ArchiveFollower(archive, AddOptions()), Writer(nn)
    writer.write(op_of(1), mkdir("/old", 17000, 6000))
    follower.follow(found(nn))
    lost = ops_of(archive, MAIN, tmp_path)
    writer.ops = [*lost[:2], mkdir("/new", 17000, 7000), mkdir("/add", 17001, 7000)]
    writer.write()
    position = follower.follow(found(nn))
    assert ops_of(archive, MAIN, tmp_path) == lost
    assert ops_of(archive, position.branch, tmp_path) == writer.ops


def test_edits_of_another_writer_are_compared_before_an_addition(archive: Archive, nn: Path, tmp_path: Path) -> None:
    other = storage(tmp_path / "other")
    writers = [Writer(nn), Writer(other)]
    followers = [ArchiveFollower(archive, AddOptions()) for _ in writers]
    for writer, follower in zip(writers, followers, strict=True):
        writer.write(op_of(1))
        follower.follow(found(writer.current.parent))
    writers[0].write(mkdir("/one", 17000, 6000))
    writers[1].write(mkdir("/two", 17000, 7000), op_of(17001))
    assert followers[0].follow(found(nn)).branch == MAIN
    position = followers[1].follow(found(other))
    assert ops_of(archive, MAIN, tmp_path) == writers[0].ops
    assert (position.branch != MAIN, ops_of(archive, position.branch, tmp_path)) == (True, writers[1].ops)


@pytest.mark.parametrize("step", [(ArchiveFollower, "_catch_up"), (BranchChoice, "choose")], ids=["grow", "add"])
def test_edits_written_after_the_comparison_wait_for_the_next_round(
    step: tuple[type, str], archive: Archive, nn: Path, tmp_path: Path
) -> None:
    """The archive contains further transactions; the open segment's history changes right after the comparison."""
    other = storage(tmp_path / "other")
    writers = [Writer(nn), Writer(other)]
    followers = [ArchiveFollower(archive, AddOptions()) for _ in writers]
    writers[0].write(op_of(1))
    followers[0].follow(found(nn))
    writers[1].write(*map(op_of, range(1, 8)))
    followers[1].follow(found(other))
    if step[0] is BranchChoice:
        followers[0] = ArchiveFollower(archive, AddOptions())
    writers[0].write(op_of(2))
    real = getattr(*step)

    def written_afterwards(*args: object) -> object:
        result = real(*args)
        if len(writers[0].ops) < 5:
            writers[0].write(*(mkdir(f"/new{number}", 17000 + number) for number in range(9)))
        return result

    with mock.patch.object(*step, written_afterwards):
        followers[0].follow(found(nn))
    assert ops_of(archive, MAIN, tmp_path) == writers[1].ops
    position = followers[0].follow(found(nn))
    assert ops_of(archive, MAIN, tmp_path) == writers[1].ops
    assert (position.branch != MAIN, ops_of(archive, position.branch, tmp_path)) == (True, writers[0].ops)


def test_image_of_a_lost_history_proves_nothing_after_the_fork(archive: Archive, nn: Path) -> None:
    shared = segment(nn, BASE_TXID, op_of(1), op_of(2))
    last = segment(nn, shared, *map(op_of, range(3, 8)))
    builder = ImageBuilder(HADOOP3)
    builder.info.transactionId = last
    builder.save(nn / "current")
    add_directory(archive, nn, AddOptions(restore_target=0))
    assert [each.txid for each in archive.catalogue().images] == [BASE_TXID, last]
    (nn / "current" / segment_name(shared + 1, last)).unlink()
    segment(nn, shared, mkdir("/new", 17000, 7000))
    added = add_directory(archive, nn)
    assert (added.forked, archive.catalogue().branches[added.branch].fork) == (True, shared)


@pytest.mark.parametrize("grown", [False, True])
def test_another_history_is_not_added_to_a_damaged_part(
    grown: bool, archive: Archive, nn: Path, tmp_path: Path
) -> None:
    """The digest still shows whether two segments are equal; a shorter finalized segment is not equal."""
    shared = segment(nn, BASE_TXID, op_of(1))
    follower, writer = ArchiveFollower(archive, AddOptions()), Writer(nn, shared)
    writer.write(*map(op_of, (2, 3, 4)))
    assert follower.follow(found(nn)).last_txid == writer.last
    damaged = tmp_path / "archive" / archive.catalogue().edits[-1].name
    damaged.write_bytes(bytes(64))
    assert ArchiveFollower(archive, AddOptions()).follow(found(nn)).branch == MAIN
    writer.path.unlink()
    writer = Writer(nn, shared)
    writer.write(mkdir("/new", 17000, 7000))
    if grown:
        writer.write(*map(op_of, (500, 501, 502)))
    writer.finish()
    assert ArchiveFollower(archive, AddOptions()).follow(found(nn)).branch != MAIN


def test_image_beyond_the_open_segment_is_archived_later(archive: Archive, nn: Path) -> None:
    writer = Writer(nn)
    add_directory(archive, nn, AddOptions(in_progress=True))
    builder = ImageBuilder(HADOOP3)
    builder.info.transactionId = writer.last + 2
    builder.save(nn / "current")
    wanted = AddOptions(in_progress=True, restore_target=0)
    for txid, images in ((1, 1), (2, 2)):
        writer.write(op_of(txid))
        add_directory(archive, nn, wanted)
        assert len(archive.catalogue().images) == images


def test_idle_new_cluster_keeps_its_history(archive: Archive, tmp_path: Path) -> None:
    """Only image 0 identifies the history of a new cluster without edits."""
    builder = ImageBuilder(HADOOP3)
    builder.info.transactionId = 0
    nn = storage(tmp_path / "idle", builder)
    last = segment(nn, 0)
    assert add_directory(archive, nn).branch == MAIN
    last = segment(nn, last)
    added = add_directory(archive, nn)
    assert (added.branch, added.restorable, len(added.edits)) == (MAIN, last, 1)
    # without the image, the first addition begins a branch, and the second addition continues that branch
    (nn / "current" / image_name(0)).unlink()
    branches = [add_directory(archive, nn) for _ in range(2)]
    assert [each.forked for each in branches] == [True, False]
    assert branches[0].branch == branches[1].branch != MAIN


def test_edits_purged_before_archiving_are_reported_as_missing(archive: Archive, nn: Path) -> None:
    follower = ArchiveFollower(archive, AddOptions())
    last = segment(nn, BASE_TXID, op_of(1))
    follower.follow(found(nn))
    purged = segment(nn, last, op_of(2))
    (nn / "current" / segment_name(last + 1, purged)).unlink()
    end = segment(nn, purged, op_of(3))
    position = follower.follow(found(nn))
    assert (position.last_txid, position.restorable_txid, position.missing) == (end, last, purged - last)
    assert check_archive(archive).missing == [(MAIN, last + 1, purged)]


def test_archive_that_disappears_is_not_created_again(archive: Archive, nn: Path, tmp_path: Path) -> None:
    follower = ArchiveFollower(archive, AddOptions())
    last = segment(nn, BASE_TXID, op_of(1))
    follower.follow(found(nn))
    (tmp_path / "archive").rename(tmp_path / "away")
    segment(nn, last, op_of(2))
    with pytest.raises(ArchiveError, match="no longer contains the archive"):
        follower.follow(found(nn))
    assert not (tmp_path / "archive").exists()
    (tmp_path / "away").rename(tmp_path / "archive")
    assert follower.follow(found(nn)).last_txid == last + 3


def test_kill_at_any_step_leaves_only_garbage(tmp_path: Path) -> None:
    for number in chosen(range(1, 57), scaled(56, quick=12), "archive kill"):
        root = tmp_path / str(number)
        nn = storage(root / "nn")
        store = KillingStore(root / "archive", number)
        writer, follower = Writer(nn), ArchiveFollower(Archive(store), AddOptions())
        try:
            follower.follow(found(nn))
            for txid in range(1, 5):
                writer.write(op_of(txid))
                follower.follow(found(nn))
            writer.finish()
            follower.follow(found(nn))
        except KilledError:
            pass
        again = Archive(FolderStore(root / "archive"))
        if again.identity() is not None:
            # objects published before the kill are complete
            assert check_archive(again).damaged == {}
        if writer.path.exists():
            writer.finish()
        position = ArchiveFollower(again, AddOptions()).follow(found(nn))
        assert (position.last_txid, position.restorable_txid, position.missing) == (writer.last, writer.last, 0)
        assert check_archive(again, repair=True).sound
        assert check_archive(again).garbage == []
        assert parts(again) == [(FIRST, writer.last, True)]
