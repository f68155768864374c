from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.errors import BufferOrigin, RecordError
from image_format.proto import fsimage_pb2 as pb
from image_format.varint import decode_varint, encode_delimited, encode_varint, iter_records, parse_message, read_record


@given(st.integers(0, 2**64 - 1), st.binary(max_size=4), st.binary(max_size=4))
def test_varint_round_trip(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    assert len(encoded) == max(1, -(-value.bit_length() // 7))
    assert decode_varint(before + encoded + after, len(before)) == (value, len(before) + len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (0xFFFFFFC1, "c1ffffff0f")]
)
def test_varint_known_encodings(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


@pytest.mark.parametrize("value", [-1, 2**64])
def test_a_varint_refuses_values_that_do_not_fit(value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        encode_varint(value)


@given(st.integers(2**7, 2**64 - 1), st.data())
def test_a_truncated_varint_is_a_record_error(value: int, data: st.DataObject) -> None:
    encoded = encode_varint(value)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    with pytest.raises(RecordError, match="file_x, section INODE, offset 100: the data ends within a varint"):
        decode_varint(cut, 0, BufferOrigin("file_x", "INODE", 100))


def test_varint_of_eleven_bytes_is_refused() -> None:
    with pytest.raises(RecordError, match="more than 10 bytes"):
        decode_varint(b"\x80" * 10 + b"\x01")


def test_bits_beyond_the_64th_are_dropped() -> None:
    assert decode_varint(b"\xff" * 9 + b"\x7f") == (2**64 - 1, 10)


@given(st.lists(st.binary(max_size=300)))
def test_records_round_trip(bodies: list[bytes]) -> None:
    data = b"".join(encode_varint(len(body)) + body for body in bodies)
    records = list(iter_records(memoryview(data)))
    assert [bytes(record.body) for record in records] == bodies
    assert [record.end for record in records] == [*(record.offset for record in records[1:]), len(data)][: len(bodies)]


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1), st.data())
def test_truncated_records_are_an_error(bodies: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(encode_varint(len(body)) + body for body in bodies)
    ends = {record.end for record in iter_records(memoryview(whole))}
    cut = data.draw(st.integers(1, len(whole)).filter(lambda size: size not in ends))
    with pytest.raises(RecordError):
        list(iter_records(memoryview(whole)[:cut]))


def test_errors_in_a_compressed_section_give_the_decompressed_offset() -> None:
    with pytest.raises(RecordError, match="offset 0 of the decompressed section"):
        read_record(memoryview(b"\x05ab"), 0, BufferOrigin("f", "INODE", None))


def test_missing_required_fields_are_an_error() -> None:
    record = read_record(memoryview(b"\x02\x08\x01"))
    with pytest.raises(RecordError, match="INode lacks a required field"):
        parse_message(pb.INode, record)


def test_bytes_that_are_not_a_message_are_an_error() -> None:
    with pytest.raises(RecordError, match="not a valid INode message"):
        parse_message(pb.INode, read_record(memoryview(b"\x02\x1a\x7f")))


@pytest.mark.parametrize("part", [b"clientName", b"clientMachine"])
def test_text_that_is_not_utf8_is_refused_at_any_depth(part: bytes) -> None:
    inode = pb.INode(type=pb.INode.FILE, id=5)
    inode.file.fileUC.clientName, inode.file.fileUC.clientMachine = "clientName", "clientMachine"
    data = encode_delimited(inode).replace(part, part[:-1] + b"\xff")
    with pytest.raises(RecordError, match=f"FileUnderConstructionFeature.{part.decode()} is not UTF-8"):
        parse_message(pb.INode, read_record(memoryview(data)))


def test_repeated_text_that_is_not_utf8_is_refused() -> None:
    policy = pb.ErasureCodingPolicyProto(id=1, schema=pb.ECSchemaProto(codecName="rs", dataUnits=1, parityUnits=1))
    for key in ("good", "damaged"):
        policy.schema.options.add(key=key, value="x")
    data = encode_delimited(pb.ErasureCodingSection(policies=[policy])).replace(b"damaged", b"\xc3\x28maged")
    with pytest.raises(RecordError, match=r"ECSchemaOptionEntryProto\.key is not UTF-8"):
        parse_message(pb.ErasureCodingSection, read_record(memoryview(data)))


def test_unknown_fields_survive_parsing() -> None:
    data = encode_delimited(pb.INodeSection(lastInodeId=5)) + b""
    data = bytes([data[0] + 3]) + data[1:] + b"\xe0\x03\x09"
    message = parse_message(pb.INodeSection, read_record(memoryview(data)))
    assert encode_delimited(message) == data


def test_incomplete_message_is_not_encoded() -> None:
    with pytest.raises(ValueError, match="INode is not complete"):
        encode_delimited(pb.INode(id=5))
