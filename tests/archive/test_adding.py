"""Archives of storage directories: restoring every moment, branches, growth, keys, and stores that fail."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest import mock

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import Archive
from archive.catalogue import MAIN
from archive.checking import check_archive, check_images
from archive.errors import ArchiveDamagedError, ArchiveError
from archive.moments import moments, view_of
from checkpointer.merging.offline import merge_directory, plan_directory
from engine.merge import merge
from engine.settings import MergeSettings
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.configuration import Configuration
from hadoop_common.names import image_name, inprogress_name, segment_name
from hadoop_common.storage_info import ForeignDirectoryError
from image_format.errors import DigestMismatchError
from image_format.proto import fsimage_pb2 as pb
from journal.segment_file import EditLogSegment, SegmentTransactions, list_segments
from site_config.merge_settings import replay_rules
from tests.archive.restored import CASES, restored
from tests.archive.storage import saved, segment, storage
from tests.cli_runner import fingerprint, run_cli
from tests.depth import chosen, sample, scaled
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder, Saved
from tests.engine.op_makers import mkdir
from tests.recorded_cases import Case


# before layout -66, replay reads the time of a snapshot from the clock
@mock.patch("engine.replay.snapshots.now", return_value=5000)
@pytest.mark.parametrize("case", sample(CASES, 3, "archive"), ids=lambda case: case.id)
def test_every_moment_equals_a_merge_up_to_it(clock: mock.Mock, case: Case, archive: Archive, tmp_path: Path) -> None:
    current = case.copy_to(tmp_path / "nn")
    add_directory(archive, tmp_path / "nn")
    first, last = case.info["txid_before"], case.info["txid_after"]
    assert moments(view_of(archive.catalogue(), MAIN)) == [range(first, last + 1)]
    conf = Configuration.load(case.write_configuration(tmp_path / "conf"), environment={})
    settings = MergeSettings(rules=replay_rules(conf))
    wanted = range(first, last + 1)
    for txid in chosen(wanted, scaled(len(wanted), quick=3), case.id):
        target = restored(archive, txid, tmp_path / f"r{txid}", settings=settings)
        image = target / "current" / image_name(txid)
        assert (target / "current" / "VERSION").read_bytes() == (current / "VERSION").read_bytes()
        if txid == first:
            assert image.read_bytes() == case.image("before").read_bytes()
            continue
        (tmp_path / f"m{txid}").mkdir()
        segments = [
            EditLogSegment(each.first, min(each.last or txid, txid), each.path) for each in list_segments(current)
        ]
        merge(
            case.image("before"),
            SegmentTransactions([e for e in segments if e.first <= txid], first + 1),
            [tmp_path / f"m{txid}"],
            settings,
        )
        assert image.read_bytes() == (tmp_path / f"m{txid}" / image.name).read_bytes()


def test_adding_again_changes_neither_archive_nor_storage(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    before = fingerprint(nn)
    assert [each.last for each in add_directory(archive, nn).edits] == [last]
    kept = fingerprint(tmp_path / "archive")
    again = add_directory(archive, nn)
    assert (again.edits, again.images, again.last_txid) == ((), (), last)
    assert fingerprint(tmp_path / "archive") == kept
    assert fingerprint(nn) == before


def test_longer_copies_replace_shorter_ones_of_a_growing_segment(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    segment(nn, BASE_TXID, mkdir("/a", 16386), mkdir("/b", 16387), mkdir("/c", 16388))
    whole = nn / "current" / segment_name(BASE_TXID + 1, BASE_TXID + 5)
    growing, content = nn / "current" / inprogress_name(BASE_TXID + 1), whole.read_bytes()
    whole.unlink()
    options = AddOptions(in_progress=True)
    reached = []
    for size in (len(content) // 2, len(content) - 1):
        growing.write_bytes(content[:size] + bytes([255]) * 100 if size < len(content) // 2 else content[:size])
        reached.append(add_directory(archive, nn, options).last_txid)
    assert BASE_TXID < reached[0] < reached[1] == BASE_TXID + 4
    growing.unlink()
    whole.write_bytes(content)
    added = add_directory(archive, nn)
    assert (added.branch, added.last_txid, added.forked) == (MAIN, BASE_TXID + 5, False)
    assert [(each.last, each.finalized) for each in archive.catalogue().edits] == [(BASE_TXID + 5, True)]
    assert check_archive(archive).garbage == []


def test_base_image_is_added_if_replay_would_take_too_long(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, *(mkdir(f"/{number}", 16386 + number) for number in range(20)))
    fast = AddOptions(restore_target=10, replay_rate=100)
    assert len(add_directory(archive, nn, fast).images) == 1
    restored(archive, last, tmp_path / "made")
    for name in (image_name(last), f"{image_name(last)}.md5"):
        shutil.copy(tmp_path / "made" / "current" / name, nn / "current")
    assert add_directory(archive, nn, fast).images == ()
    slow = add_directory(archive, nn, AddOptions(restore_target=10, replay_rate=1))
    assert [each.txid for each in slow.images] == [last]


def test_namenode_that_was_set_back_creates_a_branch(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    middle = segment(nn, BASE_TXID, mkdir("/old", 16386))
    last = segment(nn, middle, mkdir("/lost", 16387, 6000))
    add_directory(archive, nn)
    kept = {each.name for each in archive.catalogue().records}
    (nn / "current" / segment_name(middle + 1, last)).unlink()
    newest = segment(nn, middle, mkdir("/new", 16387, 7000), mkdir("/newer", 16388, 7000))
    added = add_directory(archive, nn)
    assert added.forked
    # the first transaction is the same in both histories, so it proves nothing
    assert archive.catalogue().branches[added.branch].fork == middle
    assert kept <= archive.catalogue().names
    now, before = (
        saved(restored(archive, newest, tmp_path / "now", added.branch), newest),
        saved(restored(archive, last, tmp_path / "before", MAIN), last),
    )
    assert ("/new" in now, "/lost" in now, "/old" in now) == (True, False, True)
    assert ("/new" in before, "/lost" in before) == (False, True)
    assert not add_directory(archive, nn).edits
    assert add_directory(archive, nn).branch == added.branch


def test_history_without_a_proven_common_part_has_its_own_image(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    middle = segment(nn, BASE_TXID, mkdir("/old", 16386))
    segment(nn, middle, mkdir("/lost", 16387, 6000))
    add_directory(archive, nn)
    other = storage(tmp_path / "other")
    newest = segment(other, BASE_TXID, mkdir("/new", 16386, 7000), mkdir("/newer", 16387, 7000))
    # an image in both histories would prove that they have the same beginning; without the image, nothing proves this
    for path in (tmp_path / "other" / "current").glob("fsimage*"):
        path.unlink()
    builder = ImageBuilder(HADOOP3)
    builder.info.genstampV2 = 1234
    builder.save(other / "current")
    added = add_directory(archive, other)
    assert (added.forked, archive.catalogue().branches[added.branch].fork, len(added.images)) == (True, 0, 1)
    image = saved(restored(archive, newest, tmp_path / "out", added.branch), newest)
    assert ("/new" in image, "/old" in image, image.info.genstampV2) == (True, False, 1234)


def test_damaged_commit_prevents_changes(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    segment(nn, BASE_TXID, mkdir("/a", 16386))
    add_directory(archive, nn)
    path = next((tmp_path / "archive" / "catalogue").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArchiveDamagedError, match="the content of the archive is unknown"):
        add_directory(archive, nn)
    pruned = run_cli("archive", "prune", "--archive", tmp_path / "archive", "--keep", "all for 1h")
    assert (pruned.code, "check --repair" in pruned.err) == (3, True)


def test_another_namespace_is_rejected(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    add_directory(archive, nn)
    version = nn / "current" / "VERSION"
    version.write_text(version.read_text().replace("CID-1", "CID-2"))
    with pytest.raises(ArchiveError, match="is the archive of cluster CID-1"):
        add_directory(archive, nn)
    version.write_text("storageType=JOURNAL_NODE\n")
    with pytest.raises(ForeignDirectoryError, match=f"{version} belongs to a JOURNAL_NODE"):
        add_directory(archive, nn)


def test_image_with_a_wrong_digest_is_not_archived(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    image = nn / "current" / image_name(BASE_TXID)
    content = bytearray(image.read_bytes())
    content[100] ^= 1
    image.write_bytes(content)
    with pytest.raises(DigestMismatchError, match="but the digest file contains"):
        add_directory(archive, nn)
    assert archive.catalogue().images == ()


def test_tokens_are_stripped_on_request(archive: Archive, tmp_path: Path) -> None:
    case = next(each for each in CASES if "token" in each.id or "delegation" in each.id)
    case.copy_to(tmp_path / "nn")
    add_directory(archive, tmp_path / "nn")
    last = case.info["txid_after"]
    kept = saved(restored(archive, last, tmp_path / "kept"), last).first("SECRET_MANAGER", pb.SecretManagerSection)
    bare = saved(restored(archive, last, tmp_path / "bare", strip_tokens=True), last).first(
        "SECRET_MANAGER", pb.SecretManagerSection
    )
    assert kept.numTokens + kept.numKeys > 0
    assert (bare.numTokens, bare.numKeys) == (0, 0)
    assert isinstance(saved(tmp_path / "bare", last), Saved)


def test_image_after_an_upgrade_is_not_called_damaged(archive: Archive, tmp_path: Path) -> None:
    """Replay of the edits from before the upgrade uses the old layout, so its result differs from the new image."""
    nn = storage(tmp_path / "nn", ImageBuilder(-66))
    version = nn / "current" / "VERSION"
    version.write_text(version.read_text().replace(f"={HADOOP3}", "=-66"))
    before = segment(nn, BASE_TXID, mkdir("/a", 16386), layout=-66)
    add_directory(archive, nn)
    merge_directory(plan_directory(nn), MergeSettings(layout_version=HADOOP3))
    version.write_text(version.read_text().replace("=-66", f"={HADOOP3}"))
    last = segment(nn, before, mkdir("/b", 16387))
    (nn / "current" / image_name(BASE_TXID)).unlink()
    (added,) = add_directory(archive, nn).images
    assert added.txid == before
    assert moments(view_of(archive.catalogue(), MAIN)) == [range(BASE_TXID, last + 1)]
    report, observer = check_archive(archive), ProgressObserver(show=False)
    with mock.patch.object(observer, "phase") as phase:
        check_images(archive, tmp_path, MergeSettings(), report, observer)
    assert [each.args[0] for each in phase.call_args_list] == ["load", "replay", "save"]
    assert "upgrade" in report.images[added.name]
    assert report.sound
