"""Complete reports of recorded images, and the data that reaches the driver."""

from __future__ import annotations

import csv
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
from pyspark import RDD

from bench.shape_edits import write_scattered
from bench.shape_image import write_shape
from bench.shape_layout import PLAIN, Layout
from hadoop_common.cli.progress import ProgressObserver
from pipeline.cli.summaries import SUMMARIES
from pipeline.errors import SourceFileError
from pipeline.lake import append_edits, append_image
from pipeline.reports.build import make_report
from pipeline.reports.html import render
from pipeline.reports.inputs import ImageInput, check_series
from pipeline.reports.model import SECTIONS, NamespaceReport, ReportTable, as_json
from pipeline.reports.path_rules import PathRules
from pipeline.reports.request import ReportOptions, ReportRequest
from pipeline.reports.writers import csv_parquet
from pipeline.reports.writers.terminal import report_lines
from pipeline.source_files import SourceFile
from tests.browser import PATIENCE, MissingBrowserError, browser
from tests.cli_runner import Outcome, run_cli
from tests.depth import deep
from tests.recorded_cases import RECORDED
from tests.required import skip

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(3600)  # on a JVM that has just started

CASE = RECORDED / "hadoop-3.4.1" / "snapshots-basic"
OTHER = RECORDED / "hadoop-3.3.6" / "snapshots-basic" / "before"
AS_OF = datetime(2027, 1, 1, tzinfo=UTC)


def _report(spark: SparkSession, request: ReportRequest, **options: Any) -> NamespaceReport:
    chosen = ReportOptions(AS_OF, **options)
    quiet = ProgressObserver(show=False)
    return make_report(spark.sparkContext, request, lambda _: chosen, generated=AS_OF, progress=quiet)


@pytest.fixture(scope="module")
def report(spark: SparkSession) -> NamespaceReport:
    rules = PathRules(sets=(("all", "^/$"),))
    request = ReportRequest(str(CASE / "after"), (str(CASE / "before"),), str(CASE / "before"))
    return _report(spark, request, top=50, paths=rules)


@pytest.fixture(scope="module")
def made_once() -> Callable[..., NamespaceReport]:
    """`make_report`; in the quick tier, a report of the same sections of the same sources is made only once."""
    made: dict[Any, NamespaceReport] = {}

    def make(context: SparkContext, request: ReportRequest, options: Any, **others: Any) -> NamespaceReport:
        key = (request, options(None).only)
        if deep() or key not in made:
            made[key] = make_report(context, request, options, **others)
        return made[key]

    return make


@pytest.fixture
def in_session(spark: SparkSession, made_once: Callable[..., NamespaceReport]) -> Iterator[None]:
    """The command with the tests' Spark, which it must not stop; all runs but the first write the existing report."""
    with (
        mock.patch("pipeline.cli.spark_command.build_context", return_value=spark.sparkContext),
        mock.patch.object(spark.sparkContext, "stop"),
        mock.patch("pipeline.reports.build.make_report", made_once),
    ):
        yield


def _tables(report: NamespaceReport) -> dict[str, ReportTable]:
    return {table.name: table for section in report.sections for table in section.tables}


def _records(table: ReportTable) -> list[dict[str, Any]]:
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


@pytest.mark.recorded
def test_all_sections_of_a_recorded_case(report: NamespaceReport) -> None:
    assert report.txid == 292
    assert [section.id for section in report.sections] == list(SECTIONS)
    tables = _tables(report)
    totals = _records(tables["totals"])[0]
    assert (totals["files"], totals["directories"], totals["blocks"]) == (19, 12, 30)
    tree = {row["path"]: row for row in _records(tables["directories"])}
    assert tree["/"]["raw"] == totals["raw"] == sum(row["raw"] for row in _records(tables["by_owner"]))
    for by in ("by_size", "by_age", "by_replication", "by_storage_policy", "by_erasure_coding"):
        assert sum(row["files"] for row in _records(tables[by])) == totals["files"], by
    operations = _records(tables["operations_by_type"])
    assert sum(row["count"] for row in operations) == 200
    snapshots = _records(tables["snapshots"])[0]
    assert (snapshots["snapshots"], snapshots["files"], snapshots["length"]) == (10, 1, 9034)
    (whole,) = _records(tables["path_sets"])
    (sizes,) = _records(tables["sizes_by_path_set"])
    assert whole["files"] == sum(number for name, number in sizes.items() if name != "name") == totals["files"]
    growth = {row["path"]: row for row in _records(tables["growth_by_directory"])}
    assert growth["/"]["raw_after"] == totals["raw"]
    assert growth["/"]["raw"] == growth["/"]["raw_after"] - growth["/"]["raw_before"]


@pytest.mark.recorded
def test_parent_directories_precede_their_children(report: NamespaceReport) -> None:
    paths = [row["path"] for row in _records(_tables(report)["directories"])]
    assert paths[0] == "/"
    for position, path in enumerate(paths[1:], 1):
        assert (path.rpartition("/")[0] or "/") in paths[:position]


@pytest.mark.recorded
def test_growth_and_operations_need_their_sources(spark: SparkSession) -> None:
    found = _report(spark, ReportRequest(str(CASE / "after")), only=("growth", "operations", "owners"))
    assert [section.id for section in found.sections] == ["owners"]


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("image", "older", "problem"),
    [
        ("after", ["after"], "is not older than"),
        ("before", ["after"], "is not older than"),
        ("after", ["before", "before"], "are both images of transaction 92"),
        ("after", ["other"], "belongs to namespace"),
    ],
)
def test_older_images_must_be_of_the_same_namespace(
    spark: SparkSession, image: str, older: list[str], problem: str
) -> None:
    places = {"before": CASE / "before", "after": CASE / "after", "other": OTHER}
    older_places = tuple(str(places[each]) for each in older)
    request = ReportRequest(str(places[image]), older_places)
    with pytest.raises(SourceFileError, match=problem) as raised:
        _report(spark, request, only=("growth",))
    assert "--before" in raised.value.hint
    assert older_places[0] in raised.value.message


def test_images_of_one_lake_are_compared_by_cluster() -> None:
    after, before = ImageInput("lake@9", 9, cluster="new"), ImageInput("lake@5", 5, cluster="old")
    check_series([replace(before, cluster="new")], after)
    with pytest.raises(SourceFileError, match="belongs to namespace old"):
        check_series([before], after)
    file = SourceFile("/fsimage_5")
    check_series([replace(before, cluster="CID-1", file=file)], after)  # nothing to compare
    with pytest.raises(SourceFileError, match="belongs to namespace 4"):
        check_series([replace(before, file=file, namespace="4")], replace(after, namespace="3"))


@pytest.mark.deep
def test_only_small_tables_reach_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    """Record all transfers to the driver during a report on 50,000 files in 1,000 directories."""
    before, after = tmp_path / "before", tmp_path / "after"
    for directory, files in ((before, 49_000), (after, 50_000)):
        directory.mkdir()
        write_shape(directory, Layout(PLAIN, files), txid=1000 if files == 49_000 else 3000)
    write_scattered(before, Layout(PLAIN, 49_000), 2000)
    sizes: list[int] = []
    collected = RDD.collect

    def counting(rdd: RDD[Any]) -> Any:
        found = collected(rdd)
        sizes.append(len(pickle.dumps(found)))
        return found

    with mock.patch.object(RDD, "collect", counting):
        found = _report(spark, ReportRequest(str(after), (str(before),), str(before)))
    assert {section.id for section in found.sections} == set(SECTIONS) - {"paths"}
    assert len(sizes) == 2  # one job for both images and the verification, one for the edits
    assert max(sizes) < 130_000
    assert _records(_tables(found)["totals"])[0]["files"] == 50_000


@pytest.mark.recorded
def test_the_last_report_is_the_earlier_state(spark: SparkSession, report: NamespaceReport, tmp_path: Path) -> None:
    request = ReportRequest(str(CASE / "before"), reports=str(tmp_path))
    first = _report(spark, request, only=("space", "growth"), top=50)
    assert [section.id for section in first.sections] == ["space"]
    (tmp_path / "first.json").write_text(json.dumps(as_json(first)))
    found = _report(spark, replace(request, image=str(CASE / "after")), only=("growth",), top=50)
    assert found.before == str(tmp_path / "first.json")
    assert _tables(found)["growth"].rows == _tables(report)["growth"].rows
    assert next(line for line in report_lines(found, None) if line.startswith("Changes since")).endswith("first.json")


def _run(*arguments: str | Path) -> Outcome:
    return run_cli("report", CASE / "after", "--only", "owners", "--only", "small-files", *arguments)


@pytest.mark.recorded
@pytest.mark.usefixtures("in_session")
class TestCommand:
    def test_text_output_on_the_terminal(self) -> None:
        outcome = _run()
        assert outcome.code == 0, outcome.err
        assert "Owners and groups" in outcome.out
        assert "MiB" in outcome.out
        assert "sybil" in outcome.out

    def test_json_output_to_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hadoop_common.cli.progress._EVERY", 0.0)
        target = tmp_path / "report.json"
        assert _run("--format", "json", "--out", target).code == 0
        content = json.loads(target.read_text())
        assert [section["id"] for section in content["sections"]] == ["owners", "small-files"]
        outcome = _run("--json")
        assert json.loads(outcome.out)["sections"] == content["sections"]
        # no progress
        assert outcome.err == ""

    def test_csv_and_parquet_output_has_one_file_for_each_table(self, tmp_path: Path) -> None:
        for kind in ("csv", "parquet"):
            assert _run("--format", kind, "--out", tmp_path / kind).code == 0
        rows = list(csv.DictReader((tmp_path / "csv" / "by_owner.csv").open(encoding="utf-8", newline="")))
        parquet = pq.read_table(tmp_path / "parquet" / "by_owner.parquet").to_pylist()
        assert [row["value"] for row in rows] == [row["value"] for row in parquet] == ["hdfs", "sybil"]
        assert [int(row["raw"]) for row in rows] == [row["raw"] for row in parquet]
        assert sorted(path.stem for path in (tmp_path / "csv").iterdir()) == sorted(
            path.stem for path in (tmp_path / "parquet").iterdir()
        )

    def test_html_output_to_a_file(self, tmp_path: Path) -> None:
        assert _run("--format", "html", "--out", tmp_path / "report.html").code == 0
        assert "Owners and groups" in (tmp_path / "report.html").read_text(encoding="utf-8")

    def test_one_run_writes_all_formats(self, tmp_path: Path) -> None:
        names = ("report.html", "report.json", "report.prom", "tables.csv", "tables.parquet")
        outs = [part for name in names for part in ("--out", str(tmp_path / name))]
        outcome = _run("--format", "summary", *outs)
        assert outcome.code == 0, outcome.err
        assert "Needs attention" in outcome.out
        assert "Owners and groups" not in outcome.out
        assert "Owners and groups" in (tmp_path / "report.html").read_text(encoding="utf-8")
        content = json.loads((tmp_path / "report.json").read_text())
        assert [section["id"] for section in content["sections"]] == ["owners", "small-files"]
        assert "hdfs_report_small_files_small_files" in (tmp_path / "report.prom").read_text()
        assert (tmp_path / "tables.csv" / "by_owner.csv").exists()
        assert (tmp_path / "tables.parquet" / "by_owner.parquet").exists()

    def test_standard_output_is_empty_if_a_file_has_the_requested_format(self, tmp_path: Path) -> None:
        assert _run("--format", "html", "--out", tmp_path / "page").out == ""
        assert (tmp_path / "page").read_text(encoding="utf-8").startswith("<!doctype html>")
        both = _run("--format", "json", "--out", tmp_path / "page.html")
        assert json.loads(both.out)["headline"]["findings"] is not None

    def test_existing_output_is_replaced_only_with_force(self, tmp_path: Path) -> None:
        old = tmp_path / "csv"
        old.mkdir()
        (old / "mine").touch()
        for force in ((), ("--force",)):
            assert _run("--format", "csv", "--out", old, *force).code == 2
            assert (old / "mine").exists()
        (old / "mine").rename(old / "mine.csv")
        assert _run("--format", "csv", "--out", old, "--force").code == 0
        assert not (old / "mine.csv").exists()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["csv"]

    def test_a_damaged_image_is_reported_in_one_line(self, tmp_path: Path) -> None:
        damaged = tmp_path / "fsimage_0000000000000000292"
        damaged.write_bytes((CASE / "after" / damaged.name).read_bytes()[:-40])
        outcome = run_cli("report", damaged)
        assert outcome.code == 3, outcome.err
        lines = outcome.err.strip().splitlines()
        assert lines[0].startswith("checkpointer: ")
        assert len(lines) == 2
        assert lines[1].startswith("  next: ")

    def test_a_missing_image_is_an_error(self, tmp_path: Path) -> None:
        outcome = run_cli("report", tmp_path / "nothing")
        assert outcome.code == 6
        assert "does not exist" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "csv"], "needs --out"),
        (["--out", "x.txt"], "end the name in one of"),
        (["--out", "x.html", "--out", "./x.html"], "the same path twice"),
        (["--out", "x.html", "--format", "csv"], "needs --out, the folder"),
        (["--only", "growth"], "needs --before"),
        (["--since-last", "/", "--before", "x"], "--since-last and --before cannot be used together"),
        (["--only", "operations"], "needs --edits"),
        (["--small-files", "much"], "is not a size"),
        (["--small-files", "0"], "is not positive"),
        (["--format", "html", "--out", "nowhere/x.html"], "is not a directory"),
        (["--out", "nowhere/x.html"], "is not a directory"),
        (["--format", "csv", "--out", ".", "--force"], "specify a folder below it"),
        (["--format", "csv", "--out", "..", "--force"], "specify a folder below it"),
    ],
)
def test_usage_errors_are_reported_before_spark_starts(arguments: list[str], message: str) -> None:
    with mock.patch("pipeline.cli.spark_command.build_context", side_effect=AssertionError):
        outcome = run_cli("report", CASE / "after", *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_inputs_are_checked_before_spark_starts(tmp_path: Path) -> None:
    image, text = str(CASE / "after"), tmp_path / "text"
    text.write_text("root:x:0:0:root:/root:/bin/bash\n" * 40)
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut").write_bytes(b"\xff\xff")
    for arguments, code in (
        ([str(text)], 3),
        ([str(tmp_path / "none")], 6),
        ([str(tmp_path / "empty")], 6),
        ([image, "--before", str(text)], 3),
        ([image, "--edits", str(tmp_path / "cut")], 4),
        ([image, "--edits", str(tmp_path / "empty")], 6),
    ):
        with mock.patch("pipeline.cli.spark_command.build_context", side_effect=AssertionError):
            outcome = run_cli("report", *arguments)
        assert outcome.code == code, (arguments, outcome.err)
        assert len(outcome.err.strip().splitlines()) == 2


def test_missing_pyspark_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with mock.patch.dict("sys.modules", {"pyspark": None}):
        outcome = run_cli("report", CASE / "after")
    assert outcome.code == 2
    assert "pip install 'hdfs-checkpointer[spark]'" in outcome.err


@pytest.mark.recorded
def test_a_failed_write_keeps_the_old_directory(report: NamespaceReport, tmp_path: Path) -> None:
    target = tmp_path / "out"
    csv_parquet.write_folder(report, target, "csv")
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    written = iter(range(100))

    def failing(table: ReportTable) -> bytes:
        if next(written) == 3:
            raise OSError("no space left")
        return b""

    with mock.patch.dict(csv_parquet.FOLDER_FORMATS, {"csv": failing}), pytest.raises(OSError, match="no space"):
        csv_parquet.write_folder(report, target, "csv")
    with (
        mock.patch("pipeline.reports.writers.csv_parquet.rename_durably", side_effect=OSError("no rename")),
        pytest.raises(OSError, match="no rename"),
    ):
        csv_parquet.write_folder(report, target, "csv")
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.recorded
def test_a_report_can_be_printed_as_json(report: NamespaceReport) -> None:
    content = json.loads(json.dumps(as_json(report)))
    assert content["generated"] == "2027-01-01T00:00:00Z"
    kinds = {chart["kind"] for section in content["sections"] for chart in section["charts"]}
    assert kinds == {"treemap", "histogram", "bars", "timeline"}


@pytest.mark.recorded
def test_report_of_a_lake_and_its_older_image(spark: SparkSession, report: NamespaceReport, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for folder_name in ("before", "after"):
        append_image(spark.sparkContext, str(CASE / folder_name), lake)
    append_edits(spark.sparkContext, str(CASE / "before"), lake)
    found = _report(spark, ReportRequest(lake, (lake,), lake), only=("growth", "snapshots", "findings"), top=50)
    assert [section.id for section in found.sections] == ["growth"]
    assert (found.image, found.before) == (f"{lake}@292", f"{lake}@92")
    tables, expected = _tables(found), _tables(report)
    assert {name: table.rows for name, table in tables.items()} == {name: expected[name].rows for name in tables}
    with pytest.raises(SourceFileError, match="no image 7"):
        _report(spark, ReportRequest(f"{lake}@7"))


def test_help_lists_the_command_without_loading_spark() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from checkpointer.cli import cli\n"
        "for arguments in (['--help'], ['report', '--help']):\n"
        "    found = CliRunner().invoke(cli, arguments); assert found.exit_code == 0; print(found.output)\n"
        "assert not {'pyspark', 'pyarrow', 'numba'} & set(sys.modules), 'heavy import'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert SUMMARIES["report"].split(":")[0] in done.stdout
    assert "checkpointer report" in done.stdout


@pytest.mark.recorded
def test_the_cluster_is_named_at_the_top(report: NamespaceReport) -> None:
    named = replace(report, cluster="CID-7")
    assert next(iter(report_lines(report, None))) == "Namespace at transaction 292"
    assert next(iter(report_lines(named, None))) == "Namespace at transaction 292, cluster CID-7"
    assert "CID-7" in render(named)


@pytest.mark.recorded
def test_no_table_is_wider_than_a_small_screen(report: NamespaceReport, tmp_path: Path) -> None:
    page_file = tmp_path / "report.html"
    page_file.write_text(render(report), encoding="utf-8")
    wide = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.ariaLabel)"
    try:
        with browser() as running:
            page = running.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(PATIENCE)
            page.goto(page_file.as_uri())
            assert page.locator(".table .scroll").evaluate_all(wide) == []
    except MissingBrowserError as error:
        skip("browser", str(error))
