"""Generated name directories for measurements: written with a progress display, and linked for each mix of edits."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.edits import write_edits
from bench.image import BaseImage, write_image
from bench.tree import Tree
from hadoop_common.names import SEEN_TXID

CONSOLE = Console(stderr=True)
_CHUNK = 1 << 24


def machine() -> str:
    """Return a description of the measured machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    cores = f"{os.cpu_count()} cores of {_processor()}"
    return f"{platform.machine()}, {cores}, {memory:.0f} GB, {_file_system()}, Python {platform.python_version()}"


def _processor() -> str:
    """Return the processor's name, and whether it has AVX-512: processors of the same name may differ in this."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        known = {key.strip(): value for key, _, value in (line.partition(":") for line in lines)}
        wide = "with" if "avx512f" in known.get("flags", "").split() else "without"
        return f"{known.get('model name', ' unknown').strip()} {wide} AVX-512"
    return "an unknown processor"


def _file_system() -> str:
    """Return the file system of temporary files, and whether its device is rotational."""
    with suppress(OSError, StopIteration):
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        here = Path(tempfile.gettempdir()).stat().st_dev
        device, kind = next((each[0], each[2]) for each in mounts if Path(each[1]).stat().st_dev == here)
        return f"{kind} on {device}"
    return "an unknown file system"


def make_image(folder: Path, inodes: int, *, snapshots: bool, seed: int, short_names: bool = False) -> BaseImage:
    """Write an image of `inodes` inodes in `folder`/current."""
    current = folder / "current"
    current.mkdir(parents=True)
    with _progress() as progress:
        task = progress.add_task("inodes", total=inodes)
        return write_image(
            current,
            Tree(inodes, seed, short_names=short_names),
            snapshots=snapshots,
            progress=lambda done: progress.update(task, completed=done),
        )


def make_edits(base: BaseImage, folder: Path, transactions: int, mix: str, *, seed: int) -> BaseImage:
    """Write edits next to links to the image's files in `folder`/current, which is recreated."""
    shutil.rmtree(folder, ignore_errors=True)
    current = folder / "current"
    current.mkdir(parents=True)
    for path in base.path.parent.iterdir():
        os.link(path, current / path.name)
    here = dataclasses.replace(base, path=current / base.path.name)
    with _progress() as progress:
        task = progress.add_task(f"transactions, {mix}", total=transactions)
        write_edits(here, transactions, mix, seed=seed, progress=lambda done: progress.update(task, completed=done))
    # replace the link, because writing to it would change the original file
    (current / SEEN_TXID).unlink()
    (current / SEEN_TXID).write_text(f"{base.txid + transactions}\n")
    return here


def read_all(folder: Path) -> None:
    """Read all files into the page cache as far as they fit, and write back all dirty pages."""
    os.sync()
    for path in folder.iterdir():
        with path.open("rb", buffering=0) as stream:
            while stream.read(_CHUNK):
                pass


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=CONSOLE, transient=True)
