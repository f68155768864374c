"""A journal on BookKeeper: each segment in a ledger, named by a znode (BookKeeperJournalManager).

    list      `inprogress_<hex>` while a segment is written, `edits_<first>_<last>` behind it; each names its ledger.
    maxtxid   no segment begins at or before it. It rises with every segment.
    current   the segment that is written. It is set with the version that was read before: of two writers one fails.
    notes     `unnamed_<ledger>`, ours alone: a ledger that has no name yet, or has none any more.

A ledger gets its name, and loses it, in one transaction with its note. So every ledger of ours is named, or noted, and
a note is settled by whoever recovers: the ledger is fenced, the note is marked so that its writer can name it no more,
and the ledger is deleted. BookKeeperJournalManager leaves such ledgers behind.

A recovery fences whoever writes: every segment in progress is closed on the bookies before it is finalized here. What
is read is not recovered, so that no reader ever disturbs a writer.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from hadoop_common.storage_info import StorageInfo
from hadoop_common.zookeeper.znodes import Create, Delete, ZNodes
from journal.binary_codec import check_layout
from journal.bookkeeper.errors import (
    BadVersionError,
    BookKeeperError,
    NodeExistsError,
    NoLedgerError,
    NoNodeError,
    ZooKeeperError,
)
from journal.bookkeeper.journal_znodes import (
    PLACEHOLDER,
    JournalPaths,
    SegmentLedger,
    format_current,
    format_max_txid,
    format_segment,
    format_version_znode,
    is_segment_name,
    parse_current,
    parse_max_txid,
    parse_segment_znode,
    parse_version_znode,
    unnamed_id,
)
from journal.bookkeeper.ledger_client import LedgerClient, LedgerHandle, ReadLedger
from journal.bookkeeper.ledger_segments import LedgerSegment, cut_entries, last_txid
from journal.bookkeeper.settings import BookKeeperSettings
from journal.errors import (
    JournalError,
    JournalExistsError,
    JournalInUseError,
    JournalStorageError,
    SegmentError,
    TransactionGapError,
)
from journal.journal import RecordBatch
from journal.journal_directory import check_same_namespace
from journal.segment_copies import SegmentCopies, chain_segments, count_transactions

_LOG = logging.getLogger(__name__)

_NEW, _DOOMED = b"", b"to be deleted"


class BookKeeperJournal:
    """`Journal` on BookKeeper; see there. A writer that another one has fenced fails, and may recover again.

    Args:
        location: its URI.
        znodes, client: closed with the journal.
        namespace: whose journal is read; None reads whichever it is.
    """

    def __init__(
        self,
        location: str,
        path: str,
        znodes: ZNodes,
        client: LedgerClient,
        settings: BookKeeperSettings,
        *,
        namespace: StorageInfo | None = None,
    ) -> None:
        self.location = location
        self._paths = JournalPaths(path)
        self._znodes = znodes
        self._client = client
        self._settings = settings
        self._expected = namespace
        self._guard = threading.RLock()
        self._recovered = False
        self._writer: LedgerSegmentWriter | None = None

    def namespace(self) -> StorageInfo:
        """Whose journal it is.

        Raises:
            JournalError: there is none.
        """
        return self._version()

    # ---- life ----------------------------------------------------------------------------------------------

    def is_formatted(self) -> bool:
        return self._znodes.exists(self._paths.root)

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        with self._guard:
            self._refuse_while_writing()
            self._recovered = False
            if self.is_formatted():
                if not force:
                    raise self._exists()
                self._discard()
            try:
                self._znodes.create(self._paths.root, PLACEHOLDER, parents=True)
            except NodeExistsError as fault:
                raise self._exists() from fault
            self._znodes.create(self._paths.version, format_version_znode(namespace))
            self._znodes.create(self._paths.ledgers, PLACEHOLDER)

    def recover(self, namespace: StorageInfo) -> None:
        with self._guard:
            self._refuse_while_writing()
            self._recovered = False
            self._check_namespace(namespace)
            with suppress(NodeExistsError):
                self._znodes.create(self._paths.current, None)
            segments = self._listed()
            for segment in segments:
                if segment.last_txid is None:
                    self._recover_segment(segment)
                else:
                    self._close_ledger(segment)
            for name in self._znodes.children(self._paths.root):
                ledger_id = unnamed_id(name)
                if ledger_id is not None:
                    self._settle(ledger_id)
            self._recovered = True

    def start_segment(self, first_txid: int, layout_version: int) -> LedgerSegmentWriter:
        with self._guard:
            self._refuse_while_writing()
            if not self._recovered:
                hint = "Call recover first; it keeps what was synced."
                raise JournalError("it was not recovered", file=self.location, txid=first_txid, hint=hint)
            check_layout(layout_version)
            self._recovered = False
            version = self._refuse_another(first_txid)
            newest = self._max_txid()[0]
            if first_txid <= newest:
                problem = f"segment {first_txid} cannot begin: transaction {newest} exists"
                raise SegmentError(problem, file=self.location, txid=first_txid, hint="Recover the journal first.")
            handle = self._client.create(self._settings.shape, self._note)
            segment = SegmentLedger(layout_version, handle.ledger_id, first_txid)
            path = segment.path(self._paths)
            self._name(segment)
            self._raise_max_txid(first_txid)
            self._set_current(format_current(path, _host_name()), version, path)
            self._writer = LedgerSegmentWriter(self, handle, segment, self._settings.output_buffer)
            return self._writer

    def close(self) -> None:
        with self._guard:
            if self._writer is not None:
                self._writer.abort()
            self._recovered = False
        self._client.close()
        self._znodes.close()

    # ---- reading and upkeep --------------------------------------------------------------------------------

    def segments(self, from_txid: int, *, in_progress: bool = False) -> list[SegmentCopies]:
        """As `Journal.segments`; of a segment that somebody else writes the newest batch is not shown yet."""
        if self._expected is not None:
            self._check_namespace(self._expected)
        try:
            return chain_segments(self._readable(from_txid, in_progress=in_progress), from_txid)
        except TransactionGapError:
            # A segment may have ended between two looks.
            return chain_segments(self._readable(from_txid, in_progress=in_progress), from_txid)

    def count(self, from_txid: int, *, in_progress: bool = False) -> int:
        return count_transactions(self.segments(from_txid, in_progress=in_progress), from_txid)

    def purge(self, min_txid_to_keep: int) -> None:
        """As `Journal.purge`; the oldest goes first, and its name before its ledger."""
        failures: list[JournalError] = []
        for segment in self._listed():
            if segment.last_txid is None or segment.last_txid >= min_txid_to_keep:
                continue
            try:
                self._drop(segment)
            except (ZooKeeperError, BookKeeperError) as fault:
                failures.append(fault)
        if failures:
            problem = f"{len(failures)} old segments stay: {failures[0].problem}"
            raise JournalStorageError(problem, file=self.location, txid=min_txid_to_keep) from failures[0]

    # ---- for the segment's writer --------------------------------------------------------------------------

    def finalize(self, segment: SegmentLedger, last: int) -> None:
        """Give a segment whose ledger is closed its final name.

        Raises:
            SegmentError: there is another segment of that name.
        """
        edits = SegmentLedger(segment.layout_version, segment.ledger_id, segment.first_txid, last)
        path, data = edits.path(self._paths), format_segment(edits)
        before = segment.path(self._paths)
        self._raise_max_txid(last)
        try:
            self._znodes.commit([Create(path, data), Delete(before)])
        except (NodeExistsError, NoNodeError):
            # Our own attempt, or one that stopped halfway.
            found = self._value(path)
            if found != data:
                problem = "it is there, of another ledger" if found is not None else "its segment in progress is gone"
                raise SegmentError(f"{path} cannot be made: {problem}", file=self.location, txid=last) from None
            self._remove(before)
        self._clear_current(before)

    def ended(self, *, whole: bool) -> None:
        """The writer is done; it has left a segment in progress unless it is `whole`."""
        with self._guard:
            self._writer = None
            self._recovered = whole

    # ---- below: ledgers and their names --------------------------------------------------------------------

    def _note(self, ledger_id: int) -> None:
        try:
            self._znodes.create(self._paths.unnamed(ledger_id), _NEW)
        except NodeExistsError:
            # Ids are used once: it is our own attempt.
            return

    def _name(self, segment: SegmentLedger) -> None:
        """The ledger gets its name, if nobody has doomed it meanwhile."""
        path, data = segment.path(self._paths), format_segment(segment)
        try:
            self._znodes.commit([Delete(self._paths.unnamed(segment.ledger_id), 0), Create(path, data)])
        except (NodeExistsError, NoNodeError, BadVersionError) as fault:
            if self._value(path) != data:
                raise self._another(segment.first_txid, path) from fault

    def _drop(self, segment: SegmentLedger) -> None:
        """Take its name from a ledger, and delete it."""
        note = self._paths.unnamed(segment.ledger_id)
        try:
            self._znodes.commit([Create(note, _DOOMED), Delete(segment.path(self._paths))])
        except (NodeExistsError, NoNodeError):
            if self._value(segment.path(self._paths)) is not None:
                raise
            if self._value(note) is None:
                return
        self._delete(segment.ledger_id)

    def _settle(self, ledger_id: int) -> None:
        """Delete a ledger without a name, once its writer can neither write to it nor name it."""
        note = self._paths.unnamed(ledger_id)
        try:
            data, version = self._znodes.get(note)
            if data != _DOOMED:
                try:
                    if self._client.recover(ledger_id).last >= 0:
                        _LOG.warning("%s: ledger %d has entries but no name, it stays", self.location, ledger_id)
                        return
                except NoLedgerError:
                    _LOG.debug("ledger %d was noted and not made", ledger_id)
                self._znodes.set(note, _DOOMED, version)
        except (NoNodeError, BadVersionError):
            # It has a name now, or another recovery is at it.
            return
        self._delete(ledger_id)

    def _delete(self, ledger_id: int) -> None:
        self._client.store.delete(ledger_id)
        self._remove(self._paths.unnamed(ledger_id))

    def _recover_segment(self, segment: SegmentLedger) -> None:
        path = segment.path(self._paths)
        try:
            ledger = self._client.recover(segment.ledger_id)
        except NoLedgerError as fault:
            hint = (
                "Look for the bookies that had it: where they are gone, its transactions are lost. Keep the znode "
                "until that is known."
            )
            raise SegmentError(f"its ledger {segment.ledger_id} is gone", file=path, hint=hint) from fault
        last = None if ledger.last < 0 else last_txid(ledger.entry(ledger.last).payload, segment.layout_version)
        if last is None:
            _LOG.info("%s is empty and removed", path)
            newest, version = self._max_txid()
            if newest == segment.first_txid:
                self._znodes.set(self._paths.max_txid, format_max_txid(newest - 1), version)
            self._drop(segment)
            return
        self.finalize(segment, last)
        _LOG.info("%s ends with txid %d", path, last)

    def _close_ledger(self, segment: SegmentLedger) -> None:
        """A writer may have finalized a segment whose ledger it could not close."""
        try:
            metadata, _ = self._client.store.read(segment.ledger_id)
            if not metadata.closed:
                self._client.recover(segment.ledger_id)
        except NoLedgerError as fault:
            _LOG.error("%s names a ledger that is gone: %s", segment.path(self._paths), fault)

    # ---- below: what is there ------------------------------------------------------------------------------

    def _listed(self) -> list[SegmentLedger]:
        """All segments, by their first txid; one that ends or is purged meanwhile may be missing."""
        found = []
        try:
            names = self._znodes.children(self._paths.ledgers)
        except NoNodeError as fault:
            raise self._not_formatted() from fault
        for name in filter(is_segment_name, names):
            path = f"{self._paths.ledgers}/{name}"
            try:
                data, _ = self._znodes.get(path)
            except NoNodeError:
                continue
            found.append(parse_segment_znode(name, data, file=path))
        # One that stopped halfway through its end has both names.
        return sorted(found, key=lambda each: (each.first_txid, each.last_txid is None))

    def _readable(self, from_txid: int, *, in_progress: bool) -> list[LedgerSegment]:
        segments = []
        for each in self._listed():
            if each.last_txid is not None:
                if each.last_txid >= from_txid:
                    segments.append(self._segment(each, each.last_txid, self._opener(each.ledger_id)))
            elif in_progress and (found := self._open_segment(each)) is not None:
                segments.append(found)
        return segments

    def _open_segment(self, segment: SegmentLedger) -> LedgerSegment | None:
        """What is durable of a segment in progress; None where that is nothing."""
        writer = self._writer
        if writer is not None and writer.segment == segment:
            last, ledger = writer.last_txid, writer.read()
            return self._segment(segment, last, lambda: ledger) if last >= segment.first_txid else None
        try:
            opened = self._client.open(segment.ledger_id)
        except NoLedgerError:
            return None
        if opened.last < 0:
            return None
        found = last_txid(opened.entry(opened.last).payload, segment.layout_version)
        return None if found is None else self._segment(segment, found, lambda: opened)

    def _segment(self, segment: SegmentLedger, last: int, open_ledger: Callable[[], ReadLedger]) -> LedgerSegment:
        return LedgerSegment(
            segment.first_txid,
            last,
            in_progress=segment.last_txid is None,
            layout_version=segment.layout_version,
            name=segment.path(self._paths),
            open_ledger=open_ledger,
        )

    def _opener(self, ledger_id: int) -> Callable[[], ReadLedger]:
        return lambda: self._client.open(ledger_id)

    def _version(self) -> StorageInfo:
        try:
            data, _ = self._znodes.get(self._paths.version)
        except NoNodeError as fault:
            raise self._not_formatted() from fault
        return parse_version_znode(data, file=self._paths.version)

    def _check_namespace(self, namespace: StorageInfo) -> None:
        check_same_namespace(namespace, self._version(), f"{self.location}/version")

    # ---- below: maxtxid and current ------------------------------------------------------------------------

    def _max_txid(self) -> tuple[int, int]:
        """The value and the version; 0 and -1 where there is none."""
        try:
            data, version = self._znodes.get(self._paths.max_txid)
        except NoNodeError:
            return 0, -1
        return parse_max_txid(data, file=self._paths.max_txid), version

    def _raise_max_txid(self, txid: int) -> None:
        while True:
            found, version = self._max_txid()
            if found >= txid:
                return
            try:
                if version < 0:
                    self._znodes.create(self._paths.max_txid, format_max_txid(txid))
                else:
                    self._znodes.set(self._paths.max_txid, format_max_txid(txid), version)
            except (NodeExistsError, BadVersionError):
                continue

    def _refuse_another(self, first_txid: int) -> int:
        """The version of `current`, which names nobody that is there."""
        data, version = self._znodes.get(self._paths.current)
        path = parse_current(data, file=self._paths.current)
        if path is not None and self._znodes.exists(path):
            raise self._another(first_txid, path)
        return version

    def _set_current(self, data: bytes, version: int, path: str) -> None:
        try:
            self._znodes.set(self._paths.current, data, version)
        except BadVersionError as fault:
            if self._value(self._paths.current) != data:
                raise self._another(None, path) from fault

    def _clear_current(self, path: str) -> None:
        """Null, never an empty value, which a NameNode takes for damage."""
        try:
            data, version = self._znodes.get(self._paths.current)
            if data and parse_current(data, file=self._paths.current) == path:
                self._znodes.set(self._paths.current, None, version)
        except (NoNodeError, BadVersionError):
            # Nobody is named, or somebody else by now.
            return

    # ---- below: znodes -------------------------------------------------------------------------------------

    def _value(self, path: str) -> bytes | None:
        try:
            return self._znodes.get(path)[0] or b""
        except NoNodeError:
            return None

    def _remove(self, path: str) -> None:
        try:
            self._znodes.delete(path)
        except NoNodeError:
            return

    def _discard(self) -> None:
        """The ledgers first: what names them goes behind them."""
        try:
            listed = self._listed()
        except JournalError as fault:
            _LOG.warning("%s: some ledgers may stay behind: %s", self.location, fault)
            listed = []
        noted = map(unnamed_id, self._znodes.children(self._paths.root))
        for ledger_id in (*(each.ledger_id for each in listed), *noted):
            if ledger_id is not None:
                self._client.store.delete(ledger_id)
        self._remove_tree(self._paths.root)

    def _remove_tree(self, path: str) -> None:
        try:
            names = self._znodes.children(path)
        except NoNodeError:
            return
        for name in names:
            self._remove_tree(f"{path}/{name}")
        self._remove(path)

    # ---- below: errors -------------------------------------------------------------------------------------

    def _refuse_while_writing(self) -> None:
        if self._writer is not None:
            first = self._writer.first_txid
            raise JournalInUseError(f"segment {first} is being written", file=self.location, txid=first)

    def _another(self, first_txid: int | None, path: str) -> JournalInUseError:
        hint = "Recover the journal to take over from it, or leave it the journal."
        return JournalInUseError(f"another writer has begun {path}", file=self.location, txid=first_txid, hint=hint)

    def _exists(self) -> JournalExistsError:
        return JournalExistsError("there is a journal already", file=self.location)

    def _not_formatted(self) -> JournalError:
        hint = "See that the URI names the right servers and path; only a journal that is new is formatted."
        return JournalError("the journal is not formatted", file=self.location, hint=hint)


class LedgerSegmentWriter:
    """`SegmentWriter` of a journal on BookKeeper; what it appends is durable when an ack quorum of the bookies has it.

    Attributes:
        last_txid: newest durable transaction; one before `first_txid` while there is none.
    """

    def __init__(self, journal: BookKeeperJournal, handle: LedgerHandle, segment: SegmentLedger, buffer: int) -> None:
        self.segment = segment
        self.last_txid = segment.first_txid - 1
        self._journal = journal
        self._handle = handle
        self._buffer = buffer
        self._open = True

    @property
    def first_txid(self) -> int:
        return self.segment.first_txid

    def read(self) -> ReadLedger:
        """What is durable."""
        return self._handle.read()

    def append(self, batch: RecordBatch) -> None:
        self._check_open(batch.first)
        if batch.first != self.last_txid + 1:
            raise TransactionGapError(self.last_txid + 1, batch.first, file=self._place)
        try:
            self._handle.append(cut_entries(batch.records, self.segment.layout_version, self._buffer))
        except BaseException:
            self.abort()
            raise
        self.last_txid = batch.last

    def finalize(self, last_txid: int) -> None:
        self._check_open(last_txid)
        if last_txid != self.last_txid or last_txid < self.first_txid:
            problem = f"it is to end with txid {last_txid}, its last one is {self.last_txid}"
            raise SegmentError(problem, file=self._place, txid=last_txid)
        try:
            self._handle.close()
            self._journal.finalize(self.segment, last_txid)
        except BaseException:
            self.abort()
            raise
        self._open = False
        self._journal.ended(whole=True)

    def abort(self) -> None:
        if self._open:
            self._open = False
            self._journal.ended(whole=False)

    @property
    def _place(self) -> str:
        return f"{self._journal.location}, segment {self.first_txid}"

    def _check_open(self, txid: int) -> None:
        if not self._open:
            hint = "Recover the journal, and begin another segment."
            raise JournalError("the segment was abandoned", file=self._place, txid=txid, hint=hint)


def _host_name() -> str:
    """As Java prints its own address."""
    name = socket.gethostname()
    try:
        return f"{name}/{socket.gethostbyname(name)}"
    except OSError:
        return f"{name}/127.0.0.1"
