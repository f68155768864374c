"""A journal on a majority of JournalNodes (QuorumJournalManager)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hadoop_common.storage_info import StorageInfo
from journal.journal import ReadableSegment, RecordBatch
from journal.quorum.address import QuorumAddress
from journal.quorum.driver import Driver
from journal.quorum.ensemble import Ensemble
from journal.quorum.errors import QuorumError
from journal.quorum.http_source import SegmentSource
from journal.quorum.reader import QuorumReader
from journal.quorum.settings import QuorumSettings
from journal.quorum.writer import QuorumWriter, WriterSegment

_LOG = logging.getLogger(__name__)


class QuorumJournal:
    """`Journal` on JournalNodes; its errors contain the messages of the nodes.

    A fenced writer fails permanently. A writer that lost its majority can continue after `recover`. From the epochs
    that the nodes have promised since then, `recover` determines whether the writer was fenced.

    Args:
        address: the nodes, and the journal's name on these nodes.
        ensemble: ensemble of the nodes of `address`, in the same order.
        driver: driver of this ensemble; closed together with the journal.
        source: fetches segments from the nodes' HTTP servers.
        namespace: expected namespace for reading; None accepts any.
    """

    def __init__(
        self,
        address: QuorumAddress,
        ensemble: Ensemble,
        driver: Driver,
        settings: QuorumSettings,
        *,
        source: SegmentSource,
        namespace: StorageInfo | None = None,
    ) -> None:
        self.location = address.uri
        self._driver = driver
        self._settings = settings
        self._writer = QuorumWriter(ensemble, address.nodes, settings, source)
        self._reader = QuorumReader(
            ensemble, address.nodes, settings, run=driver.run, source=source, namespace=namespace
        )
        self._cached = True

    @property
    def epoch(self) -> int | None:
        """The last epoch of this writer; None before the first recovery."""
        return self._driver.locked(lambda: self._writer.epoch)

    def is_formatted(self) -> bool:
        return self._driver.run(self._writer.is_formatted())

    def format(self, namespace: StorageInfo, *, force: bool = False) -> None:
        self._driver.run(self._writer.format(namespace, force=force))

    def recover(self, namespace: StorageInfo) -> None:
        self._driver.run(self._writer.recover(namespace))

    def start_segment(self, first_txid: int, layout_version: int) -> QuorumSegmentWriter:
        segment = self._driver.run(self._writer.start_segment(first_txid, layout_version))
        return QuorumSegmentWriter(self._driver, self._writer, segment)

    def segments(self, from_txid: int, *, in_progress: bool = False) -> Sequence[ReadableSegment]:
        """Return the segments as `Journal.segments` does; with in-progress tailing, the newest transactions may be
        missing.

        With in-progress tailing, the list contains the transactions of one call to the nodes' caches. A further call
        that begins at the end of the list returns more transactions.
        """
        if in_progress and self._settings.tail_in_progress:
            try:
                newest = self._reader.newest(from_txid)
            except QuorumError as fault:
                self._streaming(from_txid, fault)
            else:
                self._cached = True
                return newest
        return self._reader.streams(from_txid, in_progress=in_progress)

    def _streaming(self, from_txid: int, fault: QuorumError) -> None:
        """Log once that the nodes cannot answer from a cache; Hadoop 2 nodes have no cache."""
        level = logging.INFO if self._cached else logging.DEBUG
        _LOG.log(
            level, "the nodes' caches cannot serve txid %d and later, so segments are streamed: %s", from_txid, fault
        )
        self._cached = False

    def purge(self, min_txid_to_keep: int) -> None:
        """Purge as `Journal.purge` does; only the writer may purge.

        A failure of a majority raises QuorumError; other failures are logged.
        """
        self._driver.run(self._writer.purge(min_txid_to_keep))

    def close(self) -> None:
        self._driver.locked(self._writer.close)
        self._driver.close()


class QuorumSegmentWriter:
    """`SegmentWriter` of a quorum journal; a batch is durable when a majority of the nodes has stored it."""

    def __init__(self, driver: Driver, writer: QuorumWriter, segment: WriterSegment) -> None:
        self._driver = driver
        self._writer = writer
        self._segment = segment

    @property
    def first_txid(self) -> int:
        return self._segment.first_txid

    def append(self, batch: RecordBatch) -> None:
        self._driver.run(self._writer.append(self._segment, batch))

    def finalize(self, last_txid: int) -> None:
        self._driver.run(self._writer.finalize(self._segment, last_txid))

    def abort(self) -> None:
        self._driver.locked(lambda: self._writer.abort(self._segment))
