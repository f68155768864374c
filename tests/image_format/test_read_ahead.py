"""Streams read ahead by threads: in order, with errors at the right position, and without leftovers."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import CodecError, ImageStorageError
from image_format.spool import Stream, read_ahead


def reading_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("image-decompress")]


def stream(*chunks: bytes) -> Stream:
    return lambda: iter(chunks)


def broken(*chunks: bytes) -> Iterator[bytes]:
    yield from chunks
    raise CodecError("damaged")


@given(contents=st.lists(st.lists(st.binary(max_size=40), max_size=4), max_size=12), threads=st.integers(1, 4))
def test_streams_are_returned_in_order(contents: list[list[bytes]], threads: int) -> None:
    if contents:
        given_out = b"".join(read_ahead([stream(*chunks) for chunks in contents], threads=threads))
        assert given_out == b"".join(itertools.chain.from_iterable(contents))
    assert reading_threads() == []


def test_large_streams_are_spooled_to_files(tmp_path: Path) -> None:
    chunk = bytes(range(256)) * 4096
    streams = [stream(*([bytes([number]) + chunk] * 40)) for number in range(4)]
    position = 0
    for part in read_ahead(streams, tmp_path, threads=2):
        for start in range(0, len(part), 1 << 20):
            number, place = divmod(position + start, 40 * (len(chunk) + 1))
            assert part[start] == (number if place % (len(chunk) + 1) == 0 else chunk[place % (len(chunk) + 1) - 1])
        position += len(part)
    assert position == 4 * 40 * (len(chunk) + 1)


def test_an_error_is_raised_after_the_preceding_streams() -> None:
    parts = read_ahead([stream(b"one"), stream(b"two"), lambda: broken(b"th"), stream(b"four")], threads=2)
    assert [bytes(next(parts)), bytes(next(parts))] == [b"one", b"two"]
    with pytest.raises(CodecError, match="damaged"):
        next(parts)
    assert reading_threads() == []


def test_a_reader_that_stops_early_leaves_no_thread() -> None:
    endless = itertools.repeat(b"x")
    parts = read_ahead([stream(b"one"), lambda: endless], threads=2)
    assert bytes(next(parts)) == b"one"
    parts.close()  # type: ignore[attr-defined]
    assert reading_threads() == []


def test_a_spool_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    large = [stream(*[bytes(1 << 20)] * 40)] * 2
    with pytest.raises(ImageStorageError, match="cannot spool"):
        list(read_ahead(large, tmp_path / "missing", threads=2))
