"""Objects: any content can be read whole and in parts, `zstd -d` reads it, and damage is found."""

from __future__ import annotations

import io
from contextlib import suppress
from unittest import mock

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from archive.encryption import ArchiveKey, DecryptingStream, EncryptingStream
from archive.errors import ArchiveDamagedError, ArchiveError
from archive.frames import FRAME_SIZE, FrameReader, FrameWriter, cut_ranges
from archive.path_filter import may_contain
from tests.depth import examples

KEY = ArchiveKey(bytes(range(32)))


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


@given(st.binary(max_size=3000), st.data())
@examples(100)
def test_encrypted_object_round_trip_requires_the_key(content: bytes, data: st.DataObject) -> None:
    out = io.BytesIO()
    with EncryptingStream(out, KEY) as stream:
        stream.write(content[:100])
        stream.write(content[100:])
    stored = out.getvalue()
    assert content[:16] not in stored or len(content) < 16
    plain = DecryptingStream(io.BytesIO(stored), KEY, "object")
    start = data.draw(st.integers(0, len(content)))
    plain.seek(start)
    assert plain.read() == content[start:]
    place = data.draw(st.integers(8, len(stored) - 1))
    damaged = stored[:place] + bytes([stored[place] ^ 1]) + stored[place + 1 :]
    if content:
        for other, key in ((damaged, KEY), (stored, ArchiveKey(bytes(32)))):
            with pytest.raises(ArchiveDamagedError):
                DecryptingStream(io.BytesIO(other), key, "object").read()


@pytest.mark.parametrize("version", [1, None])
def test_path_filter_of_another_version_excludes_nothing(version: int | None) -> None:
    with mock.patch("archive.frames.FILTER_VERSION", version):
        stored = packed([b"edits"], bytes(64))
    assert may_contain(FrameReader(io.BytesIO(stored), "object").footer.path_filter, "/any")
    assert not may_contain(FrameReader(io.BytesIO(packed([b"edits"], bytes(64))), "object").footer.path_filter, "/any")


def test_reordered_or_missing_chunks_are_detected() -> None:
    out = io.BytesIO()
    with EncryptingStream(out, KEY) as stream:
        stream.write(bytes(3 << 20))
    stored, step = out.getvalue(), (1 << 20) + 16
    first = stored[:40] + stored[40 + step : 40 + 2 * step] + stored[40 : 40 + step] + stored[40 + 2 * step :]
    for damaged in (first, stored[: 40 + 2 * step]):
        with pytest.raises(ArchiveDamagedError):
            DecryptingStream(io.BytesIO(damaged), KEY, "object").read()


def test_key_file_must_be_private_and_have_64_digits(tmp_path) -> None:
    path = tmp_path / "key"
    path.write_text("00" * 32 + "\n")
    path.chmod(0o600)
    ArchiveKey.load(path)
    path.chmod(0o644)
    with pytest.raises(ArchiveError, match="readable by other users"):
        ArchiveKey.load(path)
    path.write_text("secret")
    with pytest.raises(ArchiveError, match="64 hexadecimal digits"):
        ArchiveKey.load(path)


def test_ranges_start_at_boundaries_and_have_a_maximum_size() -> None:
    size = FRAME_SIZE + 10
    assert list(cut_ranges(size, [5, 5, size, size + 1, 0])) == [
        range(5),
        range(5, 5 + FRAME_SIZE),
        range(5 + FRAME_SIZE, size),
    ]
    assert list(cut_ranges(0, [])) == []
