"""Changes to the live namespace: encoded, applied and logged under one lock, and durable before acknowledgement."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.errors import NamespaceError, ReplayError
from engine.loaded_image import LoadedImage
from engine.namespace import Namespace
from engine.replay import apply
from journal import ops
from journal.binary_codec import encode_op
from journal.bookkeeper.errors import LedgerFencedError
from journal.edit_log_writer import EditLogWriter
from journal.errors import JournalError, JournalInUseError, OpEncodingError
from journal.file_ops import RetryCacheOp
from journal.quorum.errors import WriterFencedError
from namenode_stub.backup_streams import BackupStreams
from namenode_stub.fail_stop import FailStop, NotServingError, ShuttingDownError, StandbyRefusalError
from namenode_stub.names.caller import LOCAL_CALL, ClientCall
from namenode_stub.names.client_read import ClientRead
from namenode_stub.names.safe_mode import SafeMode
from namenode_stub.refusals import OperationRefusedError

_FENCED = WriterFencedError, LedgerFencedError, JournalInUseError
_FENCED_HINT = "Restart this NameNode as a standby: `namenode-stub run --standby`."


class Transactions:
    """The only way to change the namespace; thread-safe.

    `perform` encodes, applies and then logs a change, so that a refused change leaves no trace. If a fault occurs after
    the namespace has begun to change, `fail_stop` trips and service ends, because memory may then differ from the log,
    which is authoritative.

    Args:
        loaded: the namespace, up to date, with its base image; only this object changes it from now on.
        log: writer whose next transaction id follows the namespace's last transaction id.
        layout_version: layout of the log's segments.
        fail_stop: shared with other parts that may end the service.
        streams: further receivers of the edits.
        page_size: maximum number of children in one page of a listing (dfs.ls.limit).

    Attributes:
        lock: must be held to read the namespace.
        safe_mode: while it is on, `perform` refuses changes.
    """

    def __init__(
        self,
        loaded: LoadedImage,
        log: EditLogWriter,
        layout_version: int,
        fail_stop: FailStop,
        streams: BackupStreams,
        page_size: int,
    ) -> None:
        self.loaded = loaded
        self.log = log
        self.layout_version = layout_version
        self.fail_stop = fail_stop
        self.safe_mode = SafeMode()
        self._page_size = page_size
        self.lock = threading.RLock()
        self._streams = streams
        self._refusal: Callable[[], NotServingError] | None = None
        self._left = False

    @property
    def namespace(self) -> Namespace:
        return self.loaded.namespace

    @property
    def last_txid(self) -> int:
        with self.lock:
            return self.namespace.last_txid

    def rebase(self, loaded: LoadedImage) -> None:
        """Continue with an equal namespace on a newer base image; the caller holds the lock.

        Raises:
            ValueError: the new namespace ends at another transaction.
        """
        namespace = loaded.namespace
        if namespace.last_txid != self.namespace.last_txid:
            raise ValueError(f"the namespace is at txid {self.namespace.last_txid}, not {namespace.last_txid}")
        namespace.caches.copy_unsaved_from(self.namespace.caches)
        self.loaded = loaded

    # ---- changes -------------------------------------------------------------------------------------------

    @property
    def ending(self) -> bool:
        """Whether the namespace refuses changes because the NameNode is shutting down or no longer active."""
        return self._refusal is not None

    def end(self, refusal: Callable[[], NotServingError] = ShuttingDownError) -> None:
        """Refuse changes from now on. When this method returns, all running changes have been logged."""
        with self.lock:
            self._refusal = refusal

    def leave(self) -> None:
        """Refuse everything from now on. When this method returns, the namespace has no readers."""
        with self.lock:
            self._left = True

    def _check_serving(self, *, reads: bool = False) -> None:
        self.fail_stop.check()
        if self._left or (self._refusal is not None and not reads):
            raise (self._refusal or StandbyRefusalError)()

    @contextmanager
    def change(self, what: str) -> Iterator[None]:
        """Hold the lock for one client operation; if no error occurs, its changes are durable at the end.

        A response without a change also waits for the disk, because it may reveal other clients' changes.

        Args:
            what: operation, for the safe mode message, such as "create file /a".

        Raises:
            InSafeModeError: safe mode forbids changes.
            NotServingError: `fail_stop` tripped, now or earlier, or the NameNode is ending or not active; the client
                receives no acknowledgement.
        """
        with self.lock:
            self._check_serving()
            self.safe_mode.check(what)
            yield
            txid = self.log.last_txid
        self.commit(txid)

    @contextmanager
    def view(self) -> Iterator[Namespace]:
        """Hold the lock to read the namespace.

        Raises:
            NotServingError: `fail_stop` tripped, or the NameNode is no longer active.
        """
        with self.lock:
            self._check_serving(reads=True)
            yield self.namespace

    @contextmanager
    def reading(self) -> Iterator[ClientRead]:
        """Hold the lock to answer clients; raise the same errors as `view`."""
        with self.view():
            yield ClientRead.of(lambda: self.loaded, self._page_size)

    def perform(self, op: ops.EditOp, caller: ClientCall = LOCAL_CALL) -> int:
        """Encode, apply and log an operation of a caller inside `change`; return the transaction id.

        Raises:
            OperationRefusedError: the namespace does not allow the operation; nothing changed.
            NotServingError: the operation may have been applied in part.
        """
        self.fail_stop.check()
        op.txid = self.log.last_txid + 1
        if isinstance(op, RetryCacheOp):
            op.rpc_client_id, op.rpc_call_id = caller.client_id, caller.call_id
        try:
            record = encode_op(op, self.layout_version)
        except OpEncodingError as error:
            raise OperationRefusedError(error.message, hint=error.hint) from error
        try:
            apply(self.namespace, op)
        except Exception as error:
            # a handler checks an operation before it changes anything; other faults may occur after changes have begun
            if isinstance(error, ReplayError) and isinstance(error.__cause__, NamespaceError):
                raise OperationRefusedError(error.message, hint=error.hint) from error
            raise self.fail_stop.trip(f"{op.name} at txid {op.txid} may be applied in part: {error}") from error
        try:
            txid = self.log.write(op)
        except Exception as error:
            raise self.fail_stop.trip(f"{op.name} at txid {op.txid} was not logged: {error}") from error
        self._streams.logged(txid, record)
        return txid

    def commit(self, txid: int) -> None:
        """Wait for the disk outside the lock, so that other threads can continue."""
        try:
            self.log.sync(txid)
        except JournalError as error:
            raise self._stopped("the edit log failed", error) from error
        self._streams.flush()
        self.fail_stop.check()

    def _stopped(self, what: str, error: JournalError) -> NotServingError:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, _FENCED):
            cause = cause.__cause__
        if cause is None:
            return self.fail_stop.trip(f"{what}: {error.message}")
        return self.fail_stop.trip(f"another NameNode has taken over: {error.message}", _FENCED_HINT)

    def roll(self) -> int:
        """End the segment and start the next segment; return the new segment's first transaction id."""
        with self.lock:
            self._check_serving()
            try:
                self.log.roll()
            except JournalError as error:
                raise self._stopped("the edit log could not be rolled", error) from error
            # the records that end and start a segment are transactions too
            self.namespace.last_txid = self.log.last_txid
            first = self.log.segment_first_txid
            start = encode_op(ops.StartLogSegmentOp(txid=first), self.layout_version)
            end = encode_op(ops.EndLogSegmentOp(txid=first - 1), self.layout_version)
            self._streams.rolled(first, start, end)
        self._streams.flush()
        self.fail_stop.check()
        return first


class NamespaceOperations:
    """Base of the operations on the live namespace."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @property
    def _namespace(self) -> Namespace:
        # not cached, because a checkpoint may replace the namespace
        return self._transactions.namespace


def now() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
