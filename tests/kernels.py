"""Compilation of all kernels: of checkpoints, of the tools and of the benchmarks.

`make interop-setup` runs it on two cores, so that the workers of a test run do not each compile them.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.edits import MIXES
from checkpointer.merging.offline import merge_directory, plan_directory
from engine.warm_up import warm_up
from image_format.compiling.mode import compiled_kernels
from pipeline.host_image import HostImage
from pipeline.sources.readers import READERS
from tests.bench.made import make
from tests.cli_runner import run_cli
from tests.recorded_cases import RECORDED, Case

_CASE = Case(RECORDED / "hadoop-3.4.1" / "erasure-coding-snapshots")


def of_merges(folder: Path) -> None:
    """Merge in every way; generate the benchmarks' images and edits of every mix, and merge them."""
    warm_up()
    for mix in MIXES:
        for snapshots in (False, True):
            make(folder / f"{mix}-{snapshots}", mix, snapshots=snapshots)
            merge_directory(plan_directory(folder / f"{mix}-{snapshots}"))


def of_tools(folder: Path) -> None:
    """Run every tool on recorded images."""
    before, after = _CASE.image("before"), _CASE.image("after")
    run_cli("image", "verify", after)
    run_cli("image", "diff", before, after)
    run_cli("image", "convert", after, folder / "converted", "--layout", "-67")
    for form in ("xml", "json", "delimited", "distribution", "corruption"):
        run_cli("image", "dump", after, "--format", form, "--output", folder / form)
    image = HostImage.open(after, folder)
    for reader in READERS.values():
        for part in reader.parts(image.image, 2):
            list(reader.read(image, part, reader.table.names))


def _in_a_folder(work: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work(Path(folder))


def main() -> None:
    started = time.monotonic()
    workers = [multiprocessing.Process(target=_in_a_folder, args=(work,)) for work in (of_merges, of_tools)]
    with compiled_kernels():
        for worker in workers:
            worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("the kernels of the tests could not be compiled; what is above says why")
    print(f"kernels of the tests: compiled, or found compiled, in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
