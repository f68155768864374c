"""Invariants for any bytes read as a compressed section, a varint, records or a digest file."""

from __future__ import annotations

import numpy as np

from hadoop_common.errors import HdfsError
from image_format.codecs import CODECS
from image_format.kernels.scan import count_children
from image_format.md5_file import format_md5, parse_md5
from image_format.varint import decode_varint, encode_varint, iter_records
from tests.fuzz.verdict import check_error

# A small stream may unpack to a large amount of data, of which the test needs only some pieces.
_ENOUGH = 8 << 20


def check_codecs(data: bytes) -> bool:
    """Decode the bytes after the first byte, which chooses the decoder; return False for a refusal.

    Raises:
        AssertionError: something was misread.
    """
    if not data:
        return False
    number, body = data[0], data[1:]
    names = list(CODECS)
    try:
        if number < len(names):
            _check_stream(names[number], body)
        elif number & 1:
            _check_records(body)
        else:
            digest = parse_md5(body, "image")
            assert parse_md5(format_md5(digest, "image"), "image") == digest
    except HdfsError as error:
        check_error(error)
        return False
    return True


def _check_stream(codec: str, body: bytes) -> None:
    content, size = [], 0
    for chunk in CODECS[codec].decompressor().decompress_iter(memoryview(body)):
        assert 0 < len(chunk) <= _ENOUGH
        content.append(bytes(chunk))
        size += len(chunk)
        if size > _ENOUGH:
            return
    again = CODECS[codec].compressor()
    stored = b"".join((bytes(again.compress(b"".join(content))), again.finish()))
    assert b"".join(CODECS[codec].decompressor().decompress_iter(memoryview(stored))) == b"".join(content)


def _check_records(body: bytes) -> None:
    total = 0
    for record in iter_records(memoryview(body)):
        assert record.end - record.offset > len(record.body)
        total += record.end - record.offset
    assert total == len(body)
    if body:
        value, end = decode_varint(body)
        assert decode_varint(encode_varint(value))[0] == value
        assert end <= len(body)
        count_children(np.frombuffer(body, np.uint8), 0)
