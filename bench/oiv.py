"""Runs and times the OfflineImageViewerPB of Hadoop 3.5.0, which writes an image as text."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.interop.hadoop_home import NEWEST, java_program

_MAIN = "org.apache.hadoop.hdfs.tools.offlineImageViewer.OfflineImageViewerPB"
_OPENS = ("java.lang", "java.util", "java.nio", "sun.nio.ch")


def heap_for(files: int) -> str:
    """Return a generous heap size for OIV: half of it suffices, and twice as much does not make OIV faster."""
    return f"{1 + -(-files // 1_000_000)}g"


def oiv_command(processor: str, image: Path, target: Path, heap: str) -> list[str]:
    """Return the command that writes `image` as text to `target`.

    Raises:
        MissingHadoopError: Hadoop's jars are missing.
    """
    opens = [word for package in _OPENS for word in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]
    command = [str(java_program("java")), f"-Xmx{heap}", *opens, "-cp", NEWEST.class_path(), _MAIN]
    return [*command, "-p", processor, "-i", str(image), "-o", str(target)]


def run_oiv(image: Path, target: Path, heap: str) -> tuple[float, int]:
    """Write `image` as tab-separated text; return the wall seconds of the whole process, and the number of rows without
    the header.

    Raises:
        MissingHadoopError: Hadoop's jars are missing.
        subprocess.CalledProcessError: the viewer failed.
    """
    command = oiv_command("Delimited", image, target, heap)
    started = time.perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    with target.open("rb") as lines:
        rows = sum(block.count(b"\n") for block in iter(lambda: lines.read(1 << 20), b""))
    return seconds, rows - 1  # Hadoop 3 prints a header
