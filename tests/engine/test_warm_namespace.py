"""A namespace that is kept between checkpoints makes the same images as single merges, and is released in time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import CheckpointCancelledError, NotSavedError, ReplayError
from engine.healing import HealingMode
from engine.merge import SilentObserver, load_image, merge
from engine.settings import MergeSettings, ReplayRules
from engine.warm_namespace import WarmNamespace
from hadoop_common.errors import StorageError
from image_format.errors import (
    DigestMismatchError,
    ImageFormatError,
    ImageStorageError,
    MissingDigestError,
    RecordError,
)
from image_format.index_arrays import IndexArrays
from image_format.md5_file import md5_path
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from journal.errors import TransactionGapError
from journal.ops import EditOp
from tests.engine.image_builder import BASE_TXID, ROOT, ImageBuilder, delimited, numbered
from tests.engine.op_makers import mkdir
from tests.engine.snapshot_support import allow, create, remove
from tests.engine.warm_support import STEPS, base, mapped, out, play, warm

__all__ = ["base", "out", "warm"]


def test_each_saved_image_equals_a_single_merge(warm: WarmNamespace, base: Path, out: Path, tmp_path: Path) -> None:
    played: list[EditOp] = []
    for number, step in enumerate(STEPS):
        before = warm.last_txid
        played += play(warm, step)
        result = warm.save([out])
        assert (result.base_txid, result.txid) == (before, warm.last_txid)
        assert result.transactions == len(step)
        (once := tmp_path / str(number)).mkdir()
        single = merge(base, played, [once])
        assert result.saved.paths[0].read_bytes() == single.saved.paths[0].read_bytes()
        assert (result.inodes, result.saved.md5) == (single.inodes, single.saved.md5)


def test_old_image_is_unmapped(warm: WarmNamespace, base: Path, out: Path) -> None:
    assert mapped(base)
    play(warm, STEPS[0])
    saved = warm.save([out]).saved.paths[0]
    assert mapped(base)
    warm.rebase()
    assert mapped(saved)
    assert not mapped(base)
    warm.load(base)
    assert not mapped(saved)


def test_index_is_updated_without_a_scan(warm: WarmNamespace, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scans = []
    scan = IndexArrays.scan
    monkeypatch.setattr(IndexArrays, "scan", lambda image, *others: scans.append(image.path) or scan(image, *others))
    for step in STEPS[:2]:
        play(warm, step)
        warm.save([out])
        warm.rebase()
    assert scans == []
    # a large index is not in memory twice
    monkeypatch.setattr("engine.saved_image._MAX_UPDATE", 1)
    play(warm, STEPS[2])
    assert scans == [] != warm.save([out]).saved.paths
    warm.rebase()
    assert scans == [out / f"fsimage_{warm.last_txid:019d}"]


def test_image_with_a_reserved_name_in_its_root_is_refused(tmp_path: Path) -> None:
    image = ImageBuilder(-67)
    image.directory("/d")
    image.directory("/d/.reserved")
    image.directory("/.reserved")
    with WarmNamespace() as warm, pytest.raises(RecordError, match="a NameNode cannot load the image") as caught:
        warm.load(image.save(tmp_path))
    assert "--repair" in caught.value.hint
    with WarmNamespace(MergeSettings(rules=ReplayRules(healing=HealingMode.AS_HADOOP))) as warm:
        warm.load(tmp_path / f"fsimage_{BASE_TXID:019d}")


def unloadable(folder: Path) -> Path:
    """Return an image that can be read although a NameNode cannot load it."""
    builder = ImageBuilder(-67)
    builder.file("/f").file.storagePolicyID = 16
    return builder.save(folder)


def test_unloadable_image_is_refused_before_a_save(tmp_path: Path, out: Path) -> None:
    with WarmNamespace() as warm:
        warm.load(unloadable(tmp_path))
        play(warm, STEPS[0])
        with pytest.raises(RecordError, match=r"section INODE, offset .* NameNodes reject the file's") as caught:
            warm.save([out])
        assert not warm.usable
    assert "image verify" in caught.value.hint
    assert list(out.iterdir()) == []


def test_image_whose_file_has_children_is_refused_before_a_save(tmp_path: Path, out: Path) -> None:
    builder = ImageBuilder(-67)
    file, child = builder.file("/f").id, builder.file("/child").id
    entries = ((ROOT, [file]), (file, [child]))
    builder.sections["INODE_DIR"] = delimited(
        pb.DirEntry(parent=parent, children=children) for parent, children in entries
    )
    with WarmNamespace() as warm:
        warm.load(builder.save(tmp_path))
        play(warm, STEPS[0])
        with pytest.raises(RecordError, match="section INODE_DIR, offset"):
            warm.save([out])
        assert not warm.usable
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("wrong_digest", [False, True])
def test_image_that_failed_its_check_is_not_loaded_again(tmp_path: Path, out: Path, wrong_digest: bool) -> None:
    """A role that loads the image again receives the same error, and skips the image."""
    with WarmNamespace() as warm:
        path = ImageBuilder(-67).save(tmp_path) if wrong_digest else unloadable(tmp_path)
        right = md5_path(path).read_text()
        if wrong_digest:
            md5_path(path).write_text(f"{'0' * 32} *{path.name}\n")
        warm.load(path)
        play(warm, STEPS[0])
        with pytest.raises(ImageFormatError) as first:
            warm.save([out])
        for _ in range(2):
            with pytest.raises(ImageFormatError) as later:
                warm.load(path)
            assert later.value is first.value
            assert not warm.usable
        # another program corrects the digest file
        md5_path(path).write_text(right)
        warm.load(path)


def test_verdict_applies_to_the_opened_file(base: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []

    def replaced(image: ImageFile, *_: object) -> None:
        checked.append(image.path)
        other = base.with_name("other")
        other.write_bytes(base.read_bytes())
        other.rename(base)

    monkeypatch.setattr("engine.image_verification.check_loadable", replaced)
    for _ in range(2):
        with WarmNamespace() as warm:
            warm.load(base)
            warm.measure()
    assert checked == [base, base]


def test_checked_image_is_not_checked_again(base: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    monkeypatch.setattr("engine.image_verification.check_loadable", lambda image, *_: checked.append(image.path))
    with WarmNamespace() as warm:
        warm.load(base)
        play(warm, STEPS[0])
        saved = warm.save([out]).saved.paths[0]
    for path in (base, saved):
        with WarmNamespace() as warm:
            warm.load(path)
            warm.measure()
    assert checked == [base]
    # after this rewrite, the image counts as written by another program
    saved.write_bytes(saved.read_bytes())
    with WarmNamespace() as warm:
        warm.load(saved)
        warm.measure()
    assert checked == [base, saved]


def test_changed_replay_rules_require_a_reload(out: Path, base: Path) -> None:
    """A NameNode that starts with another setting replays all edits after its image with the new setting."""
    steps = [mkdir("/s", 20001), allow("/s"), *(create(f"s{n}", "/s") for n in (1, 2, 3)), remove("s2", "/s")]
    later = [remove("s1", "/s"), remove("s2#1", "/s")]
    marks = MergeSettings(rules=ReplayRules(ordered_snapshot_deletion=True))
    with WarmNamespace(marks) as warm:
        warm.load(base)
        play(warm, steps)
        assert warm.usable
        warm.settings = replace(marks, codec="")
        assert warm.usable
        warm.settings = replace(marks, rules=ReplayRules(ordered_snapshot_deletion=False))
        assert not warm.usable
        warm.load(base)
        assert warm.usable
        play(warm, [*steps, *later])
        saved = warm.save([out]).saved.paths[0]
        assert warm.usable
    with ImageFile.open(saved) as image:
        assert load_image(image).namespace.snapshots.base_ids.tolist() == [2]


def test_settings_changed_during_a_load_keep_the_layout(tmp_path: Path, out: Path) -> None:
    """Another thread replaces the settings when the configuration is reloaded."""
    settings = MergeSettings(max_op_size=1 << 20)

    class Reload(SilentObserver):
        def phase(self, name: str, total: int | None) -> None:
            warm.settings = settings

    with WarmNamespace() as warm:
        warm.load(ImageBuilder(-63).save(tmp_path), Reload(), cluster=-67)
        play(warm, STEPS[0])
        assert (warm.layout_version, warm.settings) == (-67, settings)
        assert warm.save([out]).layout_version == -67
        play(warm, STEPS[1])
        assert warm.save([out]).layout_version == -67


def test_save_of_a_rollback_image(warm: WarmNamespace, out: Path) -> None:
    play(warm, STEPS[0])
    result = warm.save([out], rollback=True)
    assert result.rollback
    assert result.saved.paths[0].name == f"fsimage_rollback_{warm.last_txid:019d}"
    assert md5_path(result.saved.paths[0]).read_text().strip().endswith(result.saved.paths[0].name)
    play(warm, STEPS[1])
    assert warm.save([out]).saved.paths[0].name == f"fsimage_{warm.last_txid:019d}"


def test_invalid_edit_makes_the_namespace_unusable(warm: WarmNamespace, base: Path, out: Path) -> None:
    with pytest.raises(ReplayError):
        warm.apply(numbered([mkdir("/a", 20001), mkdir("/none/such/b", 20002)], warm.last_txid))
    assert not warm.usable
    with pytest.raises(ValueError, match="no image"):
        warm.save([out])
    warm.load(base)
    play(warm, STEPS[0])
    assert warm.save([out]).transactions == len(STEPS[0])


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), TransactionGapError(3, 5)])
def test_edits_before_a_source_failure_are_kept(
    warm: WarmNamespace, base: Path, out: Path, tmp_path: Path, fault: Exception
) -> None:
    ops = numbered([*STEPS[0], *STEPS[1]], warm.last_txid)

    def broken() -> Iterator[EditOp]:
        yield from ops[:2]
        raise fault

    with pytest.raises(type(fault)):
        warm.apply(broken())
    assert warm.usable
    assert warm.last_txid == ops[1].txid
    assert warm.apply(ops[2:]) == 2
    (once := tmp_path / "once").mkdir()
    assert warm.save([out]).saved.md5 == merge(base, ops, [once]).saved.md5


def test_transaction_gap_changes_nothing(warm: WarmNamespace) -> None:
    with pytest.raises(TransactionGapError):
        warm.apply(numbered(STEPS[0], warm.last_txid + 1))
    assert warm.usable
    play(warm, STEPS[0])


class Cancelling(SilentObserver):
    """Observer that cancels at the `after`-th call."""

    def __init__(self, after: int) -> None:
        self.left = after

    def cancelled(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_cancelled_replay_continues_where_it_stopped(
    warm: WarmNamespace, base: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.replay.replayer._REPORT_EVERY", 1)
    ops = numbered([*STEPS[0], *STEPS[1]], warm.last_txid)
    with pytest.raises(CheckpointCancelledError):
        warm.apply(ops, observer=Cancelling(2))
    done = warm.last_txid - BASE_TXID
    assert done == 3
    assert warm.apply(ops[done:]) == 1
    (once := tmp_path / "once").mkdir()
    assert warm.save([out]).saved.md5 == merge(base, ops, [once]).saved.md5


def test_a_cancelled_save_leaves_no_file_and_can_be_repeated(warm: WarmNamespace, out: Path) -> None:
    play(warm, STEPS[0])
    with pytest.raises(CheckpointCancelledError):
        warm.save([out], observer=Cancelling(0))
    assert list(out.iterdir()) == []
    assert warm.save([out]).transactions == len(STEPS[0])


def test_namespace_remains_after_a_fault_of_the_target_disk(warm: WarmNamespace, out: Path, tmp_path: Path) -> None:
    play(warm, STEPS[0])
    with pytest.raises(NotSavedError):
        warm.save([tmp_path / "missing"])
    assert warm.usable
    assert warm.save([out]).transactions == len(STEPS[0])


def test_namespace_remains_if_the_spool_is_full(
    warm: WarmNamespace, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(warm, STEPS[0])

    def full(*_: object, **__: object) -> None:
        raise ImageStorageError("the spool is full")

    with monkeypatch.context() as patched:
        patched.setattr("engine.warm_namespace.write_verified", full)
        with pytest.raises(NotSavedError, match="the spool is full"):
            warm.save([out])
    assert list(out.iterdir()) == []
    assert warm.save([out]).transactions == len(STEPS[0])


def test_image_that_does_not_become_the_base(warm: WarmNamespace, out: Path, tmp_path: Path) -> None:
    play(warm, STEPS[0])
    base = warm.base_txid
    aside = warm.save([tmp_path], becomes_base=False)
    warm.rebase()
    assert (warm.base_txid, warm.last_txid) == (base, aside.txid)
    assert warm.save([out]).saved.md5 == aside.saved.md5
    # and before the image of the last save becomes the base
    (other := tmp_path / "other").mkdir()
    assert warm.save([other], becomes_base=False).saved.md5 == aside.saved.md5
    warm.rebase()
    play(warm, STEPS[1])
    assert warm.base_txid == aside.txid


@pytest.mark.parametrize(
    ("has_digest", "folder", "error"),
    [(True, "", DigestMismatchError), (False, "", MissingDigestError), (True, "absent", StorageError)],
)
def test_faulty_digest_or_directory_is_reported_before_a_save(
    base: Path, out: Path, has_digest: bool, folder: str, error: type[Exception]
) -> None:
    if has_digest:
        md5_path(base).write_text(f"{'0' * 32} *{base.name}\n")
    else:
        md5_path(base).unlink()
    with WarmNamespace() as warm:
        warm.load(base)
        play(warm, STEPS[0])
        with pytest.raises(error):
            warm.save([out / folder])
        assert warm.usable == (folder == "absent")
    assert list(out.iterdir()) == []


def test_wrong_digest_is_reported_instead_of_an_invalid_edit(base: Path) -> None:
    md5_path(base).write_text(f"{'0' * 32} *{base.name}\n")
    with WarmNamespace() as warm:
        warm.load(base)
        with pytest.raises(DigestMismatchError):
            warm.apply(numbered([mkdir("/none/such/b", 20002)], warm.last_txid))


def test_each_save_records_its_digest(base: Path, out: Path) -> None:
    with WarmNamespace() as warm:
        warm.load(base)
        for step in STEPS:
            play(warm, step)
        first = warm.save([out]).saved
        play(warm, [mkdir("/e", 20004)])
        second = warm.save([out]).saved
    for saved in (first, second):
        (path,) = saved.paths
        assert hashlib.md5(path.read_bytes()).hexdigest() == saved.md5
        with ImageFile.open(path) as image:
            assert image.md5 is not None


def test_digest_is_verified_after_a_cancelled_save(base: Path, out: Path) -> None:
    md5_path(base).write_text(f"{'0' * 32} *{base.name}\n")
    with WarmNamespace() as warm:
        warm.load(base)
        play(warm, STEPS[0])
        with pytest.raises(CheckpointCancelledError):
            warm.save([out], observer=Cancelling(0))
        with pytest.raises(DigestMismatchError):
            warm.save([out])
    assert list(out.iterdir()) == []
