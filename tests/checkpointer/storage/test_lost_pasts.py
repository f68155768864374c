"""Images and edits of a lost past are set aside; the first and the newest set remain."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checkpointer.storage.lost_pasts import KEPT, LOST_PAST, PROVENANCE, folders_aside, link_aside, set_aside
from hadoop_common.names import md5_name, segment_name
from image_format.md5_file import md5_path
from tests.checkpointer.set_back_support import image

# ---- set aside ---------------------------------------------------------------------------------------------


def test_lost_past_is_set_aside(tmp_path: Path) -> None:
    current = tmp_path / "current"
    kept, lost = image(current, 5, "aa" * 16), image(current, 9, "bb" * 16)
    content = lost.read_bytes()
    image(current, 7, "cc" * 16, rollback=True)
    for name in (segment_name(1, 5), "edits_inprogress_0000000000000000006", PROVENANCE, "VERSION", "seen_txid"):
        (current / name).write_text(name)
    folder = set_aside(tmp_path, keep=[kept.name])
    assert folder is not None
    assert sorted(path.name for path in current.iterdir()) == ["VERSION", kept.name, md5_name(kept.name), "seen_txid"]
    assert (folder / lost.name).read_bytes() == content
    assert len(list(folder.iterdir())) == 7
    assert set_aside(tmp_path, keep=[kept.name]) is None


@pytest.mark.parametrize("links", [True, False])
def test_image_that_another_one_replaces_is_kept(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current = tmp_path / "current"
    ours = image(current, 5, "aa" * 16)
    content = ours.read_bytes()
    image(current, 9, "bb" * 16)
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(95, "not supported")))
    (current / PROVENANCE).write_text("provenance")
    assert link_aside(tmp_path, only=[]) is None
    folder = link_aside(tmp_path)
    assert folder is not None
    assert ours.exists() is links
    # a kill before `set_aside` leaves the whole lost past
    assert len(list(folder.iterdir())) == 5
    # a failed fetch is repeated
    assert link_aside(tmp_path) == (folder if links else None)
    # the fetch renames its files to the names of our files
    for path in (ours, md5_path(ours)):
        (tmp_path / "fetched").write_bytes(b"of the NameNode")
        (tmp_path / "fetched").replace(path)
    assert set_aside(tmp_path, keep=[ours.name], into=folder) == folder
    assert [each.name for each in folders_aside(tmp_path)] == [folder.name]
    assert (ours.read_bytes(), (folder / ours.name).read_bytes()) == (b"of the NameNode", content)
    assert len(list(folder.iterdir())) == 5
    assert sorted(each.name for each in current.iterdir()) == [ours.name, md5_name(ours.name)]


def test_links_of_a_killed_attempt_are_completed(tmp_path: Path) -> None:
    ours, older = image(tmp_path / "current", 5, "aa" * 16), image(tmp_path / "current", 3, "bb" * 16)
    folder = link_aside(tmp_path)
    assert folder is not None
    (folder / ours.name).unlink()
    assert link_aside(tmp_path) == folder
    assert (folder / ours.name).samefile(ours)
    # our next image with this name belongs to another lost past
    lost = (folder / ours.name).read_bytes()
    ours.unlink()
    ours.write_bytes(b"of the NameNode")
    other = link_aside(tmp_path)
    assert other is not None
    assert other != folder
    assert ((folder / ours.name).read_bytes(), (other / ours.name).read_bytes()) == (lost, b"of the NameNode")
    assert (other / older.name).samefile(older)


def test_two_lost_pasts_are_not_mixed(tmp_path: Path) -> None:
    """A start-over was interrupted after the fetch; retention has purged an image when the next past is lost."""
    image(tmp_path / "current", 3, "bb" * 16)
    purged = image(tmp_path / "current", 5, "aa" * 16)
    folder = link_aside(tmp_path)
    assert folder is not None
    for name in (purged.name, md5_name(purged.name)):
        (tmp_path / "current" / name).unlink()
    later = image(tmp_path / "current", 9, "cc" * 16)
    other = link_aside(tmp_path)
    assert other is not None
    assert not (folder / later.name).exists()
    assert (other / later.name).samefile(later)


@pytest.mark.parametrize("step", ["rename", "unlink"])
def test_image_moved_without_hard_links_keeps_its_digest_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon is killed before a step; the next fetch would overwrite an image without a digest file."""
    ours = image(tmp_path / "current", 5, "aa" * 16)
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(95, "not supported")))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(Path, step, die)
        link_aside(tmp_path)
    (folder,) = folders_aside(tmp_path)
    (where,) = (each for each in (ours.parent, folder) if (each / ours.name).exists())
    assert (where / md5_name(ours.name)).exists()


def test_image_that_was_not_replaced_is_moved_aside(tmp_path: Path) -> None:
    """The NameNode made a newer image before the fetch."""
    ours, theirs = image(tmp_path / "current", 5, "aa" * 16), image(tmp_path / "current", 7, "bb" * 16)
    folder = link_aside(tmp_path)
    assert folder is not None
    set_aside(tmp_path, keep=[theirs.name], into=folder)
    assert not ours.exists()
    assert (folder / ours.name).exists()


def test_first_and_newest_lost_pasts_are_kept(tmp_path: Path) -> None:
    made = []
    for txid in range(KEPT + 2):
        image(tmp_path / "current", txid, "aa" * 16)
        made.append(set_aside(tmp_path))
    assert list(folders_aside(tmp_path)) == [made[0], *made[1 - KEPT :]]
    assert folders_aside(tmp_path / LOST_PAST) == ()


def test_error_removing_a_lost_past_is_only_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator has written a report into that folder as root."""

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path / "report"))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    for txid in range(KEPT + 1):
        image(tmp_path / "current", txid, "aa" * 16)
        assert set_aside(tmp_path) is not None
    assert len(folders_aside(tmp_path)) == KEPT + 1
    assert "report cannot be removed: Permission denied" in caplog.text


def test_newest_lost_past_is_kept_after_the_clock_is_set_back(tmp_path: Path) -> None:
    for year in ("2020", "2090", "2091"):
        (tmp_path / LOST_PAST / f"{year}0101T000000.000000Z").mkdir(parents=True)
    image(tmp_path / "current", 7, "aa" * 16)
    target = set_aside(tmp_path)
    assert target is not None
    assert [each.name[:4] for each in folders_aside(tmp_path)] == ["2020", "2091", "2091"]
    assert folders_aside(tmp_path)[-1] == target
