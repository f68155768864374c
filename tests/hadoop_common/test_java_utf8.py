"""Malformed UTF-8 becomes the text that Hadoop 3.5.0 and 2.7.3 NameNodes made from the same bytes in SET_XATTR."""

from __future__ import annotations

import pytest

from hadoop_common.java_utf8 import decode_java_utf8

SEEN = {
    b"\xed\xa0\x80": "\ufffd",
    b"\xed\xa0\xbd": "\ufffd",
    b"\x80\x80\x80": "\ufffd" * 3,
    b"\xe2\x82A": "\ufffdA",
    b"\xc0\xafA": "\ufffd\ufffdA",
    b"\xf0\x9f\x98": "\ufffd",
    b"\xf5AB": "\ufffdAB",
    b"\xe0\x80\x80": "\ufffd" * 3,
    b"\xf8\x88\x80": "\ufffd" * 3,
    b"\xf4\x90\x80": "\ufffd" * 3,
    b"\xc2\xc2\xc2": "\ufffd" * 3,
    b"\xe1\x80\xc3": "\ufffd" * 2,
    b"\xf0\x90\xc3": "\ufffd" * 2,
    b"AA\xe2": "AA\ufffd",
}


@pytest.mark.parametrize("raw", SEEN, ids=bytes.hex)
def test_malformed_bytes_are_replaced_as_in_java(raw: bytes) -> None:
    assert decode_java_utf8(b"q" + raw + b"q") == f"q{SEEN[raw]}q"


def test_valid_text_is_kept() -> None:
    text = "a\u00fc\u20ac\ufffd\U0001f600"
    assert decode_java_utf8(text.encode()) == text
