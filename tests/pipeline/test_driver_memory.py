"""Five million files with 1 GB for the driver: tables, a report and a merge; the driver receives little data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.kernels.records import BLOCK_SIZE
from bench.shape_edits import write_scattered
from bench.shape_image import write_shape
from bench.shape_layout import PLAIN, Layout
from checkpointer.merging.offline import merge_directory, plan_directory
from hadoop_common.hdfs_constants import ROOT_INODE_ID
from tests.pipeline.spark_events import bytes_to_driver, event_log_conf, write_defaults
from tests.site_files import write_site

FILES = 5_000_000
LAYOUT = Layout(PLAIN, FILES)
TRANSACTIONS = 20_000
INODES = 1 + FILES // 50 + FILES
DRIVER_MEMORY = "1g"
DRAWN = 1 << 18
"""Number of files for which the generator draws sizes at a time."""

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage directory with an image and the edits that follow it."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "current").mkdir()
    write_shape(folder / "current", LAYOUT)
    write_scattered(folder / "current", LAYOUT, TRANSACTIONS)
    return folder


def run(folder: Path, *command: str) -> Any:
    """Return the JSON that a command prints; Spark's events go to `folder`."""
    folder.mkdir()
    root = Path(__file__).resolve().parent.parent.parent
    write_defaults(folder, {**event_log_conf(folder), "spark.local.dir": str(folder / "local")})
    environment = {**os.environ, "SPARK_CONF_DIR": str(folder), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-m", *command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_driver(folder: Path) -> None:
    """Check that every stage sent the driver less than one byte per inode, and so less than the smallest column."""
    sizes = bytes_to_driver(folder)
    assert sizes
    assert max(sizes.values()) < INODES, sizes


def drawn_length() -> int:
    """Return the total length that `write_shape` drew; each file has one block."""
    random = np.random.default_rng(1)
    drawn = (random.integers(1, BLOCK_SIZE, min(DRAWN, FILES - start)) for start in range(0, FILES, DRAWN))
    return sum(int(lengths.sum()) for lengths in drawn)


def path_sums() -> int:
    directories = map(LAYOUT.folder, range(LAYOUT.directories))
    files = map(LAYOUT.path, range(FILES))
    return sum(zlib.crc32(path.encode()) for each in (["/"], directories, files) for path in each)


@pytest.mark.deep
def test_table_sums_are_correct_with_little_driver_memory(storage: Path, tmp_path: Path) -> None:
    folder = tmp_path / "aggregate"
    found = run(folder, "tests.pipeline.cluster_jobs", "aggregate", "local[2]", str(storage))
    length = drawn_length()
    assert found == {
        "rows": INODES,
        "ids": sum(range(ROOT_INODE_ID, ROOT_INODE_ID + INODES)),
        "files": FILES,
        "length": length,
        "blocks": FILES,
        "paths": path_sums(),
    }
    check_driver(folder)


@pytest.mark.deep
def test_report_sums_are_correct_with_little_driver_memory(storage: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    options = ["--edits", str(storage), "--master", "local[2]", "--driver-memory", DRIVER_MEMORY, "--json"]
    report = run(folder, "checkpointer", "report", str(storage), *options)
    space = next(section for section in report["sections"] if section["id"] == "space")
    totals = next(table for table in space["tables"] if table["name"] == "totals")["rows"][0]
    length = drawn_length()
    known = {"files": FILES, "directories": FILES // 50, "blocks": FILES, "length": length, "raw": 3 * length}
    assert {name: totals[name] for name in known} == known
    check_driver(folder)


@pytest.mark.deep
def test_the_merge_equals_that_of_the_local_engine(storage: Path, tmp_path: Path) -> None:
    folder = tmp_path / "merge"
    conf = write_site(tmp_path / "conf", {"checkpoint.engine.spark.driver-memory": str(DRIVER_MEMORY)})
    options = ["--engine", "spark", "--master", "local[2]", "--conf", str(conf), "--json"]
    merged = run(folder, "checkpointer", "merge", str(storage), *options)
    image = Path(merged["image"])
    assert merged["engine"] == "spark"
    check_driver(folder)
    image.unlink()
    image.with_name(f"{image.name}.md5").unlink()
    local = merge_directory(plan_directory(storage))
    assert local.saved.md5 == merged["md5"]
    for path in local.saved.paths:
        path.unlink()
        path.with_name(f"{path.name}.md5").unlink()
