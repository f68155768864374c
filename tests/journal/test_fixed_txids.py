"""Operations with gaps in their txids, renumbered as by `hdfs oev -f` of Hadoop 3.4.2."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from journal.binary_codec import encode_op
from journal.edits_text import renumbered
from journal.ops import DeleteOp
from journal.segment_format import SegmentCursor, encode_header
from tests.cli_runner import run_cli


def ops(txids: list[int]) -> list[DeleteOp]:
    return [DeleteOp(txid=txid, path=f"/{number}", timestamp=1) for number, txid in enumerate(txids)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1, 2, 10, 10, 7, 6, 112], [1, 2, 3, 4, 5, 6, 7]),
        ([-4, -3, -2], [1, 2, 3]),
        ([0, 1], [1, 2]),
        ([50, 9], [50, 51]),
        ([], []),
    ],
)
def test_txids_are_renumbered_from_the_first(given: list[int], expected: list[int]) -> None:
    found = list(renumbered(ops(given)))
    assert [op.txid for op in found] == expected
    assert [op.path for op in found if isinstance(op, DeleteOp)] == [f"/{number}" for number in range(len(given))]


def test_fixed_txids_round_trip_through_dump_and_load(tmp_path: Path) -> None:
    source = tmp_path / "edits"
    content = b"".join(encode_op(op, -67) for op in ops([5, 9, 9, 6]))
    source.write_bytes(encode_header(-67) + content + b"\xff" * 100)
    assert run_cli("edits", "dump", source).code == 4
    dumped = run_cli("edits", "dump", "--fix-txids", source)
    assert dumped.code == 0, dumped.err
    assert re.findall(r"<TXID>(\d+)", dumped.out) == ["5", "6", "7", "8"]
    text = tmp_path / "edits.json"
    text.write_text('{"layoutVersion":-67}\n' + run_cli("edits", "dump", "--format", "json", source).out)
    lines = run_cli("edits", "dump", "--format", "json", "--fix-txids", source).out.splitlines()
    assert [json.loads(line)["txid"] for line in lines[1:]] == [5, 6, 7, 8]
    text.write_text("\n".join(line.replace('"txid":7', '"txid":70') for line in lines))
    assert run_cli("edits", "load", text, tmp_path / "out").code == 4
    loaded = run_cli("edits", "load", "--fix-txids", text, tmp_path / "out")
    assert loaded.code == 0, loaded.err
    assert [op.txid for op in SegmentCursor((tmp_path / "out").read_bytes())] == [5, 6, 7, 8]


def test_fix_txids_is_refused_for_a_journal() -> None:
    refused = run_cli("edits", "dump", "--fix-txids", "qjournal://a:1;b:1;c:1/ns")
    assert refused.code == 2
    assert "--fix-txids is for the file of a segment" in refused.err
