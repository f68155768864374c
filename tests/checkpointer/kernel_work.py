"""Performs work of every kind on recorded cases: `python -m tests.checkpointer.kernel_work FOLDER CASE...`.

A process that runs the Python forms of the kernels and a process that runs the compiled kernels write the same bytes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from unittest import mock

import pyarrow as pa

from image_format.compiling.mode import Mode, mode
from pipeline.host_image import HostImage
from pipeline.sources.readers import READERS
from tests.cli_runner import run_cli
from tests.recorded_cases import RECORDED, Case

_FORMS = ("xml", "json", "delimited", "distribution", "corruption")
_CLOCK = 1_700_000_000_000


def work(case: Case, folder: Path) -> None:
    """Merge, verify, compare, convert and print images, and read their tables; write all results into `folder`."""
    storage = folder / "storage"
    current = case.copy_to(storage)
    # the output contains times
    (folder / "merged").write_text(str(run_cli("merge", storage).code))
    images = sorted(current.glob("fsimage_" + "?" * 19))
    for image in images:
        _note(folder / f"verify-{image.name}", run_cli("image", "verify", image))
        for form in _FORMS:
            _note(folder / f"dump-{form}-{image.name}", run_cli("image", "dump", image, "--format", form))
    _note(folder / "compared", run_cli("image", "diff", images[0], images[-1]))
    _note(folder / "converted", run_cli("image", "convert", images[-1], folder / "other-layout", "--layout", "-67"))
    # the names depend on the folder and the time
    with tempfile.TemporaryDirectory() as index:
        _read_tables(HostImage.open(images[-1], Path(index)), folder)


def _note(path: Path, outcome: tuple[int, str, str]) -> None:
    """Store an exit code and standard output in a file."""
    path.write_text(f"{outcome[0]}\n{outcome[1]}", "utf-8", "surrogateescape")


def _read_tables(image: HostImage, folder: Path) -> None:
    for name, reader in READERS.items():
        with pa.OSFile(str(folder / f"table-{name}"), "wb") as out:
            for part in reader.parts(image.image, 2):
                for batch in reader.read(image, part, reader.table.names):
                    out.write(batch.serialize())


def main() -> None:
    folder, *names = map(Path, sys.argv[1:])
    # Hadoop 2.7 reads the time of a snapshot from the clock
    with mock.patch("engine.replay.snapshots.now", return_value=_CLOCK):
        for name in names:
            place = folder / name.parent.name / name.name
            place.mkdir(parents=True)
            work(Case(RECORDED / name), place)
    # a module that is not loaded has compiled nothing
    assert (mode() is Mode.PLAIN) != ("numba" in sys.modules)


if __name__ == "__main__":
    main()
