"""Three JournalNodes, Hadoop's or ours, as separate processes, and the URI of a journal on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import urlsplit

from hadoop_common.names import parse_segment
from tests.interop.cluster import JournalNode
from tests.interop.hadoop_conf import NAMESERVICE, HadoopConf
from tests.interop.hadoop_home import SERVER, HadoopRelease
from tests.interop.hadoop_process import port_is_open
from tests.interop.our_commands import CHECKOUT
from tests.interop.our_process import OurProcess


class _Node(Protocol):
    """A JournalNode in a separate process."""

    @property
    def edits_dir(self) -> Path: ...

    def start(self) -> object: ...

    def stop(self) -> object: ...

    def kill(self) -> None: ...


class OurJournalNode(OurProcess):
    """`checkpointer journalnode run` with the `dfs.journalnode.*` keys of a configuration."""

    program: Sequence[str] = CHECKOUT

    def __init__(self, conf: HadoopConf) -> None:
        super().__init__(f"the JournalNode of {conf.folder}", conf.root / "journalnode.log")
        self.conf = conf
        self.edits_dir = Path(conf["dfs.journalnode.edits.dir"])
        web, rpc = conf.web_url("dfs.journalnode.http-address"), f"//{conf['dfs.journalnode.rpc-address']}"
        self._ports = [(parts.hostname or "", parts.port or 0) for parts in map(urlsplit, (web, rpc))]

    def start(self) -> Self:
        """Start the node and wait until it accepts connections."""
        self.spawn([*self.program, "journalnode", "run", "--conf", self.conf.folder])
        self.await_ready(lambda: all(map(port_is_open, self._ports)))
        return self

    def stop(self) -> int:
        return 0 if self._process is None else super().stop()


class JournalTrio:
    """A context manager that starts three JournalNodes and stops them; the journal is not formatted.

    Args:
        ours: whether to use our JournalNode instead of Hadoop's; one value for all nodes, or one value for each node.
        prepare: changes the configuration of each node.
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
                    # keep the newest transactions in memory; Hadoop 2.7 does not support this key
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
        """Return the first and last txid of each finalized segment of a node, in ascending order."""
        names = (path.name for path in (self.nodes[number].edits_dir / NAMESERVICE / "current").iterdir())
        return sorted(
            (part.first, part.last) for part in map(parse_segment, names) if part is not None and part.last is not None
        )

    def promised(self, number: int) -> int:
        """Return the epoch that a node has promised."""
        return int((self.nodes[number].edits_dir / NAMESERVICE / "current" / "last-promised-epoch").read_text())
