"""Images and edits of a lost past are set aside; the first and the newest set remain."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checkpointer.storage.inspector import inspect
from checkpointer.storage.lost_pasts import (
    KEPT,
    LOST_PAST,
    NOT_COMPARED,
    PROVENANCE,
    START_OVER,
    UnfinishedStartOver,
    begin_start_over,
    finish_start_over,
    folders_aside,
    link_aside,
    set_aside,
    start_over_of,
    unfinished_start_over,
)
from hadoop_common.errors import StorageError
from hadoop_common.names import image_name, md5_name, segment_name
from image_format.md5_file import md5_path
from tests.checkpointer.set_back_support import image

CAUSE = "the NameNode was set back: the edits differ"
GOOD = '{"format": 1, "cause": "x", "parent": "lost_past", "folder": "20260101T000000.000000Z"}'

# ---- set aside ---------------------------------------------------------------------------------------------


def test_lost_past_is_set_aside(tmp_path: Path) -> None:
    current = tmp_path / "current"
    kept, lost = image(current, 5, "aa" * 16), image(current, 9, "bb" * 16)
    content = lost.read_bytes()
    image(current, 7, "cc" * 16, rollback=True)
    for name in (segment_name(1, 5), "edits_inprogress_0000000000000000006", PROVENANCE, "VERSION", "seen_txid"):
        (current / name).write_text(name)
    begin_start_over(tmp_path, start_over_of([tmp_path], LOST_PAST, CAUSE))
    names = {path.name for path in current.iterdir()} - {kept.name}
    folder = set_aside(tmp_path, only=names)
    assert folder is not None
    assert sorted(path.name for path in current.iterdir()) == ["VERSION", kept.name, md5_name(kept.name), "seen_txid"]
    # these files no longer prevent the use of the directory
    assert unfinished_start_over(tmp_path) is None
    assert (folder / lost.name).read_bytes() == content
    assert len(list(folder.iterdir())) == 8
    assert set_aside(tmp_path, only=names) is None


# ---- start over --------------------------------------------------------------------------------------------


def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(95, "not supported")))


def fetch(path: Path, content: bytes = b"of the NameNode") -> None:
    """Store the NameNode's image with its digest file, as a fetch renames files to the names of our files."""
    for each in (md5_path(path), path):
        (path.parent.parent / "fetched").write_bytes(content)
        (path.parent.parent / "fetched").replace(each)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def start_over(root: Path, cause: str = CAUSE) -> Path:
    """Link everything; return the folder."""
    link_aside(root, start_over_of([root], LOST_PAST, cause))
    return folders_aside(root)[-1]


@pytest.mark.parametrize("links", [True, False])
def test_image_that_another_one_replaces_is_kept(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current = tmp_path / "current"
    ours = image(current, 5, "aa" * 16)
    image(current, 9, "bb" * 16)
    if not links:
        without_links(monkeypatch)
    (current / PROVENANCE).write_text("provenance")
    before = files(current)
    folder = start_over(tmp_path)
    assert ours.exists() is links
    # a kill before the end leaves the whole lost past
    assert files(folder) == before
    # a failed fetch is repeated
    assert start_over(tmp_path, "another reason") == folder
    fetch(ours)
    assert finish_start_over(tmp_path, keep=[ours.name]) == folder
    assert folders_aside(tmp_path) == (folder,)
    assert {name: content for name, content in files(folder).items() if name != START_OVER} == before
    assert CAUSE in (folder / START_OVER).read_text()
    assert files(current) == dict.fromkeys((ours.name, md5_name(ours.name)), b"of the NameNode")
    assert unfinished_start_over(tmp_path) is None
    assert finish_start_over(tmp_path, keep=[]) is None


@pytest.mark.parametrize("links", [True, False])
def test_repeated_kills_after_the_fetch_need_one_folder(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older lost pasts exist, so a folder of each attempt would cause the removal of the first attempt's folder."""
    current = tmp_path / "current"
    for txid in range(KEPT):
        image(current, txid, "cc" * 16)
        set_aside(tmp_path)
    ours = image(current, 5, "aa" * 16)
    image(current, 9, "bb" * 16)
    (current / segment_name(6, 9)).write_text("edits")
    if not links:
        without_links(monkeypatch)
    before = files(current)
    folder = start_over(tmp_path)
    for attempt in range(KEPT + 1):
        fetch(ours, b"image %d" % attempt)
        # the NameNode has saved another image since then
        fetch(current / image_name(20 + attempt))
        assert start_over(tmp_path) == folder
    fetch(ours)
    finish_start_over(tmp_path, keep=[ours.name])
    assert folders_aside(tmp_path)[-1] == folder
    assert before.items() <= files(folder).items()
    assert set(files(current)) == {ours.name, md5_name(ours.name)}


def test_links_of_a_killed_attempt_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current = tmp_path / "current"
    image(current, 5, "aa" * 16)
    image(current, 3, "bb" * 16)
    before, link = files(current), Path.hardlink_to
    linked: list[Path] = []

    def die(self: Path, target: Path) -> None:
        if len(linked) == 3:
            raise KeyboardInterrupt
        linked.append(self)
        link(self, target)

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(Path, "hardlink_to", die)
        start_over(tmp_path)
    begun = unfinished_start_over(tmp_path)
    assert begun is not None
    assert begun.cause == CAUSE
    assert files(start_over(tmp_path)) == before
    assert len(folders_aside(tmp_path)) == 1


def test_folder_that_an_operator_removed_is_linked_again(tmp_path: Path) -> None:
    ours = image(tmp_path / "current", 5, "aa" * 16)
    shutil.rmtree(start_over(tmp_path))
    folder = start_over(tmp_path)
    assert (folder / ours.name).samefile(ours)
    (folder / ours.name).unlink()
    assert (start_over(tmp_path) / ours.name).samefile(ours)


@pytest.mark.parametrize("removed", [LOST_PAST, "folder", "image", "nothing"])
@pytest.mark.parametrize("copied", [True, False])
def test_lost_image_does_not_remain_without_its_link(tmp_path: Path, removed: str, copied: bool) -> None:
    """The directory was copied without hard links, or an operator removed links before the NameNode's image was stored.

    An unfinished attempt had already fetched an image of the NameNode, which was set back again.
    """
    root = tmp_path / "root"
    lost = image(root / "current", 9, "bb" * 16)
    content = lost.read_bytes()
    folder = start_over(root)
    fetch(root / "current" / image_name(20))
    if copied:
        shutil.copytree(root, tmp_path / "copy")
        shutil.rmtree(root)
        (tmp_path / "copy").rename(root)
    if removed in (LOST_PAST, "folder"):
        shutil.rmtree(folder if removed == "folder" else folder.parent)
    elif removed == "image":
        (folder / lost.name).unlink()
    fetch(root / "current" / image_name(7))
    assert finish_start_over(root, keep=[image_name(7)]) == folder
    assert set(files(root / "current")) == {image_name(7), md5_name(image_name(7))}
    assert (folder / lost.name).read_bytes() == content
    assert (folder / image_name(20)).read_bytes() == b"of the NameNode"
    assert len([path for path in folder.iterdir() if path.name.startswith(lost.name)]) == 2


def test_different_file_of_the_same_name_is_also_set_aside(tmp_path: Path) -> None:
    """A killed attempt replaced our image with the NameNode's, which the NameNode has lost since."""
    ours, theirs = image(tmp_path / "current", 5, "aa" * 16), tmp_path / "current" / image_name(7)
    before = files(ours.parent)
    folder = start_over(tmp_path)
    for content in (b"first", b"second"):
        fetch(ours, content)
        start_over(tmp_path)
    (ours.parent / segment_name(6, 9)).write_text("first")
    start_over(tmp_path)
    (ours.parent / segment_name(6, 9)).unlink()
    (ours.parent / segment_name(6, 9)).write_text("second")
    fetch(theirs)
    finish_start_over(tmp_path, keep=[theirs.name])
    assert before.items() <= files(folder).items()
    assert (folder / f"{ours.name}.1").read_bytes() == b"second"
    assert ((folder / segment_name(6, 9)).read_text(), (folder / f"{segment_name(6, 9)}.1").read_text()) == (
        "first",
        "second",
    )
    assert set(files(theirs.parent)) == {theirs.name, md5_name(theirs.name)}


def test_directory_without_files_gets_no_folder(tmp_path: Path) -> None:
    """For example, a directory for edits before the first edits are fetched."""
    (tmp_path / "current").mkdir()
    link_aside(tmp_path, start_over_of([tmp_path], LOST_PAST, CAUSE))
    theirs = tmp_path / "current" / image_name(7)
    fetch(theirs)
    assert finish_start_over(tmp_path, keep=[theirs.name]) is None
    assert (unfinished_start_over(tmp_path), folders_aside(tmp_path)) == (None, ())
    assert theirs.exists()


def test_two_lost_pasts_are_not_mixed(tmp_path: Path) -> None:
    """Each start-over has its own folder, even if both images have the same name."""
    ours = image(tmp_path / "current", 5, "aa" * 16)
    first, lost = start_over(tmp_path), ours.read_bytes()
    fetch(ours)
    finish_start_over(tmp_path, keep=[ours.name])
    second = start_over(tmp_path, "the NameNode was set back again")
    assert first != second
    assert ((first / ours.name).read_bytes(), (second / ours.name).read_bytes()) == (lost, b"of the NameNode")


def test_directory_that_has_finished_is_not_linked_again(tmp_path: Path) -> None:
    """The node was killed after it had finished in the first of two directories."""
    roots = [tmp_path / "a", tmp_path / "b"]
    begun = start_over_of(roots, LOST_PAST, CAUSE)
    for root in roots:
        image(root / "current", 5, "aa" * 16)
        link_aside(root, begun)
        fetch(root / "current" / image_name(5))
    finish_start_over(roots[0], keep=[image_name(5)])
    before = {path: path.read_bytes() for path in roots[0].rglob("*") if path.is_file()}
    begun = start_over_of(roots, LOST_PAST, "another reason")
    assert begun.cause == CAUSE
    for root in roots:
        link_aside(root, begun)
    assert finish_start_over(roots[0], keep=[image_name(5)]) is None
    assert finish_start_over(roots[1], keep=[image_name(5)]) == folders_aside(roots[1])[0]
    assert {path: path.read_bytes() for path in before if path.exists()} == before
    assert [folder.name for root in roots for folder in folders_aside(root)] == 2 * [begun.folder]


def test_reason_is_recorded_before_the_links_exist(tmp_path: Path) -> None:
    image(tmp_path / "current", 5, "aa" * 16)
    begun = start_over_of([tmp_path], NOT_COMPARED, CAUSE)
    assert begin_start_over(tmp_path, begun) == begun == unfinished_start_over(tmp_path)
    assert begun.cause == CAUSE
    again = start_over_of([tmp_path / "other", tmp_path], LOST_PAST, "another reason")
    assert again == begun == begin_start_over(tmp_path, replace(begun, cause="another reason"))
    assert not (tmp_path / NOT_COMPARED).exists()
    link_aside(tmp_path, again)
    assert [folder.name for folder in folders_aside(tmp_path, NOT_COMPARED)] == [begun.folder]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cause": "x", "parent": "..", "folder": "y"}', GOOD.replace("Z", "/../..")]
)
def test_directory_with_a_damaged_record_is_not_used(tmp_path: Path, text: str) -> None:
    ours, record = image(tmp_path / "current", 5, "aa" * 16), tmp_path / "current" / START_OVER
    record.write_text(GOOD)
    assert unfinished_start_over(tmp_path) == UnfinishedStartOver("x", LOST_PAST, "20260101T000000.000000Z")
    record.write_text(text)
    begun = unfinished_start_over(tmp_path)
    assert begun is not None
    assert f"{record} is damaged" in begun.cause
    link_aside(tmp_path, start_over_of([tmp_path], LOST_PAST, CAUSE))
    folder = finish_start_over(tmp_path, keep=[])
    assert folder == tmp_path / NOT_COMPARED / begun.folder
    assert (folder / ours.name).exists()
    assert (folder / START_OVER).read_text() == text
    assert unfinished_start_over(tmp_path) is None


def test_only_a_missing_record_counts_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unfinished_start_over(tmp_path / "missing") is None
    image(tmp_path / "current", 5, "aa" * 16)
    (tmp_path / "current" / START_OVER).mkdir()
    with pytest.raises(OSError, match="a directory"):
        unfinished_start_over(tmp_path)
    with pytest.raises(StorageError, match=f"{START_OVER} cannot be read"):
        inspect(tmp_path)


def test_unreadable_folder_does_not_block_other_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        (root / LOST_PAST / "20900101T000000.000000Z").mkdir(parents=True)
    listed = Path.iterdir

    def refuse(path: Path) -> Iterator[Path]:
        if path == roots[0] / LOST_PAST:
            raise OSError(5, "Input/output error", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert start_over_of(roots, LOST_PAST, CAUSE).folder == "20900101T000000.000001Z"
    assert start_over_of(roots[:1], LOST_PAST, CAUSE).cause == CAUSE


@pytest.mark.parametrize("step", ["rename", "unlink"])
def test_image_moved_without_hard_links_keeps_its_digest_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon is killed before a step; the next fetch would overwrite an image without a digest file."""
    ours = image(tmp_path / "current", 5, "aa" * 16)
    before = files(ours.parent)
    without_links(monkeypatch)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(Path, step, die)
        start_over(tmp_path)
    (folder,) = folders_aside(tmp_path)
    (where,) = (each for each in (ours.parent, folder) if (each / ours.name).exists())
    assert (where / md5_name(ours.name)).exists()
    assert files(start_over(tmp_path)) == before


def test_image_that_was_not_replaced_is_moved_aside(tmp_path: Path) -> None:
    """The NameNode made a newer image before the fetch."""
    ours, theirs = image(tmp_path / "current", 5, "aa" * 16), tmp_path / "current" / image_name(7)
    folder = start_over(tmp_path)
    fetch(theirs)
    finish_start_over(tmp_path, keep=[theirs.name])
    assert not ours.exists()
    assert (folder / ours.name).exists()
    assert not (folder / theirs.name).exists()


def test_digest_file_of_an_unfinished_fetch_does_not_replace_ours(tmp_path: Path) -> None:
    """A fetch was killed between its two renames; the next attempt fetched a newer image."""
    ours, theirs = image(tmp_path / "current", 5, "aa" * 16), tmp_path / "current" / image_name(7)
    before = files(ours.parent)
    folder = start_over(tmp_path)
    md5_path(ours).unlink()
    md5_path(ours).write_text("of the NameNode")
    fetch(theirs)
    finish_start_over(tmp_path, keep=[theirs.name])
    assert before.items() <= files(folder).items()
    assert set(files(ours.parent)) == {theirs.name, md5_name(theirs.name)}


# ---- number of folders -------------------------------------------------------------------------------------


def test_first_and_newest_lost_pasts_are_kept(tmp_path: Path) -> None:
    made = []
    for txid in range(KEPT + 2):
        image(tmp_path / "current", txid, "aa" * 16)
        made.append(set_aside(tmp_path))
    assert list(folders_aside(tmp_path)) == [made[0], *made[1 - KEPT :]]
    assert folders_aside(tmp_path / LOST_PAST) == ()


def test_folder_that_was_just_filled_is_kept(tmp_path: Path) -> None:
    """An older record remained while another release used the directory."""
    image(tmp_path / "current", 5, "aa" * 16)
    begun = start_over_of([tmp_path], LOST_PAST, CAUSE)
    begin_start_over(tmp_path, begun)
    for year in (2020, 2090, 2091, 2092):
        (tmp_path / LOST_PAST / f"{year}0101T000000.000000Z").mkdir(parents=True)
    link_aside(tmp_path, begun)
    folder = finish_start_over(tmp_path, keep=[])
    assert folder is not None
    assert [each.name[:4] for each in folders_aside(tmp_path)] == ["2020", begun.folder[:4], "2091", "2092"]
    assert (folder / image_name(5)).exists()


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
