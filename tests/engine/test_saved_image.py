"""A saved image becomes the base of the next save, unless it cannot be opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.warm_namespace import WarmNamespace
from hadoop_common.errors import StorageError
from image_format.md5_file import md5_path
from tests.engine.warm_support import STEPS, base, mapped, out, play, warm

__all__ = ["base", "out", "warm"]


def test_image_is_saved_even_if_it_cannot_be_reopened(
    warm: WarmNamespace, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(warm, STEPS[0])

    def broken(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("engine.base_loader.load_image", broken)
        result = warm.save([out])
        warm.rebase()
    assert result.saved.paths[0].is_file()
    assert not warm.usable
    warm.load(result.saved.paths[0])
    play(warm, STEPS[1])


@pytest.mark.parametrize("step", ["apply", "save"])
def test_step_after_a_save_whose_image_was_removed_is_an_error(warm: WarmNamespace, out: Path, step: str) -> None:
    play(warm, STEPS[0])
    path = warm.save([out]).saved.paths[0]
    kept = path.rename(out / "kept")
    with pytest.raises(StorageError, match=f"{path.name} was replaced or removed"):
        warm.apply([]) if step == "apply" else warm.save([out])
    assert not warm.usable
    kept.rename(path)
    warm.load(path)
    play(warm, STEPS[1])


def test_saved_namespace_can_be_read_until_its_image_becomes_the_base(
    warm: WarmNamespace, base: Path, out: Path
) -> None:
    play(warm, STEPS[0])
    saved = warm.save([out])
    # retention of images does not wait for the new base
    base.unlink()
    with warm.reading(saved.txid, 0) as browser:
        assert [each.inode.name for each in browser.chain(20002)] == [b"", b"a", b"b"]
    assert warm.usable
    # archives link images, and a rolling upgrade's end renames them
    (out / "link").hardlink_to(saved.saved.paths[0])
    warm.rebase()
    assert (warm.usable, warm.base_txid) == (True, saved.txid)


def test_rollback_image_can_be_renamed_once_it_is_the_base(
    warm: WarmNamespace, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edits that follow a rollback image can end the upgrade, which renames the image and its digest file."""
    play(warm, STEPS[0])
    path = warm.save([out], rollback=True).saved.paths[0]
    with monkeypatch.context() as patched:
        patched.setattr("engine.image_verification.ImageVerification.start", lambda _: None)
        warm.rebase()
    for each in (md5_path(path), path):
        each.rename(each.with_name(each.name.replace("rollback_", "")))
    play(warm, STEPS[1])
    assert warm.save([out]).transactions == len(STEPS[1])


def test_saved_image_is_scanned_if_its_index_cannot_be_derived(
    warm: WarmNamespace, out: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    play(warm, STEPS[0])
    path = warm.save([out]).saved.paths[0]
    with monkeypatch.context() as patched:
        patched.setattr("engine.compaction.updated_arrays", lambda *_: {}["missing"])
        warm.rebase()
    assert mapped(path)
    assert "the image will be scanned" in caplog.text
    play(warm, STEPS[1])


@pytest.mark.parametrize("replace_file", [True, False])
def test_saved_image_that_another_program_replaced_does_not_become_the_base(
    warm: WarmNamespace, base: Path, out: Path, replace_file: bool
) -> None:
    play(warm, STEPS[0])
    path = warm.save([out]).saved.paths[0]
    if replace_file:
        (other := out / "other").write_bytes(path.read_bytes())
        other.rename(path)
    else:
        path.unlink()
    warm.rebase()
    assert not warm.usable
    warm.rebase()
    warm.load(base)
    assert warm.usable
