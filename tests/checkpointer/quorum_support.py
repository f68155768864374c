"""JournalNodes in this process, served over RPC and HTTP, and their writers: a stub, or recorded edits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.qjournal_protocol import inter_qjournal_service, qjournal_service
from hadoop_rpc.server import RpcServer
from journal.journal import RecordBatch
from journal.quorum.open_quorum import open_quorum_journal
from journal.quorum.quorum_journal import QuorumJournal, QuorumSegmentWriter
from journal.segment_file import EditLogSegment, list_segments
from journal.segment_format import HEADER_SIZE, decode_header, scan_segment
from journal_node.file_disk import below
from journal_node.get_journal import get_journal_blueprint
from journal_node.node import JournalNode
from namenode_stub.config import StubConfig
from namenode_stub.node import NameNodeStub
from namenode_stub.ports import free_port
from servlets.application import create_application
from servlets.http_server import HttpServer
from site_config.checkpoint_config import CheckpointConfig
from tests.checkpointer.standby_support import config_for
from tests.namenode_stub.stub_support import wait_until

JOURNAL = "ns1"
_CACHE_BYTES = 1 << 20


class ServedNode:
    """A JournalNode that may be stopped and started again, at the same addresses.

    Attributes:
        node: the JournalNode that the servers serve.
    """

    def __init__(self, root: Path, *, cache: bool = True) -> None:
        self.root = root
        self._cache = _CACHE_BYTES if cache else None
        self.rpc_port, self.http_port = free_port(), free_port()
        self._servers: tuple[RpcServer, HttpServer] | None = None
        self.node: JournalNode

    @property
    def current(self) -> Path:
        return self.root / JOURNAL / "current"

    def start(self) -> Self:
        self.root.mkdir(exist_ok=True)
        self.node = JournalNode(below(self.root), cache_bytes=self._cache)
        return self.serve()

    def serve(self) -> Self:
        http = HttpServer(create_application(get_journal_blueprint(self.node)), "127.0.0.1", self.http_port)
        services = [qjournal_service(self.node), inter_qjournal_service(self.node)]
        rpc = RpcServer(services, "127.0.0.1", self.rpc_port)
        http.start()
        self.node.announce(http.address[1], http.url)
        rpc.start()
        self._servers = rpc, http
        return self

    def stop(self) -> None:
        if self.reachable:
            self.cut_off()
            self.node.close()

    def cut_off(self) -> None:
        """Make the node unreachable while it continues to run."""
        assert self._servers is not None
        for server in self._servers:
            server.stop()
        self._servers = None

    @property
    def reachable(self) -> bool:
        return self._servers is not None


class Quorum:
    """Three JournalNodes as a context manager; the journal is not formatted yet."""

    def __init__(self, root: Path, *, cache: bool = True) -> None:
        root.mkdir(exist_ok=True)
        self.nodes = [ServedNode(root / f"jn{number}", cache=cache) for number in range(3)]
        self._writers: list[QuorumJournal] = []

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.start()
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()
        for node in self.nodes:
            node.stop()

    @property
    def uri(self) -> str:
        return f"qjournal://{';'.join(f'127.0.0.1:{node.rpc_port}' for node in self.nodes)}/{JOURNAL}"

    def settled_epochs(self) -> list[int]:
        """Wait until all running nodes have promised the same epoch, and return their promises.

        A writer waits only for the promises of a majority.
        """
        found: list[int] = []

        def agree() -> bool:
            running = [node.node for node in self.nodes if node.reachable]
            found[:] = [node.get_journal_state(JOURNAL).last_promised_epoch for node in running]
            return len(set(found)) == 1

        wait_until("the slowest node to promise", agree)
        return found

    def writer(self) -> QuorumJournal:
        """Open a quorum journal; the journal is closed together with the quorum."""
        journal = open_quorum_journal(self.uri, user="hdfs")
        self._writers.append(journal)
        return journal

    def format(self, namespace: StorageInfo) -> None:
        self.writer().format(namespace)


def config_of(quorum: Quorum, tmp_path: Path, *addresses: str, **changes: Any) -> CheckpointConfig:
    return config_for(tmp_path, *addresses, shared_edits=quorum.uri, **changes)


@contextmanager
def stub_on(quorum: Quorum, config: StubConfig) -> Iterator[NameNodeStub]:
    """Yield a stub that writes its edits to the quorum and to its directories."""
    shared = replace(config, edits=(*config.edits, quorum.uri), shared_edits=quorum.uri)
    with NameNodeStub(shared) as stub:
        yield stub


def write_recorded(
    quorum: Quorum, namespace: StorageInfo, folder: Path, *, leave_open: bool = False
) -> list[EditLogSegment]:
    """Write the finalized segments of `folder` to the quorum, each in one batch; the last segment may stay open."""
    segments = [segment for segment in list_segments(folder) if segment.last is not None]
    journal = quorum.writer()
    journal.recover(namespace)
    for segment in segments:
        assert segment.last is not None
        content = segment.path.read_bytes()
        writer: QuorumSegmentWriter = journal.start_segment(segment.first, decode_header(content))
        records = content[HEADER_SIZE : scan_segment(content).end]
        writer.append(RecordBatch(segment.first, segment.last, records))
        if segment is not segments[-1] or not leave_open:
            writer.finalize(segment.last)
    return segments


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    with Quorum(tmp_path / "nodes") as running:
        yield running
