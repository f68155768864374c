"""`checkpointer edits dump`: JSON and XML, and the files that it writes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli_runner import fingerprint, run_cli
from tests.journal.journal_support import WHOLE, segment_of
from tests.recorded_cases import RECORDED, Case

RENAMES = Case(RECORDED / "hadoop-2.7.3" / "renames")


@pytest.mark.recorded
def test_edits_are_listed_and_dumped(tmp_path: Path) -> None:
    segment = next((RENAMES.path / "before").glob("edits_*"))
    code, out, _ = run_cli("edits", "info", segment, "--json")
    info = json.loads(out)
    assert code == 0
    assert info["layoutVersion"] == -63
    assert {name.removeprefix("OP_"): count for name, count in info["operations"].items()} == RENAMES.info["ops"]
    target = tmp_path / "edits.jsonl"
    assert run_cli("edits", "dump", "--format", "json", "--output", target, segment).code == 0
    header, *lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert header == {"layoutVersion": info["layoutVersion"]}
    assert [line["txid"] for line in lines] == list(range(info["firstTxid"], info["lastTxid"] + 1))
    code, out, _ = run_cli("edits", "dump", segment)
    assert code == 0
    assert out.startswith("<?xml")


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
