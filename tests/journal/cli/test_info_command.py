"""`checkpointer edits info`: counts, torn tails, and damage."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from hadoop_common.names import inprogress_name
from tests.cli_runner import run_cli
from tests.journal.journal_support import NAME, WHOLE
from tests.recorded_cases import RECORDED, Case

RENAMES = Case(RECORDED / "hadoop-2.7.3" / "renames")


@pytest.mark.recorded
@pytest.mark.parametrize("name", ["edits-cut-mid-op", "edits-flip-checksum", "edits-unknown-opcode"])
def test_error_for_damaged_edits_names_file_offset_and_txid(tmp_path: Path, name: str) -> None:
    segment = next((RECORDED / "hadoop-2.7.3" / "corrupt" / name / "before").glob("edits_*"))
    code, _, err = run_cli("edits", "info", segment)
    assert code == 4
    assert segment.name in err
    assert re.search(r"offset \d+", err)
    assert re.search(r"txid \d+", err)


@pytest.mark.recorded
def test_edits_info_shows_a_torn_tail(tmp_path: Path) -> None:
    whole = next(RENAMES.copy_to(tmp_path).glob("edits_*-*"))
    content = whole.read_bytes()
    good = json.loads(run_cli("edits", "info", whole, "--json").out)
    # END_LOG_SEGMENT is an opcode, a length, a txid and a checksum
    end = len(content) - 17
    torn = tmp_path / inprogress_name(good["firstTxid"])
    for tail, bytes_torn in ((b"", 0), (content[end:-1], 16), (bytes(1000), 0), (b"\xff" * 1000, 0)):
        torn.write_bytes(content[:end] + tail)
        code, out, err = run_cli("edits", "info", torn, "--json")
        found = json.loads(out)
        assert (code, found["tornBytes"], found["endOffset"]) == (0, bytes_torn, end), err
        assert found["transactions"] == good["transactions"] - 1
        err = run_cli("edits", "info", torn).err
        assert (f"torn tail: {bytes_torn} bytes after offset {end}" in err) == bool(bytes_torn), err


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


def test_a_segment_may_be_a_file_uri(tmp_path: Path) -> None:
    segment = tmp_path / "sp ace%20#1" / NAME
    segment.parent.mkdir()
    shutil.copyfile(WHOLE, segment)
    expected = run_cli("edits", "info", segment)
    assert expected.code == 0
    for uri in (segment.as_uri(), segment.as_uri().replace("///", "/"), f"file://localhost{segment.as_uri()[7:]}"):
        assert run_cli("edits", "info", uri) == expected, uri


def test_a_file_uri_may_contain_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    segment = tmp_path / os.fsdecode(b"\xff") / NAME
    segment.parent.mkdir()
    shutil.copyfile(WHOLE, segment)
    assert "/%FF/" in segment.as_uri()
    assert run_cli("edits", "info", segment.as_uri()).code == 0


@pytest.mark.parametrize(
    "uri", ["file://host{}", "file:/{}?a", "file://{}#a", "file:edits", "file://[x{}", "file:{}%00"]
)
def test_a_uri_that_names_no_path_of_this_host_is_a_usage_error(tmp_path: Path, uri: str) -> None:
    segment = tmp_path / NAME
    shutil.copyfile(WHOLE, segment)
    for command in ("info", "dump"):
        answer = run_cli("edits", command, uri.format(segment))
        assert (answer.code, "is not a path of this host" in answer.err) == (2, True), answer.err
