"""A JournalNode and its journals; the first call for a journal opens it (JournalNode, JournalNodeRpcServer)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hadoop_common.addresses import is_this_host
from hadoop_common.errors import HdfsError
from hadoop_common.file_faults import as_hdfs_error, error_text
from hadoop_common.quantities import counted
from hadoop_common.recurring_fault import with_next
from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import IllegalArgumentRemoteError, JavaIOError, RemoteError, RpcError
from hadoop_rpc.qjournal_values import (
    JournaledEdits,
    JournalState,
    NodeManifest,
    PreparedRecovery,
    RequestInfo,
    SegmentState,
)
from journal_node import names, reading, recovery, upkeep
from journal_node.disk import JournalDisk
from journal_node.edits_cache import EditsCache
from journal_node.fetch import HttpFetch
from journal_node.hosted_journal import HostedJournal
from journal_node.reading import SegmentContent
from journal_node.recovery import SegmentFetch
from journal_node.rules import check_journal_id

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _JournalSlot:
    """Slot of a journal; the first call that can open the journal fills the slot.

    Attributes:
        damage: error message if the journal's VERSION or promises could not be read; otherwise "".
        promised: newest promise in a former folder of the journal that was replaced while this process ran.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    journal: HostedJournal | None = None
    failure: str = ""
    damage: str = ""
    promised: int = 0
    calls: int = 0
    kept: bool = False

    @property
    def is_needless(self) -> bool:
        """Whether the slot is unused. Unused slots must be removed, because callers may name any journal."""
        if self.calls or self.kept or (self.journal is not None and self.journal.is_formatted):
            return False
        try:
            return self.journal is None or not self.journal.storage.disk.names("")
        except OSError:
            return True


class JournalNode:
    """`QJournal` on local journals; thread-safe. Calls for different journals do not wait for each other.

    If a journal's folder fails, the call raises JavaIOError, as in Hadoop.

    Args:
        disks: function that maps a journal's id to its folder, such as `file_disk.below(root)`.
        fetch: fetches segments from other nodes.
        is_here: returns whether a host is this machine.
        cache_bytes: size of each journal's cache of the newest transactions; None for no cache.
        known: ids of the journals that are always accepted.
        most: maximum number of other journals; None if unlimited.
        format_not_empty: whether a journal with segments may be formatted.
    """

    def __init__(
        self,
        disks: Callable[[str], JournalDisk],
        *,
        fetch: SegmentFetch | None = None,
        is_here: Callable[[str], bool] = is_this_host,
        cache_bytes: int | None = None,
        known: Container[str] = (),
        most: int | None = None,
        format_not_empty: bool = True,
    ) -> None:
        self._disks = disks
        self._fetch: SegmentFetch = fetch if fetch is not None else HttpFetch()
        self._is_here = is_here
        self._cache_bytes = cache_bytes
        self._known = known
        self._most = most
        self._format_not_empty = format_not_empty
        self._lock = threading.Lock()
        self._slots: dict[str, _JournalSlot] = {}
        self._closed = False
        self._http_port = 0
        self._from_url: str | None = None

    def announce(self, http_port: int, from_url: str) -> None:
        """Set the HTTP port and URL that callers use to fetch segments."""
        self._http_port, self._from_url = http_port, from_url

    def close(self) -> None:
        """Close all journals; further calls are refused. A second call does nothing."""
        with self._lock:
            self._closed = True
            slots = list(self._slots.values())
        for slot in slots:
            # A call may be opening the journal.
            with slot.lock:
                journal = slot.journal
            if journal is not None:
                journal.close()

    def journals(self) -> list[HostedJournal]:
        with self._lock:
            slots = list(self._slots.values())
        return [slot.journal for slot in slots if slot.journal is not None]

    def failures(self) -> dict[str, str]:
        """Return, by id, the reason why a journal cannot be opened, or why its folder failed at the last call."""
        with self._lock:
            slots = list(self._slots.items())
        found = {name: slot.failure if slot.journal is None else _failure(slot.journal) for name, slot in slots}
        return {name: failure for name, failure in found.items() if failure}

    def open_journal(self, journal_id: str) -> HostedJournal:
        """Return the journal with an id, even if it is not formatted, and keep it open.

        Raises:
            RemoteError: the journal's folder cannot be used, or the node is closed.
        """
        with self._called(journal_id) as slot:
            slot.kept = True
            return self._opened(journal_id, slot)

    @contextmanager
    def _called(self, journal_id: str) -> Iterator[_JournalSlot]:
        """Yield the slot of a journal for one call, and remove an empty slot afterwards."""
        check_journal_id(journal_id)
        stored = self._is_stored(journal_id)
        with self._lock:
            self._refuse_when_closed()
            if not stored:
                self._refuse_unknown(journal_id)
            slot = self._slots.setdefault(journal_id, _JournalSlot())
            slot.calls += 1
        try:
            yield slot
        finally:
            with self._lock:
                slot.calls -= 1
                if slot.is_needless:
                    del self._slots[journal_id]
                    if slot.journal is not None:
                        slot.journal.close()

    def _opened(self, journal_id: str, slot: _JournalSlot) -> HostedJournal:
        with slot.lock, _refusals(journal_id):
            if slot.journal is not None and slot.journal.was_put_in_place():
                _LOG.warning("journal %s: its folder was replaced with another folder, which is opened now", journal_id)
                slot.promised = max(slot.promised, slot.journal.epochs.promised)
                slot.journal.close()
                slot.journal = None
            if slot.journal is None:
                self._refuse_when_closed()
                journal = self._make(journal_id)
                if slot.damage and _is_damaged(journal):
                    # The folder stays unlocked, because `journalnode format` needs the lock.
                    raise JavaIOError(slot.damage)
                try:
                    journal.open()
                    journal.keep_promise(slot.promised)
                except BaseException as fault:
                    slot.failure = _failure_text(fault) if isinstance(fault, Exception) else ""
                    journal.close()
                    if isinstance(fault, RemoteError) and _is_damaged(journal):
                        slot.failure = f"{fault.text}; next: {_replace_hint(journal_id)}"
                        slot.damage = f"journal {journal_id} is damaged: {slot.failure}"
                        raise JavaIOError(slot.damage) from fault
                    raise
                slot.failure = ""
                slot.damage = ""
                if journal.is_formatted:
                    _LOG.info("journal %s is in %s", journal_id, journal.storage.location)
                slot.journal = journal
            return slot.journal

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise JavaIOError("this JournalNode is stopping")

    def _is_stored(self, journal_id: str) -> bool:
        """Return whether an unknown journal is on disk, because its disk may have been mounted after the start."""
        if self._most is None or journal_id in self._known or journal_id in self._slots:
            return False
        with suppress(OSError):
            return self._disks(journal_id).exists(names.VERSION_FILE)
        return False

    def _refuse_unknown(self, journal_id: str) -> None:
        """Refuse further journals at the limit, because each journal uses descriptors and disk space."""
        if self._most is None or journal_id in self._known or journal_id in self._slots:
            return
        if sum(each not in self._known for each in self._slots) >= self._most:
            raise IllegalArgumentRemoteError(
                f"this JournalNode refuses the journal {journal_id[:80]!a}, because it "
                f"already serves {counted(self._most, 'journal')} outside its configuration"
            )

    def _make(self, journal_id: str) -> HostedJournal:
        cache = None if self._cache_bytes is None else EditsCache(self._cache_bytes)
        return HostedJournal(journal_id, self._disks(journal_id), cache=cache)

    def _is_own(self, url: str) -> bool:
        """Return whether `url` belongs to this node's HTTP server."""
        try:
            host, port = urlsplit(url).hostname, urlsplit(url).port
        except ValueError:
            return False
        return host is not None and port == self._http_port and self._is_here(host)

    @contextmanager
    def _working(self, journal_id: str) -> Iterator[HostedJournal]:
        with self._called(journal_id) as slot, _refusals(journal_id):
            journal = self._opened(journal_id, slot)
            try:
                yield journal
            except OSError as fault:
                journal.failure = _failure_text(fault)
                raise

    def is_formatted(self, journal_id: str) -> bool:
        with self._working(journal_id) as journal:
            return journal.is_formatted

    def format(self, journal_id: str, namespace: StorageInfo, *, force: bool) -> None:
        with self._working(journal_id) as journal:
            upkeep.format_journal(journal, namespace, force=force, not_empty=self._format_not_empty)

    def get_journal_state(self, journal_id: str) -> JournalState:
        with self._working(journal_id) as journal:
            journal.require_formatted()
            return JournalState(journal.epochs.promised, self._http_port, self._from_url)

    def get_storage_info(self, journal_id: str) -> StorageInfo:
        """Return a journal's VERSION to a node that formats itself (InterQJournalProtocol of Hadoop 3.5)."""
        with self._working(journal_id) as journal:
            return journal.require_formatted()

    def new_epoch(self, journal_id: str, namespace: StorageInfo, epoch: int) -> int | None:
        with self._working(journal_id) as journal:
            return journal.new_epoch(namespace, epoch)

    def start_log_segment(self, request: RequestInfo, txid: int, layout_version: int) -> None:
        with self._working(request.journal_id) as journal:
            journal.start_log_segment(request, txid, layout_version)

    def journal(self, request: RequestInfo, segment_txid: int, first_txid: int, count: int, records: bytes) -> None:
        with self._working(request.journal_id) as journal:
            journal.journal(request, segment_txid, first_txid, count, records)

    def heartbeat(self, request: RequestInfo) -> None:
        with self._working(request.journal_id) as journal:
            journal.heartbeat(request)

    def finalize_log_segment(self, request: RequestInfo, first: int, last: int) -> None:
        with self._working(request.journal_id) as journal:
            recovery.finalize_log_segment(journal, request, first, last)

    def purge_logs(self, request: RequestInfo, min_txid_to_keep: int) -> None:
        with self._working(request.journal_id) as journal:
            journal.purge_logs(request, min_txid_to_keep)

    def prepare_recovery(self, request: RequestInfo, segment_txid: int) -> PreparedRecovery:
        with self._working(request.journal_id) as journal:
            return recovery.prepare_recovery(journal, request, segment_txid)

    def accept_recovery(self, request: RequestInfo, state: SegmentState, from_url: str) -> None:
        with self._working(request.journal_id) as journal:
            recovery.accept_recovery(journal, request, state, from_url, self._fetch, self._is_own)

    def get_edit_log_manifest(self, journal_id: str, since: int, *, in_progress_ok: bool) -> NodeManifest:
        with self._working(journal_id) as journal:
            manifest = reading.edit_log_manifest(journal, since, in_progress_ok=in_progress_ok)
            return NodeManifest(manifest, self._http_port, self._from_url)

    def get_journaled_edits(self, journal_id: str, since: int, max_transactions: int) -> JournaledEdits:
        with self._working(journal_id) as journal:
            return reading.journaled_edits(journal, since, max_transactions)

    def find_segment(self, journal_id: str, first: int, *, in_progress_ok: bool) -> SegmentContent | None:
        """Return the segment that begins with `first`, to be sent; the caller closes its content."""
        with self._working(journal_id) as journal:
            return reading.find_segment(journal, first, in_progress_ok=in_progress_ok)

    def get_journal_ctime(self, journal_id: str) -> int:
        with self._working(journal_id) as journal:
            return journal.require_formatted().c_time

    def do_pre_upgrade(self, journal_id: str) -> None:
        with self._working(journal_id) as journal:
            upkeep.do_pre_upgrade(journal)

    def do_upgrade(self, journal_id: str, namespace: StorageInfo) -> None:
        with self._working(journal_id) as journal:
            upkeep.do_upgrade(journal, namespace)

    def do_finalize(self, journal_id: str) -> None:
        with self._working(journal_id) as journal:
            upkeep.do_finalize(journal)

    def can_roll_back(
        self, journal_id: str, storage: StorageInfo, previous: StorageInfo, target_layout_version: int
    ) -> bool:
        with self._working(journal_id) as journal:
            return upkeep.can_roll_back(journal, storage, previous, target_layout_version)

    def do_rollback(self, journal_id: str) -> None:
        with self._working(journal_id) as journal:
            upkeep.do_rollback(journal)

    def discard_segments(self, journal_id: str, first_txid: int) -> None:
        with self._working(journal_id) as journal:
            upkeep.discard_segments(journal, first_txid)


def _failure(journal: HostedJournal) -> str:
    """Return the failure of an open journal's folder, or a message if VERSION is missing; "" in all other cases."""
    if journal.failure or journal.is_formatted:
        return journal.failure
    with suppress(OSError):
        if damage := journal.storage.damage():
            return (
                f"{damage}; next: Copy VERSION from another JournalNode of this journal, then restart this JournalNode."
            )
    return ""


def _failure_text(fault: Exception) -> str:
    if isinstance(fault, RemoteError):
        # This node raised the error for a caller, so its message is complete, and its hint is for callers.
        return fault.text
    known = as_hdfs_error(fault)
    return with_next(error_text(fault), "" if known is None else known.hint)


def _is_damaged(journal: HostedJournal) -> bool:
    with suppress(OSError):
        return bool(journal.storage.damage())
    return False


def _replace_hint(journal_id: str) -> str:
    return (
        f"`checkpointer journalnode format --conf DIR --from-peers --journal {journal_id}` on that host: it sets the "
        "files of this journal aside, and fetches namespace and promises from the other JournalNodes"
    )


@contextmanager
def _refusals(journal_id: str) -> Iterator[None]:
    """Convert failures of a journal's folder to the errors that Hadoop reports."""
    try:
        yield
    except RpcError:
        raise
    except HdfsError as fault:
        raise JavaIOError(f"journal {journal_id}: {with_next(fault)}") from fault
    except OSError as fault:
        _LOG.error("the folder of journal %s fails: %s", journal_id, error_text(fault))
        raise JavaIOError(f"the folder of journal {journal_id} fails: {_failure_text(fault)}") from fault
