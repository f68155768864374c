"""A secondary daemon that merges on Spark, even when Java dies or the daemon is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from hadoop_common.names import image_name
from tests.checkpointer.secondary_support import differences, image_txids, leftovers, sound
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.pipeline.gated_daemon import GATE
from tests.pipeline.quick_java import quick_java
from tests.pipeline.spark_cluster import wait_until
from tests.site_files import write_site

_SECONDS = 600.0
_ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.recorded


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NamenodeDouble]:
    with NamenodeDouble(tmp_path / "name", per_roll=100) as running:
        yield running


class Daemon:
    """`checkpointer run --role secondary`, which checks for work each second."""

    def __init__(self, folder: Path, node: NamenodeDouble, *, free_tasks: int | None = None) -> None:
        self.base = node.image_txids()[-1]
        self.storage = folder / "secondary"
        self.log = folder / "daemon.log"
        self.gate, self.events, scratch = folder / "gate", folder / "events", folder / "scratch"
        for each in (self.gate, self.events, scratch):
            each.mkdir()
        values = {
            "fs.defaultFS": f"hdfs://127.0.0.1:{node.rpc_port}",
            "dfs.namenode.http-address": f"127.0.0.1:{node.http_port}",
            "dfs.namenode.checkpoint.dir": str(self.storage),
            "dfs.namenode.secondary.http-address": "127.0.0.1:0",
            "dfs.namenode.checkpoint.check.period": "1s",
            "dfs.namenode.checkpoint.txns": "30",
            "checkpoint.engine": "spark",
            "checkpoint.engine.spark.master": "local[2]",
            "checkpoint.engine.spark.partitions": "2",
            "checkpoint.engine.spark.conf.spark.eventLog.enabled": "true",
            "checkpoint.engine.spark.conf.spark.eventLog.dir": self.events.as_uri(),
            "checkpoint.engine.spark.conf.spark.eventLog.compress": "false",
            "checkpoint.engine.spark.conf.spark.eventLog.rolling.enabled": "false",
        }
        environment = {**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch), **quick_java()}
        if free_tasks is not None:
            values["checkpoint.engine.spark.conf.spark.python.daemon.module"] = "tests.pipeline.gated_daemon"
            environment |= {GATE: str(self.gate), "PYTHONPATH": str(_ROOT)}
            (self.gate / "free").write_text(str(free_tasks))
        conf = write_site(folder / "conf", values)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "checkpointer", "run", "--conf", str(conf), "--role", "secondary"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def java(self) -> list[psutil.Process]:
        return [each for each in psutil.Process(self.process.pid).children(recursive=True) if each.name() == "java"]

    def wait_for(self, condition: object, what: str) -> None:
        def holds() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return bool(condition())  # type: ignore[operator]

        try:
            wait_until(holds, what, _SECONDS)
        except BaseException:
            sys.stderr.write(self.log.read_text())
            raise

    def waiting_java(self) -> psutil.Process:
        """Return the JVM with a task at the gate."""
        self.wait_for(lambda: any(self.gate.glob("waiting-*")), "a task runs")
        return psutil.Process(int(next(self.gate.glob("waiting-*")).name.removeprefix("waiting-")))

    def check_done(self, node: NamenodeDouble) -> None:
        """Wait for the upload; the image equals Hadoop's, and the merge leaves nothing else behind, not even an idle
        JVM.
        """
        self.wait_for(lambda: node.image_txids()[-1] > self.base, "the upload")
        self.wait_for(lambda: not self.java(), "the end of Java")
        txid = node.image_txids()[-1]
        image = self.storage / "current" / image_name(txid)
        assert differences(node.expected, image) == []
        assert node.image(txid).read_bytes() == image.read_bytes()
        assert sorted(path.name for path in self.storage.iterdir()) == [
            "checkpointer-history.jsonl",
            "current",
            "in_use.lock",
            "storage_directories.json",
        ]
        assert leftovers(image.parent) == []
        assert sound(image.parent)

    def stop(self) -> str:
        """Stop the daemon as a service manager does; return its log."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(_SECONDS) == 0, self.log.read_text()
        return self.log.read_text()


@contextmanager
def running(folder: Path, node: NamenodeDouble, *, free_tasks: int | None = None) -> Iterator[Daemon]:
    daemon = Daemon(folder, node, free_tasks=free_tasks)
    try:
        yield daemon
    finally:
        below = psutil.Process(daemon.process.pid).children(recursive=True) if daemon.process.poll() is None else []
        daemon.process.kill()
        daemon.process.wait()
        psutil.wait_procs(below, _SECONDS)


def spark_properties(events: Path) -> dict[str, str]:
    (log,) = events.glob("local-*")
    reported = (json.loads(line) for line in log.read_text().splitlines())
    found: dict[str, str] = next(
        event["Spark Properties"] for event in reported if event["Event"] == "SparkListenerEnvironmentUpdate"
    )
    return found


@pytest.mark.deep
def test_a_checkpoint_is_made_on_spark_and_uploaded(node: NamenodeDouble, tmp_path: Path) -> None:
    with running(tmp_path, node) as daemon:
        daemon.check_done(node)
        message = daemon.stop()
    assert "py4j" not in message
    assert "Traceback" not in message
    properties = spark_properties(daemon.events)
    assert properties["spark.master"] == "local[2]"
    assert properties["spark.eventLog.dir"] == daemon.events.as_uri()
    assert properties["spark.driver.memory"] == "1g"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("victim", "error"), [("java", "JVM ended"), ("merge process", "the merge process was killed by SIGKILL")]
)
def test_a_killed_process_fails_only_one_attempt(node: NamenodeDouble, tmp_path: Path, victim: str, error: str) -> None:
    with running(tmp_path, node, free_tasks=2) as daemon:
        java = daemon.waiting_java()
        merging = java.parent()
        assert merging is not None
        assert merging.ppid() == daemon.process.pid
        (java if victim == "java" else merging).kill()
        (daemon.gate / "open").touch()
        daemon.check_done(node)
        assert not java.is_running()
        message = daemon.stop()
    errors = [line for line in message.splitlines() if " ERROR " in line]
    assert len(errors) == 1, message
    assert error in errors[0]
    assert "Exception while sending command" not in message


@pytest.mark.deep
def test_a_merge_ends_when_its_daemon_is_killed(node: NamenodeDouble, tmp_path: Path) -> None:
    with running(tmp_path, node, free_tasks=1) as daemon:
        below = [*daemon.waiting_java().parents()[:1], daemon.waiting_java()]
        daemon.process.kill()
        _, alive = psutil.wait_procs(below, _SECONDS)
        assert alive == []


@pytest.mark.deep
def test_a_daemon_stopped_while_tasks_run_leaves_no_files(node: NamenodeDouble, tmp_path: Path) -> None:
    with running(tmp_path, node, free_tasks=1) as daemon:
        victim = daemon.waiting_java()
        assert "Traceback" not in daemon.stop()
        psutil.wait_procs([victim], _SECONDS)
        assert not victim.is_running()
    assert sorted(path.name for path in daemon.storage.iterdir()) == [
        "checkpointer-history.jsonl",
        "current",
        "storage_directories.json",
    ]
    current = daemon.storage / "current"
    assert image_txids(current) == [node.image_txids()[0]]
    assert leftovers(current) == []
    assert "upload" not in node.steps
