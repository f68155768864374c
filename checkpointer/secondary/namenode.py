"""Calls to a NameNode that end when the caller is told to stop, whatever the NameNode does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from checkpointer.errors import CheckpointCancelledError
from hadoop_rpc.namenode_protocol import NamenodeClient

__all__ = ["NamenodeCalls"]

_SLICE_SECONDS = 0.25

T = TypeVar("T")


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
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(ask(client))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=run, name=f"namenode-{client.address}", daemon=True).start()
        while not wait([answer], _SLICE_SECONDS).done:
            if cancelled():
                self.close()
                raise CheckpointCancelledError(f"cancelled while {client.address} did not answer")
        return answer.result()

    def close(self) -> None:
        """Let go of the connection; the next call makes another."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            # A client that is just connecting does not let itself be closed before that ends.
            threading.Thread(target=client.close, name=f"close-{client.address}", daemon=True).start()
