"""`checkpointer edits dump`, `load`, `info` and `recover` as a user runs them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from journal.segment_format import SegmentCursor
from tests.cli_runner import fingerprint, run_cli
from tests.journal.journal_support import segment_bytes, some_ops, unreadable_op
from tests.recorded_cases import RECORDED

CORRUPT = RECORDED / "hadoop-2.7.3" / "corrupt"


def segment_of(case: str) -> Path:
    (path,) = (RECORDED / case / "before").glob("edits_*")
    return path


WHOLE = segment_of("hadoop-2.7.3/renames")
NAME = "edits_0000000000000000031-0000000000000000183"


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


@pytest.mark.recorded
@pytest.mark.parametrize("case", ["obsolete-ops", "snapshots-basic", "unicode"])
def test_dump_in_the_xml_of_another_release(case: str) -> None:
    expected = gzip.decompress((RECORDED / "oev-3.5.0" / f"{case}.xml.gz").read_bytes()).decode()
    segment = segment_of(f"hadoop-2.7.3/{case}")
    assert run_cli("edits", "dump", "--release", "3.x", segment).out == expected
    assert run_cli("edits", "dump", "--release", "2.7", segment).out == run_cli("edits", "dump", segment).out


@pytest.mark.recorded
def test_dump_replaces_a_file_only_with_force(tmp_path: Path) -> None:
    target = tmp_path / "edits.xml"
    target.write_text("precious")
    code, _, err = run_cli("edits", "dump", "--output", target, WHOLE)
    assert code == 6
    assert "already exists" in err
    assert target.read_text() == "precious"
    assert run_cli("edits", "dump", "--output", target, "--force", WHOLE).code == 0
    assert run_cli("edits", "dump", WHOLE).out == target.read_text()
    assert fingerprint(tmp_path).keys() == {"edits.xml"}


@pytest.mark.recorded
def test_failed_dump_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "edits.xml"
    code, _, err = run_cli("edits", "dump", "--output", target, segment_of("hadoop-2.7.3/corrupt/edits-flip-body"))
    assert code == 4
    assert "offset 5485" in err
    assert fingerprint(tmp_path) == {}


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


# ---- recover ----


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("case", "last", "damage", "cut", "padding", "lost"),
    [
        ("renames", 183, None, 0, 0, []),
        ("corrupt/edits-ff-padded", 183, None, 0, None, []),
        ("corrupt/edits-cut-mid-op", 106, 5485, 9, 0, []),
        ("corrupt/edits-flip-body", 106, 5485, None, 0, [(108, 183)]),
        ("corrupt/edits-op-missing", 106, 5485, None, 0, [(108, 183)]),
        ("corrupt/edits-name-beyond", 183, 11704, 0, 0, []),
        ("corrupt/inprogress-ff-padding", 182, None, 0, 1036889, []),
        ("corrupt/inprogress-half-op-ff", 181, 11611, 20038, 0, []),
        ("corrupt/inprogress-flip-middle", 106, 5485, None, 0, [(108, 182)]),
        ("corrupt/inprogress-junk-in-padding", 182, None, 1001, 0, []),
    ],
)
def test_recover_saves_the_intact_operations(
    tmp_path: Path,
    case: str,
    last: int,
    damage: int | None,
    cut: int | None,
    padding: int | None,
    lost: list[tuple[int, int]],
) -> None:
    source = segment_of(f"hadoop-2.7.3/{case}")
    content = source.read_bytes()
    code, out, err = run_cli("edits", "recover", source, tmp_path, "--json")
    assert code == 0, err
    report = json.loads(out)
    target = tmp_path / f"edits_{31:019d}-{last:019d}"
    assert report["file"] == str(target)
    assert (report["firstTxid"], report["lastTxid"], report["transactions"]) == (31, last, last - 30)
    if "junk" not in case:
        assert (report["damage"] and report["damage"]["offset"]) == damage
    assert [(run["firstTxid"], run["lastTxid"]) for run in report["lost"]] == lost
    assert report["end"] + report["cutBytes"] + report["paddingBytes"] == len(content)
    assert cut in (None, report["cutBytes"])
    assert padding in (None, report["paddingBytes"])
    assert target.read_bytes() == content[: report["end"]]
    assert source.read_bytes() == content
    # the result is an intact segment with its own name
    assert run_cli("edits", "info", target).code == 0


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("edits-empty-file", 4),
        ("edits-cut-in-version", 4),
        ("edits-header-only", 4),
        ("edits-cut-after-version", 4),
        ("inprogress-empty", 4),
        ("inprogress-header-only", 4),
        ("edits-layout-future", 5),
        ("edits-layout-flags", 5),
    ],
)
def test_recover_writes_nothing_without_a_readable_operation(tmp_path: Path, name: str, code: int) -> None:
    outcome = run_cli("edits", "recover", segment_of(f"hadoop-2.7.3/corrupt/{name}"), tmp_path)
    assert outcome.code == code, outcome.err
    assert "next: " in outcome.err
    assert fingerprint(tmp_path) == {}


@pytest.mark.recorded
def test_recover_report_as_text(tmp_path: Path) -> None:
    code, out, _ = run_cli("edits", "recover", segment_of("hadoop-2.7.3/corrupt/edits-flip-body"), tmp_path)
    assert code == 0
    assert "76 transactions, 31 to 106" in out
    assert "damaged at offset 5485: checksum" in out
    assert "lost: intact transactions 108 to 183" in out
    code, out, _ = run_cli("edits", "recover", WHOLE, tmp_path)
    assert code == 0
    assert "not damaged" in out


@pytest.mark.parametrize("kind", ["opcode", "further field"])
def test_complete_operation_of_other_software_is_never_cut_silently(tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"edits_inprogress_{1:019d}"
    source.write_bytes(segment_bytes(some_ops(count=3), -63) + unreadable_op(kind, 4))
    for command in ("info", "dump"):
        refused = run_cli("edits", command, source)
        assert refused.code == 4
        assert "txid 4: " in refused.err
        assert "recover" not in refused.err
    code, out, err = run_cli("edits", "recover", source, tmp_path)
    assert code == 0
    offset = len(segment_bytes(some_ops(count=3), -63))
    assert f"lost: intact transaction 4, at offset {offset}" in out
    assert "warning: the result lacks operations that this program cannot decode; next: " in err
    assert "Use a release of this program" in err


@pytest.mark.recorded
def test_recover_never_replaces_its_source(tmp_path: Path) -> None:
    segment = shutil.copy(WHOLE, tmp_path)
    before = fingerprint(tmp_path)
    for arguments in ((), ("--force",)):
        code, _, err = run_cli("edits", "recover", segment, tmp_path, *arguments)
        assert code == 2
        assert "another directory" in err
    other = tmp_path / "other"
    other.mkdir()
    assert run_cli("edits", "recover", segment, other).code == 0
    assert run_cli("edits", "recover", segment, other).code == 6
    assert run_cli("edits", "recover", segment, other, "--force").code == 0
    assert {name: digest for name, digest in fingerprint(tmp_path).items() if "/" not in name} == before


# ---- torn tails ----


@pytest.mark.recorded
@pytest.mark.parametrize("form", ["xml", "json"])
def test_dump_and_info_warn_of_a_torn_tail(tmp_path: Path, form: str) -> None:
    (tmp_path / "whole").write_bytes(WHOLE.read_bytes() + bytes(100))
    assert run_cli("edits", "dump", tmp_path / "whole", "--format", form).err == ""
    (tmp_path / "torn").write_bytes(WHOLE.read_bytes()[:-3])
    for words in (("dump", "--format", form), ("dump", "--format", form, "--output", tmp_path / form), ("info",)):
        code, _, err = run_cli("edits", *words, tmp_path / "torn")
        assert code == 0
        assert "warning: torn tail: 14 bytes after offset " in err
    assert run_cli("edits", "load", tmp_path / form, tmp_path / "loaded", "--json").code == 0


# ---- info ----


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        (NAME, 0, ""),
        ("edits_0000000000000000031-0000000000000000100", 0, "follow the last transaction in the segment's name"),
        ("edits_0000000000000000020-0000000000000000183", 4, "begins with txid 31, but according to its name with 20"),
        ("edits_inprogress_0000000000000000020", 4, "begins with txid 31, but according to its name with 20"),
        ("edits_0000000000000000031-0000000000000000190", 4, "its name, it ends with txid 190"),
        ("any-name", 0, ""),
    ],
)
def test_info_compares_a_segment_with_its_name(tmp_path: Path, name: str, code: int, words: str) -> None:
    shutil.copy(WHOLE, tmp_path / name)
    outcome = run_cli("edits", "info", tmp_path / name)
    assert (outcome.code, words in outcome.err, bool(outcome.err)) == (code, True, bool(words)), outcome.err


# ---- recover --skip ----


def recovered(source: Path, target: Path, *arguments: str) -> dict[str, Any]:
    code, out, err = run_cli("edits", "recover", source, target, *arguments, "--json")
    assert code == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


@pytest.mark.recorded
def test_skip_omits_an_operation_and_lists_its_dependents(tmp_path: Path) -> None:
    before = WHOLE.read_bytes()
    report = recovered(WHOLE, tmp_path, "--skip", "32")
    assert (report["firstTxid"], report["lastTxid"], report["transactions"]) == (31, 183, 153)
    (skipped,) = report["skipped"]
    assert (skipped["txid"], skipped["operation"]) == (32, "OP_ADD")
    assert report["dependents"]
    assert all(each["because"] for each in report["dependents"])
    assert WHOLE.read_bytes() == before
    made = tmp_path / NAME
    assert run_cli("edits", "info", made).code == 0
    changed = [
        new.name for old, new in zip(SegmentCursor(before), SegmentCursor(made.read_bytes()), strict=True) if old != new
    ]
    assert changed == ["OP_TIMES"]
    # the text output of the same command
    code, out, _ = run_cli("edits", "recover", WHOLE, tmp_path, "--skip", "32", "--force")
    assert code == 0
    assert "skipped: transaction 32" in out
    assert "dependents: " in out
    assert "next: " in out


@pytest.mark.recorded
def test_skip_omits_a_damaged_operation_and_keeps_the_rest(tmp_path: Path) -> None:
    source = segment_of("hadoop-2.7.3/corrupt/edits-flip-body")
    refused = run_cli("edits", "recover", source, tmp_path, "--skip", "50")
    assert refused.code == 4
    assert "--skip 107" in refused.err
    assert fingerprint(tmp_path) == {}
    report = recovered(source, tmp_path, "--skip", "107")
    assert (report["skipped"][0]["operation"], report["lastTxid"], report["lost"]) == (None, 183, [])
    assert run_cli("edits", "info", tmp_path / NAME).code == 0


@pytest.mark.recorded
def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    for arguments in (("--skip", "40-45", "--skip", "50"), ()):
        assert recovered(WHOLE, tmp_path, "--dry-run", *arguments)["dryRun"] is True
    assert fingerprint(tmp_path) == {}


@pytest.mark.recorded
def test_dependents_are_also_found_in_later_segments(tmp_path: Path) -> None:
    case = RECORDED / "hadoop-2.7.3" / "renames"
    folder = tmp_path / "current"
    shutil.copytree(case / "before", folder)
    segment = folder / NAME
    content = segment.read_bytes()
    # the same transactions, in two segments
    cut = next(op.offset for op in SegmentCursor(content) if op.txid == 60)
    segment.rename(folder / "whole")
    (folder / f"edits_{31:019d}-{59:019d}").write_bytes(content[:cut])
    (folder / f"edits_{60:019d}-{183:019d}").write_bytes(content[:8] + content[cut:])
    apart = recovered(folder / f"edits_{31:019d}-{59:019d}", tmp_path, "--skip", "32", "--dry-run")
    whole = recovered(WHOLE, tmp_path, "--skip", "32", "--dry-run")
    assert apart["dependents"] == whole["dependents"]
    assert (apart["readUpTo"], apart["notRead"]) == (183, "")


@pytest.mark.parametrize("text", ["x", "5-3", "-1", "1-9999999"])
def test_invalid_skip_arguments_are_refused(tmp_path: Path, text: str) -> None:
    assert run_cli("edits", "recover", WHOLE, tmp_path, f"--skip={text}").code == 2
