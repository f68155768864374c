"""`checkpointer report`: what fills the namespace, who fills it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hadoop_common.cli.output import json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import parse_size
from pipeline.cli.report_outputs import FORMATS, plan_outputs, write_outputs
from pipeline.cli.spark_command import spark_for

if TYPE_CHECKING:
    from pipeline.reports.model import Report

SECTIONS = ("space", "owners", "files", "small-files", "cold", "growth", "operations", "snapshots", "findings")
_NEEDS = {"growth": "--before", "operations": "--edits"}


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Bytes, with Hadoop's suffixes."""
    if value is None:
        return None
    try:
        size = parse_size(value)
    except ValueError as error:
        raise click.BadParameter(f"{value} {error}") from None
    if size <= 0:
        raise click.BadParameter(f"{value} is not positive")
    return size


@dataclass(frozen=True, slots=True)
class _Choices:
    """What the command line says, beyond paths."""

    depth: int
    top: int
    small: int | None
    cold_days: int
    only: tuple[str, ...]
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class _Sources:
    """What the report is about; see `pipeline.reports.build.Request`, whose module needs Spark."""

    image: str
    before: str
    edits: str
    cluster: str


@dataclass(frozen=True, slots=True)
class _Engine:
    """How Spark is started."""

    master: str | None
    driver_memory: str
    small: bool


@click.command("report")
@click.argument("image")
@click.option("--edits", default="", metavar="DIR", help="Edits: a directory of segments, a segment or a lake.")
@click.option("--before", default="", metavar="IMAGE", help="Show growth since this older image.")
@click.option("--cluster", default="", metavar="NAME", help="Name of the cluster (default: the id beside IMAGE).")
@click.option("--only", multiple=True, type=click.Choice(SECTIONS), help="Show this section alone; may be repeated.")
@click.option("--depth", type=click.IntRange(0, 100), default=3, show_default=True, help="Levels of directories.")
@click.option("--top", type=click.IntRange(1, 1000), default=20, show_default=True, help="Rows of a table.")
@click.option(
    "--small-files",
    "small",
    metavar="SIZE",
    callback=_size,
    help="Small is below this, e.g. 16m (default: 1/8 of a block).",
)
@click.option(
    "--cold",
    "cold_days",
    type=click.IntRange(1, 36_500),
    default=365,
    show_default=True,
    help="Cold is unused for DAYS.",
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
    help="Format of standard output, and of an --out whose name does not tell.",
)
@click.option(
    "--out",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write a copy: NAME.html, NAME.json, or a folder with a file for each table, NAME.csv, NAME.parquet. "
    "May be repeated.",
)
@click.option("--force", is_flag=True, help="Replace what is at --out.")
@click.option("--master", help="Spark's master, e.g. local[4] or spark://host:7077 (default: all cores here).")
@click.option("--driver-memory", default="1g", show_default=True, help="Heap of Spark's driver.")
@json_option
def command(
    image: str,
    edits: str,
    before: str,
    cluster: str,
    only: tuple[str, ...],
    depth: int,
    top: int,
    small: int | None,
    cold_days: int,
    as_of: datetime | None,
    kind: str,
    out: tuple[Path, ...],
    force: bool,
    master: str | None,
    driver_memory: str,
    as_json: bool,
) -> None:
    """Report on IMAGE: an fsimage, a storage directory (its newest image), or a lake (its newest, or LAKE@TXID).

    \b
    Sections: space, owners, files, small-files, cold, snapshots, findings (what `image verify` finds);
    with --before growth, with --edits operations, and who caused growth and small files.

    One run writes any number of copies: text on standard output, or --format summary for the totals and what to act
    on alone, and files by --out. Standard output stays empty if an --out has the format that --format names.

    With --before the edits between the two images count, else all that are given. Paths may be URIs of any file
    system that Spark knows, such as hdfs:// and s3a://. A lake has no snapshots and no findings.

    \b
    Examples:
      checkpointer report /data/nn/current
      checkpointer report /data/nn/current --format summary --out report.html --out report.json
      checkpointer report new/fsimage_42 --before old/fsimage_7 --edits edits/ --format html --out report.html
      checkpointer report hdfs://nn/lake --only small-files --top 100 --format csv --out small/
    Exit codes: 0 done, 1 failed, 2 wrong usage or no Spark, 3 image damaged, 4 edits damaged, 6 a path is wrong
    """
    kind = "json" if as_json else kind
    _check_sections(only, {"--before": before, "--edits": edits})
    outputs = plan_outputs(kind, out, force=force)
    small_job = _check_inputs(image, before, edits)
    chosen = _Choices(depth, top, small, cold_days, only, None if as_of is None else as_of.replace(tzinfo=UTC))
    with _progress() as progress:
        sources, engine = _Sources(image, before, edits, cluster), _Engine(master, driver_memory, small_job)
        report = _make(sources, chosen, progress, engine)
    write_outputs(report, outputs)


def _check_sections(only: tuple[str, ...], given: dict[str, str]) -> None:
    for section in only:
        option = _NEEDS.get(section)
        if option is not None and not given[option]:
            raise click.UsageError(f"--only {section} needs {option}")


def _check_inputs(image: str, before: str, edits: str) -> bool:
    """Whether they are small."""
    from pipeline.input_checks import check_edits, check_image, is_small

    images = [uri for uri in (image, before) if uri]
    for uri in images:
        check_image(uri)
    if edits:
        check_edits(edits)
    return is_small(images, edits)


def _make(sources: _Sources, chosen: _Choices, progress: Any, engine: _Engine) -> Report:
    progress("Spark")
    with spark_for(engine.master, engine.driver_memory, small=engine.small) as spark:
        from pipeline.reports.build import Request, make_report
        from pipeline.reports.options import ReportOptions

        generated = datetime.now(UTC)

        def options(image_time: datetime | None) -> ReportOptions:
            as_of = chosen.as_of or image_time or generated
            return ReportOptions(as_of, chosen.depth, chosen.top, chosen.small, chosen.cold_days, chosen.only)

        request = Request(sources.image, sources.before, sources.edits, sources.cluster)
        return make_report(spark, request, options, generated=generated, progress=progress)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Each section is a phase; how long it takes is not known beforehand."""
    with ProgressObserver(show=True) as observer, observer.ticking():
        yield lambda name: observer.phase(name, None)
