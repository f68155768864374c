"""`checkpointer report`: reports on space, owners, files, changes and damage of a namespace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hadoop_common.cli.output import json_option, parsed_by, refuse_input
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import parse_positive_size
from pipeline.cli.report_outputs import FORMATS, plan_outputs, write_outputs
from pipeline.cli.spark_command import context_for
from pipeline.libraries import SPARK, require_libraries
from pipeline.reports.model import SECTIONS
from pipeline.reports.request import ReportOptions, ReportRequest

if TYPE_CHECKING:
    from pyspark import SparkContext

    from pipeline.reports.path_rules import PathRules


def _section_ids(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Split comma-separated lists of section ids."""
    choice = click.Choice(tuple(SECTIONS))
    return tuple(choice.convert(name.strip(), param, ctx) for value in values for name in value.split(","))


@dataclass(frozen=True, slots=True)
class _SparkOptions:
    """Settings for the start of Spark."""

    master: str | None
    driver_memory: str
    small: bool


@click.command("report")
@click.argument("image")
@click.option(
    "--edits", default="", metavar="DIR", help="Edits to report on: a directory of segments, a segment or a lake."
)
@click.option(
    "--before",
    multiple=True,
    metavar="IMAGE",
    help="Show growth since this older image. May be repeated, for a series.",
)
@click.option(
    "--since-last",
    "reports",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Show the changes since the last JSON report in DIR; nothing if DIR has no report on an older image.",
)
@click.option(
    "--cluster", default="", metavar="NAME", help="Name of the cluster (default: the id in the directory of IMAGE)."
)
@click.option(
    "--only",
    "--sections",
    "only",
    multiple=True,
    metavar="A,B",
    callback=_section_ids,
    help=f"Show only these sections: {', '.join(SECTIONS)}. May be repeated.",
)
@click.option(
    "--paths",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Path sets and tables of databases to report on, a TOML file.",
)
@click.option("--depth", type=click.IntRange(0, 100), default=3, show_default=True, help="Levels of directories.")
@click.option("--top", type=click.IntRange(1, 1000), default=20, show_default=True, help="Number of rows in a table.")
@click.option(
    "--small-files",
    "small",
    metavar="SIZE",
    callback=parsed_by(parse_positive_size),
    help="Files below SIZE are small, e.g. 16m (default: 1/8 of their block size).",
)
@click.option(
    "--cold",
    "cold_days",
    type=click.IntRange(1, 36_500),
    default=365,
    show_default=True,
    help="Files unused for DAYS are cold.",
)
@click.option(
    "--replication",
    type=click.IntRange(1, 32_767),
    default=3,
    show_default=True,
    help="The cluster's dfs.replication; the report counts files with another factor.",
)
@click.option(
    "--max-directory-items",
    "max_items",
    type=click.IntRange(1, 6_400_000),
    default=1 << 20,
    show_default=True,
    help="The cluster's dfs.namenode.fs-limits.max-directory-items.",
)
@click.option(
    "--as-of", type=click.DateTime(), help="Measure ages at this time, UTC (default: the image's modification time)."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    default="terminal",
    show_default=True,
    help="Format of standard output, and of an --out whose name has no known ending.",
)
@click.option(
    "--out",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write a copy: NAME.html, NAME.json, NAME.prom, or the folder NAME.csv or NAME.parquet with a file for each "
    "table. May be repeated.",
)
@click.option("--force", is_flag=True, help="Replace existing files at --out, and folders that contain only tables.")
@click.option("--master", help="Spark's master, e.g. local[4] or spark://host:7077 (default: all cores of this host).")
@click.option("--driver-memory", default="1g", show_default=True, help="Heap of Spark's driver.")
@json_option
def command(
    image: str,
    edits: str,
    before: tuple[str, ...],
    reports: str | None,
    cluster: str,
    only: tuple[str, ...],
    paths: Path | None,
    depth: int,
    top: int,
    small: int | None,
    cold_days: int,
    replication: int,
    max_items: int,
    as_of: datetime | None,
    kind: str,
    out: tuple[Path, ...],
    force: bool,
    master: str | None,
    driver_memory: str,
    as_json: bool,
) -> None:
    """Report on IMAGE: an fsimage, a storage directory (its newest image), or a lake (its newest image, or LAKE@TXID).

    --before and --since-last add the `growth` section. --edits adds `operations`, and the causes of growth and small
    files. --paths adds `paths`. --only lists all sections.

    One run writes any number of copies: text to standard output (--format summary prints only the totals and the
    findings that need attention), and files with --out. Standard output stays empty if an --out has the format of
    --format. With --before, the report uses the edits since the oldest image, otherwise all given edits. Paths may be
    URIs of any file system that Spark supports, such as hdfs:// and s3a://. A lake does not contain attributes, open
    files, snapshots or findings.

    \b
    Examples:
      checkpointer report /data/nn/current
      checkpointer report /data/nn/current --format summary --out report.html --out report.json
      checkpointer report new/fsimage_42 --before old/fsimage_7 --edits edits/ --format html --out report.html
      checkpointer report hdfs://nn/lake --only small-files --top 100 --format csv --out small/
    Exit codes: 0 done, 1 failed, 2 usage error or no Spark, 3 image damaged, 4 edits damaged, 6 a path is wrong
    """
    kind = "json" if as_json else kind
    if before and reports:
        raise click.UsageError("--since-last and --before cannot be used together")
    _check_sections(only, {"--before": "".join(before) or reports or "", "--edits": edits, "--paths": str(paths or "")})
    rules = None if paths is None else _path_rules(paths)
    for each in out:
        for given in (image, *before, *filter(None, (edits, str(paths or "")))):
            if Path(given).is_file():
                refuse_input(each, Path(given), "--out")
    outputs = plan_outputs(kind, out, force=force)
    small_job = _check_inputs(image, before, edits)
    generated = datetime.now(UTC)
    reference = None if as_of is None else as_of.replace(tzinfo=UTC)
    chosen = ReportOptions(reference or generated, depth, top, small, cold_days, replication, max_items, only, rules)
    request = ReportRequest(image, before, edits, cluster, reports or "")
    with ProgressObserver(show=not as_json) as progress, progress.ticking():
        engine = _SparkOptions(master, driver_memory, small_job)
        with _context(progress, engine) as context:
            from pipeline.reports.build import make_report

            report = make_report(
                context,
                request,
                lambda image_time: chosen if reference or not image_time else replace(chosen, as_of=image_time),
                generated=generated,
                progress=progress,
            )
    write_outputs(report, outputs)


def _check_sections(only: tuple[str, ...], given: dict[str, str]) -> None:
    for section in only:
        option = f"--{SECTIONS[section]}"
        if not given.get(option, "given"):
            raise click.UsageError(f"--only {section} needs {option}")


def _path_rules(file: Path) -> PathRules:
    from pipeline.reports.path_rules import PathRules

    return PathRules.read(file)


def _check_inputs(image: str, before: tuple[str, ...], edits: str) -> bool:
    """Check the inputs; return whether they are small."""
    from pipeline.input_checks import check_edits, check_image, is_small

    images = [image, *before]
    for uri in images:
        check_image(uri)
    if edits:
        check_edits(edits)
    return is_small(images, edits)


@contextmanager
def _context(progress: ProgressObserver, engine: _SparkOptions) -> Iterator[SparkContext]:
    """Start Spark, and import the modules of the report at the same time."""
    progress.phase("Spark", None)
    require_libraries(SPARK)
    # Imported here so that two threads never import PySpark at the same time. `context_for` reports a broken PySpark.
    with suppress(ImportError):
        import_module("pyspark")
    # These imports take a tenth of Java's start time, for which this process would otherwise only wait.
    threading.Thread(target=import_module, args=("pipeline.reports.build",), daemon=True).start()
    with context_for(engine.master, engine.driver_memory, small=engine.small) as context:
        yield context
