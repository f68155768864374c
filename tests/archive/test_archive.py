"""Archives of storage directories: every moment comes back, branches, growth, damage, kills and removal."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import ClassVar
from unittest import mock

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from archive.adding import AddOptions, add_directory
from archive.archive import Archive, open_archive
from archive.catalogue import MAIN
from archive.checking import check_archive
from archive.encryption import ArchiveKey
from archive.errors import ArchiveDamagedError, ArchiveError
from archive.fetching import fetch_segment
from archive.history import moments, only_history, plan_restore, view_of
from archive.object_store import FolderStore, FsspecStore
from archive.path_log import path_log
from archive.restoring import RestoreOptions, deletion_of, fetched, restore, txid_at
from engine.merge import merge
from engine.settings import MergeSettings
from hadoop_common.configuration import Configuration
from hadoop_common.names import image_name, inprogress_name, segment_name
from image_format.errors import DigestMismatchError
from image_format.proto import fsimage_pb2 as pb
from journal.segment_file import EditLogSegment, list_segments, read_transactions
from site_config.merge_settings import replay_rules
from tests.archive.storage import saved, segment, storage
from tests.cli_runner import fingerprint, run_cli
from tests.depth import SEED, chosen, sample, scaled
from tests.engine.image_builder import BASE_TXID, HADOOP3, ImageBuilder, Saved
from tests.engine.op_makers import add, close, delete, mkdir, rename
from tests.recorded_cases import RECORDED, Case

CASES = [
    Case(path)
    for release in ("hadoop-2.7.3", "hadoop-3.3.6", "hadoop-3.5.0")
    for path in sorted((RECORDED / release).iterdir())
    if (path / "case.json").is_file()
]


def restored(archive: Archive, txid: int, target: Path, branch: str = "", **options: object) -> Path:
    catalogue = archive.catalogue()
    view = view_of(catalogue, branch or only_history(catalogue))
    with fetched(archive, plan_restore(view, txid), target.with_name(target.name + "-source")) as source:
        made = restore(source, target, RestoreOptions(**options))  # type: ignore[arg-type]
    assert made.txid == txid
    return target


# Hadoop 2 gives a snapshot's root the time of the replay
@mock.patch("engine.replay.snapshots.now", return_value=5000)
@pytest.mark.parametrize("case", sample(CASES, 3, "archive"), ids=lambda case: case.id)
def test_every_moment_equals_the_merge_cut_there(
    clock: mock.Mock, case: Case, archive: Archive, tmp_path: Path
) -> None:
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
            read_transactions([e for e in segments if e.first <= txid], first + 1),
            [tmp_path / f"m{txid}"],
            settings,
        )
        assert image.read_bytes() == (tmp_path / f"m{txid}" / image.name).read_bytes()


def test_adding_again_changes_nothing_and_reads_only(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    before = fingerprint(nn)
    assert [each.last for each in add_directory(archive, nn).edits] == [last]
    kept = fingerprint(tmp_path / "archive")
    again = add_directory(archive, nn)
    assert (again.edits, again.images, again.last_txid) == ((), (), last)
    assert fingerprint(tmp_path / "archive") == kept
    assert fingerprint(nn) == before


def test_a_growing_segment_is_followed_and_its_shorter_copies_go(archive: Archive, tmp_path: Path) -> None:
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


def test_a_base_image_is_added_when_replay_would_take_too_long(archive: Archive, tmp_path: Path) -> None:
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


def test_a_namenode_that_was_set_back_gets_a_branch(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    middle = segment(nn, BASE_TXID, mkdir("/old", 16386))
    last = segment(nn, middle, mkdir("/lost", 16387, 6000))
    add_directory(archive, nn)
    kept = {each.name for each in archive.catalogue().records}
    (nn / "current" / segment_name(middle + 1, last)).unlink()
    newest = segment(nn, middle, mkdir("/new", 16387, 7000), mkdir("/newer", 16388, 7000))
    added = add_directory(archive, nn)
    assert added.forked
    # its first transaction is the same in both, and proves nothing
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


def test_a_history_that_shares_nothing_provable_has_its_own_image(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    middle = segment(nn, BASE_TXID, mkdir("/old", 16386))
    segment(nn, middle, mkdir("/lost", 16387, 6000))
    add_directory(archive, nn)
    other = storage(tmp_path / "other")
    newest = segment(other, BASE_TXID, mkdir("/new", 16386, 7000), mkdir("/newer", 16387, 7000))
    # an image that both have is the proof; without it, nothing is shared
    for path in (tmp_path / "other" / "current").glob("fsimage*"):
        path.unlink()
    builder = ImageBuilder(HADOOP3)
    builder.info.genstampV2 = 1234
    builder.save(other / "current")
    added = add_directory(archive, other)
    assert (added.forked, archive.catalogue().branches[added.branch].fork, len(added.images)) == (True, 0, 1)
    image = saved(restored(archive, newest, tmp_path / "out", added.branch), newest)
    assert ("/new" in image, "/old" in image, image.info.genstampV2) == (True, False, 1234)


def test_a_large_encrypted_image_comes_back(tmp_path: Path) -> None:
    key = ArchiveKey(bytes(range(32)))
    archive = Archive(FolderStore(tmp_path / "archive"), key)
    content = [random.Random(number).randbytes(3 << 20) for number in range(2)]
    with archive.writing("images", "big") as out:
        for each in content:
            out.add(each)
        out.finish({})
    with archive.reading(out.stored.name) as reader:
        assert list(reader.chunks()) == content


def test_another_key_is_refused(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    add_directory(Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(32))), nn)
    with pytest.raises(ArchiveError, match="is not the key of"):
        add_directory(Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(range(32)))), nn)


def test_a_damaged_commit_stops_changes(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    segment(nn, BASE_TXID, mkdir("/a", 16386))
    add_directory(archive, nn)
    path = next((tmp_path / "archive" / "catalogue").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArchiveDamagedError, match="it is unknown what the archive has"):
        add_directory(archive, nn)
    pruned = run_cli("archive", "prune", "--archive", tmp_path / "archive", "--keep", "all for 1h")
    assert (pruned.code, "check --repair" in pruned.err) == (3, True)


def test_another_namespace_is_refused(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    add_directory(archive, nn)
    version = nn / "current" / "VERSION"
    version.write_text(version.read_text().replace("CID-1", "CID-2"))
    with pytest.raises(ArchiveError, match="is the archive of cluster CID-1"):
        add_directory(archive, nn)


def test_an_image_with_another_digest_is_not_archived(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    image = nn / "current" / image_name(BASE_TXID)
    content = bytearray(image.read_bytes())
    content[100] ^= 1
    image.write_bytes(content)
    with pytest.raises(DigestMismatchError, match="and the digest file says"):
        add_directory(archive, nn)
    assert archive.catalogue().images == ()


def test_an_encrypted_archive_needs_its_key(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/secret-name", 16386))
    key = tmp_path / "key"
    key.write_text("5a" * 32)
    key.chmod(0o600)
    words = ("--archive", tmp_path / "archive", "--key-file", key)
    assert run_cli("archive", "add", nn, *words).code == 0
    assert all(b"secret-name" not in path.read_bytes() for path in (tmp_path / "archive").rglob("*") if path.is_file())
    plain = run_cli("archive", "list", "--archive", tmp_path / "archive")
    assert (plain.code, "is encrypted" in plain.err, "--key-file" in plain.err) == (6, True, True)
    assert run_cli("archive", "restore", *words, "--txid", str(last), "--out", tmp_path / "out").code == 0
    assert "/secret-name" in saved(tmp_path / "out", last)


def test_the_same_through_fsspec(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    url = f"memory://{tmp_path.name}/archive"
    with open_archive(url) as archive:
        add_directory(archive, nn)
        assert "/a" in saved(restored(archive, last, tmp_path / "out"), last)
        assert check_archive(archive).sound


class SlowUploads(MemoryFileSystem):
    """A file system whose uploads can be seen before they are complete, as on SFTP; an upload may break off."""

    protocol = "slow"
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    breaks = False

    def put_file(self, lpath: str, rpath: str, **_: object) -> None:
        content = Path(lpath).read_bytes()
        self.pipe_file(rpath, content[: len(content) // 2] if self.breaks else content)
        if self.breaks:
            raise OSError("the connection was lost")


def test_an_upload_that_breaks_off_is_never_seen(tmp_path: Path) -> None:
    files = SlowUploads()
    store = FsspecStore("slow://archive", files, "/archive")
    (tmp_path / "a").write_bytes(b"content")
    files.breaks = True
    with pytest.raises(ArchiveError, match="the connection was lost"):
        store.put("edits/a", tmp_path / "a")
    assert store.sizes("edits") == {}
    (left,) = store.incoming()
    store.remove(left)
    files.breaks = False
    store.put("edits/a", tmp_path / "a")
    assert (store.read("edits/a"), store.incoming(), (tmp_path / "a").exists()) == (b"content", [], False)


class RefusedRenames(SlowUploads):
    """A file system whose renames can do nothing without an error, as WebHDFS."""

    protocol = "refused"
    refuses = True

    def mv(self, path1: str, path2: str, **named: object) -> None:
        if not self.refuses:
            super().mv(path1, path2, **named)


def test_a_rename_that_is_refused_without_an_error_is_one(tmp_path: Path) -> None:
    files = RefusedRenames()
    store = FsspecStore("refused://user:password@host/archive", files, "/refused")
    (tmp_path / "a").write_bytes(b"content")
    with pytest.raises(ArchiveError, match=r"refused://\*\*\*@host/archive/edits/a cannot be written: .*not renamed"):
        store.put("edits/a", tmp_path / "a")
    assert ((tmp_path / "a").exists(), store.location) == (True, "refused://***@host/archive")
    files.refuses = False
    store.put("edits/a", tmp_path / "a")
    assert store.read("edits/a") == b"content"


# ---- finding moments -----------------------------------------------------------------------------------------------


@pytest.fixture
def mistake(archive: Archive, tmp_path: Path) -> tuple[Archive, Path, int]:
    """An archive in which /data/warehouse was renamed, and its directory deleted, at time 9000; the deletion's txid."""
    nn = storage(tmp_path / "nn")
    middle = segment(
        nn, BASE_TXID, mkdir("/data", 16386), mkdir("/data/tmp", 16387), add("/data/tmp/f", 16388), close("/data/tmp/f")
    )
    last = segment(
        nn,
        middle,
        rename("/data/tmp", "/data/warehouse", 8000),
        mkdir("/x", 16389, 8500),
        delete("/data", 9000),
        mkdir("/y", 16390, 9500),
    )
    add_directory(archive, nn)
    return archive, tmp_path, last - 2


def test_a_moment_is_found_by_time_and_by_a_deletion(mistake: tuple[Archive, Path, int]) -> None:
    archive, folder, deleted = mistake
    view = view_of(archive.catalogue(), MAIN)
    assert deletion_of(archive, view, "/data/warehouse/f", folder) == deleted
    assert deletion_of(archive, view, "/data//warehouse/", folder) == deleted
    assert deletion_of(archive, view, "/data/tmp", folder) == deleted
    assert txid_at(archive, view, 8999, folder) == deleted - 1
    assert txid_at(archive, view, 9000, folder) == deleted
    assert txid_at(archive, view, 99999, folder) == deleted + 2
    answer = run_cli(
        "archive", "restore", "--archive", folder / "archive", "--before-delete", "/nothing", "--out", folder / "no"
    )
    assert (answer.code, "no archived transaction deletes /nothing" in answer.err) == (2, True)


def test_the_log_follows_renames_in_both_directions(mistake: tuple[Archive, Path, int]) -> None:
    archive, folder, deleted = mistake
    view = view_of(archive.catalogue(), MAIN)
    by_new = path_log(archive, view, "/data/warehouse/f", folder)
    assert [(each.operation, each.known_as) for each in by_new] == [
        ("OP_ADD", "/data/tmp/f"),
        ("OP_CLOSE", "/data/tmp/f"),
        ("OP_RENAME", "/data/warehouse/f"),
        ("OP_DELETE", "/data/warehouse/f"),
    ]
    by_old = path_log(archive, view, "/data/tmp/f", folder)
    assert [each.txid for each in by_old] == [each.txid for each in by_new]
    assert path_log(archive, view, "/z", folder) == []
    (folder / "audit.log").write_text(
        "1970-01-01 00:00:09,500 INFO FSNamesystem.audit: allowed=true\tugi=eve (auth:SIMPLE)\tip=/10.0.0.7\t"
        "cmd=delete\tsrc=/data\tdst=null\tperm=null\tproto=rpc\n"
    )
    with mock.patch.dict("os.environ", {"TZ": "UTC"}):
        __import__("time").tzset()
        answer = run_cli(
            *("archive", "log", "--archive", folder / "archive", "--path", "/data/tmp/f", "--op", "delete", "--json"),
            *("--audit", f"{folder}/audit*"),
        )
    (entry,) = json.loads(answer.out)["entries"]
    assert (entry["txid"], entry["user"], entry["address"]) == (deleted, "eve", "10.0.0.7")


def test_names_that_are_swapped_every_day_are_searched_once(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/now", 16386), mkdir("/before", 16387))
    for day in range(8):
        swap = [rename("/now", "/tmp"), rename("/before", "/now"), rename("/tmp", "/before")]
        last = segment(nn, last, *swap, mkdir(f"/now/{day}", 16390 + day))
    add_directory(archive, nn)
    view = view_of(archive.catalogue(), MAIN)
    with mock.patch("archive.path_log.fetch_segment", side_effect=fetch_segment) as fetched_segments:
        entries = path_log(archive, view, "/now", tmp_path)
    assert [each.operation for each in entries].count("OP_RENAME") == 24
    assert [each.paths for each in entries if each.operation == "OP_MKDIR"][:2] == [("/now",), ("/before",)]
    # each of the three names costs at most two passes over nine segments
    assert fetched_segments.call_count <= 6 * 9


def test_the_commands_tell_what_came_later_and_show_the_difference(mistake: tuple[Archive, Path, int]) -> None:
    _, folder, deleted = mistake
    words = ("--archive", folder / "archive")
    answer = run_cli(
        "archive", "restore", *words, "--before-delete", "/data/warehouse", "--out", folder / "out", "--json"
    )
    found = json.loads(answer.out)
    assert (found["txid"], found["later"]["transactions"]) == (deleted - 1, 3)
    assert (found["later"]["deletions"], found["later"]["files"]) == (1, 1)
    assert "/data/warehouse/f" in saved(folder / "out", deleted - 1)
    again = run_cli("archive", "restore", *words, "--txid", str(deleted), "--out", folder / "out")
    assert (again.code, "exists and is not an empty directory" in again.err) == (6, True)
    difference = run_cli("archive", "diff", str(deleted - 1), str(deleted), *words, "--path", "/data")
    assert (difference.code, "/data" in difference.out) == (1, True)
    assert run_cli("archive", "diff", str(deleted), str(deleted), *words).code == 0
    assert json.loads(run_cli("archive", "drill", *words, "--json").out)["branch"] == MAIN
    assert run_cli("archive", "show", str(deleted), *words).code == 0
    assert run_cli("archive", "restore", *words, "--out", folder / "none").code == 2
    late = run_cli("archive", "restore", *words, "--txid", "110", "--without", "112", "--out", folder / "none")
    assert (late.code, "and the restore ends at 110" in late.err) == (2, True)


# ---- damage, kills and removal -------------------------------------------------------------------------------------


def test_a_flipped_bit_is_found_and_costs_only_what_needs_it(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    middle = segment(nn, BASE_TXID, mkdir("/a", 16386))
    last = segment(nn, middle, mkdir("/b", 16387))
    add_directory(archive, nn)
    for record in archive.catalogue().records:
        path = tmp_path / "archive" / record.name
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 4
        path.write_bytes(content)
        report = check_archive(archive)
        assert list(report.damaged) == [record.name]
        first = BASE_TXID if record.name.startswith("images") else getattr(record, "first", 0)
        assert report.lost == [(MAIN, first, last)]
        if record.name.startswith("edits"):
            restored(archive, first - 1, tmp_path / f"good-{first}")
        with pytest.raises(ArchiveDamagedError):
            restored(archive, last, tmp_path / "bad")
        assert not (tmp_path / "bad").exists()
        content[len(content) // 3] ^= 4
        path.write_bytes(content)
    assert check_archive(archive).sound


def test_a_damaged_commit_is_repaired_from_the_objects(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    add_directory(archive, nn)
    names = archive.catalogue().names
    for path in (tmp_path / "archive" / "catalogue").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert not check_archive(archive).sound
    assert set(check_archive(archive, repair=True).adopted) == names
    assert check_archive(archive).sound
    restored(archive, last, tmp_path / "out")


class Killed(BaseException):
    """The process ends here."""


class KillingStore(FolderStore):
    """A store that dies after so many steps, before or after the step took effect."""

    def __init__(self, root: Path, steps: int) -> None:
        super().__init__(root)
        self._steps = steps

    def _step(self) -> None:
        self._steps -= 1
        if self._steps == 0:
            raise Killed

    def put(self, name: str, source: Path) -> None:
        self._step()
        super().put(name, source)
        self._step()

    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)
        self._step()

    def scratch(self) -> Path:
        self._step()
        return super().scratch()


@pytest.mark.parametrize("seed", range(SEED, SEED + scaled(20, quick=2)))
def test_kills_leave_only_garbage(seed: int, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    root, last = tmp_path / "archive", BASE_TXID
    for number in range(4):
        last = segment(nn, last, mkdir(f"/{number}", 16386 + number))
        known: range | None = None
        for steps in range(seed % 3 + 1, 40, 3):
            store = KillingStore(root, steps)
            try:
                add_directory(Archive(store), nn, AddOptions(restore_target=0, replay_rate=1))
            except Killed:
                archive = Archive(FolderStore(root))
                view = view_of(archive.catalogue(), MAIN)
                # what was published stays
                assert known is None or set(known) <= set(moments(view)[0])
                if view.images:
                    known = moments(view)[0]
            else:
                break
        archive = Archive(FolderStore(root))
        assert moments(view_of(archive.catalogue(), MAIN)) == [range(BASE_TXID, last + 1)]
    check_archive(archive, repair=True)
    report = check_archive(archive)
    assert (report.sound, report.garbage) == (True, [])
    assert "/3" in saved(restored(archive, last, tmp_path / "out"), last)


def test_prune_removes_only_what_no_kept_moment_needs(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    restored_at = last
    add_directory(archive, nn)
    restored(archive, last, tmp_path / "made")
    for name in (image_name(last), f"{image_name(last)}.md5"):
        shutil.copy(tmp_path / "made" / "current" / name, nn / "current")
    last = segment(nn, last, mkdir("/b", 16387))
    add_directory(archive, nn, AddOptions(restore_target=0))
    words = ("--archive", tmp_path / "archive", "--keep", "all for 1h", "--json")
    dry = json.loads(run_cli("archive", "prune", *words, "--dry-run").out)
    before = fingerprint(tmp_path / "archive")
    assert sorted(each["name"].partition("/")[0] for each in dry["removed"]) == ["edits", "images"]
    assert fingerprint(tmp_path / "archive") == before
    done = json.loads(run_cli("archive", "prune", *words).out)
    assert (done["removed"], done["bytes"]) == (dry["removed"], dry["bytes"])
    assert moments(view_of(archive.catalogue(), MAIN)) == [range(restored_at, last + 1)]
    assert "/a" in saved(restored(archive, last, tmp_path / "out"), last)


def test_many_commits_become_one(archive: Archive, tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = BASE_TXID
    for number in range(70):
        last = segment(nn, last, mkdir(f"/{number}", 16386 + number))
        add_directory(archive, nn)
    assert len(archive.catalogue().commits) < 70
    assert moments(view_of(archive.catalogue(), MAIN)) == [range(BASE_TXID, last + 1)]
    assert check_archive(archive).garbage == []


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


def test_a_key_for_a_plain_archive_is_refused(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
    with pytest.raises(ArchiveError, match="is not encrypted"):
        Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(32))).require()


def test_a_drill_finds_its_archive_in_the_configuration(mistake: tuple[Archive, Path, int]) -> None:
    _, folder, _ = mistake
    conf = folder / "conf"
    conf.mkdir()
    value = f"<property><name>checkpointer.archive.dir</name><value>{folder / 'archive'}</value></property>"
    (conf / "hdfs-site.xml").write_text(f"<configuration>{value}</configuration>")
    answer = run_cli("archive", "drill", "--conf", conf, "--json")
    assert (answer.code, json.loads(answer.out)["branch"]) == (0, MAIN)
    (conf / "hdfs-site.xml").write_text("<configuration/>")
    unset = run_cli("archive", "drill", "--conf", conf)
    assert (unset.code, "sets checkpointer.archive.dir" in unset.err) == (2, True)


def test_a_repair_leaves_what_another_process_may_be_about_to_list(archive: Archive, tmp_path: Path) -> None:
    add_directory(archive, storage(tmp_path / "nn"))
    folder = tmp_path / "archive"
    (folder / "edits").mkdir(mode=0o700, exist_ok=True)
    young, old = folder / "edits" / "young.zst", folder / "edits" / "old.zst"
    for path in (young, old):
        path.write_bytes(b"stored, but not listed")
    os.utime(old, (1, 1))
    answer = run_cli("archive", "check", "--archive", folder, "--repair")
    assert (answer.code, young.exists(), old.exists()) == (0, True, False)
    assert "not listed: edits/young.zst" in answer.out
    files = MemoryFileSystem()
    store = FsspecStore("memory://age", files, "/age")
    files.pipe_file("/age/edits/a", b"x")
    age = store.age("edits/a")
    assert age is not None
    assert -1 < age < 600
    assert store.age("edits/missing") is None


def test_errors_of_a_file_system_show_no_credentials() -> None:
    files = mock.Mock(protocol="abfs")
    files.ls.side_effect = files.open.side_effect = RuntimeError("https://u:p@a/c?sv=1&sig=abc: forbidden")
    store = FsspecStore("abfs://u:p@a/c?sig=abc", files, "/c")
    for act in (lambda: store.sizes("edits"), lambda: store.read("edits/x")):
        with pytest.raises(ArchiveError) as caught:
            act()
        assert "***@a/c?sv=1&sig=***" in caught.value.message
        assert "abc" not in caught.value.message
