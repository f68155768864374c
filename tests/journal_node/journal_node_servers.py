"""JournalNodes with servers, in this process or as separate processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hadoop_common.configuration import Configuration
from hadoop_rpc.qjournal_protocol import QJournalClient
from journal_node.config import JournalNodeConfig
from journal_node.server import JournalNodeServer
from namenode_stub.ports import free_port
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer


@dataclass(frozen=True)
class Place:
    """The location of a node."""

    root: Path
    rpc_port: int
    http_port: int

    @classmethod
    def new(cls, root: Path) -> Place:
        return cls(root, free_port(), free_port())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.rpc_port}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def current(self) -> Path:
        return self.root / "journal" / JOURNAL / "current"

    @contextmanager
    def writer(self, epoch: int = 1) -> Iterator[Writer]:
        with QJournalClient("127.0.0.1", self.rpc_port, user="hdfs", timeout=600.0) as client:
            yield Writer(client, epoch=epoch)


def properties(place: Place, places: Sequence[Place], **more: str) -> dict[str, str]:
    """Return hdfs-site.xml of a node; `more` are further keys."""
    return {
        "dfs.journalnode.rpc-address": place.address,
        "dfs.journalnode.http-address": f"127.0.0.1:{place.http_port}",
        "dfs.journalnode.edits.dir": str(place.root / "journal"),
        "dfs.journalnode.sync.interval": "50ms",
        "dfs.namenode.shared.edits.dir": f"qjournal://{';'.join(each.address for each in places)}/{JOURNAL}",
        "hadoop.user.name": "hdfs",
        **more,
    }


def config_of(values: dict[str, str]) -> JournalNodeConfig:
    return JournalNodeConfig.from_configuration(Configuration.from_mapping(values, {}))


@contextmanager
def running(places: Sequence[Place], among: Sequence[Place], **more: str) -> Iterator[list[JournalNodeServer]]:
    """Run the JournalNodes at `places` in this process; `among` are all JournalNodes of the journal."""
    with ExitStack() as stack:
        yield [stack.enter_context(JournalNodeServer(config_of(properties(each, among, **more)))) for each in places]


def format_all(places: Sequence[Place]) -> None:
    for place in places:
        with place.writer() as writer:
            writer.node.format(JOURNAL, NAMESPACE, force=False)
            writer.begin()
