"""The table and the charts show the measured values."""

from __future__ import annotations

import dataclasses
import json
import sys
from argparse import Namespace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import __main__ as bench_main
from bench import large, scale, shapes
from bench.cost_model import Measurement, model_section
from bench.floor import run_floor
from bench.phases import Part, Run, run_phases
from bench.plot import bars, lines
from bench.table import MixResult, chart, markdown, numbers
from tests.bench.made import make
from tests.depth import sample


def run(load: float, memory: int) -> Run:
    parts = {name: Part(load, load, memory) for name in ("load", "replay", "write")}
    return Run({**parts, "whole": Part(3 * load, 3 * load, memory)}, memory + 1)


def floor(seconds: float) -> Run:
    return Run({name: Part(seconds, seconds, 0) for name in ("md5sum", "copy", "sum", "whole")}, 0, "buffered")


def result(*rounds: dict[str, Run]) -> MixResult:
    return MixResult("jobs", 1000, 2000, 10_000_000, 1_000_000, "2g", rounds)


WITH_HADOOP = result(
    {"floor": floor(1), "ours": run(1, 10), "hadoop": run(20, 100)},
    {"floor": floor(2), "ours": run(2, 20), "hadoop": run(60, 200)},
    {"floor": floor(3), "ours": run(3, 30), "hadoop": run(30, 300)},
)


def test_ratios_are_medians_of_each_rounds_ratio() -> None:
    assert WITH_HADOOP.ratio("ours", "floor", "whole") == 3
    assert WITH_HADOOP.ratio("hadoop", "ours", "load") == 20
    ratios = numbers(WITH_HADOOP)["ratios"]
    assert ratios == pytest.approx(
        {"oursToFloor": 3, "hadoopToOurs": 20, "memory": 10}
        | {f"hadoopToOurs_{part}": 20 for part in ("load", "replay", "write")}
    )


def test_the_page_has_a_row_for_each_part() -> None:
    page = markdown([WITH_HADOOP], "a machine", "results.svg")
    assert "medians of 3 rounds" in page
    assert "| Hadoop 3.5.0 | whole | 90.000 | 90.000 | 0 | 60.00 | 20.0 |" in page
    assert "Replay: 1,000 transactions/s, Hadoop 67. Hadoop took 20.0 times as long with 10.0 times the memory." in page


def test_without_hadoop_results_hadoop_is_not_shown() -> None:
    alone = result({"floor": floor(1), "ours": run(1, 10)})
    assert "Hadoop 3.5.0" not in markdown([alone], "a machine", "results.svg") + chart([alone])
    json.dumps(numbers(alone))


@pytest.mark.parametrize(
    "picture",
    [chart([WITH_HADOOP]), bars("t", "s", ["<a>"], {"x & y": [1e-3]}), lines("t", "s", [1e6, 1e7], {"a": [3, 40]})],
)
def test_charts_are_xml(picture: str) -> None:
    assert ET.fromstring(picture).tag.endswith("svg")


@pytest.mark.parameters(1)
@pytest.mark.parametrize("reserves", [(), ("1000", "70000", "1")])
def test_our_merge_is_measured(tmp_path: Path, reserves: tuple[str, ...]) -> None:
    base = make(tmp_path, "jobs")
    before = set(base.path.parent.iterdir())
    found = run_phases([sys.executable, "-m", "bench.one_merge", str(base.path.parent), *reserves])
    assert list(found.parts) == ["load", "replay", "write", "whole"]
    assert found.parts["whole"].seconds == pytest.approx(
        sum(found.parts[part].seconds for part in list(found.parts)[:3])
    )
    assert found.resident > 0
    assert set(base.path.parent.iterdir()) == before


def test_the_floor_measurement_leaves_no_files(tmp_path: Path) -> None:
    base = make(tmp_path)
    found = run_floor(base.path, tmp_path / "copy")
    assert list(found.parts) == ["md5sum", "copy", "sum", "whole"]
    digest, copy = found.parts["md5sum"].seconds, found.parts["copy"].seconds
    assert found.parts["whole"].seconds == max(digest, copy)
    assert found.parts["sum"].seconds == digest + copy
    assert found.way
    assert not (tmp_path / "copy").exists()


@pytest.mark.deep
def test_one_command_writes_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "results.md"
    command = "bench --inodes 500 --transactions 100 --mix jobs --mix scattered --rounds 2 --without-hadoop --json"
    monkeypatch.setattr(sys, "argv", [*command.split(), "--work-dir", str(tmp_path), "--output", str(page)])
    bench_main.main()
    reported = json.loads(capsys.readouterr().out)
    assert [each["mix"] for each in reported["mixes"]] == ["scattered", "jobs"]
    assert [len(each["rounds"]) for each in reported["mixes"]] == [2, 2]
    assert "mix `scattered`" in page.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"results.md", "results.svg"}


@pytest.mark.deep
def test_each_shape_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "shapes.md"
    command = "shapes --inodes 500 --transactions 200 --rounds 1 --json"
    chosen = sample(sorted(shapes.SHAPES), 2, "shapes")
    wanted = [word for label in chosen for word in ("--shape", label)]
    monkeypatch.setattr(sys, "argv", [*command.split(), *wanted, "--work-dir", str(tmp_path), "--output", str(page)])
    shapes.main()
    assert set(json.loads(capsys.readouterr().out)["costs"]) == {"jobs", *chosen}
    assert all(f"| {label} |" in page.read_text() for label in chosen)
    assert [path.name for path in tmp_path.iterdir()] == ["shapes.md"]


def test_growth_with_size_is_reported() -> None:
    points = [scale.Point(10, 90, 100, 50, 1000, 24), scale.Point(100, 91, 115, 75, 1000, 20)]
    assert scale.spread(points) == pytest.approx({"load": 0.15, "write": 0.5, "inode": 40 / 150, "replay": 0})
    measured = [
        Measurement(n, t, 1 + 2e-7 * n + 1e-6 * t, 9e7 + 4 * n + 300 * t) for n in (10, 10**7) for t in (0, 10**6)
    ]
    page = scale.page(points, measured, Namespace(rounds=3, transactions=7, mix="jobs"), "scale.svg")
    assert "| 100 | 91 | 115 | 75 | 190 | 1000 | 20 |" in page
    assert "load: the most expensive size costs 15% more than the cheapest, within the margin of 20%" in page
    assert "load and write: the most expensive size costs 27% more than the cheapest, beyond the margin of 20%" in page
    assert "write: the most expensive size costs 50% more than the cheapest, beyond the margin of 20%" in page
    assert "- load, replay and write: 1.00 s, 200 ns per inode, 1000 ns per transaction" in page
    assert "- anonymous memory: 90 MB, 4.0 bytes per inode, 300 bytes per transaction" in page
    assert "| 10,000,000 | 0 | 3.00 | 3.00 | +0% | 130 | 130 | +0% |" in page
    assert "| 300,000,000 | 1,000,000 | | 62 | predicted, ±0% | | 1,590 | predicted, ±0% |" in page
    assert "| 1,000,000,000 | 1,000,000 | | 202 | predicted, ±0% | | 4,390 | predicted, ±0% |" in page


def test_a_model_reports_measurements_that_do_not_fit() -> None:
    steady = [Measurement(n, t, 1 + 1e-6 * n, 1e8 + n) for n in (10**6, 10**7) for t in (10, 10**5)]
    slow = dataclasses.replace(steady[0], seconds=3.0)
    rows = [line for line in model_section([slow, *steady]) if line.startswith("| 1,000,000 | 10 |")]
    residuals = [row.split(" | ")[4] for row in rows]
    assert [each[0] for each in residuals] == ["+", "-"]
    with pytest.raises(ValueError, match="2 measurements do not determine three constants"):
        model_section(steady[:2])


def size_result(inodes: int, seconds: float) -> large.SizeResult:
    parts = dict.fromkeys(("fetch", "load", "replay", "write", "upload"), seconds)
    floors = dict.fromkeys(("md5sum", "copy", "read"), seconds)
    return large.SizeResult(inodes, 1000, 100 * inodes, parts, parts, floors, 10 * inodes, 0, 0)


def test_the_largest_size_leaves_free_space_for_two_images() -> None:
    gigabyte = 1 << 30
    assert large.largest(3 * gigabyte, 100.0, 0) == 0
    assert large.largest(13 * gigabyte, 100.0, 0) == 50_000_000
    assert large.largest(13 * gigabyte, 100.0, 10_000_000) == 40_000_000
    assert large.largest(1000 * gigabyte, 100.0, 0) == 300_000_000


def test_a_folder_that_is_not_a_memory_cgroup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no memory controller; as root, give"), large.memory_group(tmp_path, 1):
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SystemExit, match="No such file"), large.memory_group(tmp_path / "a", 1):
        pass


def test_a_fitted_line_predicts_larger_sizes() -> None:
    results = [size_result(size, 1 + size / 1e7) for size in (10_000_000, 30_000_000, 100_000_000)]
    constant, slope, residuals = large.line(results, lambda each: each.seconds["load"])
    assert (constant, slope) == (pytest.approx(1), pytest.approx(1e-7))
    assert residuals == pytest.approx([0, 0, 0])
    page = "\n".join(large.report(results))
    assert "| 10,000,000 | 1.0 | 2.0 | 2.0 | 2.0 | 2.0 | 2.0 | 6.0 | 2.0 | 2.0 | 2.0 | 2.00 |" in page
    assert "- fetch, s: 1.00 + 0.100 a million inodes; residuals +0%, +0%, +0%; 1,000,000,000 inodes: 101 +- 0" in page
