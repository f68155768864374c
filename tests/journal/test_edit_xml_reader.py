"""Operations from XML and JSON: recorded XML of real Hadoop, generated operations, and invalid documents."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.binary_codec import decode_op, encode_op
from journal.edits_text import EditsDocument, fields_without_xml
from journal.errors import EditsTextError, OpEncodingError
from journal.json_codec import dump_json, parse_json
from journal.ops import OPERATIONS, CachePoolInfo, DeleteOp, EditOp, PermissionStatus
from journal.segment_file import list_segments, read_ops
from journal.segment_format import decode_header
from journal.xml_codec import HADOOP_2, HADOOP_3, XmlDialect, dump_xml, op_to_xml
from journal.xml_element import unmangle
from journal.xml_reader import parse_xml
from tests.depth import examples
from tests.journal.journal_support import case_id, numbered, operations, recorded_xml


def chunks(data: bytes, size: int = 1000) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def xml_view(op: EditOp, dialect: XmlDialect) -> EditOp:
    """Return `op` after conversion through XML: fields without an element have their defaults, and modes have ten
    bits.
    """
    changes: dict[str, Any] = {}
    for item in op.fields:
        value = getattr(op, item.name)
        if item.tag is None or not item.present_in(dialect.layout_version):
            changes[item.name] = item.default
        elif isinstance(value, PermissionStatus | CachePoolInfo) and value.mode is not None:
            changes[item.name] = value._replace(mode=value.mode & 0o1777)
        elif item.kind.name == "MODE":
            changes[item.name] = value & 0o1777
    return dataclasses.replace(op, **changes)


def parsed(text: str, **arguments: Any) -> EditsDocument:
    return parse_xml(chunks(text.encode("utf-8")), **arguments)


@pytest.mark.parametrize("dialect", [HADOOP_2, HADOOP_3], ids=["2", "3"])
@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
@examples(25)
@given(data=st.data())
def test_operations_round_trip_through_xml(cls: type[EditOp], dialect: XmlDialect, data: Any) -> None:
    op = data.draw(operations(cls))
    document = parsed("".join(dump_xml([op], -63, dialect)))
    assert document.layout_version == -63
    assert list(document.ops) == [xml_view(op, dialect)]


@examples(50)
@given(st.lists(operations(), max_size=6), st.integers(1, 200))
def test_documents_are_read_in_pieces_of_any_size(ops: list[EditOp], size: int) -> None:
    text = "".join(dump_xml(ops, -67))
    document = parse_xml(chunks(text.encode(), size))
    assert list(document.ops) == [xml_view(op, HADOOP_3) for op in ops]


@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
@examples(25)
@given(data=st.data())
def test_operations_round_trip_through_json(cls: type[EditOp], data: Any) -> None:
    op = data.draw(operations(cls))
    document = parse_json("".join(dump_json([op], -66)).encode().splitlines(keepends=True))
    assert document.layout_version == -66
    assert list(document.ops) == [op]


@pytest.mark.recorded
@pytest.mark.parametrize("path", recorded_xml(), ids=case_id)
def test_recorded_xml_gives_the_operations_and_bytes_of_the_segments(path: Path) -> None:
    segments = list_segments(path.parent / "before")
    layout_version = decode_header(segments[0].path.read_bytes())
    lost = fields_without_xml()
    with gzip.open(path) as source:
        document = parse_xml(iter(lambda: source.read(1 << 16), b""), file=path.name)
        assert document.layout_version == layout_version
        ours = (op for segment in segments for op in read_ops(segment))
        for op, again in zip(ours, document.ops, strict=True):
            for name in lost.get(op.name, ()):
                setattr(again, name, getattr(op, name))
            assert again == op
            assert encode_op(again, layout_version) == encode_op(op, layout_version)


@pytest.mark.recorded
def test_fields_missing_from_hadoop_xml() -> None:
    assert fields_without_xml() == {"OP_ADD": ("xattrs", "storage_policy_id"), "OP_MKDIR": ("atime",)}


def outcome(read: Callable[[], EditsDocument]) -> EditsTextError | None:
    """Return the reader's error; check that accepted operations can be encoded, or that the encoder refuses them."""
    try:
        ops = list(read().ops)
    except EditsTextError as error:
        return error
    for op in ops:
        with contextlib.suppress(OpEncodingError):
            assert decode_op(encode_op(op, -67), 0, -67)[0].txid == op.txid
    return None


HEAD = "<EDITS><EDITS_VERSION>-63</EDITS_VERSION>"
DELETE = op_to_xml(DeleteOp(txid=7, path="/a", timestamp=1), HADOOP_2)


def test_elements_omitted_by_a_release_take_their_defaults() -> None:
    without_rpc = DELETE.replace("      <RPC_CLIENTID></RPC_CLIENTID>\n      <RPC_CALLID>-2</RPC_CALLID>\n", "")
    assert "RPC" not in without_rpc
    assert list(parsed(HEAD + without_rpc + "</EDITS>").ops) == [DeleteOp(txid=7, path="/a", timestamp=1)]


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("", "not well-formed XML", 1),
        ("<EDITS>", "not well-formed XML", 1),
        ("<EDITS></EDITS>", "has no EDITS_VERSION", None),
        ("<fsimage/>", "instead of EDITS", 1),
        (HEAD + "\n</EDIT>", "mismatched tag", 2),
        (HEAD + "\n<FOO/></EDITS>", "FOO is out of place", 2),
        ("<EDITS>\n" + DELETE + "</EDITS>", "RECORD is out of place", 2),
        (HEAD + HEAD[7:] + "</EDITS>", "EDITS_VERSION is out of place", 1),
        ("<EDITS><EDITS_VERSION>new</EDITS_VERSION></EDITS>", "'new' instead of a number", 1),
        (HEAD + "<RECORD/></EDITS>", "no OPCODE element", 1),
        (HEAD + DELETE.replace("OP_DELETE", "OP_SHRED") + "</EDITS>", "unknown operation 'OP_SHRED'", 2),
        (HEAD + DELETE.replace("<TXID>7", "<TXID>-7") + "</EDITS>", "-7 is not a transaction id", 4),
        (HEAD + DELETE.replace("<TXID>7</TXID>", "") + "</EDITS>", "no TXID element", 3),
        (HEAD + DELETE.replace("PATH", "ROUTE") + "</EDITS>", "OP_DELETE: DATA has no PATH element", 3),
        (HEAD + DELETE.replace("<PATH>", "<X>y</X><PATH>") + "</EDITS>", "X, which does not belong to any field", 6),
        (HEAD + DELETE.replace("<PATH>", "<PATH>b</PATH><PATH>") + "</EDITS>", "PATH appears twice", 6),
        (HEAD + DELETE.replace("/a", "<b>c</b>") + "</EDITS>", "b, which does not belong to any field", 6),
        (HEAD + DELETE.replace("<PATH>", "stray<PATH>") + "</EDITS>", "text before PATH", 6),
        (HEAD + DELETE.replace("</DATA>", "stray</DATA>") + "</EDITS>", "text between the elements", 3),
        (HEAD + DELETE.replace("<PATH>", '<PATH a="b">') + "</EDITS>", "attributes", 6),
        (HEAD + DELETE.replace("/a", "\\12") + "</EDITS>", "does not begin an escape", 6),
        (HEAD + DELETE.replace("/a", "\\fffffe;") + "</EDITS>", "PATH", 6),
        (HEAD + DELETE.replace("STAMP>1", "STAMP>1_0") + "</EDITS>", "instead of a number", 7),
        (HEAD + DELETE.replace("CLIENTID>", "CLIENTID>x", 1) + "</EDITS>", "not an RPC client id", 8),
        (HEAD + "<a>" * 20, "nested deeper", 1),
        ('<?xml version="1.0" encoding="klingon"?><EDITS/>', "encoding", 1),
    ],
)
def test_error_of_an_invalid_document_names_the_line(text: str, words: str, line: int | None) -> None:
    with pytest.raises(EditsTextError, match=words) as caught:
        list(parsed(text, file="edits.xml").ops)
    assert str(caught.value).startswith("edits.xml")
    assert caught.value.line == line
    assert caught.value.hint
    assert caught.value.exit_code == 4


def test_error_in_an_operation_names_its_txid() -> None:
    with pytest.raises(EditsTextError, match=r"^edits.xml, line 6, txid 7: OP_DELETE: ") as caught:
        list(parsed(HEAD + DELETE.replace("/a", "\\") + "</EDITS>", file="edits.xml").ops)
    assert caught.value.txid == 7


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE EDITS [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE EDITS SYSTEM "file:///etc/hostname">',
        "<!DOCTYPE EDITS>",
    ],
)
def test_document_type_is_refused_before_entity_expansion(doctype: str) -> None:
    with pytest.raises(EditsTextError, match="document type"):
        parsed(f"{doctype}<EDITS><EDITS_VERSION>-63</EDITS_VERSION></EDITS>")


def test_other_encodings_are_read() -> None:
    text = f'<?xml version="1.0" encoding="UTF-16"?>{HEAD}{DELETE.replace("/a", "/ä")}</EDITS>'
    (op,) = parse_xml([text.encode("utf-16")]).ops
    assert op == DeleteOp(txid=7, path="/ä", timestamp=1)


@examples(150)
@given(st.data())
def test_mutated_documents_give_operations_or_a_typed_error(data: Any) -> None:
    ops = numbered(data.draw(st.lists(operations(), min_size=1, max_size=3)), 1)
    raw = bytearray("".join(dump_xml(ops, -67)).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    error = outcome(lambda: parse_xml([bytes(raw)]))
    assert error is None or error.line is not None or "EDITS_VERSION" in error.problem


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("", ""),
        ("plain", "plain"),
        ("\\005c;", "\\"),
        ("a\\0000;b", "a\0b"),
        ("\\d83d;\\de00;", "😀"),
        ("\\d83d;x", "\ud83dx"),
        ("\\1f600;", "😀"),
        ("\\005c;0041;", "\\0041;"),
    ],
)
def test_escapes_are_decoded(text: str, plain: str) -> None:
    assert unmangle(text) == plain


@pytest.mark.parametrize("text", ["\\", "\\x", "\\12;", "\\00zz;", "a\\0041", "\\110000;"])
def test_invalid_backslashes_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        unmangle(text)


JSON_DELETE = b'{"opcode":"OP_DELETE","txid":7,"path":"/a","timestamp":1}'


@pytest.mark.parametrize(
    ("lines", "words", "line"),
    [
        ([], "the first line", 1),
        ([JSON_DELETE], "the first line", 1),
        ([b'{"layoutVersion":"-63"}'], "the first line", 1),
        ([b'{"layoutVersion":true}'], "the first line", 1),
        ([b'{"layoutVersion":-63,"x":1}'], "the first line", 1),
        ([b'{"layoutVersion":-63}', b"", b"[]"], "not an operation", 3),
        ([b'{"layoutVersion":-63}', JSON_DELETE.replace(b"7", b'"7"')], "not a transaction id", 2),
        ([b'{"layoutVersion":-63}', JSON_DELETE.replace(b"7", b"-1")], "not a transaction id", 2),
        ([b'{"layoutVersion":-63}', JSON_DELETE.replace(b'"/a"', b"5")], "path: .* is not of type str", 2),
        ([b'{"layoutVersion":-63}', JSON_DELETE.replace(b'"/a"', b"null")], "path: .* is not of type str", 2),
        ([b'{"layoutVersion":-63}', JSON_DELETE.replace(b":1}", b":1.5}")], "timestamp: .* is not of type int", 2),
        ([b'{"layoutVersion":-63}', JSON_DELETE.replace(b":1}", b":true}")], "timestamp: .* is not of type int", 2),
        ([b'{"layoutVersion":-63}', b"\xff"], "not UTF-8", 2),
        ([b'{"layoutVersion":-63}', b"[" * 100000], "not an operation", 2),
        (
            [
                b'{"layoutVersion":-63}',
                b'{"opcode":"OP_UPDATE_BLOCKS","txid":1,"path":"/","blocks":[{"block_id":"1","num_bytes":1,"genstamp":1}]}',
            ],
            "block_id",
            2,
        ),
    ],
)
def test_error_of_invalid_json_names_the_line(lines: list[bytes], words: str, line: int) -> None:
    with pytest.raises(EditsTextError, match=words) as caught:
        list(parse_json(lines, file="edits.json").ops)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"edits.json, line {line}")


@examples(150)
@given(st.data())
def test_mutated_json_gives_encodable_operations_or_a_typed_error(data: Any) -> None:
    (line,) = "".join(dump_json([data.draw(operations())], -67)).encode().splitlines()[1:]
    raw = bytearray(line)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from(b'0123456789"{}[],:.-anut'))
    error = outcome(lambda: parse_json([b'{"layoutVersion":-67}', bytes(raw)]))
    assert error is None or error.line == 2
