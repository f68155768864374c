"""Witness of a NameNode's past without HA: its edit log manifest, the heads of its segments, and its images'
digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from checkpointer.errors import TransferError
from checkpointer.transfer.common import never
from checkpointer.transfer.download import NO_SUCH_IMAGE, image_digest, segment_head
from checkpointer.transfer.image_acceptance import ask_start_time
from hadoop_rpc.errors import RpcError
from hadoop_rpc.namenode_protocol import EditLogManifest
from journal.operation import EditOp
from journal.segment_format import SegmentCursor

# one of the first transactions is usually identifying; otherwise, the witness fetches more bytes
_FIRST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class _NameNodeSegment:
    """A finalized segment at the NameNode (`ReadableSegment`); a read fetches only the part that it needs."""

    first: int
    last: int
    head: Callable[[int, int, int], tuple[bytes, bool]]

    @property
    def in_progress(self) -> bool:
        return False

    @property
    def name(self) -> str:
        return f"the NameNode's segment {self.first}-{self.last}"

    def read(self, from_txid: int) -> Iterator[EditOp]:
        """Yield operations `from_txid` to `last`.

        Raises:
            TransferError: the NameNode did not send the segment.
            JournalError: the segment is damaged.
        """
        size, complete = _FIRST_BYTES, False
        while not complete and from_txid <= self.last:
            content, complete = self.head(self.first, self.last, size)
            for op in SegmentCursor(
                content,
                file=self.name,
                first_txid=self.first,
                last_txid=self.last if complete else None,
                from_txid=from_txid,
                in_progress=not complete,
            ):
                yield op
                from_txid = op.txid + 1
            size *= 16


def is_purged(txid: int, manifest: EditLogManifest) -> bool:
    """Return whether the NameNode must have purged its image at `txid`, because its edits begin later.

    A NameNode retains all edits after its oldest image. It answers a request for a missing image with 410, and writes a
    stack trace to its log.

    Args:
        manifest: all of the NameNode's edits, now or at an earlier time.
    """
    return bool(manifest.logs) and min(log.first for log in manifest.logs) > txid + 1


class NamenodeWitness:
    """A `Witness` that queries one NameNode. Each connection that the witness closes early causes one line in the
    NameNode's log.

    Args:
        http_address: `http://host:port`.
        manifest: returns the manifest of the NameNode's edits, starting at a given txid.
        transaction_id: returns the NameNode's newest transaction.
        timeout: seconds to wait for a response over HTTP.
        lacks: returns whether the NameNode never received our image at a txid, so that the witness does not request its
            digest.
    """

    def __init__(
        self,
        http_address: str,
        manifest: Callable[[int], EditLogManifest],
        transaction_id: Callable[[], int],
        *,
        timeout: float,
        cancelled: Callable[[], bool] = never,
        lacks: Callable[[int], bool] = lambda txid: False,
    ) -> None:
        self._lacks = lacks
        self._http_address = http_address
        self._manifest = manifest
        self._transaction_id = transaction_id
        self._timeout = timeout
        self._cancelled = cancelled
        self._all_edits: EditLogManifest | None = None

    def segments(self, from_txid: int) -> Sequence[_NameNodeSegment]:
        # Request all segments, because a NameNode omits a segment if the requested txid is not the segment's first
        # txid.
        return [
            _NameNodeSegment(log.first, log.last, self._head)
            for log in self._fetch_manifest().logs
            if not log.in_progress and log.last >= from_txid
        ]

    def newest(self) -> int | None:
        try:
            return self._transaction_id()
        except RpcError:
            return None

    def image_md5(self, txid: int) -> str | None:
        if self._lacks(txid):
            return ""
        with suppress(RpcError):
            if is_purged(txid, self._all_edits or self._fetch_manifest()):
                return ""
        try:
            digest = image_digest(self._http_address, txid, timeout=self._timeout, cancel=self._cancelled)
        except TransferError as error:
            # Hadoop releases before 3.0 also answer with 404 during startup.
            return "" if error.status in NO_SUCH_IMAGE and self.newest() is not None else None
        return digest

    def lives(self) -> Mapping[str, int]:
        life = self.active_life()
        return {} if life is None else {life[0]: life[1]}

    def active_life(self) -> tuple[str, int] | None:
        try:
            began = ask_start_time(self._http_address, timeout=self._timeout, cancel=self._cancelled)
        except TransferError:
            return None
        return None if began is None else (self._http_address, began)

    def _fetch_manifest(self) -> EditLogManifest:
        self._all_edits = self._manifest(0)
        return self._all_edits

    def _head(self, first: int, last: int, size: int) -> tuple[bytes, bool]:
        return segment_head(self._http_address, first, last, size, timeout=self._timeout, cancel=self._cancelled)
