"""How far a NameNode's edits were when it was asked last; whoever observes gets that answer without a call."""

from __future__ import annotations

import threading
from collections.abc import Callable

from checkpointer.roles.secondary.namenode import NamenodeCalls
from engine.errors import CheckpointCancelledError
from hadoop_common.errors import HdfsError
from hadoop_rpc.namenode_protocol import NamenodeClient


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
