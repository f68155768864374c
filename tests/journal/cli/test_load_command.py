"""`checkpointer edits load`: text back to segments, and text that it refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from journal.segment_format import SegmentCursor
from tests.cli_runner import fingerprint, run_cli
from tests.journal.journal_support import NAME, WHOLE, segment_of


@pytest.mark.recorded
@pytest.mark.parametrize("case", ["hadoop-2.7.3/renames", "hadoop-2.7.3/encryption-zone", "hadoop-3.4.1/strings"])
def test_json_round_trips_byte_for_byte(tmp_path: Path, case: str) -> None:
    segment = segment_of(case)
    text = tmp_path / "edits.jsonl"
    assert run_cli("edits", "dump", "--format", "json", "--output", text, segment).code == 0
    code, out, err = run_cli("edits", "load", text, tmp_path, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert Path(report["file"]) == tmp_path / segment.name
    assert (report["size"], report["notInXml"]) == (segment.stat().st_size, {})
    assert (tmp_path / segment.name).read_bytes() == segment.read_bytes()


@pytest.mark.recorded
def test_hadoop_xml_loads_to_the_original_segment(tmp_path: Path) -> None:
    text = tmp_path / "edits.xml"
    text.write_bytes(gzip.decompress((WHOLE.parents[1] / "edits.xml.gz").read_bytes()))
    code, out, err = run_cli("edits", "load", text, tmp_path)
    assert code == 0
    assert str(tmp_path / NAME) in out
    # every OP_ADD has lost its storage policy, if it had one
    assert "storage_policy_id of OP_ADD" in err
    assert (tmp_path / NAME).read_bytes() == WHOLE.read_bytes()


HEADER = '{"layoutVersion":-63}\n'


LINES = ['{"opcode":"OP_START_LOG_SEGMENT","txid":5}\n', '{"opcode":"OP_DELETE","txid":6,"path":"/a","timestamp":1}\n']


@pytest.mark.parametrize(
    ("text", "arguments", "code", "words"),
    [
        (HEADER, (), 4, "source: the segment has no operation"),
        (HEADER + LINES[1] + LINES[0], (), 4, "source, txid 5: out of order"),
        (HEADER + LINES[0] + LINES[1].replace(":6", ":7"), (), 4, "source, txid 7: gap"),
        (HEADER + LINES[0] + LINES[1].replace(":6", ":7"), (), 4, "renumber the operations with --fix-txids"),
        (HEADER + LINES[1].replace("/a", "x" * 70000), (), 4, "65535"),
        (HEADER + LINES[1].replace("DELETE", "SHRED"), (), 4, "line 2"),
        (HEADER.replace("63", "99") + LINES[0], (), 5, "layout"),
        (HEADER + LINES[0], ("--layout", "-12"), 5, "layout"),
        (HEADER + LINES[0], ("--format", "xml"), 4, "line 1"),
        ("neither", (), 2, "--format"),
        ("", (), 4, "the file is empty"),
        ("HDFSIMG1 and so on", (), 4, "the file is an fsimage"),
        ("some other text", (), 4, "the file is a text file"),
        (
            HEADER + '{"opcode":"OP_ENABLE_ERASURE_CODING_POLICY","txid":1,"policy_name":"p"}',
            (),
            4,
            "-63 has no OP_ENABLE_ERASURE_CODING_POLICY",
        ),
        (
            HEADER + '{"opcode":"OP_CREATE_SNAPSHOT","txid":1,"snapshot_root":"/","snapshot_name":"s","mtime":5}',
            (),
            4,
            "no mtime",
        ),
        (
            HEADER + '{"opcode":"OP_SET_QUOTA_BY_STORAGETYPE","txid":1,"src":"/","storage_type":5,"ds_quota":9}',
            ("--layout", "-66"),
            4,
            "-66 has no storage_type 5 in OP_SET_QUOTA_BY_STORAGETYPE, added in -67",
        ),
        (
            HEADER + '{"opcode":"OP_SET_QUOTA_BY_STORAGETYPE","txid":1,"src":"/","storage_type":6,"ds_quota":9}',
            ("--layout", "-67"),
            4,
            "OP_SET_QUOTA_BY_STORAGETYPE has the storage_type 6, which does not exist",
        ),
        (
            HEADER + '{"opcode":"OP_SET_STORAGE_POLICY","txid":1,"path":"/","policy_id":3}',
            (),
            4,
            "OP_SET_STORAGE_POLICY has the policy_id 3, which does not exist",
        ),
    ],
)
def test_load_refuses_invalid_text(
    tmp_path: Path, text: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_text(text)
    output.mkdir()
    outcome = run_cli("edits", "load", source, output, *arguments)
    assert outcome.code == code, outcome.err
    assert words in outcome.err
    assert fingerprint(output) == {}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("edits_0000000000000000005-0000000000000000006", 0),
        ("edits_inprogress_0000000000000000005", 0),
        ("edits_0000000000000000005-0000000000000000009", 2),
        ("edits_0000000000000000004-0000000000000000006", 2),
        ("edits_inprogress_0000000000000000006", 2),
    ],
)
def test_load_refuses_the_name_of_another_segment(tmp_path: Path, name: str, code: int) -> None:
    (tmp_path / "source").write_text(HEADER + "".join(LINES))
    outcome = run_cli("edits", "load", tmp_path / "source", tmp_path / name)
    assert (outcome.code, "INPUT has transactions 5 to 6" in outcome.err) == (code, code == 2), outcome.err
    assert {each.name for each in tmp_path.iterdir()} == {"source", *([] if code else [name])}


def test_load_to_a_given_layout_and_file_name(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "segment"
    source.write_text("\n" + HEADER + "".join(LINES))
    code, out, _ = run_cli("edits", "load", source, target, "--layout", "-67", "--json")
    assert code == 0
    assert json.loads(out)["layoutVersion"] == -67
    assert target.read_bytes()[:8] == bytes.fromhex("ffffffbd00000000")
    assert [op.txid for op in SegmentCursor(target.read_bytes())] == [5, 6]
    assert run_cli("edits", "load", source, target).code == 6
    assert run_cli("edits", "load", source, target, "--force").code == 0
    assert target.read_bytes()[:4] == bytes.fromhex("ffffffc1")
