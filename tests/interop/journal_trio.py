"""Three JournalNodes, Hadoop's or ours, as processes of their own, and the URI of a journal on them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import urlsplit

from hadoop_common.names import parse_segment
from tests.interop.cluster import JournalNode
from tests.interop.hadoop_conf import NAMESERVICE, HadoopConf
from tests.interop.hadoop_home import SERVER, HadoopRelease
from tests.interop.hadoop_process import port_is_open, wait_until
from tests.interop.our_commands import CHECKOUT

_STOP_SECONDS = 600.0


class _Node(Protocol):
    """A JournalNode in a process of its own."""

    @property
    def edits_dir(self) -> Path: ...

    def start(self) -> object: ...

    def stop(self) -> object: ...

    def kill(self) -> None: ...


class OurJournalNode:
    """`checkpointer journalnode run` with the `dfs.journalnode.*` keys of a configuration."""

    program: Sequence[str] = CHECKOUT

    def __init__(self, conf: HadoopConf) -> None:
        self.conf = conf
        self.log = conf.root / "journalnode.log"
        self.edits_dir = Path(conf["dfs.journalnode.edits.dir"])
        web, rpc = conf.web_url("dfs.journalnode.http-address"), f"//{conf['dfs.journalnode.rpc-address']}"
        self._ports = [(parts.hostname or "", parts.port or 0) for parts in map(urlsplit, (web, rpc))]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until it accepts connections."""
        command = [*self.program, "journalnode", "run", "--conf", str(self.conf.folder)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._listens, f"the JournalNode of {self.conf.folder}")
        return self

    def stop(self) -> int:
        """Stop it with SIGTERM and return its exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        return self._process.wait(_STOP_SECONDS)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the JournalNode ended: {self.log.read_text()[-3000:]}"
        return all(map(port_is_open, self._ports))


class JournalTrio:
    """A context manager that starts three JournalNodes and stops them; the journal is not formatted.

    Args:
        ours: whether to use our JournalNode instead of Hadoop's; for all, or one value for each.
        prepare: changes the configuration of each.
    """

    def __init__(
        self,
        root: Path,
        *,
        ours: bool | tuple[bool, bool, bool],
        release: HadoopRelease = SERVER,
        prepare: Callable[[HadoopConf], object] = lambda conf: None,
    ) -> None:
        which = ours if isinstance(ours, tuple) else (ours,) * 3
        self.confs = [HadoopConf(root / f"jn{number}", release=release) for number in (1, 2, 3)]
        addresses = ";".join(conf["dfs.journalnode.rpc-address"] for conf in self.confs)
        self.uri = f"qjournal://{addresses}/{NAMESERVICE}"
        for conf in self.confs:
            conf.update(
                {
                    "dfs.namenode.shared.edits.dir": self.uri,
                    "dfs.journalnode.sync.interval": "1000",
                    # unknown to 2.7: keep the newest transactions in memory
                    "dfs.ha.tail-edits.in-progress": "true",
                }
            )
            prepare(conf)
        self.nodes: list[_Node] = [
            OurJournalNode(conf) if own else JournalNode(conf, name=f"journalnode{number}")
            for number, (conf, own) in enumerate(zip(self.confs, which, strict=True), 1)
        ]

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.start()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.stop()

    def segments(self, number: int) -> list[tuple[int, int]]:
        """Return first and last txid of a node's finalized segments, ascending."""
        names = (path.name for path in (self.nodes[number].edits_dir / NAMESERVICE / "current").iterdir())
        return sorted(
            (part.first, part.last) for part in map(parse_segment, names) if part is not None and part.last is not None
        )

    def promised(self, number: int) -> int:
        """Return the epoch that a node has promised."""
        return int((self.nodes[number].edits_dir / NAMESERVICE / "current" / "last-promised-epoch").read_text())
