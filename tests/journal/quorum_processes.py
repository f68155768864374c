"""JournalNodes and writers as processes that a test kills."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from hadoop_rpc.qjournal_protocol import qjournal_service
from hadoop_rpc.server import RpcServer
from journal.quorum.settings import QuorumSettings
from journal_node.file_disk import below
from journal_node.get_journal import get_journal_blueprint
from journal_node.node import JournalNode
from namenode_stub.ports import free_port
from servlets.application import create_application
from servlets.http_server import HttpServer
from tests.journal.killed_processes import FORKS, Server

# nodes that are killed refuse connections immediately
_SECONDS = 60.0
SETTINGS = QuorumSettings(
    start_segment=_SECONDS,
    select_input_streams=_SECONDS,
    write_transactions=_SECONDS,
    http_open=_SECONDS,
    http_read=_SECONDS,
)


def serve(root: Path, rpc_port: int, http_port: int, ready: Connection) -> None:
    """Run a JournalNode."""
    node = JournalNode(below(root))
    http = HttpServer(create_application(get_journal_blueprint(node)), "127.0.0.1", http_port)
    with http, RpcServer([qjournal_service(node)], "127.0.0.1", rpc_port):
        node.announce(http_port, http.url)
        ready.send(True)
        threading.Event().wait()


class Node(Server):
    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.ports = free_port(), free_port()

    def start(self) -> None:
        ready, telling = FORKS.Pipe(duplex=False)
        self.process = FORKS.Process(target=serve, args=(self.root, *self.ports, telling), daemon=True)
        self.process.start()
        telling.close()
        assert ready.recv()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    running = [Node(tmp_path / f"jn{number}") for number in range(3)]
    for node in running:
        node.start()
    yield running
    for node in running:
        node.kill()
