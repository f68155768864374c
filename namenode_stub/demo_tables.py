"""The demo's last steps: the same merge on Spark, and a report on the demo's images and edits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from hadoop_common.names import MD5_SUFFIX, parse_image
from namenode_stub.demo_stage import DemoError

REPORT = Path("demo-report.html")


def merge_on_spark(current: Path, scratch: Path, console: Console) -> None:
    """Merge the older image and all edits after it with both engines, and compare the digests.

    Raises:
        DemoError: it failed, or the images differ.
    """
    *_, older, newest = _images(current)
    left_out = {newest.name, newest.name + MD5_SUFFIX}
    digests = {}
    for engine in ("local", "spark"):
        folder = scratch / engine / "current"
        shutil.copytree(current, folder, ignore=lambda _, names: left_out.intersection(names))
        _checkpointer("merge", str(folder.parent), "--engine", engine)
        made = _images(folder)[-1]
        digests[engine] = made.with_name(made.name + MD5_SUFFIX).read_text()
    if digests["local"] != digests["spark"]:
        raise DemoError(f"the engines made different images: {digests}")
    console.print(f"  {older.name} and the edits after it: {made.name}, byte for byte what the local engine makes")


def write_report(current: Path, console: Console) -> None:
    """Print a part of the report and write the whole as a page.

    Raises:
        DemoError: it failed.
    """
    *_, older, newest = _images(current)
    sources = (str(newest), "--edits", str(current), "--before", str(older), "--master", "local[2]")
    console.print(_checkpointer("report", *sources, "--only", "space", "--depth", "2", "--top", "5"), markup=False)
    _checkpointer("report", *sources, "--small-files", "64m", "--format", "html", "--out", str(REPORT), "--force")
    console.print(f"  the whole report is in {REPORT}: open it in a browser")


def _images(current: Path) -> list[Path]:
    named = [(image.txid, path) for path in current.iterdir() if (image := parse_image(path.name)) is not None]
    return [path for _, path in sorted(named)]


def _checkpointer(*arguments: str) -> str:
    command = [sys.executable, "-m", "checkpointer", *arguments]
    environment = {**os.environ, "COLUMNS": "110"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise DemoError(f"{' '.join(command[2:])} exits {done.returncode}: {done.stderr.strip()}")
    return done.stdout.rstrip()
