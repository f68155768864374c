"""An archive with images of two clusters is refused, and one cluster is moved to another archive."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from unittest import mock

import pytest

from archive.adding import AddOptions, add_directory
from archive.archive import IDENTITY, Archive, open_archive
from archive.catalogue import COMMITS, EDITS, IMAGES
from archive.checking import check_archive
from archive.clusters import move_cluster
from archive.encryption import ArchiveKey
from archive.errors import ArchiveDamagedError, ArchiveError
from archive.following import ArchiveFollower
from archive.object_store import FolderStore, FsspecStore
from archive.pruning import prune
from site_config.archive_settings import parse_rules
from tests.archive.killed_process import is_killed
from tests.archive.open_segment import Writer, found, op_of
from tests.archive.restored import restored
from tests.archive.storage import VERSION, saved, segment, storage
from tests.cli_runner import fingerprint, run_cli
from tests.depth import deep
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder

FAR = 5000
"""Transaction of the other cluster's image."""
SEVERAL = "contains images of several clusters"
FOLDERS = (IMAGES, EDITS, COMMITS)


@dataclass(frozen=True)
class Cluster:
    """A storage directory, and its last transaction."""

    nn: Path
    last: int


def other_storage(folder: Path, base: int = FAR) -> Path:
    """Create the storage directory of cluster CID-2."""
    builder = ImageBuilder(HADOOP3)
    builder.info.namespaceId, builder.info.transactionId = 8, base
    nn = storage(folder, builder)
    text = VERSION.replace("namespaceID=7", "namespaceID=8").replace("CID-1", "CID-2").replace("BP-1", "BP-2")
    (nn / "current" / "VERSION").write_text(text)
    return nn


def grown(nn: Path, base: int, archive: Archive) -> Cluster:
    """Archive two segments in several commits."""
    last = base
    for number in range(2):
        last = segment(nn, last, op_of(base + number))
        add_directory(archive, nn)
    return Cluster(nn, last)


def copy_all(source: Archive, target: Archive, scratch: Path) -> None:
    """Copy an archive without its identity over another archive, as an operator might by mistake."""
    for name in [name for folder in FOLDERS for name in source.store.sizes(folder)]:
        scratch.write_bytes(source.store.read(name))
        target.store.put(name, scratch)


@pytest.fixture(params=["directory", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The location of archives: a prefix of paths or URLs."""
    return str(tmp_path) if request.param == "directory" else f"memory://{tmp_path.name}"


@pytest.fixture
def mixed(place: str, nn: Path, tmp_path: Path) -> Iterator[tuple[Archive, Archive, Cluster, Cluster]]:
    """An archive of clusters CID-1 and CID-2, a place for a new archive, and both clusters."""
    with ExitStack() as stack:
        archive, other, target = (
            stack.enter_context(open_archive(f"{place}/{name}")) for name in ("mixed", "other", "separate")
        )
        first = grown(nn, BASE_TXID, archive)
        second = grown(other_storage(tmp_path / "nn2"), FAR, other)
        copy_all(other, archive, tmp_path / "copied")
        yield archive, target, first, second


Mixed = tuple[Archive, Archive, Cluster, Cluster]


def contents(archive: Archive) -> dict[str, bytes]:
    return {name: archive.store.read(name) for folder in FOLDERS for name in archive.store.sizes(folder)}


def test_archive_of_two_clusters_is_refused_and_reported(mixed: Mixed) -> None:
    archive, _, first, second = mixed
    before = contents(archive)
    for each in (first, second):
        with pytest.raises(ArchiveError, match=SEVERAL) as refused:
            add_directory(archive, each.nn)
        assert "checkpointer archive split" in refused.value.hint
    for use in (archive.require, lambda: prune(archive, parse_rules("all for 1d"))):
        with pytest.raises(ArchiveError, match="namespaceID 7, clusterID CID-1, blockpoolID BP-1; namespaceID 8"):
            use()
    report = check_archive(archive)
    assert [(each.cluster_id, each.block_pool_id, each.objects, each.newest_txid) for each in report.clusters] == [
        ("CID-1", "BP-1", 3, first.last),
        ("CID-2", "BP-2", 3, second.last),
    ]
    assert (report.damaged, report.missing, report.unassigned, report.sound) == ({}, [], [], False)
    assert contents(archive) == before


def test_command_moves_one_cluster_and_both_continue(nn: Path, tmp_path: Path) -> None:
    root, new = tmp_path / "archive", tmp_path / "new"
    with open_archive(str(root)) as archive, open_archive(str(tmp_path / "other")) as other:
        grown(nn, BASE_TXID, archive)
        second = grown(other_storage(tmp_path / "nn2"), FAR, other)
        copy_all(other, archive, tmp_path / "copied")
    checked = run_cli("archive", "check", "--archive", root)
    assert (checked.code, "cluster CID-2, namespace 8, block pool BP-2: 3 objects" in checked.out) == (3, True)
    assert run_cli("archive", "list", "--archive", root).code == 6
    words = checked.out.splitlines()[-1].partition("next: checkpointer ")[2].replace("NEW_ARCHIVE", str(new)).split()
    before = fingerprint(root)
    for _ in range(2):
        moved = run_cli(*words)
        assert (moved.code, "namespaceID" in moved.out) == (0, True)
    assert fingerprint(root).items() >= before.items()
    left = "BP-2" if "BP-1" in words else "BP-1"
    for each in (new, root):
        run_cli("archive", "check", "--archive", each, "--repair")
        assert run_cli("archive", "check", "--archive", each).code == 0
    assert f"block pool {left}" in run_cli("archive", "check", "--archive", root).out
    for directory, pool in ((nn, "BP-1"), (second.nn, "BP-2")):
        assert run_cli("archive", "add", directory, "--archive", root if pool == left else new).code == 0


@pytest.mark.parametrize("pool", ["BP-1", "BP-2"])
def test_moved_and_left_archive_restore_every_moment(pool: str, mixed: Mixed, tmp_path: Path) -> None:
    archive, target, first, second = mixed
    before = contents(archive)
    moved = move_cluster(archive, pool, target)
    assert contents(archive).items() >= before.items()
    assert move_cluster(archive, pool, target) == moved
    places = {pool: target, ({"BP-1", "BP-2"} - {pool}).pop(): archive}
    for name, (base, cluster) in {"BP-1": (BASE_TXID, first), "BP-2": (FAR, second)}.items():
        check_archive(places[name], repair=True)
        assert places[name].require().cluster_id == name.replace("BP", "CID")
        report = check_archive(places[name])
        assert (report.sound, report.garbage, report.clusters[0].block_pool_id) == (True, [], name)
        assert report.missing == []
        for txid in range(base, cluster.last + 1):
            assert saved(restored(places[name], txid, tmp_path / f"{name}-{txid}"), txid)
        last = segment(cluster.nn, cluster.last, op_of(1))
        assert add_directory(places[name], cluster.nn).last_txid == last


@pytest.mark.parametrize("pool", ["BP-1", "BP-2"])
def test_removed_edits_do_not_become_missing_edits(pool: str, nn: Path, tmp_path: Path) -> None:
    """In both archives, retention rules have removed the edits between two images."""
    second = other_storage(tmp_path / "nn2")
    with ExitStack() as stack:
        archive, other, target = (
            stack.enter_context(open_archive(str(tmp_path / name))) for name in ("archive", "other", "new")
        )
        for each, directory, base in ((archive, nn, BASE_TXID), (other, second, FAR)):
            last = segment(directory, base, op_of(base))
            later = ImageBuilder(HADOOP3)
            later.info.transactionId = last
            later.save(directory / "current")
            segment(directory, last, op_of(last))
            added = add_directory(each, directory, AddOptions(restore_target=0))
            assert len(added.images) == 2
            each.publish(each.catalogue(), remove=[added.edits[0].name])
            each.store.remove(added.edits[0].name)
        copy_all(other, archive, tmp_path / "copied")
        move_cluster(archive, pool, target)
        places = (archive, target) if pool == "BP-2" else (target, archive)
        for each, directory in zip(places, (nn, second), strict=True):
            assert check_archive(each, repair=True).missing == []
            # retention rules have removed the older segment, so it is not archived again
            assert add_directory(each, directory).edits == ()


def test_interrupted_move_loses_nothing_and_can_be_repeated(mixed: Mixed) -> None:
    archive, target, _, _ = mixed
    listed, before = archive.catalogue().names, contents(archive)
    kind = type(archive.store)
    put, left = kind.put, [0]

    def interrupted(store: FolderStore | FsspecStore, *arguments: object, **named: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        put(store, *arguments, **named)  # type: ignore[arg-type]

    steps = 0
    with mock.patch.object(kind, "put", interrupted):
        while True:
            left[0] = 1 + steps % 2
            try:
                move_cluster(archive, "BP-2", target)
                break
            except KeyboardInterrupt:
                steps += 1
            assert archive.catalogue().names | target.catalogue().names == listed
            assert contents(archive).items() >= before.items()
    assert steps > 10
    assert move_cluster(archive, "BP-2", target).records
    assert (len(archive.catalogue().names), len(target.catalogue().names)) == (3, 3)
    assert archive.catalogue().names | target.catalogue().names == listed


def split(root: Path, _: Path) -> None:
    with open_archive(str(root / "archive")) as archive, open_archive(str(root / "new")) as target:
        move_cluster(archive, "BP-2", target)


def test_killed_move_loses_nothing(nn: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole" / "archive"
    whole.parent.mkdir()
    with open_archive(str(whole)) as archive, open_archive(str(tmp_path / "other")) as other:
        grown(nn, BASE_TXID, archive)
        grown(other_storage(tmp_path / "nn2"), FAR, other)
        copy_all(other, archive, tmp_path / "copied")
        first, second = archive.catalogue().names - other.catalogue().names, other.catalogue().names
    for step in count(1, 1 if deep() else 11):
        root = tmp_path / f"killed-{step}"
        shutil.copytree(whole.parent, root)
        killed = is_killed(split, root, nn, step)
        with open_archive(str(root / "archive")) as archive, open_archive(str(root / "new")) as target:
            assert archive.catalogue().names | target.catalogue().names == first | second
            assert fingerprint(root / "archive").items() >= fingerprint(whole).items()
            move_cluster(archive, "BP-2", target)
            assert (archive.catalogue().names, target.catalogue().names) == (first, second)
            for each in (archive, target):
                report = check_archive(each, repair=True)
                assert (report.sound, check_archive(each).garbage) == (True, [])
        if not killed:
            assert step > 11
            break


def test_interrupted_move_is_completed_while_the_new_archive_grows(mixed: Mixed) -> None:
    archive, target, first, second = mixed
    with mock.patch.object(archive, "publish", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        move_cluster(archive, "BP-2", target)
    last = segment(second.nn, second.last, op_of(1))
    assert add_directory(target, second.nn).last_txid == last
    with pytest.raises(ArchiveError, match=SEVERAL):
        add_directory(archive, first.nn)
    move_cluster(archive, "BP-2", target)
    assert add_directory(archive, first.nn).edits == ()
    assert len(target.catalogue().records) == 4


@pytest.mark.parametrize("distance", [2, 7])
def test_edits_connected_with_images_of_both_clusters_are_not_moved(
    distance: int, archive: Archive, nn: Path, tmp_path: Path
) -> None:
    """The other cluster's image is within the transactions of this cluster, or at the next transaction."""
    with open_archive(str(tmp_path / "other")) as other, open_archive(str(tmp_path / "new")) as target:
        grown(nn, BASE_TXID, archive)
        base = BASE_TXID + distance
        grown(other_storage(tmp_path / "nn2", base), base, other)
        copy_all(other, archive, tmp_path / "copied")
        before = fingerprint(tmp_path / "archive")
        with pytest.raises(ArchiveError, match="the cluster of 4 objects with edits, such as edits/") as refused:
            move_cluster(archive, "BP-2", target)
        assert "begin a new archive for each cluster" in refused.value.hint
    assert (fingerprint(tmp_path / "archive"), (tmp_path / "new").exists()) == (before, False)
    checked = run_cli("archive", "check", "--archive", tmp_path / "archive")
    assert checked.out.count("of an unknown cluster: ") == 4
    assert "begin a new archive for each cluster" in checked.out.splitlines()[-1]


def test_repair_after_a_move_does_not_list_the_moved_edits_again(mixed: Mixed, tmp_path: Path) -> None:
    """The repair keeps young unlisted objects, and lists unlisted objects because a commit is damaged."""
    archive, target, *_ = mixed
    moved = move_cluster(archive, "BP-2", target)
    for name in archive.store.sizes(IMAGES):
        if name in {each.name for each in moved.records}:
            archive.store.remove(name)
    # the commit that repeats the branches
    damaged = min(archive.catalogue().commits, key=archive.store.sizes(COMMITS).__getitem__)
    archive.store.remove(damaged)
    (tmp_path / "damaged").write_bytes(b"damaged")
    archive.store.put(damaged, tmp_path / "damaged")
    report = check_archive(archive, repair=True, min_age=1e9)
    assert not {each.name for each in moved.records} & {each.name for each in archive.catalogue().records}
    assert [each.block_pool_id for each in report.clusters] in ([], ["BP-1"])


def test_edits_of_a_cluster_without_an_image_next_to_them_are_not_assigned_to_another(
    archive: Archive, nn: Path, tmp_path: Path
) -> None:
    """Both clusters have finalized the same transactions, but only the second cluster has an image before them."""
    with open_archive(str(tmp_path / "other")) as other, open_archive(str(tmp_path / "separate")) as target:
        first = grown(nn, BASE_TXID, archive)
        later = segment(nn, first.last + 3000, op_of(7), op_of(8), op_of(9))
        add_directory(archive, nn)
        base = first.last + 2990
        second = other_storage(tmp_path / "nn2", base)
        last = base
        while last < later:
            last = segment(second, last, op_of(last))
        add_directory(other, second)
        copy_all(other, archive, tmp_path / "copied")
        with pytest.raises(ArchiveError, match="cannot be determined"):
            move_cluster(archive, "BP-2", target)


def test_clusters_with_a_gap_of_one_transaction_are_separated(archive: Archive, nn: Path, tmp_path: Path) -> None:
    with open_archive(str(tmp_path / "other")) as other, open_archive(str(tmp_path / "new")) as target:
        base = grown(nn, BASE_TXID, archive).last + 2
        grown(other_storage(tmp_path / "nn2", base), base, other)
        copy_all(other, archive, tmp_path / "copied")
        move_cluster(archive, "BP-2", target)
        assert target.catalogue().records == other.catalogue().records


@pytest.mark.parametrize("missing", [False, True])
def test_damage_is_moved_and_reported(missing: bool, nn: Path, tmp_path: Path) -> None:
    with (
        open_archive(str(tmp_path / "archive")) as archive,
        open_archive(str(tmp_path / "other")) as other,
        open_archive(str(tmp_path / "new")) as target,
    ):
        grown(nn, BASE_TXID, archive)
        grown(other_storage(tmp_path / "nn2"), FAR, other)
        damaged = other.catalogue().edits[0].name
        copy_all(other, archive, tmp_path / "copied")
        path = tmp_path / "archive" / damaged
        content = path.read_bytes()
        path.unlink()
        if not missing:
            path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        move_cluster(archive, "BP-2", target)
        assert list(check_archive(target).damaged) == [damaged]
        assert check_archive(archive).damaged == {}


def test_encrypted_objects_are_moved_with_their_key(nn: Path, tmp_path: Path) -> None:
    key = ArchiveKey(bytes(32))
    archive, other, target = (Archive(FolderStore(tmp_path / name), key) for name in ("archive", "other", "new"))
    grown(nn, BASE_TXID, archive)
    second = grown(other_storage(tmp_path / "nn2"), FAR, other)
    copy_all(other, archive, tmp_path / "copied")
    with open_archive(str(tmp_path / "archive")) as plain, pytest.raises(ArchiveError, match="is encrypted"):
        move_cluster(plain, "BP-2", Archive(FolderStore(tmp_path / "new")))
    assert not (tmp_path / "new").exists()
    move_cluster(archive, "BP-2", target)
    assert target.require().key_check == key.check()
    assert saved(restored(target, second.last, tmp_path / "out"), second.last)


def test_damaged_copy_is_an_error_before_anything_is_listed(mixed: Mixed, tmp_path: Path) -> None:
    archive, target, _, _ = mixed
    listed = archive.catalogue().names
    name = next(each for each in sorted(listed) if "5001" in each)
    (tmp_path / "bad").write_bytes(b"not the object")
    target.store.put(name, tmp_path / "bad")
    with pytest.raises(ArchiveDamagedError, match=r"its copy in .* is damaged") as refused:
        move_cluster(archive, "BP-2", target)
    assert "the original is intact" in refused.value.hint
    assert (archive.catalogue().names, target.catalogue().records) == (listed, ())
    target.store.remove(name)
    assert len(move_cluster(archive, "BP-2", target).records) == 3


def test_target_must_be_new_and_the_archive_mixed(mixed: Mixed, place: str, tmp_path: Path) -> None:
    archive, target, *_ = mixed
    listed = archive.catalogue().names
    with open_archive(f"{place}/third") as third:
        grown(other_storage(tmp_path / "nn3", 9000), 9000, third)
        with pytest.raises(ArchiveError, match="already contains other objects"):
            move_cluster(archive, "BP-2", third)
        with pytest.raises(ArchiveError, match="is the archive of cluster CID-2"):
            move_cluster(archive, "BP-1", third)
        with pytest.raises(ArchiveError, match="contains only this cluster"):
            move_cluster(third, "BP-2", target)
    with pytest.raises(ArchiveError, match="has no image of block pool BP-3") as refused:
        move_cluster(archive, "BP-3", target)
    assert "BP-1, BP-2" in refused.value.hint
    for pool in ("BP-1", "BP-2"):
        with pytest.raises(ArchiveError, match="is the archive of cluster"):
            move_cluster(archive, pool, archive)
    assert archive.catalogue().names == listed
    assert target.catalogue().records == ()


def test_daemon_stops_adding_when_another_cluster_appears(archive: Archive, nn: Path, tmp_path: Path) -> None:
    follower, writer = ArchiveFollower(archive, AddOptions()), Writer(nn)
    follower.follow(found(nn))
    with open_archive(str(tmp_path / "other")) as other:
        grown(other_storage(tmp_path / "nn2"), FAR, other)
        copy_all(other, archive, tmp_path / "copied")
    listed = archive.catalogue().names
    for _ in range(2):
        writer.write(op_of(writer.last))
        with pytest.raises(ArchiveError, match=SEVERAL):
            follower.follow(found(nn))
    assert archive.catalogue().names == listed
    with open_archive(str(tmp_path / "new")) as target:
        move_cluster(archive, "BP-2", target)
    assert follower.follow(found(nn)).last_txid == writer.last
    assert archive.store.read(IDENTITY)
