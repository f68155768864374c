"""Configuration files of the demo: an HA pair on loopback, nn1 the stub and nn2 the checkpointer."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

_LOOPBACK = "127.0.0.1"
# Servers are started again on their ports, so these must be none that the system gives to an outgoing connection.
_PORTS = range(12000, 32000)


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
    """Ports that nobody listens on now."""
    return DemoPorts(*free_numbers(3))


def free_numbers(count: int) -> list[int]:
    """So many of them."""
    with ExitStack() as held:
        return [_hold_port(held) for _ in range(count)]


def _hold_port(held: ExitStack) -> int:
    """Bind a free port for as long as the others are looked for."""
    while True:
        found = held.enter_context(socket.socket())
        port = random.choice(_PORTS)
        try:
            found.bind((_LOOPBACK, port))
        except OSError:
            continue
        return port


def _site(values: dict[str, object]) -> str:
    lines = ['<?xml version="1.0"?>', "<configuration>"]
    for name, value in values.items():
        lines.append(f"  <property><name>{name}</name><value>{escape(str(value))}</value></property>")
    return "\n".join([*lines, "</configuration>", ""])


def write_configuration(
    scratch: Path, ports: DemoPorts, *, transactions: int, period: int, shared_edits: str = ""
) -> None:
    """Write `conf-nn1` and `conf-nn2` below `scratch`; `period` is in seconds.

    Args:
        shared_edits: a journal's URI; by default they are in a directory.
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
    }
    for node in ("nn1", "nn2"):
        conf = scratch / f"conf-{node}"
        conf.mkdir()
        values = {
            **shared,
            "dfs.ha.namenode.id": node,
            "dfs.namenode.name.dir": (scratch / node).as_uri(),
        }
        (conf / "hdfs-site.xml").write_text(_site(values))
        (conf / "core-site.xml").write_text(_site({"fs.defaultFS": "hdfs://demo"}))
