"""The pipeline on a standalone cluster of two workers (one in the quick tier), even when an executor is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.parquet as pq
import pytest

from bench.shape_edits import write_scattered
from bench.shape_image import write_shape
from bench.shape_layout import PLAIN, Layout
from checkpointer.merging.offline import merge_directory, plan_directory
from pipeline import read_image
from pipeline.tables.inodes import INODES
from tests.depth import deep, scaled
from tests.pipeline.gated_daemon import GATE
from tests.pipeline.spark_cluster import ClusterError, SparkCluster, wait_until
from tests.pipeline.spark_events import read_events, tasks_by_executor
from tests.recorded_cases import ALL_CASES, Case
from tests.site_files import write_site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_SECONDS = 600.0
WORKERS = 2 if deep() else 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster"), workers=WORKERS) as running:
        yield running


class Driver:
    """A program that uses the cluster, in a separate process."""

    def __init__(self, cluster: SparkCluster, command: list[str], environment: dict[str, str]) -> None:
        self._cluster = cluster
        self.errors = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> dict[str, Any]:
        """Wait for success; return the output."""
        try:
            out, self.errors = self._process.communicate(timeout=DRIVER_SECONDS)
        finally:
            self.stop()
        if self._process.returncode:
            raise ClusterError(f"exit code {self._process.returncode}\n{self.errors}\n{self._cluster.logs()}")
        answer: dict[str, Any] = json.loads(out)
        return answer

    def check_running(self) -> None:
        if self._process.poll() is not None:
            self.answer()
            raise ClusterError("the driver ended before a task waited")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Gate:
    """A gate that blocks the Python tasks of an application after the first `free` tasks."""

    def __init__(self, folder: Path, free: int) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "free").write_text(str(free))

    @property
    def conf(self) -> dict[str, str]:
        return {
            "spark.python.daemon.module": "tests.pipeline.gated_daemon",
            f"spark.executorEnv.{GATE}": str(self.folder),
            "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parent.parent.parent),
        }

    def kill_an_executor(self, driver: Driver) -> int:
        """Wait until an executor has a blocked task, kill the executor with SIGKILL, and open the gate."""

        def one_waits() -> bool:
            driver.check_running()
            return bool(self._waiting())

        wait_until(one_waits, "a task runs", DRIVER_SECONDS)
        victim = psutil.Process(self._waiting()[0])
        victim.send_signal(signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(victim.pid), "the executor is gone")
        (self.folder / "open").touch()
        return victim.pid

    def _waiting(self) -> list[int]:
        return sorted(int(path.name.removeprefix("waiting-")) for path in self.folder.glob("waiting-*"))


def job(cluster: SparkCluster, name: str, *words: str, conf: dict[str, str] | None = None, driver: str) -> Driver:
    return Driver(
        cluster, ["tests.pipeline.cluster_jobs", name, cluster.url, *words], cluster.environment(conf, driver)
    )


def merge_job(cluster: SparkCluster, storage: Path, shared: bool, conf: dict[str, str], driver: str) -> Driver:
    """Run `checkpointer merge` in parts that are small enough for several tasks."""
    site = storage.with_name(f"{storage.name}-conf")
    engine = "checkpoint.engine.spark"
    write_site(site, {f"{engine}.shared-storage": str(shared).lower(), f"{engine}.partitions": "4"})
    words = ["merge", str(storage), "--engine", "spark", "--master", cluster.url, "--conf", str(site), "--json"]
    return Driver(cluster, ["checkpointer", *words], cluster.environment(conf, driver))


def storage_directory(folder: Path) -> Path:
    files = scaled(20_000, quick=4_000)
    (folder / "current").mkdir(parents=True)
    write_shape(folder / "current", layout := Layout(PLAIN, files))
    write_scattered(folder / "current", layout, files // 5)
    return folder


def merged_image(storage: Path) -> bytes:
    return max((storage / "current").glob("fsimage_" + "[0-9]" * 19)).read_bytes()


def local_image(folder: Path) -> bytes:
    """Return the local engine's merge of the same storage directory."""
    storage = storage_directory(folder)
    merge_directory(plan_directory(storage))
    return merged_image(storage)


def lost_executors(cluster: SparkCluster, driver: str) -> int:
    return sum(event["Event"] == "SparkListenerExecutorRemoved" for event in read_events(cluster.folder / driver))


def parquet_rows(target: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(target).sort_by("id").to_pylist()
    return rows


def largest_case() -> Case:
    return max(ALL_CASES, key=lambda case: case.image("after").stat().st_size)


@pytest.mark.deep
@pytest.mark.parametrize("sent", [False, True], ids=["shared-storage", "files-sent"])
def test_executors_of_a_worker_share_an_index_until_the_application_ends(
    tmp_path_factory: pytest.TempPathFactory, sent: bool
) -> None:
    folder = tmp_path_factory.mktemp("executors")
    image = write_shape(folder, Layout(PLAIN, 20_000))
    with SparkCluster(folder, workers=1, executors=2) as cluster:
        # the pipeline treats viewfs as a remote file system, although it contains the local files
        source = f"viewfs://local{image}" if sent else str(image)
        conf = {"spark.hadoop.fs.viewfs.mounttable.local.linkMergeSlash": "file:///"}
        driver = job(cluster, "indexes", source, conf=conf, driver="indexes")
        answer = driver.answer()
        assert answer["rows"] == [20_000 + 400 + 1] * 2
        assert len(answer["executors"]) == 2
        assert len(answer["indexes"]) == len(answer["folders"]) == 1
        scratch = Path(answer["folders"][0])
        wait_until(lambda: not scratch.exists(), "the scratch folder is removed")
        assert "CoarseGrainedScheduler" not in driver.errors


@pytest.mark.deep
def test_a_table_of_two_workers_equals_that_of_one_machine(
    cluster: SparkCluster, spark: SparkSession, tmp_path: Path
) -> None:
    image = largest_case().image("after")
    target, local = tmp_path / "inodes.parquet", tmp_path / "local.parquet"
    answer = job(cluster, "table_to_parquet", str(image), str(target), "4", driver="table").answer()
    read_image(spark, str(image)).write.parquet(str(local))
    rows = parquet_rows(target)
    assert rows == parquet_rows(local)
    assert list(rows[0]) == [column.name for column in INODES.columns]
    assert answer["rows"] == len(rows)
    assert len(tasks_by_executor(cluster.folder / "table")) == 2


@pytest.mark.deep
def test_an_executor_killed_during_a_job_loses_no_row(cluster: SparkCluster, tmp_path: Path) -> None:
    image = write_shape(tmp_path, Layout(PLAIN, 20_000))
    target = tmp_path / "inodes.parquet"
    gate = Gate(tmp_path / "gate", free=3)
    words = [str(image), str(target), "8"]
    driver = job(cluster, "table_to_parquet", *words, conf=gate.conf, driver="killed")
    gate.kill_an_executor(driver)
    assert driver.answer()["rows"] == 20_000 + 400 + 1
    rows = parquet_rows(target)
    assert [row["id"] for row in rows] == list(range(16385, 16385 + 20_401))
    assert len({row["path"] for row in rows}) == len(rows)
    assert lost_executors(cluster, "killed") >= 1


@pytest.mark.parametrize("shared", [True, False], ids=["shared-storage", "files-sent"])
@pytest.mark.parameters(1)
def test_a_merge_on_the_cluster_equals_a_local_merge(cluster: SparkCluster, tmp_path: Path, shared: bool) -> None:
    storage = storage_directory(tmp_path / "name")
    driver = f"merge-{shared}"
    answer = merge_job(cluster, storage, shared, {}, driver).answer()
    assert answer["engine"] == "spark"
    assert merged_image(storage) == local_image(tmp_path / "local")
    assert len(tasks_by_executor(cluster.folder / driver)) == WORKERS


@pytest.mark.deep
@pytest.mark.parametrize("free", [0, 6], ids=["at-the-start", "later"])
def test_an_executor_killed_during_a_merge_changes_no_byte(cluster: SparkCluster, tmp_path: Path, free: int) -> None:
    storage = storage_directory(tmp_path / "name")
    gate = Gate(tmp_path / "gate", free=free)
    name = f"merge-killed-{free}"
    driver = merge_job(cluster, storage, False, gate.conf, name)
    gate.kill_an_executor(driver)
    assert driver.answer()["engine"] == "spark"
    assert merged_image(storage) == local_image(tmp_path / "local")
    assert lost_executors(cluster, name) >= 1
