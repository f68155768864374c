"""`checkpointer edits recover`: intact operations, and operations that are skipped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from journal.segment_format import SegmentCursor
from tests.cli_runner import fingerprint, run_cli
from tests.journal.journal_support import NAME, WHOLE, segment_of
from tests.recorded_cases import RECORDED

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
