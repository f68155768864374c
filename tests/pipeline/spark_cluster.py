"""A Spark standalone cluster on loopback: one Master and Workers, as child processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import psutil

from pipeline.java import find_java_home
from tests.interop.hadoop_jars import pyspark_jars
from tests.pipeline.quick_java import class_path, quick_java, quick_start
from tests.pipeline.spark_events import DEFAULTS, event_log_conf, write_defaults

_LOOPBACK = "127.0.0.1"
_ROOT = Path(__file__).resolve().parent.parent.parent
_START_SECONDS = 600.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05
_LOGGED = 4000
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_OPENS = ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch")
_OPENER = build_opener(ProxyHandler({}))


class ClusterError(AssertionError):
    """A failure of a process of the cluster, or of a driver on it; the message contains the ends of the logs."""


def wait_until(condition: Callable[[], bool], what: str, seconds: float = _START_SECONDS) -> None:
    """Poll `condition` until it is true.

    Raises:
        ClusterError: the condition was not true within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {seconds:g} s")
        time.sleep(_POLL_SECONDS)


class SparkCluster:
    """The cluster of one test module; a context manager that starts and stops it.

    Args:
        folder: folder on a disk, for logs, the applications' work folders and Spark's scratch space.
        workers: number of workers.
        executors: number of executors of each worker, each with one core.
        executor_mebibytes: heap of an executor.
    """

    def __init__(self, folder: Path, *, workers: int = 2, executors: int = 1, executor_mebibytes: int = 768) -> None:
        self._workers = workers
        self._executors = executors
        self.folder = folder
        self.url = ""
        self._status = ""
        self._mebibytes = executor_mebibytes
        self._java_home = find_java_home(os.environ)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> SparkCluster:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the workers, which end their executors, and the master."""
        children = [child for process in self._processes.values() for child in _descendants(process.pid)]
        for process in reversed(self._processes.values()):
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _, alive = psutil.wait_procs(children, _STOP_SECONDS)
        for child in alive:
            child.kill()

    def environment(self, conf: Mapping[str, str] | None = None, name: str = "driver") -> dict[str, str]:
        """Return the environment of a driver process: Java, Python and a `spark-defaults.conf` for a small cluster.

        The driver waits for both workers before it distributes tasks; its events (`spark_events`) are in `folder/NAME`.
        """
        home = self.folder / name
        defaults = {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.executor.memory": f"{self._mebibytes}m",
            "spark.executor.extraJavaOptions": " ".join(quick_start()),
            "spark.executor.cores": "1",
            "spark.cores.max": str(self._workers * self._executors),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{_START_SECONDS:g}s",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(home / "local"),
            **event_log_conf(home),
            **(conf or {}),
        }
        write_defaults(home, defaults)
        # SPARK_CONF_DIR would change the class path, for which the archive of classes was made
        submit = f"--properties-file {home / DEFAULTS} pyspark-shell"
        ours = {"PYSPARK_SUBMIT_ARGS": submit, "PYTHONPATH": str(_ROOT), **quick_java()}
        return {**self._environment(), **ours}

    def logs(self) -> str:
        """Return the ends of all logs of master, workers and executors."""
        paths = [*sorted(self.folder.glob("*.log")), *sorted(self.folder.glob("*/app-*/*/stderr"))]
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-_LOGGED:]}" for path in paths)

    def _start(self) -> None:
        self._launch("master", _MASTER, "--host", _LOOPBACK, "--port", "0", "--webui-port", "0")
        self.url = self._logged("master", r"Starting Spark master at (spark://\S+)")
        self._status = self._logged("master", r"MasterWebUI to \S+, and started at (http://\S+)") + "/json/"
        for number in range(self._workers):
            options = ["--host", _LOOPBACK, "--port", "0", "--webui-port", "0", "--cores", str(self._executors)]
            options += [
                "--memory",
                f"{self._executors * self._mebibytes}m",
                "--work-dir",
                str(self.folder / f"worker{number}"),
            ]
            self._launch(f"worker{number}", _WORKER, *options, self.url)
        wait_until(self._workers_are_there, "both workers are registered")

    def _workers_are_there(self) -> bool:
        self._check_running()
        with _OPENER.open(self._status, timeout=600) as answer:
            return bool(json.load(answer)["aliveworkers"] == self._workers)

    def _launch(self, name: str, main_class: str, *arguments: str) -> None:
        command = [str(self._java_home / "bin" / "java"), "-Xmx256m", *quick_start(), "-cp", class_path()]
        for package in _OPENS:
            command += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
        environment = {**self._environment(), "SPARK_LOCAL_DIRS": str(self.folder / f"{name}-local")}
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*command, main_class, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        scala = next(pyspark_jars().glob("spark-core_*.jar")).name.split("_")[1].split("-")[0]
        ours = {
            "JAVA_HOME": str(self._java_home),
            "SPARK_HOME": str(pyspark_jars().parent),
            "SPARK_SCALA_VERSION": scala,
        }
        return {**kept, **ours, "SPARK_LOCAL_IP": _LOOPBACK, "PYSPARK_PYTHON": sys.executable}

    def _logged(self, name: str, pattern: str) -> str:
        found: list[str] = []

        def look() -> bool:
            self._check_running()
            found[:] = re.findall(pattern, (self.folder / f"{name}.log").read_text(errors="replace"))
            return bool(found)

        wait_until(look, f"the {name} logs {pattern}")
        return found[0]

    def _check_running(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise ClusterError(f"the {name} exited with code {process.returncode}\n{self.logs()}")


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
