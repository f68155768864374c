"""Segments of a quorum journal for a reader: a copy on a node, and the durable part of the open one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from journal.operation import EditOp
from journal.quorum.agreement import DurablePrefix
from journal.quorum.http_source import SegmentSource
from journal.segment import iter_ops


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A finalized segment on one node, fetched from `url` each time it is read."""

    first: int
    last: int
    url: str
    source: SegmentSource

    @property
    def in_progress(self) -> bool:
        return False

    @property
    def name(self) -> str:
        return self.url

    def read(self, from_txid: int) -> Iterator[EditOp]:
        """Yield operations `from_txid` to `last`.

        Raises:
            SegmentFetchError: the node does not send it completely.
            JournalError: it is damaged, see `iter_ops`.
        """
        content = self.source(self.url)
        yield from iter_ops(content, file=self.name, first_txid=self.first, last_txid=self.last, from_txid=from_txid)


@dataclass(frozen=True, slots=True)
class FetchedSegment:
    """The newest transactions that were durable when the nodes were asked; already fetched."""

    first: int
    part: DurablePrefix
    name: str

    @property
    def last(self) -> int:
        return self.part.last

    @property
    def in_progress(self) -> bool:
        return True

    def read(self, from_txid: int) -> Iterator[EditOp]:
        """Yield operations `from_txid` to `last`.

        Raises:
            JournalError: one is damaged, see `iter_ops`.
        """
        yield from iter_ops(
            self.part.content, file=self.name, first_txid=self.first, last_txid=self.last, from_txid=from_txid
        )
