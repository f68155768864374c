from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.names import (
    ImageName,
    SegmentName,
    checkpoint_name,
    image_name,
    inprogress_name,
    md5_name,
    parse_checkpoint,
    parse_image,
    parse_segment,
    parse_temporary_segment,
    segment_name,
    temporary_segment_name,
)

TXIDS = st.integers(0, (1 << 63) - 1)


def test_names_have_nineteen_digits() -> None:
    assert image_name(30) == "fsimage_0000000000000000030"
    assert image_name(30, rollback=True) == "fsimage_rollback_0000000000000000030"
    assert checkpoint_name(30) == "fsimage.ckpt_0000000000000000030"
    assert checkpoint_name(30, rollback=True) == "fsimage.ckpt_rollback_0000000000000000030"
    assert md5_name(image_name(30)) == "fsimage_0000000000000000030.md5"
    assert segment_name(31, 183) == "edits_0000000000000000031-0000000000000000183"
    assert inprogress_name(184) == "edits_inprogress_0000000000000000184"
    assert temporary_segment_name(1, 2, 3) == "edits_tmp_0000000000000000001-0000000000000000002_0000000000000000003"


@given(TXIDS, st.booleans())
def test_image_names_round_trip(txid: int, rollback: bool) -> None:
    assert parse_image(image_name(txid, rollback)) == ImageName(txid, rollback)
    assert parse_checkpoint(checkpoint_name(txid, rollback)) == txid


@given(TXIDS, TXIDS)
def test_segment_names_round_trip(first: int, last: int) -> None:
    assert parse_segment(segment_name(first, last)) == SegmentName(first, last)
    assert parse_segment(inprogress_name(first)) == SegmentName(first, None)
    assert parse_temporary_segment(temporary_segment_name(first, last, 7)) == SegmentName(first, last)


def test_segment_without_a_last_txid_is_in_progress() -> None:
    assert SegmentName(1, None).in_progress
    assert not SegmentName(1, 2).in_progress


@pytest.mark.parametrize(
    "name",
    [
        "fsimage_",
        "fsimage_12.md5",
        "fsimage_rollback_",
        "fsimage.ckpt_12.md5",
        "xfsimage_12",
        "fsimage_12\n",
        "fsimage_\u0661\u0662",
        "edits_inprogress_12.empty",
        "edits_12",
        "edits_1-2.tmp",
        "VERSION",
        "fsimage_00000000000000000001",
    ],
)
def test_other_file_names_are_not_parsed(name: str) -> None:
    assert parse_image(name) is None
    assert parse_checkpoint(name) is None
    assert parse_segment(name) is None


@given(st.text(max_size=30))
def test_any_text_is_parsed_without_an_error(name: str) -> None:
    for parse in (parse_image, parse_checkpoint, parse_segment, parse_temporary_segment):
        parse(name)


@pytest.mark.parametrize("txid", [-1, 1 << 63])
def test_invalid_txids_have_no_name(txid: int) -> None:
    with pytest.raises(ValueError, match="not a transaction id"):
        image_name(txid)
