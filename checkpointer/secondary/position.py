"""How far a NameNode's edits were when it was asked last; whoever observes gets that answer without a call."""

from __future__ import annotations

import threading
from collections.abc import Callable

from checkpointer.errors import CheckpointCancelledError, StorageError
from checkpointer.secondary.namenode import NamenodeCalls
from hadoop_common.errors import HdfsError
from hadoop_rpc.namenode_protocol import NamenodeClient

__all__ = ["NamenodePosition"]


class NamenodePosition:
    """The answer to the last `ask`, which may be an error; any thread may read it."""

    def __init__(self, calls: NamenodeCalls, namenode: str) -> None:
        self._calls = calls
        self._namenode = namenode
        self._lock = threading.Lock()
        self._known: int | HdfsError | None = None

    def ask(self, newest_image: int | None, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Ask the NameNode for its last transaction; `newest_image` is the txid of our newest image.

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
        if isinstance(found, int) and newest_image is not None and newest_image > found:
            found = StorageError(
                f"our newest image is of txid {newest_image}, but {self._namenode} has written no more than {found}: "
                "it was set back to an older state",
                hint="Empty the checkpoint directories, so that they begin with the NameNode's image.",
            )
        self._keep(found)

    def rolled(self, txid: int) -> None:
        """Note the first transaction of the segment that a roll began."""
        self._keep(txid)

    def txid(self, newest_image: int | None) -> int:
        """Where the NameNode was; it is asked only where it never was.

        Raises:
            HdfsError: it could not be asked, or our newest image is ahead of it.
        """
        with self._lock:
            known = self._known
        if known is None:
            self.ask(newest_image)
            return self.txid(newest_image)
        if isinstance(known, HdfsError):
            raise known
        return known

    def _keep(self, found: int | HdfsError) -> None:
        with self._lock:
            self._known = found
