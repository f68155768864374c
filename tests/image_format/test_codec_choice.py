"""A merge uses a codec that a NameNode may be unable to load only if the NameNode's image already has this codec."""

from __future__ import annotations

import pytest

from image_format.codec_choice import DEFAULT_CODEC, advice_on_codec, codec_to_write, library_of
from image_format.codecs import CODEC_SHORT_NAMES

GZIP, LZ4, SNAPPY, ZSTD = (CODEC_SHORT_NAMES[name] for name in ("gzip", "lz4", "snappy", "zstd"))


@pytest.mark.parametrize(
    ("wanted", "base", "layout", "expected"),
    [
        (None, LZ4, -67, LZ4),
        (LZ4, LZ4, -67, LZ4),
        (ZSTD, ZSTD, -66, ZSTD),
        (LZ4, "", -67, DEFAULT_CODEC),
        (ZSTD, GZIP, -67, DEFAULT_CODEC),
        (LZ4, ZSTD, -63, DEFAULT_CODEC),
        (SNAPPY, "", -67, SNAPPY),
        (SNAPPY, "", -66, DEFAULT_CODEC),
        (SNAPPY, SNAPPY, -66, SNAPPY),
        (SNAPPY, GZIP, -65, DEFAULT_CODEC),
        (SNAPPY, SNAPPY, -63, SNAPPY),
        (GZIP, LZ4, -67, GZIP),
        ("", LZ4, -67, ""),
    ],
)
def test_codec_of_the_written_image(wanted: str | None, base: str, layout: int, expected: str) -> None:
    assert codec_to_write(wanted, base, layout) == expected


def test_libraries_that_a_namenode_needs_for_each_codec() -> None:
    assert {name for name, codec in CODEC_SHORT_NAMES.items() if library_of(codec)} == {"lz4", "zstd"}
    assert {name for name, codec in CODEC_SHORT_NAMES.items() if library_of(codec, -66)} == {"lz4", "zstd", "snappy"}
    assert advice_on_codec(GZIP) == ""
    assert advice_on_codec(LZ4).startswith("A NameNode reads Lz4Codec only with lz4-java")
