"""Images and edits that a purge keeps and removes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.storage.inspector import StoredImage
from checkpointer.storage.retention import apply_plan, enforce_retention, plan_retention
from hadoop_common.names import image_name, inprogress_name, md5_name, segment_name
from journal.segment_file import EditLogSegment
from tests.checkpointer.storage_support import put_image

FOLDER = Path("/current")


def image(txid: int, rollback: bool = False) -> StoredImage:
    return StoredImage(txid, FOLDER / image_name(txid, rollback), True, rollback)


def segment(first: int, last: int | None) -> EditLogSegment:
    name = inprogress_name(first) if last is None else segment_name(first, last)
    return EditLogSegment(first, last, FOLDER / name)


def deleted(
    images: list[StoredImage],
    segments: list[EditLogSegment],
    *,
    keep: int = 2,
    extra: int = 0,
    most: int = 10_000,
    rollback: bool = False,
) -> set[str]:
    plan = plan_retention(images, segments, keep, extra, most, rollback=rollback)
    return {path.name for deletion in plan.deletions for path in deletion.paths}


def test_newest_images_are_kept() -> None:
    names = deleted([image(10), image(20), image(20), image(30)], [])
    assert names == {image_name(10), md5_name(image_name(10))}


def test_rollback_images_are_counted_separately() -> None:
    images = [image(5, True), image(10), image(20), image(30)]
    assert image_name(5, True) not in deleted(images, [])
    assert not deleted(images, [segment(1, 2)], rollback=True)
    more = [image(txid, True) for txid in (5, 6, 7)]
    assert deleted(more, [segment(1, 2)], rollback=True) == {image_name(5, True), md5_name(image_name(5, True))}


def test_edits_before_the_oldest_kept_image_are_deleted() -> None:
    segments = [segment(1, 10), segment(11, 20), segment(21, 30), segment(31, None)]
    assert deleted([image(20), image(30)], segments) == {segment_name(1, 10), segment_name(11, 20)}


def test_extra_edits_are_kept() -> None:
    segments = [segment(1, 10), segment(11, 20), segment(21, 30)]
    assert deleted([image(20), image(30)], segments, extra=10) == {segment_name(1, 10)}
    assert deleted([image(20), image(30)], segments, extra=11) == set()


def test_number_of_extra_segments_is_limited() -> None:
    segments = [segment(first, first + 9) for first in range(1, 100, 10)]
    assert deleted([image(60), image(100)], segments, extra=1000, most=2) == {
        segment_name(first, first + 9) for first in (1, 11, 21, 31)
    }
    everything = {segment_name(first, first + 9) for first in range(1, 60, 10)}
    assert deleted([image(60), image(100)], segments, extra=1000, most=0) == everything


def test_segment_that_spans_the_image_is_kept() -> None:
    assert deleted([image(15)], [segment(11, 20), segment(21, 30)], most=0) == set()


def test_old_in_progress_segments_are_deleted_only_before_a_newer_one() -> None:
    images = [image(50), image(60)]
    assert deleted(images, [segment(11, None)]) == set()
    assert deleted(images, [segment(11, None), segment(45, None), segment(61, None)]) == {inprogress_name(11)}


def test_nothing_is_deleted_without_images() -> None:
    assert deleted([], [segment(1, 10)]) == set()


def test_keeping_no_image_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        plan_retention([image(1)], [], 0, 0, 0)


LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=20)


@given(
    lengths=LENGTHS,
    image_txids=st.lists(st.integers(0, 1000), max_size=6),
    keep=st.integers(1, 4),
    extra=st.integers(0, 500),
    most=st.integers(0, 20),
    stray=st.lists(st.integers(1, 1000), max_size=3),
)
def test_required_files_are_never_deleted(
    lengths: list[int], image_txids: list[int], keep: int, extra: int, most: int, stray: list[int]
) -> None:
    segments, first = [], 1
    for length in lengths:
        segments.append(segment(first, first + length - 1))
        first += length
    segments += [segment(first, None), *(segment(each, None) for each in stray)]
    images = [image(txid) for txid in image_txids]
    plan = plan_retention(images, segments, keep, extra, most)
    names = {path.name for deletion in plan.deletions for path in deletion.paths}
    kept_images = sorted({each.txid for each in images if each.path.name not in names}, reverse=True)
    assert kept_images == sorted(set(image_txids), reverse=True)[:keep]
    required = (kept_images[-1] if kept_images else 0) + 1
    for each in segments:
        if each.last is not None and each.last >= required:
            assert each.path.name not in names
    assert plan.purge_from <= required
    newest = max(segments, key=lambda each: each.first)
    assert newest.path.name not in names
    extra_left = [s for s in segments if s.last is not None and s.first < required and s.path.name not in names]
    assert len(extra_left) <= most + 1


def test_second_run_deletes_nothing(tmp_path: Path) -> None:
    for txid in (10, 20, 30):
        put_image(tmp_path, txid)
    for first in (1, 11, 21):
        (tmp_path / segment_name(first, first + 9)).write_bytes(b"edits")
    for _ in range(2):
        assert enforce_retention([tmp_path], [tmp_path], keep=2, extra_edits=0, max_segments=9) == []
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            segment_name(21, 30),
            *(name for txid in (20, 30) for name in (image_name(txid), md5_name(image_name(txid)))),
        ]


def test_retention_of_images_without_edits(tmp_path: Path) -> None:
    for txid in (1, 2):
        put_image(tmp_path, txid)
    (tmp_path / segment_name(1, 1)).write_bytes(b"edits")
    assert enforce_retention([tmp_path], [], keep=1, extra_edits=0, max_segments=0) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        segment_name(1, 1),
        image_name(2),
        md5_name(image_name(2)),
    ]


def test_deletion_failures_are_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for txid in (1, 2, 3):
        put_image(tmp_path, txid)
    real = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path.name == image_name(1):
            raise PermissionError(13, "Permission denied")
        real(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    (warning,) = enforce_retention([tmp_path], [], keep=1, extra_edits=0, max_segments=0)
    assert image_name(1) in warning
    assert "Permission denied" in warning
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {name for txid in (1, 3) for name in (image_name(txid), md5_name(image_name(txid)))}


def test_edits_are_kept_if_an_image_folder_cannot_be_listed(tmp_path: Path) -> None:
    put_image(tmp_path, 9)
    (tmp_path / segment_name(1, 5)).write_bytes(b"edits")
    folders = [tmp_path, tmp_path / "absent"]
    (warning,) = enforce_retention(folders, [tmp_path], keep=1, extra_edits=0, max_segments=0)
    assert "absent" in warning
    assert (tmp_path / segment_name(1, 5)).exists()


def test_empty_plan_deletes_nothing() -> None:
    assert apply_plan(plan_retention([], [], 1, 0, 0)) == []


@pytest.mark.parametrize("damage", ["directory", "empty", "cut", "no digest in the .md5 file"])
def test_unusable_files_do_not_count_as_kept_images(tmp_path: Path, damage: str) -> None:
    """An unusable file does not count as a retained image, so the good images remain. The unusable file is not deleted
    either.
    """
    for txid in (1, 2, 3):
        put_image(tmp_path, txid)
    for txid in (0, 9):
        odd = tmp_path / image_name(txid)
        if damage == "directory":
            odd.mkdir()
        else:
            content = put_image(tmp_path, txid).read_bytes()
            odd.write_bytes({"empty": b"", "cut": content[:-20]}.get(damage, content))
            if damage.startswith("no"):
                (tmp_path / md5_name(odd.name)).write_bytes(b"")
    assert enforce_retention([tmp_path], [], keep=2, extra_edits=0, max_segments=0) == []
    left = {path.name for path in tmp_path.iterdir() if not path.name.endswith(".md5")}
    assert left == {image_name(txid) for txid in (0, 2, 3, 9)}
