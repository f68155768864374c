"""Compilation of all kernels, including kernels of the tools and the benchmarks.

`make interop-setup` runs this module on two cores, so that the workers of a test run do not each compile the kernels.
If two processes need a kernel at the same time, both compile it. Therefore, the second process begins with kernels that
the first process does not need. The two processes then need the common kernels at different times.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engine.warm_up import warm_up
from image_format.compiling.mode import compiled_kernels
from pipeline.warm_up import compile_kernels
from tests.bench.made import make
from tests.cli_runner import run_cli
from tests.recorded_cases import RECORDED, Case

_CASE = Case(RECORDED / "hadoop-3.4.1" / "erasure-coding-snapshots")


def of_merges(_: Path) -> None:
    """Merge in every way; afterwards, no merge compiles anything (`tests/engine/test_warm_up.py`)."""
    warm_up()


def of_benchmarks_and_tools(folder: Path) -> None:
    """Generate an image as for the benchmarks, and run every tool on recorded images."""
    make(folder / "generated", snapshots=True)
    before, after = _CASE.image("before"), _CASE.image("after")
    compile_kernels()
    run_cli("image", "diff", before, after)
    for form in ("delimited", "distribution", "corruption", "xml", "json"):
        run_cli("image", "dump", after, "--format", form, "--output", folder / form)
    run_cli("image", "convert", after, folder / "converted", "--layout", "-67")
    run_cli("image", "verify", after)


def _in_a_folder(work: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work(Path(folder))


def main() -> None:
    started = time.monotonic()
    works = (of_merges, of_benchmarks_and_tools)
    workers = [multiprocessing.Process(target=_in_a_folder, args=(work,)) for work in works]
    with compiled_kernels():
        for worker in workers:
            worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("the kernels of the tests could not be compiled; the output above has the reason")
    print(f"kernels of the tests: compiled, or found compiled, in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
