from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import primitives
from journal.errors import CorruptOpError, JournalError, OpEncodingError
from journal.primitives import PrimitiveReader, decode_cesu8, encode_cesu8
from tests.journal.journal_support import joined, signed, texts, units

CODECS = [
    ("i8", primitives.write_byte, signed(8)),
    ("boolean", primitives.write_bool, st.booleans()),
    ("i16", primitives.write_short, signed(16)),
    ("u16", primitives.write_unsigned_short, st.integers(0, 65535)),
    ("i32", primitives.write_int, signed(32)),
    ("i64", primitives.write_long, signed(64)),
    ("string", primitives.write_str, units.map(joined)),
    ("text", primitives.write_text, texts),
    ("vlong", primitives.write_vlong, signed(64)),
    ("vint", primitives.write_vint, signed(32)),
    ("bytes16", primitives.write_bytes16, st.binary(max_size=300)),
    ("bytes32", primitives.write_bytes32, st.binary(max_size=300)),
    ("varint", primitives.write_varint, st.integers(0, (1 << 31) - 1)),
    ("delimited", primitives.write_delimited, st.binary(max_size=300)),
]
READERS = [name for name, _, _ in CODECS] + ["u8"]


@pytest.mark.parametrize(("name", "write", "values"), CODECS, ids=[codec[0] for codec in CODECS])
@given(data=st.data())
def test_every_primitive_round_trips(name, write, values, data):
    value = data.draw(values)
    out = bytearray()
    write(out, value)
    for buffer in (bytes(out), memoryview(b"ab" + out)[2:]):
        reader = PrimitiveReader(buffer)
        assert getattr(reader, name)() == value
        assert reader.remaining == 0
    for cut in range(len(out)):
        with pytest.raises(CorruptOpError):
            getattr(PrimitiveReader(bytes(out), limit=cut), name)()


@pytest.mark.parametrize("name", READERS)
@given(data=st.binary(max_size=24))
def test_any_bytes_give_a_value_or_a_typed_error(name, data):
    reader = PrimitiveReader(data)
    try:
        getattr(reader, name)()
    except CorruptOpError:
        return
    assert 0 <= reader.position <= len(data)


@given(units)
def test_strings_are_utf8_per_utf16_unit(text):
    raw = encode_cesu8(text)
    java_units = [
        chr(int.from_bytes(pair, "little"))
        for pair in zip(*[iter(text.encode("utf-16-le", "surrogatepass"))] * 2, strict=True)
    ]
    assert raw == b"".join(unit.encode("utf-8", "surrogatepass") for unit in java_units)
    assert encode_cesu8(decode_cesu8(raw)) == raw


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("a\0b", b"a\x00b"),
        ("é", b"\xc3\xa9"),
        ("ไ", b"\xe0\xb9\x84"),
        ("😀", b"\xed\xa0\xbd\xed\xb8\x80"),
        ("\ud83d", b"\xed\xa0\xbd"),
        ("\ude00\ud83d", b"\xed\xb8\x80\xed\xa0\xbd"),
    ],
)
def test_strings_with_known_encodings(text, raw):
    assert encode_cesu8(text) == raw
    assert decode_cesu8(raw) == text


def test_four_byte_utf8_is_decoded():
    assert decode_cesu8("😀".encode()) == "😀"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\xe4\xb8b", "a\u4e22"),
        (b"a\xc0\x80b", "a\0b"),
        (b"\xc1\xff", "\x7f"),
        (b"\xf7\xbf\xbf\xbf", "\udfbf\udfff"),
        (b"\xed\xa0\xbd\xe4\xb8b", "\ud83d\u4e22"),
        *((raw, None) for raw in (b"\xfe", b"a\x80", b"\xf8aaaa", b"\xe4\xb8", b"\xc3", b"\xf0\x9f\x98")),
    ],
)
def test_malformed_utf8_is_read_or_refused_as_in_hadoop(raw, text):
    if text is None:
        with pytest.raises(ValueError, match="does not begin a character"):
            decode_cesu8(raw)
    else:
        assert decode_cesu8(raw) == text


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (127, "7f"),
        (-112, "90"),
        (128, "8f80"),
        (-113, "8770"),
        (255, "8fff"),
        (256, "8e0100"),
        (-257, "860100"),
        ((1 << 63) - 1, "887fffffffffffffff"),
        (-(1 << 63), "807fffffffffffffff"),
    ],
)
def test_variable_length_numbers_with_known_encodings(value, raw):
    out = bytearray()
    primitives.write_vlong(out, value)
    assert out.hex() == raw


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (primitives.write_byte, 128),
        (primitives.write_short, 1 << 15),
        (primitives.write_unsigned_short, -1),
        (primitives.write_int, 1 << 31),
        (primitives.write_long, 1 << 63),
        (primitives.write_vlong, 1 << 63),
        (primitives.write_vint, 1 << 31),
        (primitives.write_str, "x" * 65536),
        (primitives.write_text, "\ud800"),
        (primitives.write_long, "7"),
    ],
)
def test_values_out_of_range_are_refused(write, value):
    with pytest.raises(OpEncodingError):
        write(bytearray(), value)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("vlong", b"\x88\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("vint", b"\x8b\xff\xff\xff\xff\xff"),
        ("varint", b"\xff\xff\xff\xff\x7f"),
        ("varint", b"\xff\xff\xff\xff\xff\x01"),
        ("bytes32", b"\xff\xff\xff\xff"),
        ("text", b"\xff"),
        ("text", b"\x01\xff"),
        ("string", b"\x00\x01\xff"),
    ],
)
def test_invalid_bytes_are_refused(name, raw):
    with pytest.raises(JournalError):
        getattr(PrimitiveReader(raw), name)()
