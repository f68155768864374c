"""Our JournalNodes and Hadoop's behind the same interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import requests

from hadoop_common.storage_info import JOURNAL_NODE, StorageInfo, parse_version
from hadoop_rpc.qjournal_protocol import QJournalClient, inter_qjournal_service, qjournal_service
from hadoop_rpc.server import RpcServer
from journal_node.file_disk import below
from journal_node.get_journal import get_journal_blueprint
from journal_node.node import JournalNode
from servlets.application import create_application
from servlets.http_server import HttpServer
from tests.interop import cluster
from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.journal_node.journal_node_support import JOURNAL, NAMESPACE, Writer


@dataclass
class Served:
    """A running JournalNode: its client, the URL of its segments, and the folder of its journals."""

    client: QJournalClient
    url: str
    edits_dir: Path

    @property
    def current(self) -> Path:
        return self.edits_dir / JOURNAL / "current"

    def segment_url(self, first: int) -> str:
        return f"{self.url}/getJournal?jid={JOURNAL}&segmentTxId={first}"

    def writer(self, epoch: int = 1, **fields: Any) -> Writer:
        """Return a writer that makes the node accept the node's own copies."""
        return Writer(self.client, epoch=epoch, url=f"{self.url}/getJournal?jid={JOURNAL}", **fields)

    def get(self, **query: str) -> requests.Response:
        return requests.get(f"{self.url}/getJournal", params=query, timeout=600)


@contextmanager
def ours(root: Path) -> Iterator[Served]:
    root.mkdir(exist_ok=True)
    node = JournalNode(below(root))
    services = [qjournal_service(node), inter_qjournal_service(node)]
    http = HttpServer(create_application(get_journal_blueprint(node)), "127.0.0.1", 0)
    with http, RpcServer(services, "127.0.0.1", 0) as rpc:
        node.announce(http.address[1], http.url)
        with QJournalClient(*rpc.address, user="hdfs", timeout=600.0) as client:
            yield Served(client, http.url, root)
    node.close()


@contextmanager
def hadoops(conf: HadoopConf) -> Iterator[Served]:
    with cluster.JournalNode(conf) as node, QJournalClient(*node.rpc_address, user="hdfs", timeout=600.0) as client:
        yield Served(client, node.url, node.edits_dir)


def content(current: Path) -> dict[str, bytes]:
    """Return the files below `current`, without VERSION, which contains a date, and without preallocated space."""
    files = {path: path.read_bytes() for path in current.rglob("*") if path.is_file()}
    return {
        str(path.relative_to(current)): data.rstrip(b"\xff") if path.name.startswith("edits") else data
        for path, data in files.items()
        if path.name != "VERSION" and (path.name != "committed-txid" or data)
    }


def version(current: Path) -> StorageInfo:
    found = parse_version((current / "VERSION").read_bytes(), str(current), of=(JOURNAL_NODE,))
    return found if SERVER.journal_keeps_layout else replace(found, layout_version=NAMESPACE.layout_version)
