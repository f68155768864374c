"""A standby whose cluster was set back to an older state merges and offers nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.standby.journal_view import past_fault
from checkpointer.standby.lost_past import lost_past
from hadoop_common.names import inprogress_name, segment_name
from journal.segment_file import EditLogSegment


def segments(*bounds: tuple[int, int | None]) -> list[EditLogSegment]:
    return [EditLogSegment(first, last, Path(f"{first}")) for first, last in bounds]


@pytest.mark.parametrize(
    ("image", "bounds"),
    [
        (0, []),
        (0, [(1, None)]),
        (10, [(1, 10)]),
        (10, [(1, 10), (11, None)]),
        (10, [(11, None)]),
        (10, [(21, 30)]),
        (4, [(1, 4), (5, 10), (11, None)]),
        (10, [(3, None), (1, 10)]),
    ],
)
def test_an_image_of_the_same_past(image: int, bounds: list[tuple[int, int | None]]) -> None:
    assert lost_past(image, segments(*bounds)) == ""


@pytest.mark.parametrize(
    ("image", "bounds", "said"),
    [
        (10, [(1, 9)], "the edits end at 9"),
        (10, [(1, 5), (6, None)], "the edits end at 5"),
        (10, [(8, None)], "the edits end at 7"),
        (10, [(1, 5), (6, 20)], "in the middle of the segment 6-20"),
    ],
)
def test_an_image_of_a_lost_past(image: int, bounds: list[tuple[int, int | None]], said: str) -> None:
    assert said in lost_past(image, segments(*bounds))


@pytest.mark.parametrize(
    ("image", "bounds", "open_last", "lost"),
    [
        (10, [(1, 5), (6, 20)], None, False),
        (0, [(1, None)], 0, False),
        (10, [(1, 5), (6, None)], 10, False),
        (10, [(1, 5), (6, None)], None, False),
        (10, [(1, 5), (6, None)], 9, True),
        (10, [(1, 5)], None, True),
    ],
)
def test_images_that_may_end_within_a_segment(
    image: int, bounds: list[tuple[int, int | None]], open_last: int | None, lost: bool
) -> None:
    assert bool(lost_past(image, segments(*bounds), within_segments=True, open_last=open_last)) is lost


def test_a_shared_directory(tmp_path: Path) -> None:
    (tmp_path / segment_name(1, 5)).touch()
    (tmp_path / inprogress_name(6)).touch()
    assert past_fault(tmp_path, 5, in_progress=False) == ""
    assert "end at 5" in past_fault(tmp_path, 8, in_progress=False)
    # how far an open segment goes that cannot be read yet is not known
    assert past_fault(tmp_path, 8, in_progress=True) == ""
    assert past_fault(tmp_path, 3, in_progress=True) == ""
