"""The demo's last steps: the same merge on Spark, and a report about the demo's images and edits."""

from __future__ import annotations

import shutil
from pathlib import Path

from hadoop_common.names import MD5_SUFFIX, parse_image
from namenode_stub.demo_stage import DemoError, DemoStage, RunningModule

REPORT = Path("demo-report.html")


def merge_on_spark(current: Path, stage: DemoStage) -> None:
    """Merge the older image and its edits with both engines, and compare the digests.

    Raises:
        DemoError: a merge failed, or the images differ.
    """
    *_, older, newest = _images(current)
    left_out = {newest.name, newest.name + MD5_SUFFIX}
    digests = {}
    for engine in ("local", "spark"):
        folder = stage.scratch / engine / "current"
        shutil.copytree(current, folder, ignore=lambda _, names: left_out.intersection(names))
        stage.finish(_begin(stage, "merge", "--engine", engine, str(folder.parent)))
        made = _images(folder)[-1]
        digests[engine] = made.with_name(made.name + MD5_SUFFIX).read_text()
    if digests["local"] != digests["spark"]:
        raise DemoError(f"the engines made different images: {digests}")
    stage.console.print(f"  {older.name} and the edits after it: {made.name}, identical to the local engine's image")


def begin_report(current: Path, stage: DemoStage) -> RunningModule:
    """Start writing the report: a page, and its summary on standard output."""
    *_, older, newest = _images(current)
    sources = (str(newest), "--edits", str(current), "--before", str(older), "--master", "local[2]")
    formats = ("--format", "summary", "--out", str(REPORT.absolute()), "--force")
    return _begin(stage, "report", *sources, "--small-files", "64m", *formats)


def print_report(report: RunningModule, stage: DemoStage) -> None:
    """Wait for the report, and print its summary.

    Raises:
        DemoError: the report failed.
    """
    _, printed = stage.finish(report)
    stage.console.print(printed, markup=False)
    stage.console.print(f"  the complete report is in {REPORT}: open it in a browser")


def _images(current: Path) -> list[Path]:
    named = [(image.txid, path) for path in current.iterdir() if (image := parse_image(path.name)) is not None]
    return [path for _, path in sorted(named)]


def _begin(stage: DemoStage, *arguments: str) -> RunningModule:
    return stage.begin("checkpointer", *arguments, environment={"COLUMNS": "110"})
