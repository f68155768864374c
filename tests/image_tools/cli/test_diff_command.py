"""`checkpointer image diff` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli_runner import run_cli
from tests.image_format.image_support import RECORDED, build_image, minimal_sections, store
from tests.image_tools.dump_support import Viewed

MIXED_BEFORE = Viewed(RECORDED / "hadoop-2.7.3" / "random-mixed-1" / "oiv_before.xml.gz")
MIXED = Viewed(RECORDED / "hadoop-2.7.3" / "random-mixed-1" / "oiv_after.xml.gz")

pytestmark = pytest.mark.recorded


def test_diff_of_equal_images() -> None:
    code, out, _ = run_cli("image", "diff", MIXED.image, MIXED.image)
    assert code == 0
    assert out.startswith("the same: ")
    code, out, _ = run_cli("image", "diff", MIXED.image, MIXED.image, "--json")
    assert (code, json.loads(out)) == (0, {"same": True, "total": 0, "counts": {}, "differences": []})


def test_diff_reports_each_difference() -> None:
    code, out, _ = run_cli("image", "diff", MIXED_BEFORE.image, MIXED.image, "--limit", "0")
    *lines, last = out.splitlines()
    assert code == 1
    assert last.startswith(f"{len(lines)} differences: ")
    assert any(line.startswith("changed  counter transactionId: ") for line in lines)
    assert any(line.startswith("added    inode /") and line.endswith("[FILE]") for line in lines)
    assert any(line.startswith("removed  inode /") for line in lines)
    assert any(line.startswith("renamed  inode /") and " -> /" in line for line in lines)


def test_diff_shows_progress_only_without_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hadoop_common.cli.progress._EVERY", 0.0)
    assert "compare: " in run_cli("image", "diff", MIXED.image, MIXED.image).err
    assert run_cli("image", "diff", MIXED.image, MIXED.image, "--json").err == ""


def test_diff_limits_the_listed_differences() -> None:
    whole = json.loads(run_cli("image", "diff", MIXED_BEFORE.image, MIXED.image, "--json", "--limit", "0").out)
    assert whole["total"] == len(whole["differences"]) == sum(whole["counts"].values())
    code, out, _ = run_cli("image", "diff", MIXED_BEFORE.image, MIXED.image, "--json", "--limit", "2")
    content = json.loads(out)
    assert (code, content["same"], content["total"]) == (1, False, whole["total"])
    assert content["differences"] == whole["differences"][:2]
    lines = run_cli("image", "diff", MIXED_BEFORE.image, MIXED.image, "--limit", "2").out.splitlines()
    assert len(lines) == 4
    assert lines[2] == f"... and {whole['total'] - 2} more; --limit 0 prints all"


def test_diff_escapes_unprintable_names(tmp_path: Path) -> None:
    sections = dict(minimal_sections())
    sections["STRING_TABLE"] = sections["STRING_TABLE"].replace(b"hdfs", b"h\xffs\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    before = store(tmp_path / "a", build_image(minimal_sections()))
    after = store(tmp_path / "b", build_image(list(sections.items())))
    code, out, _ = run_cli("image", "diff", before, after)
    assert code == 1
    assert r"changed  inode / user: hdfs -> h\udcffs\n" in out.splitlines()


def test_diff_of_a_damaged_image_is_an_error(tmp_path: Path) -> None:
    sections = dict(minimal_sections())
    sections["INODE_DIR"] = b"\x09"
    path = store(tmp_path, build_image(list(sections.items())))
    assert run_cli("image", "diff", path, path).code == 3
