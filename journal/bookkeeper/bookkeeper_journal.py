"""A journal on BookKeeper: each segment is a ledger, which a znode names (BookKeeperJournalManager).

`SegmentLedgers` manages the names of ledgers; `MaxTxid` and `CurrentInprogress` exclude other writers. A recovery
fences the writer: every ledger in progress is closed on the bookies before its segment is finalized in ZooKeeper. A
reader performs no recovery, so it never interferes with a writer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ClassVar

from hadoop_common.quantities import counted
from hadoop_common.storage_info import StorageInfo
from hadoop_common.zookeeper.znodes import ZNodes
from journal.binary_codec import check_layout
from journal.bookkeeper.errors import (
    BookKeeperError,
    MetadataStoreError,
    MissingZnodeError,
    NoLedgerError,
    ZnodeExistsError,
)
from journal.bookkeeper.journal_znodes import (
    PLACEHOLDER,
    JournalPaths,
    SegmentLedger,
    format_version_znode,
    parse_version_znode,
)
from journal.bookkeeper.ledger_client import LedgerClient, LedgerHandle, ReadLedger
from journal.bookkeeper.ledger_segments import LedgerSegment, cut_entries, last_txid
from journal.bookkeeper.segment_ledgers import SegmentLedgers
from journal.bookkeeper.settings import BookKeeperSettings
from journal.bookkeeper.writer_znodes import CurrentInprogress, MaxTxid, not_formatted
from journal.errors import JournalError, JournalExistsError, JournalStorageError, SegmentError
from journal.journal import RecordBatch
from journal.journal_directory import check_same_namespace
from journal.segment_copies import SegmentCopies, chain_listed
from journal.segment_writer import JournalLifecycle, StoreWriter

_LOG = logging.getLogger(__name__)


class BookKeeperJournal:
    """`Journal` on BookKeeper.

    After another writer has fenced this writer, all calls fail until this writer recovers the journal again.

    Args:
        location: URI of the journal.
        znodes, client: closed together with the journal.
        namespace: expected namespace for reading; None accepts any.
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
        self._ledgers = SegmentLedgers(location, self._paths, znodes, client)
        self._max_txid = MaxTxid(self._paths.max_txid, znodes)
        self._current = CurrentInprogress(self._paths.current, znodes, location)
        self._lifecycle: JournalLifecycle[StorageInfo, StoreWriter[_OpenLedger]] = JournalLifecycle(location)

    def namespace(self) -> StorageInfo:
        """Return the namespace of the journal.

        Raises:
            JournalError: the journal does not exist.
        """
        try:
            data, _ = self._znodes.get(self._paths.version)
        except MissingZnodeError as fault:
            raise not_formatted(self.location) from fault
        return parse_version_znode(data, file=self._paths.version)

    def is_formatted(self) -> bool:
        return self._znodes.exists(self._paths.root)

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        with self._lifecycle.lock:
            self._lifecycle.refuse_while_writing()
            self._lifecycle.recovered = None
            if self.is_formatted():
                if not force:
                    raise self._exists()
                self._ledgers.discard()
            try:
                self._znodes.create(self._paths.root, PLACEHOLDER, parents=True)
            except ZnodeExistsError as fault:
                raise self._exists() from fault
            self._znodes.create(self._paths.version, format_version_znode(namespace))
            self._znodes.create(self._paths.ledgers, PLACEHOLDER)

    def recover(self, namespace: StorageInfo) -> None:
        with self._lifecycle.lock:
            self._lifecycle.refuse_while_writing()
            self._lifecycle.recovered = None
            self._check_namespace(namespace)
            with suppress(ZnodeExistsError):
                self._znodes.create(self._paths.current, None)
            for segment in self._ledgers.listed():
                if segment.last_txid is None:
                    self._recover_segment(segment)
                else:
                    self._close_ledger(segment)
            self._ledgers.delete_unnamed()
            self._lifecycle.recovered = namespace

    def start_segment(self, first_txid: int, layout_version: int) -> StoreWriter[_OpenLedger]:
        with self._lifecycle.lock:
            recovered = self._lifecycle.require_recovered(first_txid)
            check_layout(layout_version)
            # If a later step fails, the journal must be recovered again.
            self._lifecycle.recovered = None
            version = self._current.refuse_another(first_txid)
            newest = self._max_txid.read()[0]
            if first_txid <= newest:
                problem = f"segment {first_txid} cannot begin: transaction {newest} exists"
                raise SegmentError(problem, file=self.location, txid=first_txid, hint="Recover the journal first.")
            handle = self._client.create(self._settings.shape, self._ledgers.note)
            segment = SegmentLedger(layout_version, handle.ledger_id, first_txid)
            self._ledgers.name(segment)
            self._max_txid.raise_to(first_txid)
            self._current.set(segment.path(self._paths), version)
            self._lifecycle.recovered = recovered
            store = _OpenLedger(segment, handle, self._settings.output_buffer, self._finalize)
            place = f"{self.location}, segment {first_txid}"
            return self._lifecycle.opened(StoreWriter(self._lifecycle, store, first_txid, place))

    def close(self) -> None:
        self._lifecycle.close()
        self._client.close()
        self._znodes.close()

    def segments(self, from_txid: int, *, in_progress: bool = False) -> list[SegmentCopies]:
        """Return the segments as `Journal.segments` does, but without the newest batch of another writer's segment."""
        if self._expected is not None:
            self._check_namespace(self._expected)
        return chain_listed(lambda: self._readable(from_txid, in_progress=in_progress), from_txid)

    def purge(self, min_txid_to_keep: int) -> None:
        """Purge as `Journal.purge` does: the oldest segment first, and each name before its ledger."""
        failures: list[JournalError] = []
        for segment in self._ledgers.listed():
            if segment.last_txid is None or segment.last_txid >= min_txid_to_keep:
                continue
            try:
                self._ledgers.drop(segment)
            except (MetadataStoreError, BookKeeperError) as fault:
                failures.append(fault)
        if failures:
            problem = f"it still has {counted(len(failures), 'old segment')}: {failures[0].problem}"
            raise JournalStorageError(problem, file=self.location, txid=min_txid_to_keep) from failures[0]

    def _finalize(self, segment: SegmentLedger, last: int) -> None:
        """Rename a segment with a closed ledger to its final name."""
        self._max_txid.raise_to(last)
        self._ledgers.rename(segment, last)
        self._current.clear(segment.path(self._paths))

    def _recover_segment(self, segment: SegmentLedger) -> None:
        path = segment.path(self._paths)
        try:
            ledger = self._client.recover(segment.ledger_id)
        except NoLedgerError as fault:
            hint = (
                "Find the bookies that had the ledger, and keep the znode until you know that they will not return. If "
                "they are lost, the ledger's transactions are lost, too."
            )
            raise SegmentError(
                f"ledger {segment.ledger_id} of the segment no longer exists", file=path, hint=hint
            ) from fault
        last = None if ledger.last < 0 else last_txid(ledger.entry(ledger.last).payload)
        if last is None:
            _LOG.info("%s is empty and is removed", path)
            self._max_txid.lower_from(segment.first_txid)
            self._ledgers.drop(segment)
            return
        self._finalize(segment, last)
        _LOG.info("%s ends with txid %d", path, last)

    def _close_ledger(self, segment: SegmentLedger) -> None:
        """Close the ledger of a finalized segment, because its writer may have failed before closing it."""
        try:
            metadata, _ = self._client.store.read(segment.ledger_id)
            if not metadata.closed:
                self._client.recover(segment.ledger_id)
        except NoLedgerError as fault:
            _LOG.error("%s names a ledger that no longer exists: %s", segment.path(self._paths), fault)

    def _readable(self, from_txid: int, *, in_progress: bool) -> list[LedgerSegment]:
        segments = []
        for each in self._ledgers.listed():
            if each.last_txid is not None:
                if each.last_txid >= from_txid:
                    segments.append(self._segment(each, each.last_txid, partial(self._client.open, each.ledger_id)))
            elif in_progress and (found := self._open_segment(each)) is not None:
                segments.append(found)
        return segments

    def _open_segment(self, segment: SegmentLedger) -> LedgerSegment | None:
        """Return the durable part of a segment in progress; None if it is empty."""
        writer = self._lifecycle.writer
        if writer is not None and writer.store.segment == segment:
            last, ledger = writer.last_txid, writer.store.read()
            return self._segment(segment, last, lambda: ledger) if last >= segment.first_txid else None
        try:
            opened = self._client.open(segment.ledger_id)
        except NoLedgerError:
            return None
        if opened.last < 0:
            return None
        found = last_txid(opened.entry(opened.last).payload)
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

    def _check_namespace(self, namespace: StorageInfo) -> None:
        check_same_namespace(namespace, self.namespace(), f"{self.location}/version")

    def _exists(self) -> JournalExistsError:
        return JournalExistsError("a journal already exists", file=self.location)


class _OpenLedger:
    """`SegmentStore` in a ledger; a batch is durable when an ack quorum of the bookies has stored it.

    Args:
        buffer: size in bytes; an entry ends with the operation that makes the entry longer than this size.
        rename: renames the segment to its final name.
    """

    allows_empty: ClassVar[bool] = False

    def __init__(
        self, segment: SegmentLedger, handle: LedgerHandle, buffer: int, rename: Callable[[SegmentLedger, int], None]
    ) -> None:
        self.segment = segment
        self._handle = handle
        self._buffer = buffer
        self._rename = rename

    def read(self) -> ReadLedger:
        """Return the durable part of the ledger."""
        return self._handle.read()

    def append(self, batch: RecordBatch) -> None:
        self._handle.append(cut_entries(batch.records, self._buffer))

    def finalize(self, last_txid: int) -> None:
        self._handle.close()
        self._rename(self.segment, last_txid)

    def abort(self) -> None:
        """Leave the ledger open, for recovery."""
