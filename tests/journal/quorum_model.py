"""A JournalNode in memory that behaves as Hadoop's `Journal` does; the tests compare the real node with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from hadoop_common.storage_info import StorageInfo
from hadoop_rpc.errors import (
    AssertionRemoteError,
    EditsCacheMissError,
    IllegalArgumentRemoteError,
    IllegalStateError,
    JavaIOError,
    JournalNotFormattedError,
    JournalOutOfSyncError,
    NewerTxidError,
)
from hadoop_rpc.namenode_values import EditLogManifest, RemoteEditLog
from hadoop_rpc.qjournal_values import (
    JournaledEdits,
    JournalState,
    NodeManifest,
    PreparedRecovery,
    RequestInfo,
    SegmentState,
)
from journal.segment_format import HEADER_SIZE, encode_header
from journal.segment_frames import iter_frames

NAMESPACE = StorageInfo(-63, 12345, 0, "CID-quorum", "BP-quorum")
LAYOUT = -63
JOURNAL = "myjournal"


class NodeCrashedError(Exception):
    """The death of a node during a call; durable changes are kept."""


@dataclass(frozen=True)
class Snapshot:
    """State of a node after a crash.

    Attributes:
        finalized: records of its finalized segments by first txid.
        opened: records of its open segments by first txid; the snapshot of a real node omits these segments.
        seen: latest epoch in which an open segment may have been written.
        newest: the response to newEpoch.
        reported: the expected response to prepareRecovery for a segment, and its records.
    """

    promised: int
    finalized: dict[int, list[bytes]]
    opened: dict[int, list[bytes]]
    seen: Callable[[int], int]
    newest: int | None
    reported: Callable[[int], tuple[PreparedRecovery, list[bytes]]]


@dataclass
class Segment:
    """A segment whose first `synced` records survive a crash."""

    first: int
    records: list[bytes] = field(default_factory=list)
    finalized: bool = False
    synced: int = 0

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1

    @property
    def content(self) -> bytes:
        return encode_header(LAYOUT) + b"".join(self.records)

    @property
    def state(self) -> SegmentState:
        return SegmentState(self.first, self.last, not self.finalized)


def first_of(url: str) -> int:
    """Return the first txid in a URL of /getJournal."""
    return int(parse_qs(urlsplit(url).query)["segmentTxId"][0])


def split_records(records: bytes) -> list[bytes]:
    return [records[frame.start : frame.end] for frame in iter_frames(records, 0, len(records))]


class Disk:
    """The durable state of a node."""

    def __init__(self) -> None:
        self.namespace: StorageInfo | None = None
        self.promised = 0
        self.writer = 0
        self.committed: int | None = None
        self.segments: dict[int, Segment] = {}
        self.accepted: dict[int, tuple[SegmentState, int]] = {}
        self.downloads: dict[tuple[int, int], list[bytes]] = {}


class ModelNode:
    """`QJournal` on one journal in memory.

    Args:
        name: `host:port`.
        fetch: returns the content at a URL of another node's /getJournal.
        tells_committed: whether manifests contain the committed txid, as they do since Hadoop 3.0.
        caches: whether getJournaledEdits is served.
        strict: whether to act as our node does where our node is stricter than Hadoop's: copies of equal length may
            differ, and the cache has no transactions that a recovery replaced.
    """

    def __init__(
        self,
        name: str,
        fetch: Callable[[str], bytes],
        *,
        tells_committed: bool = True,
        caches: bool = True,
        strict: bool = False,
    ) -> None:
        self.name = name
        self.disk = Disk()
        self.crash_at = ""
        self.torn = 0
        self._fetch = fetch
        self._tells_committed = tells_committed
        self._caches = caches
        self._strict = strict
        self._boot()

    def _boot(self) -> None:
        self._open: Segment | None = None
        self._serial = -1
        self._cache: dict[int, bytes] = {}
        newest = self._newest()
        self.highest = 0 if newest is None else self.disk.segments[newest].last

    @property
    def promised(self) -> int:
        return self.disk.promised

    def crash(self) -> None:
        """Lose everything that is not durable, and start again."""
        for segment in self.disk.segments.values():
            if not segment.finalized:
                del segment.records[segment.synced :]
        self.disk.committed = None  # BestEffortLongFile is never synced
        self.crash_at = ""
        self._boot()

    def _point(self, name: str) -> None:
        if self.crash_at == name:
            raise NodeCrashedError(name)

    def serve(self, url: str) -> bytes:
        """Return the response to /getJournal."""
        segment = self.disk.segments.get(first_of(url))
        if segment is None:
            raise JavaIOError(f"404 {url}")
        return segment.content

    # ---- whole journals ----

    def is_formatted(self, journal_id: str) -> bool:
        return self.disk.namespace is not None

    def format(self, journal_id: str, namespace: StorageInfo, *, force: bool) -> None:
        if self.disk.namespace is not None and self.disk.segments and not force:
            raise JavaIOError("the journal holds data")
        self.disk = Disk()
        self.disk.namespace = namespace
        self._boot()

    def _require_formatted(self) -> StorageInfo:
        if self.disk.namespace is None:
            raise JournalNotFormattedError(f"{self.name} is not formatted")
        return self.disk.namespace

    def get_journal_state(self, journal_id: str) -> JournalState:
        self._require_formatted()
        return JournalState(self.disk.promised, 8480)

    def new_epoch(self, journal_id: str, namespace: StorageInfo, epoch: int) -> int | None:
        own = self._require_formatted()
        if (own.namespace_id, own.cluster_id) != (namespace.namespace_id, namespace.cluster_id):
            raise JavaIOError("another namespace")
        if epoch <= self.disk.promised:
            raise JavaIOError(f"Proposed epoch {epoch} <= last promise {self.disk.promised}")
        self._promise(epoch)
        self._point("promised")
        self._open = None
        return self._newest()

    def _promise(self, epoch: int) -> None:
        self.disk.promised = epoch
        self._serial = -1

    def _newest(self) -> int | None:
        for first in sorted(self.disk.segments, reverse=True):
            if self.disk.segments[first].records:
                return first
            del self.disk.segments[first]
        return None

    # ---- a writer's calls ----

    def _check(self, request: RequestInfo) -> None:
        self._require_formatted()
        if request.epoch < self.disk.promised:
            raise JavaIOError(f"IPC's epoch {request.epoch} is less than the last promised epoch {self.disk.promised}")
        if request.epoch > self.disk.promised:
            self._promise(request.epoch)
        if request.serial <= self._serial:
            raise JournalOutOfSyncError(f"IPC serial {request.serial} was not higher than {self._serial}")
        self._serial = request.serial
        if request.committed_txid is not None:
            if request.committed_txid < (self.disk.committed or 0):
                raise IllegalArgumentRemoteError("the committed txid moves backward")
            self.disk.committed = request.committed_txid

    def heartbeat(self, request: RequestInfo) -> None:
        self._check(request)

    def start_log_segment(self, request: RequestInfo, txid: int, layout_version: int) -> None:
        self._check(request)
        self._open = None
        existing = self.disk.segments.get(txid)
        if existing is not None:
            if existing.finalized:
                raise IllegalStateError(f"there is a finalized segment {txid}")
            if existing.last != txid:
                raise IllegalStateError(f"segment {txid} holds transactions")
        self.disk.writer = request.epoch
        self._point("writer epoch written")
        self.disk.accepted.pop(txid, None)
        self._open = self.disk.segments[txid] = Segment(txid)

    def journal(self, request: RequestInfo, segment_txid: int, first_txid: int, count: int, records: bytes) -> None:
        self._check(request)
        if request.epoch != self.disk.writer:
            raise JavaIOError(f"IPC's epoch {request.epoch} is not the current writer epoch  {self.disk.writer}")
        if self._open is None:
            raise JournalOutOfSyncError("Can't write, no segment open")
        if self._open.first != segment_txid:
            self._open = None
            raise JournalOutOfSyncError(f"Writer out of sync: it is in segment {segment_txid}")
        if self._open.last + 1 != first_txid:
            raise JournalOutOfSyncError(f"Can't write txid {first_txid} expecting {self._open.last + 1}")
        batch = split_records(records)
        assert len(batch) == count
        if self.crash_at == "torn":
            self._open.records += batch[: self.torn % (count + 1)]
            self._open.synced = len(self._open.records)
            raise NodeCrashedError("torn")
        self._open.records += batch
        self.highest = self._open.last
        if self.highest > (self.disk.committed or 0):
            self._open.synced = len(self._open.records)
        if first_txid - 1 not in self._cache:
            self._cache.clear()
        self._cache |= dict(enumerate(batch, first_txid))
        self._point("written")

    def finalize_log_segment(self, request: RequestInfo, first: int, last: int) -> None:
        self._check(request)
        was_open = self._open is not None and self._open.first == first
        if self._open is not None and was_open:
            written, self._open = self._open, None
            if written.last != last:
                raise JournalOutOfSyncError(f"written up to {written.last}, not {last}")
        segment = self.disk.segments.get(first)
        if segment is None:
            raise JournalOutOfSyncError(f"no segment {first}")
        if segment.finalized:
            if segment.last != last:
                raise IllegalArgumentRemoteError(f"finalized at {segment.last}, not {last}")
        else:
            if segment.last != last:
                raise JournalOutOfSyncError(f"on disk up to {segment.last}, not {last}")
            if self._strict and not was_open and not self._is_known(request.epoch, first):
                raise JournalOutOfSyncError(f"segment {first} may be another writer's")
            segment.finalized = True
            segment.synced = len(segment.records)
            self._point("finalized")
        self.disk.accepted.pop(first, None)

    def _is_known(self, epoch: int, first: int) -> bool:
        accepted = self.disk.accepted.get(first)
        own = self.disk.writer == epoch and first == max(self.disk.segments)
        return own or (accepted is not None and accepted[1] == epoch)

    def purge_logs(self, request: RequestInfo, min_txid_to_keep: int) -> None:
        self._check(request)
        for first, segment in list(self.disk.segments.items()):
            # JNStorage decides by file names, and the name of an open segment contains only its first txid.
            newest = segment.last if segment.finalized else first
            if newest < min_txid_to_keep and segment is not self._open:
                del self.disk.segments[first]
        self.disk.accepted = {first: each for first, each in self.disk.accepted.items() if first >= min_txid_to_keep}

    # ---- recovery ----

    def prepare_recovery(self, request: RequestInfo, segment_txid: int) -> PreparedRecovery:
        self._check(request)
        self._open = None
        self._complete(segment_txid)
        segment = self.disk.segments.get(segment_txid)
        if segment is not None and not segment.records:
            del self.disk.segments[segment_txid]
        return self.reported(segment_txid)

    def _complete(self, segment_txid: int) -> None:
        """Complete an acceptance that a crash interrupted."""
        if segment_txid in self.disk.accepted:
            state, epoch = self.disk.accepted[segment_txid]
            records = self.disk.downloads.pop((segment_txid, epoch), None)
            if records is not None:
                self.disk.segments[segment_txid] = Segment(segment_txid, records, synced=len(records))
            del state

    def reported(self, segment_txid: int, *, after_crash: bool = False) -> PreparedRecovery:
        """Return the response to prepareRecovery, without its effects."""
        records = self._records(segment_txid, after_crash=after_crash)
        committed = None if after_crash else self.disk.committed
        segment = self.disk.segments.get(segment_txid)
        finalized = segment is not None and segment.finalized
        state = SegmentState(segment_txid, segment_txid + len(records) - 1, not finalized) if records else None
        accepted = self.disk.accepted.get(segment_txid)
        if accepted is None or finalized:
            return PreparedRecovery(state, None, self.disk.writer, committed)
        if state is None or accepted[0].last != state.last:
            raise AssertionRemoteError(f"accepted {accepted[0]}, on disk {state}")
        return PreparedRecovery(accepted[0], accepted[1], self.disk.writer, committed)

    def _records(self, segment_txid: int, *, after_crash: bool) -> list[bytes]:
        """Return the node's records of a segment after completing an interrupted acceptance."""
        accepted = self.disk.accepted.get(segment_txid)
        segment = self.disk.segments.get(segment_txid)
        if accepted is not None and (segment_txid, accepted[1]) in self.disk.downloads:
            return self.disk.downloads[segment_txid, accepted[1]]
        if segment is None:
            return []
        return segment.records[: segment.synced] if after_crash and not segment.finalized else segment.records

    def snapshot(self) -> Snapshot:
        segments = self.disk.segments
        return Snapshot(
            promised=self.disk.promised,
            finalized={first: each.records for first, each in segments.items() if each.finalized},
            opened={
                first: self._records(first, after_crash=False) for first, each in segments.items() if not each.finalized
            },
            seen=lambda first: max(self.disk.writer, self.disk.accepted.get(first, (None, 0))[1]),
            newest=max((first for first in segments if self._records(first, after_crash=True)), default=None),
            reported=lambda first: (self.reported(first, after_crash=True), self._records(first, after_crash=True)),
        )

    def accept_recovery(self, request: RequestInfo, state: SegmentState, from_url: str) -> None:
        self._check(request)
        self._open = None
        accepted = self.disk.accepted.get(state.first)
        if accepted is not None and accepted[1] > request.epoch:
            raise AssertionRemoteError("Bad paxos transition, out-of-order epochs")
        own = self.disk.segments.get(state.first)
        if own is not None and not own.records:
            own = None
        download = own is None or own.last != state.last
        if download:
            self._check_replaceable(own, state)
        known = own is not None and (own.finalized or own.last == own.first or accepted == (state, request.epoch))
        if download or (self._strict and not known):
            records = split_records(self._fetch(from_url)[HEADER_SIZE:])
            if len(records) != state.last - state.first + 1:
                raise JavaIOError("what was fetched is not the segment")
            self.disk.downloads[state.first, request.epoch] = records
            if self._strict and (own is None or records != own.records):
                self._cache.clear()
            inside = own is not None and own.first <= self.highest <= own.last
            self.highest = state.last if inside else max(self.highest, state.last)
            self._point("downloaded")
        elif own is not None:
            own.synced = len(own.records)
        self.disk.accepted[state.first] = (state, request.epoch)
        self._point("persisted")
        self._complete(state.first)

    def _check_replaceable(self, own: Segment | None, state: SegmentState) -> None:
        committed = self.disk.committed or 0
        if own is None:
            return
        if own.first <= committed <= own.last and not state.first <= committed <= state.last:
            raise AssertionRemoteError(f"would discard committed txid {committed}")
        if own.finalized:
            raise AssertionRemoteError("a finalized segment is not replaced")

    # ---- reading ----

    def get_edit_log_manifest(self, journal_id: str, since: int, *, in_progress_ok: bool) -> NodeManifest:
        self._require_formatted()
        logs = [
            RemoteEditLog(each.first, each.last, not each.finalized)
            for _, each in sorted(self.disk.segments.items())
            if (each.finalized or in_progress_ok) and (each.first >= since or each.last >= since)
        ]
        opened = [log for log in logs if log.in_progress]
        if opened:
            logs.remove(opened[0])
            logs.append(RemoteEditLog(opened[0].first, self.highest, True))
        committed = (
            (self.disk.committed if self.disk.committed is not None else -12345) if self._tells_committed else None
        )
        return NodeManifest(EditLogManifest(tuple(logs), committed), 8480)

    def get_journaled_edits(self, journal_id: str, since: int, max_transactions: int) -> JournaledEdits:
        if not self._caches:
            raise JavaIOError("The journal edits cache is not enabled")
        if since == self.highest + 1:
            return JournaledEdits(0, b"")
        if since > self.highest + 1:
            raise NewerTxidError("the node lags")
        if since not in self._cache:
            raise EditsCacheMissError("not in the cache")
        # Hadoop's cache ignores recoveries, so it may have transactions that a recovery replaced on disk.
        txids = range(since, min(max(self._cache), since + max_transactions - 1) + 1)
        content = encode_header(LAYOUT) + b"".join(self._cache[txid] for txid in txids)
        return JournaledEdits(len(txids), content)

    # ---- upgrades are not modelled ----

    def get_journal_ctime(self, journal_id: str) -> int:
        return self._require_formatted().c_time

    def do_pre_upgrade(self, journal_id: str) -> None:
        raise NotImplementedError

    def do_upgrade(self, journal_id: str, namespace: StorageInfo) -> None:
        raise NotImplementedError

    def do_finalize(self, journal_id: str) -> None:
        raise NotImplementedError

    def can_roll_back(
        self, journal_id: str, storage: StorageInfo, previous: StorageInfo, target_layout_version: int
    ) -> bool:
        raise NotImplementedError

    def do_rollback(self, journal_id: str) -> None:
        raise NotImplementedError

    def discard_segments(self, journal_id: str, first_txid: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        return
