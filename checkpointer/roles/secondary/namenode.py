"""Calls to a NameNode that end when the caller is told to stop, whatever the NameNode does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from checkpointer.roles.watched_call import watched
from engine.errors import CheckpointCancelledError
from hadoop_common.errors import HdfsError
from hadoop_rpc.namenode_protocol import NamenodeClient
from hadoop_rpc.retry import NO_RETRY
from site_config.checkpoint_config import CheckpointConfig

# A poll only looks how far the NameNode is; one that does not answer soon is looked at again at the next.
_LOOK_SECONDS = 20.0

T = TypeVar("T")


def connect(config: CheckpointConfig) -> NamenodeClient:
    """A client of the first NameNode of `config`, not connected yet."""
    host, port = config.namenode_rpc_addresses[0]
    return NamenodeClient(host, port, user=config.rpc_user, timeout=config.rpc_timeout)


def connect_to_look(config: CheckpointConfig) -> NamenodeClient:
    """The same for questions that are asked again soon: it neither waits long nor repeats."""
    host, port = config.namenode_rpc_addresses[0]
    limit = min(_LOOK_SECONDS, config.rpc_timeout)
    return NamenodeClient(host, port, user=config.rpc_user, timeout=limit, connect_timeout=limit, retry=NO_RETRY)


class NamenodeCalls:
    """Makes calls with a client from `connect`, each in a thread of its own; any thread may call."""

    def __init__(self, connect: Callable[[], NamenodeClient]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._client: NamenodeClient | None = None

    def call(self, ask: Callable[[NamenodeClient], T], cancelled: Callable[[], bool]) -> T:
        """What `ask` returns.

        Raises:
            RpcError: what `ask` raised.
            CheckpointCancelledError: `cancelled()` became true; the call is left to itself.
        """
        with self._lock:
            client = self._client = self._client or self._connect()
        try:
            return watched(lambda: ask(client), cancelled, client.address)
        except CheckpointCancelledError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the connection; the next call makes another."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            # A client that is just connecting does not let itself be closed before that ends.
            threading.Thread(target=client.close, name=f"close-{client.address}", daemon=True).start()


class NamenodePosition:
    """The answer to the last `ask`, which may be an error; any thread may read it."""

    def __init__(self, calls: NamenodeCalls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._known: int | HdfsError | None = None

    def ask(self, cancelled: Callable[[], bool] = lambda: False) -> int | None:
        """Ask the NameNode for its last transaction; None where it does not say.

        Raises:
            CheckpointCancelledError: `cancelled()` became true; what was known stays.
        """
        found: int | HdfsError
        try:
            found = self._calls.call(NamenodeClient.transaction_id, cancelled)
        except CheckpointCancelledError:
            raise
        except HdfsError as error:
            found = error
        self._keep(found)
        return found if isinstance(found, int) else None

    def rolled(self, txid: int) -> None:
        """Note the first transaction of the segment that a roll began."""
        self._keep(txid)

    def txid(self) -> int:
        """Where the NameNode was; it is asked only where it never was.

        Raises:
            HdfsError: it could not be asked.
        """
        with self._lock:
            known = self._known
        if known is None:
            self.ask()
            return self.txid()
        if isinstance(known, HdfsError):
            raise known
        return known

    def _keep(self, found: int | HdfsError) -> None:
        with self._lock:
            self._known = found
