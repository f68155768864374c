"""Streams of the edit log to registered BackupNodes over JournalProtocol (BackupJournalManager)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from hadoop_common.errors import HdfsError
from hadoop_common.process_user import process_user
from hadoop_rpc.journal_protocol import JournalClient, JournalInfo
from hadoop_rpc.namenode_protocol import NamenodeRegistration
from site_config.addresses import parse_host_port

_LOG = logging.getLogger(__name__)
_RPC_PORT = 50100  # dfs.namenode.backup.address
_EPOCH = 0  # the only epoch of Hadoop's active NameNode
_TIMEOUT = 60.0


@dataclass(slots=True)
class _Batch:
    """Consecutive transactions, or the beginning of a segment at `first` if `count` is 0."""

    first: int
    count: int = 0
    records: bytearray = field(default_factory=bytearray)


class _Stream:
    """Stream to one BackupNode; the lock of `BackupStreams` guards `pending`, and `sending` serialises calls."""

    def __init__(self, client: JournalClient, info: JournalInfo) -> None:
        self.client = client
        self.pending: list[_Batch] = []
        # whether the node has received the open segment from its beginning; otherwise it waits for the next segment
        self.in_segment = False
        self.sending = threading.Lock()
        self._info = info

    def add(self, txid: int, record: bytes) -> None:
        if not self.pending or not self.pending[-1].count:
            self.pending.append(_Batch(txid))
        batch = self.pending[-1]
        batch.count += 1
        batch.records += record

    def send(self, batch: _Batch) -> None:
        if batch.count:
            self.client.journal(self._info, _EPOCH, batch.first, batch.count, bytes(batch.records))
        else:
            self.client.start_log_segment(self._info, _EPOCH, batch.first)


class BackupStreams:
    """Streams of the edits to BackupNodes.

    After its registration, and after a failure, a BackupNode receives the edits from the next segment on. Therefore, a
    failed node delays the NameNode for at most one call.

    Args:
        info: namespace of the edits.
        connect: makes a client for a host and a port.
    """

    def __init__(self, info: JournalInfo, connect: Callable[[str, int], JournalClient] | None = None) -> None:
        self._info = info
        self._connect = connect or _connect
        self._lock = threading.Lock()
        self._streams: dict[str, _Stream] = {}

    def register(self, node: NamenodeRegistration) -> None:
        """Add a BackupNode; a node that is already registered continues unchanged.

        Raises:
            ValueError: the node's address is malformed.
        """
        host, port = parse_host_port(node.rpc_address, _RPC_PORT)
        with self._lock:
            if node.rpc_address not in self._streams:
                self._streams[node.rpc_address] = _Stream(self._connect(host, port), self._info)
                _LOG.info("backup node %s receives the edits from the next segment on", node.rpc_address)

    def release(self, node: NamenodeRegistration) -> None:
        with self._lock:
            stream = self._streams.pop(node.rpc_address, None)
        if stream is not None:
            stream.client.close()
            _LOG.info("backup node %s is released", node.rpc_address)

    def close(self) -> None:
        """Stop sending."""
        with self._lock:
            streams, self._streams = list(self._streams.values()), {}
        for stream in streams:
            stream.client.close()

    # ---- edits, in the order of transaction ids ----------------------------------------------------------------

    def logged(self, txid: int, record: bytes) -> None:
        """Receive an operation; `record` is its encoding in the log."""
        with self._lock:
            for stream in self._streams.values():
                if stream.in_segment:
                    stream.add(txid, record)

    def rolled(self, first_txid: int, start: bytes, end: bytes) -> None:
        """Receive the end record of a segment and the start record of the segment that begins at `first_txid`."""
        with self._lock:
            for stream in self._streams.values():
                if stream.in_segment:
                    stream.add(first_txid - 1, end)
                stream.in_segment = True
                stream.pending.append(_Batch(first_txid))
                stream.add(first_txid, start)

    def flush(self) -> None:
        """Send the operations logged so far; the NameNode acknowledges them only afterwards."""
        with self._lock:
            streams = list(self._streams.items())
        for address, stream in streams:
            # the first caller sends for all waiting callers, which preserves the order of the log
            with stream.sending:
                with self._lock:
                    batches, stream.pending = stream.pending, []
                self._send(address, stream, batches)

    def _send(self, address: str, stream: _Stream, batches: list[_Batch]) -> None:
        try:
            for batch in batches:
                stream.send(batch)
        except HdfsError as error:
            with self._lock:
                stream.in_segment = any(not batch.count for batch in stream.pending)
                stream.pending = stream.pending[_first_segment(stream.pending) :]
            _LOG.warning("backup node %s receives no edits until the next segment: %s", address, error)


def _first_segment(batches: list[_Batch]) -> int:
    """Return the index of the first beginning of a segment, or the number of batches."""
    return next((at for at, batch in enumerate(batches) if not batch.count), len(batches))


def _connect(host: str, port: int) -> JournalClient:
    return JournalClient(host, port, user=process_user(), timeout=_TIMEOUT)
