from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.layout import NEWEST_LAYOUT, OLDEST_LAYOUT
from journal import binary_codec
from journal.binary_codec import decode_op, encode_op
from journal.errors import (
    CorruptOpError,
    JournalError,
    OpEncodingError,
    OpTooLargeError,
    UnknownOpcodeError,
    UnreadableOpError,
    UnsupportedEditsLayoutError,
)
from journal.json_codec import op_from_json, op_to_json
from journal.operation import EditOp, operation
from journal.ops import (
    OPERATIONS,
    AclEntry,
    AddOp,
    AllowSnapshotOp,
    Block,
    CloseOp,
    CreateSnapshotOp,
    DeleteOp,
    MkdirOp,
    PermissionStatus,
    RemoveXAttrOp,
    RenameOp,
    SetAclOp,
    SetXAttrOp,
    TruncateOp,
    XAttr,
)
from journal.segment_format import SegmentCursor
from journal.xml_codec import HADOOP_2, HADOOP_3, op_to_xml
from tests.depth import examples
from tests.journal.journal_support import NEWEST, joined, numbered, operations, segment_bytes

LAYOUTS = range(OLDEST_LAYOUT, NEWEST_LAYOUT - 1, -1)
PERMISSIONS = PermissionStatus("hdfs", "supergroup", 0o644)


@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
@examples(40)
@given(data=st.data())
def test_operations_round_trip_in_every_layout(cls, data):
    layout_version = data.draw(st.sampled_from(LAYOUTS))
    op = data.draw(operations(cls, layout_version))
    raw = encode_op(op, layout_version)
    again, position = decode_op(b"xyz" + raw, 3, layout_version)
    assert again == op
    assert (again.offset, position) == (3, 3 + len(raw))
    assert encode_op(again, layout_version) == raw
    assert decode_op(memoryview(raw), 0, layout_version) == (op, len(raw))


@given(operations())
def test_operations_round_trip_through_json(op):
    line = op_to_json(op)
    assert line.isascii()
    assert "\n" not in line
    assert op_from_json(line) == op


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "{}",
        '{"opcode":"OP_NOTHING","txid":1}',
        '{"opcode":"OP_DELETE"}',
        '{"opcode":"OP_DELETE","txid":1}',
        '{"opcode":"OP_DELETE","txid":1,"path":"/a","timestamp":1,"colour":"red"}',
        '{"opcode":"OP_DELETE","txid":1,"path":"/a","timestamp":1,"rpc_client_id":"zz"}',
    ],
)
def test_invalid_json_is_refused(line):
    with pytest.raises(CorruptOpError):
        op_from_json(line)


@examples(300)
@given(operations(), st.sampled_from(LAYOUTS), st.data())
def test_mutated_bytes_give_an_operation_or_a_typed_error(op, layout_version, data):
    raw = bytearray(encode_op(op, layout_version))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        raw[-4:] = zlib.crc32(raw[:-4]).to_bytes(4, "big")
    del raw[data.draw(st.integers(1, len(raw))) :]
    error = None
    try:
        again, _ = decode_op(bytes(raw), 0, layout_version, file="edits")
        assert decode_op(encode_op(again, layout_version), 0, layout_version)[0] == again
    except JournalError as caught:
        error = caught
    assert error is None or str(error).startswith("edits, offset 0")


@given(st.binary(max_size=200), st.sampled_from(LAYOUTS))
def test_any_bytes_give_operations_or_a_typed_error(data, layout_version):
    error = None
    try:
        list(SegmentCursor(segment_bytes([], layout_version) + data))
    except JournalError as caught:
        error = caught
    assert error is None or error.offset is not None


def test_single_bit_flips_are_detected():
    raw = encode_op(DeleteOp(txid=7, path="/a", timestamp=1), NEWEST)
    for bit in range(len(raw) * 8):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptOpError):
            decode_op(bytes(damaged), 0, NEWEST)


def test_exact_bytes_of_an_operation():
    # FSEditLogOp.AllowSnapshotOp in layout -63: opcode, length, txid, path, checksum
    raw = encode_op(AllowSnapshotOp(txid=9, snapshot_root="/d"), -63)
    body = bytes.fromhex("1d 00000010 0000000000000009 0002 2f64")
    assert raw == body + zlib.crc32(body).to_bytes(4, "big")


def framed(opcode: int, body: bytes, txid: int = 1) -> bytes:
    raw = bytes([opcode]) + (len(body) + 12).to_bytes(4, "big") + txid.to_bytes(8, "big") + body
    return raw + zlib.crc32(raw).to_bytes(4, "big")


def test_malformed_text_of_a_protobuf_message_is_replaced():
    # a NameNode also replaces the malformed bytes
    assert decode_op(framed(40, b"\x05\x0a\x03/\xff/"), 0, NEWEST)[0].src == "/\ufffd/"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (framed(29, b"\x00\x01/x"), "contains . bytes? after its fields"),
        (framed(29, b"\x00\x03/x"), "OP_ALLOW_SNAPSHOT"),
        (framed(29, b"")[:5], "truncated"),
        (framed(29, b"\x00\x01/")[:-1], "truncated"),
        (framed(23, b"")[:1] + b"\x00\x00\x00\x0b" + framed(23, b"")[5:], "length 11"),
        (framed(23, b"")[:1] + b"\x80\x00\x00\x0c" + framed(23, b"")[5:], "length -"),
        (framed(23, b"")[:1] + b"\x03\x20\0\0" + framed(23, b"")[5:], "it has 52428805 bytes"),
        (framed(15, b"\0\0\0\0" + b"\0" * 8 + b"\0\0\0\x01\x03" + b"\0\0\xff\xff\xff\xfe"), "rename option 3"),
        (framed(2, b"\0\0" + b"\0" * 8 + b"\0\x01x" + b"\0\0\0\0"), "client id"),
        (framed(35, b"\0" * 8 + b"\0\x11" + b"x" * 17 + b"\0\0\0\0"), "client id"),
        (framed(36, b"\0\0" + b"\0\0\1\0" + b"\0\0\0\0\0\0"), "flags 0x100"),
        (framed(20, b"\x01" + b"\0" * 7), "version 1"),
        (framed(40, b"\x02\x0a\x05"), "AclEditLogProto"),
        (framed(40, b"\x00"), "lacks a required"),
        (framed(40, bytes.fromhex("0b 0a012f 1206 0809 1000 1807")), "lacks a required"),
        (framed(43, b"\x00\x00\x00\xff\xff\xff\xfe"), "no src"),
        (framed(25, b"\0\0" + b"\x7f"), "blocks"),
        (framed(16, b"\0\0" + b"\xff\xff\xff\xff"), "strings"),
        (framed(46, b"\0\0" * 3 + b"\0" * 16 + b"\x02" + b"\0" * 20), "2 blocks"),
    ],
)
def test_invalid_operations_are_reported(raw, words):
    with pytest.raises(CorruptOpError, match=words) as caught:
        decode_op(b"\0" * 5 + raw, 5, -63, file="edits_1-2")
    assert caught.value.offset == 5
    assert caught.value.exit_code == 4
    assert caught.value.hint


@pytest.mark.parametrize("opcode", [5, 6, max(OPERATIONS) + 1, 100, 254, 255])
def test_unknown_opcodes_are_reported(opcode):
    with pytest.raises(UnknownOpcodeError, match=f"opcode {opcode} ") as caught:
        decode_op(framed(opcode, b""), 0, -63, file="edits")
    assert caught.value.opcode == opcode


def test_damaged_opcode_is_damage_not_an_operation_of_other_software():
    raw = b"\x78" + encode_op(DeleteOp(path="/a", timestamp=1), -63)[1:]
    with pytest.raises(CorruptOpError) as caught:
        decode_op(raw, 0, -63, file="edits")
    assert not isinstance(caught.value, UnreadableOpError)
    assert "Use another copy" in caught.value.hint


@pytest.mark.parametrize("layout_version", [OLDEST_LAYOUT + 1, NEWEST_LAYOUT - 1, 63, 0, -1000])
def test_unsupported_layouts_are_refused(layout_version):
    with pytest.raises(UnsupportedEditsLayoutError) as caught:
        encode_op(DeleteOp(path="/a", timestamp=1), layout_version)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (DeleteOp(txid=3, path="x" * 65536, timestamp=0), "OP_DELETE path"),
        (DeleteOp(txid=3, path="x", timestamp=1 << 63), "OP_DELETE timestamp"),
        (DeleteOp(txid=3, path="x", timestamp=0, rpc_client_id=b"short"), "rpc_client_id"),
        (SetAclOp(txid=3, src="/\ud800"), "OP_SET_ACL src/acl_entries"),
        (SetAclOp(txid=3, src="/", acl_entries=(AclEntry(4, 0, 0),)), "out of range"),
        (SetXAttrOp(txid=3, src="/", xattrs=(XAttr(5, "a"),)), "namespace"),
        (RenameOp(txid=3, src="/", dst="/a", timestamp=0, options=b"\x09"), "rename option"),
    ],
)
def test_error_of_an_unencodable_value_names_the_field(op, words):
    with pytest.raises(OpEncodingError, match=words) as caught:
        encode_op(op, -63)
    assert caught.value.txid == 3


def test_operation_longer_than_a_java_int_is_refused(monkeypatch):
    monkeypatch.setattr(binary_codec, "MAX_OP_SIZE", 1000)
    with pytest.raises(OpEncodingError, match="OP_SET_XATTR of 1039 bytes is larger than 1000"):
        encode_op(SetXAttrOp(txid=3, src="/", xattrs=(XAttr(0, "a", bytes(1000)),)), -63)


def test_intact_operation_above_the_limit_is_too_large():
    data = encode_op(DeleteOp(txid=3, path="/" + "x" * 500, timestamp=0), -63)
    assert decode_op(data, 0, -63, max_op_size=len(data))[1] == len(data)
    with pytest.raises(OpTooLargeError, match=rf"of {len(data)} bytes is larger than dfs\.namenode\.max\.op\.size"):
        decode_op(data, 0, -63, max_op_size=len(data) - 1)
    with pytest.raises(CorruptOpError):
        decode_op(data[:-1], 0, -63, max_op_size=len(data) - 1)


def test_fields_absent_from_the_layout_are_omitted():
    op = CreateSnapshotOp(txid=1, snapshot_root="/", snapshot_name="s", mtime=5)
    assert decode_op(encode_op(op, -66), 0, -66)[0] == op
    older, _ = decode_op(encode_op(op, -63), 0, -63)
    assert older == CreateSnapshotOp(txid=1, snapshot_root="/", snapshot_name="s")


def test_offset_does_not_affect_equality():
    assert DeleteOp(txid=1, path="/", timestamp=1, offset=8) == DeleteOp(txid=1, path="/", timestamp=1)
    assert DeleteOp(txid=1, path="/", timestamp=1) != DeleteOp(txid=2, path="/", timestamp=1)


def test_required_fields_are_enforced_and_unknown_ones_refused():
    with pytest.raises(TypeError):
        DeleteOp(path="/")
    with pytest.raises(AttributeError):
        DeleteOp(path="/", timestamp=1).colour = "red"


def test_opcode_cannot_be_declared_twice():
    with pytest.raises(ValueError, match="OP_DELETE"):

        @operation(2, "OP_OTHER")
        class OtherOp(EditOp):
            pass


def test_mkdir_repeats_its_timestamp():
    op = MkdirOp(txid=1, inode_id=2, path="/d", timestamp=77, permissions=PERMISSIONS)
    raw = encode_op(op, -63)
    assert raw.count((77).to_bytes(8, "big")) == 2
    other = MkdirOp(txid=1, inode_id=2, path="/d", timestamp=77, atime=78, permissions=PERMISSIONS)
    assert decode_op(encode_op(other, -63), 0, -63)[0] == other


def test_handwritten_operations_round_trip():
    ops = numbered(
        [
            AddOp(
                inode_id=16386,
                path="/f",
                replication=1,
                mtime=1,
                atime=1,
                block_size=1024,
                permissions=PERMISSIONS,
                client_name="c",
                client_machine="m",
            ),
            CloseOp(
                path="/f",
                replication=1,
                mtime=1,
                atime=1,
                block_size=1024,
                blocks=(Block(1, 2, 3),),
                permissions=PERMISSIONS,
            ),
            TruncateOp(
                src="/f", client_name="c", client_machine="m", new_length=1, timestamp=2, truncate_block=Block(1, 2, 4)
            ),
            RemoveXAttrOp(src="/f", xattrs=(XAttr(0, "a"),)),
        ],
        50,
    )
    assert list(SegmentCursor(segment_bytes(ops), first_txid=50, last_txid=53)) == ops


@pytest.mark.parametrize(
    ("text", "two", "three"),
    [
        ("<&>\"'", "&lt;&amp;&gt;\"'", "&lt;&amp;&gt;\"'"),
        ("back\\slash", "back\\005c;slash", "back\\005c;slash"),
        ("\x00\x1f\ud800\ufffe", "\\0000;\\001f;\\d800;\\fffe;", "\\0000;\\001f;\\d800;\\fffe;"),
        ("😀", "&#x1f600;", "&#128512;"),
        ("\x7f\x85", "\x7f\x85", "&#127;&#133;"),
        ("\ra\nb\tc", "&#xd;a\nb\tc", "&#13;a\nb\tc"),
    ],
)
def test_xml_escapes_of_both_releases(text, two, three):
    op = AllowSnapshotOp(txid=1, snapshot_root=joined(text))
    assert f"<SNAPSHOTROOT>{two}</SNAPSHOTROOT>" in op_to_xml(op, HADOOP_2)
    assert f"<SNAPSHOTROOT>{three}</SNAPSHOTROOT>" in op_to_xml(op, HADOOP_3)


def test_empty_xml_elements_of_both_releases():
    op = AllowSnapshotOp(txid=1, snapshot_root="")
    assert "<SNAPSHOTROOT></SNAPSHOTROOT>" in op_to_xml(op, HADOOP_2)
    assert "<SNAPSHOTROOT/>" in op_to_xml(op, HADOOP_3)


@given(operations())
def test_every_operation_has_xml(op):
    for dialect in (HADOOP_2, HADOOP_3):
        assert op_to_xml(op, dialect).count("<TXID>") == 1
