"""Lines of a JSON journal: conversion of every operation in both directions, the tutorial's names, and optional
members.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import EditsTextError
from journal.json_records import decode_record, encode_record
from journal.operation import EditOp
from journal.ops import (
    OPERATIONS,
    AddOp,
    AppendOp,
    CloseOp,
    ConcatDeleteOp,
    DeleteOp,
    MkdirOp,
    PermissionStatus,
    RenameOldOp,
    RenameOp,
    SymlinkOp,
    TimesOp,
    TruncateOp,
)
from tests.depth import examples
from tests.journal.journal_support import operations

FILE = PermissionStatus("hdfs", "supergroup", 0o644)
BLOCK = 128 << 20
CLIENT = {"client_name": "json-journal", "client_machine": ""}


def decode(line: str) -> EditOp:
    return decode_record(line).op


@pytest.mark.parametrize("cls", OPERATIONS.values(), ids=lambda cls: cls.name)
@examples(25)
@given(data=st.data())
def test_operations_round_trip(cls: type[EditOp], data: st.DataObject) -> None:
    op = data.draw(operations(cls))
    line = encode_record(op)
    assert line.isascii()
    assert "\n" not in line
    assert decode_record(line) == (op, None)
    assert decode_record(encode_record(op, -63)) == (op, -63)
    # every member is written explicitly
    members = json.loads(line)
    assert {"OP": cls.name.removeprefix("OP_"), "txid": op.txid}.items() <= members.items()
    assert len(members) == 2 + len(cls.fields)


@examples(60)
@given(data=st.data())
def test_member_names_ignore_case_and_underscores(data: st.DataObject) -> None:
    op = data.draw(operations())
    members = json.loads(encode_record(op))
    kind, txid = members.pop("OP"), members.pop("txid")
    forms = st.sampled_from([str.upper, str.lower, lambda name: name.replace("_", "")])
    spelled = {data.draw(forms)(name): value for name, value in members.items()}
    name = data.draw(st.sampled_from([kind, kind.lower(), f"OP_{kind}"]))
    assert decode(json.dumps({"OP": name, **spelled, "txid": txid})) == op


@pytest.mark.parametrize(
    ("line", "op"),
    [
        (
            '{"OP":"MKDIR","PATH":"/a","txid":7}',
            MkdirOp(inode_id=16392, path="/a", timestamp=0, permissions=FILE._replace(mode=0o755)),
        ),
        (
            '{"OP":"CREATE","PATH":"/f","txid":7}',
            AddOp(
                inode_id=16392, path="/f", replication=3, mtime=0, atime=0, block_size=BLOCK, permissions=FILE, **CLIENT
            ),
        ),
        (
            '{"OP":"create","PATH":"/f","txid":7,"mtime":5,"inodeid":20000,"REPLICATION":1}',
            AddOp(
                inode_id=20000, path="/f", replication=1, mtime=5, atime=5, block_size=BLOCK, permissions=FILE, **CLIENT
            ),
        ),
        (
            '{"OP":"CLOSE","PATH":"/f","txid":7,"MTIME":8}',
            CloseOp(path="/f", replication=3, mtime=8, atime=8, block_size=BLOCK, permissions=FILE),
        ),
        ('{"OP":"RM","PATH":"/f","txid":7}', DeleteOp(path="/f", timestamp=0)),
        ('{"OP":"OP_RM","PATH":"/f","txid":7,"TIMESTAMP":1}', DeleteOp(path="/f", timestamp=1)),
        ('{"OP":"RENAME","SRC":"/f","DST":"/g","txid":7}', RenameOp(src="/f", dst="/g", timestamp=0)),
        (
            '{"OP":"RENAME","SRC":"/f","DST":"/g","txid":7,"OPTIONS":["OVERWRITE"]}',
            RenameOp(src="/f", dst="/g", timestamp=0, options=b"\1"),
        ),
        ('{"OP":"RENAME_OLD","SRC":"/f","DST":"/g","txid":7}', RenameOldOp(src="/f", dst="/g", timestamp=0)),
        (
            '{"OP":"CONCAT_DELETE","TRG":"/f","SRCS":["/g"],"txid":7}',
            ConcatDeleteOp(trg="/f", srcs=("/g",), timestamp=0),
        ),
        ('{"OP":"TIMES","PATH":"/f","ATIME":3,"txid":7}', TimesOp(path="/f", mtime=-1, atime=3)),
        ('{"OP":"APPEND","PATH":"/f","txid":7}', AppendOp(path="/f", new_block=False, **CLIENT)),
        (
            '{"OP":"TRUNCATE","SRC":"/f","NEW_LENGTH":1,"txid":7}',
            TruncateOp(src="/f", new_length=1, timestamp=0, **CLIENT),
        ),
        (
            '{"OP":"SYMLINK","PATH":"/l","TARGET":"/f","txid":7}',
            SymlinkOp(inode_id=16392, path="/l", target="/f", mtime=0, atime=0, permissions=FILE._replace(mode=0o777)),
        ),
    ],
)
def test_records_in_the_form_of_the_tutorial(line: str, op: EditOp) -> None:
    op.txid = 7
    assert decode(line) == op
    assert decode(encode_record(op)) == op


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "JSONDecodeError"),
        ('{"OP":"MKDIR","PATH":"/a","txid":1', "JSONDecodeError"),
        ("{'OP':'MKDIR','PATH':'/a','txid':1}", "JSONDecodeError"),
        ("[]", "not a transaction"),
        ('"x"', "not a transaction"),
        ('{"PATH":"/a","txid":1}', "OP is missing"),
        ('{"OP":"MKDIR","PATH":"/a"}', "txid is missing"),
        ('{"OP":"MKDIR","PATH":"/a","txid":-1}', "-1 is not a transaction id"),
        ('{"OP":"MKDIR","PATH":"/a","txid":true}', "not a transaction id"),
        ('{"OP":"MKDIR","PATH":"/a","txid":1.0}', "not a transaction id"),
        ('{"OP":"MKDIR","txid":1}', "OP_MKDIR needs PATH"),
        ('{"OP":"SET_REPLICATION","PATH":"/a","txid":1}', "OP_SET_REPLICATION needs REPLICATION"),
        ('{"OP":"MKDIR","PATH":7,"txid":1}', "path: '7' is not of type str"),
        ('{"OP":"MKDIR","PATH":null,"txid":1}', "path"),
        ('{"OP":"MKDIR","PATH":"/a","txid":1,"COLOUR":"red"}', "has no 'colour'"),
        ('{"OP":"MKDIR","PATH":"/a","path":"/b","txid":1}', "'path' appears twice"),
        ('{"OP":"MKDIR","PATH":"/a","PATH":"/b","txid":1}', "'PATH' appears twice"),
        ('{"OP":"SHRED","PATH":"/a","txid":1}', "OP_SHRED"),
        ('{"OP":7,"PATH":"/a","txid":1}', "not a transaction"),
        ('{"OP":"MKDIR","PATH":"/a","txid":1,"layoutVersion":"-63"}', "layoutVersion is '-63'"),
        ("[" * 100_000, "not a transaction"),
    ],
)
def test_invalid_records_are_refused(line: str, words: str) -> None:
    with pytest.raises(EditsTextError, match=words) as caught:
        decode_record(line)
    assert caught.value.hint


def test_error_names_the_txid_of_the_line() -> None:
    with pytest.raises(EditsTextError, match="txid 12: "):
        decode_record('{"OP":"MKDIR","txid":12}')


@examples(200)
@given(
    st.text(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["OP", "txid", "PATH", "layoutVersion"]), inner, max_size=4)
        ),
        max_leaves=8,
    ).map(json.dumps)
)
def test_any_line_gives_an_operation_or_a_typed_error(line: str) -> None:
    try:
        op = decode(line)
    except EditsTextError:
        return
    assert decode(encode_record(op)) == op
