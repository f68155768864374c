"""Objects: any content can be read whole and in parts, `zstd -d` reads it, and damage is found."""

from __future__ import annotations

import io
from contextlib import suppress
from unittest import mock

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from archive.errors import ArchiveDamagedError
from archive.frames import FRAME_SIZE, FrameReader, FrameWriter, cut_ranges
from archive.path_filter import may_contain
from tests.depth import examples


def packed(contents: list[bytes], path_filter: bytes = b"") -> bytes:
    out = io.BytesIO()
    writer = FrameWriter(out)
    for content in contents:
        writer.add(content)
    writer.finish({"first": 1}, path_filter)
    return out.getvalue()


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6), st.binary(max_size=64))
@examples(200)
def test_object_round_trip(contents: list[bytes], path_filter: bytes) -> None:
    whole = b"".join(contents)
    stored = packed(contents, path_filter)
    reader = FrameReader(io.BytesIO(stored), "object")
    assert b"".join(reader.chunks()) == whole
    assert reader.footer.description == {"first": 1}
    assert reader.footer.path_filter == path_filter
    assert reader.footer.size == len(whole)
    plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(stored), read_across_frames=True).read()
    assert plain == whole


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=3), st.data())
@examples(300)
def test_changed_bit_is_detected(contents: list[bytes], data: st.DataObject) -> None:
    stored = bytearray(packed(contents, b"filter"))
    place = data.draw(st.integers(0, 8 * len(stored) - 1))
    stored[place >> 3] ^= 1 << (place & 7)
    with suppress(ArchiveDamagedError):
        reader = FrameReader(io.BytesIO(bytes(stored)), "object")
        # checksums cover everything except the frame header of the footer, which readers ignore
        assert b"".join(reader.chunks()) == b"".join(contents)


@pytest.mark.parametrize("version", [1, None])
def test_path_filter_of_another_version_excludes_nothing(version: int | None) -> None:
    with mock.patch("archive.frames.FILTER_VERSION", version):
        stored = packed([b"edits"], bytes(64))
    assert may_contain(FrameReader(io.BytesIO(stored), "object").footer.path_filter, "/any")
    assert not may_contain(FrameReader(io.BytesIO(packed([b"edits"], bytes(64))), "object").footer.path_filter, "/any")


def test_ranges_start_at_boundaries_and_have_a_maximum_size() -> None:
    size = FRAME_SIZE + 10
    assert list(cut_ranges(size, [5, 5, size, size + 1, 0])) == [
        range(5),
        range(5, 5 + FRAME_SIZE),
        range(5 + FRAME_SIZE, size),
    ]
    assert list(cut_ranges(0, [])) == []
