"""Archives of storage directories: restoring every moment, branches, growth, keys, and stores that fail."""

from __future__ import annotations

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
from archive.moments import moments, view_of
from archive.object_store import FolderStore, FsspecStore
from engine.merge import merge
from engine.settings import MergeSettings
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


# Hadoop 2 gives a snapshot's root the time of the replay
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
    # an image in both would prove that the histories share their beginning; without the image, nothing does
    for path in (tmp_path / "other" / "current").glob("fsimage*"):
        path.unlink()
    builder = ImageBuilder(HADOOP3)
    builder.info.genstampV2 = 1234
    builder.save(other / "current")
    added = add_directory(archive, other)
    assert (added.forked, archive.catalogue().branches[added.branch].fork, len(added.images)) == (True, 0, 1)
    image = saved(restored(archive, newest, tmp_path / "out", added.branch), newest)
    assert ("/new" in image, "/old" in image, image.info.genstampV2) == (True, False, 1234)


def test_large_encrypted_image_round_trip(tmp_path: Path) -> None:
    key = ArchiveKey(bytes(range(32)))
    archive = Archive(FolderStore(tmp_path / "archive"), key)
    content = [random.Random(number).randbytes(3 << 20) for number in range(2)]
    with archive.writing("images", "big") as out:
        for each in content:
            out.add(each)
        out.finish({})
    with archive.reading(out.stored.name) as reader:
        assert list(reader.chunks()) == content


def test_another_key_is_rejected(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    add_directory(Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(32))), nn)
    with pytest.raises(ArchiveError, match="does not contain the key of"):
        add_directory(Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(range(32)))), nn)


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


def test_encrypted_archive_requires_its_key(tmp_path: Path) -> None:
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


def test_archive_in_an_fsspec_store(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    last = segment(nn, BASE_TXID, mkdir("/a", 16386))
    url = f"memory://{tmp_path.name}/archive"
    with open_archive(url) as archive:
        add_directory(archive, nn)
        assert "/a" in saved(restored(archive, last, tmp_path / "out"), last)
        assert check_archive(archive).sound


class SlowUploads(MemoryFileSystem):
    """A file system that shows incomplete uploads, like SFTP; an upload may be interrupted."""

    protocol = "slow"
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    breaks = False

    def put_file(self, lpath: str, rpath: str, **_: object) -> None:
        content = Path(lpath).read_bytes()
        self.pipe_file(rpath, content[: len(content) // 2] if self.breaks else content)
        if self.breaks:
            raise OSError("the connection was lost")


class CrossedUploads(MemoryFileSystem):
    """An object store in which another writer stores an object after this one has found that it does not exist."""

    cachable = False
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def __init__(self, *, conditional: bool, crossed: bool) -> None:
        super().__init__()
        self.conditional, self.pending = conditional, crossed

    def exists(self, path: str, **options: object) -> bool:
        found = super().exists(path, **options)
        if self.pending:
            self.pending = False
            self.pipe_file(path, b"theirs")
        return bool(found)

    def put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **_: object) -> None:
        if mode != "overwrite" and not self.conditional:
            raise NotImplementedError("a header implies functionality that is not implemented")
        self.pipe_file(rpath, Path(lpath).read_bytes(), mode=mode)


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize(("crossed", "content"), [(True, b"theirs"), (False, b"ours")])
def test_contested_object_is_not_replaced(tmp_path: Path, conditional: bool, crossed: bool, content: bytes) -> None:
    files = CrossedUploads(conditional=conditional, crossed=crossed)
    store = FsspecStore("memory://archive", files, f"/{tmp_path.name}")
    (tmp_path / "a").write_bytes(b"ours")
    store.put("archive.json", tmp_path / "a", contested=True)
    assert store.read("archive.json") == content


def test_interrupted_upload_is_not_visible(tmp_path: Path) -> None:
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
    """A file system on which a rename may silently have no effect, like WebHDFS."""

    protocol = "refused"
    refuses = True

    def mv(self, path1: str, path2: str, **named: object) -> None:
        if not self.refuses:
            super().mv(path1, path2, **named)


def test_silently_refused_rename_is_an_error(tmp_path: Path) -> None:
    files = RefusedRenames()
    store = FsspecStore("refused://user:password@host/archive", files, "/refused")
    (tmp_path / "a").write_bytes(b"content")
    with pytest.raises(ArchiveError, match=r"refused://\*\*\*@host/archive/edits/a cannot be written: .*not renamed"):
        store.put("edits/a", tmp_path / "a")
    assert ((tmp_path / "a").exists(), store.location) == (True, "refused://***@host/archive")
    files.refuses = False
    store.put("edits/a", tmp_path / "a")
    assert store.read("edits/a") == b"content"


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


def test_key_for_an_unencrypted_archive_is_rejected(tmp_path: Path) -> None:
    nn = storage(tmp_path / "nn")
    with open_archive(str(tmp_path / "archive")) as archive:
        add_directory(archive, nn)
    with pytest.raises(ArchiveError, match="is not encrypted"):
        Archive(FolderStore(tmp_path / "archive"), ArchiveKey(bytes(32))).require()


def test_file_system_errors_contain_no_credentials() -> None:
    files = mock.Mock(protocol="abfs")
    files.ls.side_effect = files.open.side_effect = RuntimeError("https://u:p@a/c?sv=1&sig=abc: forbidden")
    store = FsspecStore("abfs://u:p@a/c?sig=abc", files, "/c")
    for act in (lambda: store.sizes("edits"), lambda: store.read("edits/x")):
        with pytest.raises(ArchiveError) as caught:
            act()
        assert "***@a/c?sv=1&sig=***" in caught.value.message
        assert "abc" not in caught.value.message
