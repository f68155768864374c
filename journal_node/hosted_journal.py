"""One journal of a JournalNode: its promises, and the segment that is being written (Journal).

`rules` makes the decisions, and this module makes them durable. A promise and a writer's epoch are on disk before they
take effect. A batch is written before it is acknowledged. It is also synced, unless a majority is known to have the
batch. A failed write closes the open segment, so that no later batch can follow a gap. Calls of writers hold the lock;
calls of readers do not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import IllegalStateError, JavaIOError, JournalNotFormattedError
from hadoop_rpc.qjournal_values import RequestInfo
from journal_node import names
from journal_node.counters import JournalCounters, SyncTimes
from journal_node.disk import JournalDisk, JournalOutput
from journal_node.edits_cache import EditsCache
from journal_node.rules import (
    Epochs,
    HostedSegment,
    WriterAdmission,
    admit,
    admit_write,
    check_batch,
    check_namespace,
    check_size,
    check_start,
    promise,
)
from journal_node.segment_files import StoredSegment
from journal_node.segment_scan import SegmentEnd
from journal_node.storage import JournalStorage

_LOG = logging.getLogger(__name__)

_SLOW_SYNC_SECONDS = 1.0


class HostedJournal:
    """The journal in the folder `disk`, with one writer at a time, and readers that never wait for the writer.

    Methods raise RemoteError for a refusal, and OSError or JournalError if the folder fails.

    Args:
        journal_id: name of the journal, for logs.
        cache: cache of the newest transactions; None for no cache.
        clock: returns seconds; measures the duration of syncs.

    Attributes:
        highest: newest transaction on disk.
        failure: last error of the folder; the next written batch clears it.
    """

    def __init__(
        self,
        journal_id: str,
        disk: JournalDisk,
        *,
        cache: EditsCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.journal_id = journal_id
        self.storage = JournalStorage(disk)
        self.cache = cache
        self.counters = JournalCounters()
        self.sync_times = SyncTimes(clock)
        self.lock = threading.RLock()
        self.epochs = Epochs()
        self.highest = 0
        self.failure = ""
        self._closed = False
        self._clock = clock
        self._open: HostedSegment | None = None
        self._output: JournalOutput | None = None

    def open(self) -> None:
        self.storage.open()
        if self.storage.info is not None:
            self.reload()

    def close(self) -> None:
        """Release the folder; the segment in progress does not change. Later calls are refused."""
        with self.lock:
            self._closed = True
            self.abort()
            self.storage.close()

    @property
    def is_formatted(self) -> bool:
        return self.storage.info is not None

    def was_put_in_place(self) -> bool:
        """Return whether another process has formatted or mounted the folder since this journal was opened.

        Raises:
            OSError: the folder cannot be read.
        """
        if self.storage.disk.is_replaced():
            return True
        if self.is_formatted:
            return False
        with self.lock:
            # This process holds the lock while it formats the folder.
            return not self.is_formatted and self.storage.disk.exists(names.VERSION_FILE)

    def keep_promise(self, epoch: int) -> None:
        """Promise at least `epoch`, which this node promised before its folder was replaced."""
        with self.lock:
            if self.is_formatted and epoch > self.epochs.promised:
                self.storage.save_promise(epoch)
                self.epochs = replace(self.epochs, promised=epoch)

    def require_formatted(self) -> StorageInfo:
        """Return the namespace of the journal.

        Raises:
            JournalNotFormattedError: the journal is not formatted.
        """
        self.require_open()
        info = self.storage.info
        if info is None:
            raise JournalNotFormattedError(f"journal {self.journal_id} in {self.storage.location} is not formatted")
        return info

    def require_open(self) -> None:
        """Raise JavaIOError after `close`, because another process may use the folder."""
        if self._closed:
            raise JavaIOError(f"journal {self.journal_id} is closed")

    @property
    def open_segment(self) -> HostedSegment | None:
        """The segment that is being written."""
        return self._open

    @property
    def lag(self) -> int:
        """Number of committed transactions that this node lacks."""
        return max(0, self.epochs.committed - self.highest)

    def reload(self) -> None:
        """Load the epochs and the newest transaction after the whole folder has changed."""
        self.abort()
        self.epochs = self.storage.load_epochs()
        self.highest = 0
        self._find_latest()
        self.forget_cached()

    def _find_latest(self) -> int | None:
        """Return the first txid of the newest segment with a transaction; set empty segments aside."""
        for segment in reversed(self.storage.segments.listed()):
            end = self.end_of(segment)
            if end.last is None and not end.damage:
                self.storage.segments.set_aside(segment, ".empty")
                continue
            self.highest = segment.first - 1 if end.last is None else end.last
            return segment.first
        return None

    def end_of(self, segment: StoredSegment) -> SegmentEnd:
        """Return the end of a segment, and log damage."""
        end = self.storage.segments.end_of(segment)
        if end.damage:
            _LOG.error("%s in %s is damaged: %s", segment.name, self.storage.location, end.damage)
        return end

    def abort(self) -> None:
        """Close the open segment, which stays in progress."""
        output, self._output, self._open = self._output, None, None
        if output is not None:
            output.close()

    def forget_cached(self) -> None:
        """Clear the cache, which may differ from a majority after another writer's start or a replaced copy."""
        if self.cache is not None:
            self.cache.clear()

    def admit(self, admission: WriterAdmission) -> None:
        """Make the state after a writer's call durable and apply it; raise the call's refusal, if any."""
        now, epochs = self.epochs, admission.epochs
        if epochs.promised != now.promised:
            # otherwise, the next start or the next writer would undo the upgrade together with the promise
            self.settle_upgrade()
            _LOG.info("%s: epoch %d is promised after %d", self.journal_id, epochs.promised, now.promised)
            self.storage.save_promise(epochs.promised)
        self.epochs = replace(epochs, committed=now.committed)
        if epochs.committed != now.committed:
            self.storage.save_committed(epochs.committed)
        self.epochs = epochs
        if admission.refusal is not None:
            raise admission.refusal

    def check_vote(self) -> None:
        """Refuse to report segments to a writer while this node lacks earlier segments.

        Raises:
            JavaIOError: the node formatted itself, and no segment has begun on this node since then.
        """
        if self.storage.self_formatted:
            problem = "was formatted from its peers and lacks the earlier segments"
            raise JavaIOError(f"journal {self.journal_id} {problem}; it participates from the next segment on")

    def settle_upgrade(self) -> None:
        """Undo an upgrade that its NameNode has not completed, when a writer without this upgrade begins.

        Otherwise, the next start would undo the upgrade, and remove all edits written since then.
        """
        if self.storage.settle_upgrade():
            _LOG.warning("%s: an upgrade was not completed and is undone, because a writer has begun", self.journal_id)
            self.reload()

    def new_epoch(self, namespace: StorageInfo, epoch: int) -> int | None:
        with self.lock:
            self.require_open()
            self.settle_upgrade()
            check_namespace(self.require_formatted(), namespace, self.storage.location)
            self.check_vote()
            self.admit(WriterAdmission(promise(self.epochs, epoch)))
            self.abort()
            return self._find_latest()

    def start_log_segment(self, request: RequestInfo, txid: int, layout_version: int) -> None:
        with self.lock:
            self.require_open()
            self.settle_upgrade()
            self.check(request)
            check_start(txid, layout_version)
            if self._open is not None:
                _LOG.warning("%s: segment %d begins, but %d was not ended", self.journal_id, txid, self._open.first)
                self.abort()
            self._check_free(txid)
            if self.epochs.writer != request.epoch:
                self.storage.save_writer(request.epoch)
                self.epochs = replace(self.epochs, writer=request.epoch)
                self.forget_cached()
            self.storage.segments.forget_accepted(txid)
            self._output = self.storage.segments.start(txid, layout_version)
            self._open = HostedSegment(txid, txid, layout_version, self._output.written)
            if self.storage.self_formatted:
                self.storage.forget_self_formatted()

    def journal(self, request: RequestInfo, segment_txid: int, first_txid: int, count: int, records: bytes) -> None:
        with self.lock:
            self.require_formatted()
            self.admit(admit_write(self.epochs, request))
            if count == 0:
                return  # An empty batch only reports the committed txid.
            check_size(count, len(records))
            verdict = check_batch(self._open, segment_txid, first_txid)
            if verdict.abort:
                self.abort()
            if verdict.refusal is not None:
                raise verdict.refusal
            self._append(first_txid, count, records)

    def heartbeat(self, request: RequestInfo) -> None:
        with self.lock:
            self.check(request)

    def end_writing(self, first: int) -> int | None:
        """Close the segment that begins with `first`, and return its last txid; None if that segment is not open."""
        segment = self._open
        if segment is None or segment.first != first:
            return None
        self.abort()
        return segment.next_txid - 1

    def purge_logs(self, request: RequestInfo, min_txid_to_keep: int) -> None:
        with self.lock:
            self.check(request)
            open_first = None if self._open is None else self._open.first
            self.storage.segments.purge(min_txid_to_keep, keep=open_first)

    def check(self, request: RequestInfo) -> None:
        """Accept a writer's call, or raise its refusal."""
        self.require_formatted()
        self.admit(admit(self.epochs, request))

    def _check_free(self, txid: int) -> None:
        existing = self.storage.segments.find(txid)
        if existing is None:
            return
        if not existing.in_progress:
            raise IllegalStateError(f"{existing.name} is already finalized, so a segment cannot begin with txid {txid}")
        # A writer that stopped immediately after the start left only START_LOG_SEGMENT, which every writer repeats.
        end = self.end_of(existing)
        if end.damage or end.last != txid:
            raise IllegalStateError(f"{existing.name} exists with transactions other than {txid}")

    def _append(self, first_txid: int, count: int, records: bytes) -> None:
        assert self._open is not None
        assert self._output is not None
        last = first_txid + count - 1
        # Committed transactions are durable on a majority, so the sync is skipped while this node is catching up.
        lagging = last <= self.epochs.committed
        began = self._clock()
        try:
            self._output.append(records, sync=not lagging)
        except OSError:
            self.abort()
            raise
        seconds = self._clock() - began
        if seconds > _SLOW_SYNC_SECONDS:
            _LOG.warning("%s: the sync of txids %d to %d took %.1f s", self.journal_id, first_txid, last, seconds)
        self.counters.add_batch(count, len(records), seconds, lagging=lagging, at=time.time())
        self.sync_times.add(seconds)
        self.highest, self.failure = last, ""
        self._open = replace(self._open, next_txid=last + 1, size=self._output.written)
        if self.cache is not None:
            self.cache.store(records, first_txid, last, self._open.layout_version)
