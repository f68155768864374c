"""Writes configuration files for the demos, all on loopback: an HA pair of a stub and the checkpointer, or of two
stubs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from namenode_stub.ports import free_port

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DemoPorts:
    """HTTP ports of the two processes, and the stub's RPC port."""

    stub: int
    daemon: int
    stub_rpc: int

    @property
    def stub_url(self) -> str:
        return f"http://{_LOOPBACK}:{self.stub}"

    @property
    def daemon_url(self) -> str:
        return f"http://{_LOOPBACK}:{self.daemon}"


def free_ports() -> DemoPorts:
    return DemoPorts(free_port(), free_port(), free_port())


def _site(values: Mapping[str, object]) -> str:
    lines = ['<?xml version="1.0"?>', "<configuration>"]
    for name, value in values.items():
        lines.append(f"  <property><name>{name}</name><value>{escape(str(value))}</value></property>")
    return "\n".join([*lines, "</configuration>", ""])


def write_configuration(
    scratch: Path,
    ports: DemoPorts,
    *,
    transactions: int,
    period: int,
    shared_edits: str = "",
    further: Mapping[str, object] | None = None,
) -> None:
    """Write `conf-nn1` and `conf-nn2` below `scratch`; `period` is in seconds.

    Args:
        shared_edits: a journal's URI; by default a directory.
        further: additional settings of both configurations.
    """
    shared = {
        "dfs.nameservices": "demo",
        "dfs.ha.namenodes.demo": "nn1,nn2",
        "dfs.namenode.http-address.demo.nn1": f"{_LOOPBACK}:{ports.stub}",
        "dfs.namenode.rpc-address.demo.nn1": f"{_LOOPBACK}:{ports.stub_rpc}",
        "dfs.namenode.http-address.demo.nn2": f"{_LOOPBACK}:{ports.daemon}",
        "dfs.namenode.shared.edits.dir": shared_edits or (scratch / "shared").as_uri(),
        "dfs.namenode.checkpoint.txns": transactions,
        "dfs.namenode.checkpoint.period": period,
        "dfs.namenode.checkpoint.check.period": 1,
        "dfs.namenode.num.extra.edits.retained": 0,
        "dfs.ha.log-roll.period": 2,
        **(further or {}),
    }
    for node in ("nn1", "nn2"):
        own = {"dfs.ha.namenode.id": node, "dfs.namenode.name.dir": (scratch / node).as_uri()}
        _write(scratch / f"conf-{node}", shared | own)


def _write(folder: Path, values: Mapping[str, object], core: Mapping[str, object] | None = None) -> None:
    folder.mkdir()
    (folder / "hdfs-site.xml").write_text(_site(values))
    (folder / "core-site.xml").write_text(_site({"fs.defaultFS": "hdfs://demo", **(core or {})}))


# ---- two stubs with failover controllers -----------------------------------------------------------------------

# like a power switch, the script returns only when the process has ended
_FENCE = """\
#!/bin/bash
echo "$target_namenodeid is fenced" >> {log}
pid=$(cat {folder}/$target_namenodeid.pid) || exit 1
kill -9 "$pid" 2> /dev/null
while [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; do sleep 0.05; done
"""


@dataclass(frozen=True, slots=True)
class HaSite:
    """Two NameNodes with their controllers, and three JournalNodes, with the ports of each process.

    Attributes:
        session_seconds: time after which a lost controller loses the lock.
        health_seconds: interval of a controller's health checks.
        hang_seconds: time after which an unresponsive NameNode counts as failed.
        ask_seconds: time for which a controller asks a NameNode to become standby before it fences the NameNode by
            force.
    """

    scratch: Path
    rpc: dict[str, int]
    http: dict[str, int]
    controllers: dict[str, int]
    journal_rpc: list[int]
    session_seconds: float = 3.0
    health_seconds: float = 0.5
    hang_seconds: float = 2.0
    ask_seconds: float = 1.0

    @classmethod
    def below(cls, scratch: Path) -> HaSite:
        """Make a site on free ports."""
        ports = iter([free_port() for _ in range(9)])
        rpc, http, controllers = ({name: next(ports) for name in ("nn1", "nn2")} for _ in range(3))
        return cls(scratch, rpc, http, controllers, list(ports))

    @property
    def nodes(self) -> list[str]:
        return list(self.rpc)

    @property
    def fence_log(self) -> Path:
        """File with one line for each forced fencing."""
        return self.scratch / "fenced.log"

    def conf(self, name: str) -> Path:
        """Return the configuration folder of a NameNode and its controller, or of a JournalNode."""
        return self.scratch / f"conf-{name}"

    def pid_file(self, node: str) -> Path:
        """Return the file with a NameNode's process id, for fencing."""
        return self.scratch / f"{node}.pid"

    def web_url(self, node: str) -> str:
        return f"http://{_LOOPBACK}:{self.http[node]}"

    def write(self, zookeeper: str) -> None:
        """Write all configuration folders: `nn1`, `nn2`, `jn0` to `jn2`."""
        script = self.scratch / "fence.sh"
        script.write_text(_FENCE.format(log=self.fence_log, folder=self.scratch))
        script.chmod(0o755)
        quorum = ";".join(f"{_LOOPBACK}:{port}" for port in self.journal_rpc)
        shared: dict[str, object] = {
            "dfs.nameservices": "demo",
            "dfs.ha.namenodes.demo": ",".join(self.nodes),
            "dfs.namenode.shared.edits.dir": f"qjournal://{quorum}/demo",
            "dfs.ha.automatic-failover.enabled": "true",
            "dfs.ha.fencing.methods": f"shell({script})",
            "dfs.ha.tail-edits.period": 1,
        }
        for node in self.nodes:
            shared[f"dfs.namenode.rpc-address.demo.{node}"] = f"{_LOOPBACK}:{self.rpc[node]}"
            shared[f"dfs.namenode.http-address.demo.{node}"] = f"{_LOOPBACK}:{self.http[node]}"
            shared[f"dfs.ha.zkfc.port.demo.{node}"] = self.controllers[node]
        core = {
            "ha.zookeeper.quorum": zookeeper,
            "ha.zookeeper.session-timeout.ms": int(self.session_seconds * 1000),
            "ha.health-monitor.check-interval.ms": int(self.health_seconds * 1000),
            "ha.health-monitor.rpc-timeout.ms": int(self.hang_seconds * 1000),
            "ha.failover-controller.graceful-fence.rpc-timeout.ms": int(self.ask_seconds * 1000),
        }
        for node in self.nodes:
            own = {
                "dfs.ha.namenode.id": node,
                "dfs.namenode.name.dir": (self.scratch / node).as_uri(),
                "checkpointer.zkfc.http-address": f"{_LOOPBACK}:0",
            }
            _write(self.conf(node), shared | own, core)
        for number, port in enumerate(self.journal_rpc):
            own = {
                "dfs.journalnode.rpc-address": f"{_LOOPBACK}:{port}",
                "dfs.journalnode.http-address": f"{_LOOPBACK}:0",
                "dfs.journalnode.edits.dir": str(self.scratch / f"jn{number}"),
            }
            _write(self.conf(f"jn{number}"), shared | own, core)
