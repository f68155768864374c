"""Calls to a secondary's NameNode, which a cancellation ends, and the NameNode's last known transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from checkpointer.errors import ProgressPendingError
from checkpointer.roles.watched_call import watched
from engine.errors import CheckpointCancelledError
from hadoop_common.errors import HdfsError
from hadoop_rpc.client import NO_RETRY
from hadoop_rpc.namenode_protocol import NamenodeClient
from site_config.checkpoint_config import CheckpointConfig

# a poll queries only the newest transaction, and the next poll repeats a query without a response
_PROBE_TIMEOUT = 20.0

T = TypeVar("T")


def connect(config: CheckpointConfig) -> NamenodeClient:
    """Return an unconnected client of the first NameNode of `config`."""
    host, port = config.namenode_rpc_addresses[0]
    return NamenodeClient(host, port, user=config.rpc_user, timeout=config.rpc_timeout)


def connect_probe(config: CheckpointConfig) -> NamenodeClient:
    """Return a client for queries that the caller soon repeats; the client neither waits long nor retries."""
    host, port = config.namenode_rpc_addresses[0]
    limit = min(_PROBE_TIMEOUT, config.rpc_timeout)
    return NamenodeClient(host, port, user=config.rpc_user, timeout=limit, connect_timeout=limit, retry=NO_RETRY)


class NamenodeCalls:
    """Calls with a client from `connect`, each in a separate thread. Any thread may use this object."""

    def __init__(self, connect: Callable[[], NamenodeClient]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._client: NamenodeClient | None = None

    def call(self, ask: Callable[[NamenodeClient], T], cancelled: Callable[[], bool]) -> T:
        """Return the result of `ask`.

        Raises:
            RpcError: raised by `ask`.
            CheckpointCancelledError: `cancelled()` became true; the call is abandoned.
        """
        with self._lock:
            client = self._client = self._client or self._connect()
        try:
            return watched(lambda: ask(client), cancelled, client.address)
        except CheckpointCancelledError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next call opens another connection."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            # `close` blocks until a connecting client is connected.
            threading.Thread(target=client.close, name=f"close-{client.address}", daemon=True).start()


class NamenodePosition:
    """The NameNode's newest transaction or the error at the last `ask`; any thread may read it.

    Args:
        question: query of another position instead of the newest transaction.
    """

    def __init__(
        self, calls: NamenodeCalls, question: Callable[[NamenodeClient], int] = NamenodeClient.transaction_id
    ) -> None:
        self._calls = calls
        self._question = question
        self._lock = threading.Lock()
        self._known: int | HdfsError | None = None

    def ask(self, cancelled: Callable[[], bool]) -> int | None:
        """Query the NameNode's newest transaction; return None if the NameNode does not answer.

        Raises:
            CheckpointCancelledError: `cancelled()` became true; the known position does not change.
        """
        found: int | HdfsError
        try:
            found = self._calls.call(self._question, cancelled)
        except CheckpointCancelledError:
            raise
        except HdfsError as error:
            found = error
        self._keep(found)
        return found if isinstance(found, int) else None

    def rolled(self, txid: int) -> None:
        """Record the first transaction of the segment that a roll began."""
        self._keep(txid)

    def txid(self) -> int:
        """Return the last known position without waiting for the NameNode.

        Raises:
            ProgressPendingError: no query has ended yet.
            HdfsError: the NameNode could not be queried.
        """
        with self._lock:
            known = self._known
        if known is None:
            raise ProgressPendingError("the NameNode has not answered yet")
        if isinstance(known, HdfsError):
            raise known
        return known

    def _keep(self, found: int | HdfsError) -> None:
        with self._lock:
            self._known = found
